"""What a rule can ask of one event: its fields, as hook files have them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bus.matching.command_match import CommandMatch
from bus.matching.facts.kinds import HostKind, PackageKind, SecretClass
from bus.verdicts import Decision

RuleDecision = Decision | Literal["warn"]
"""What a rule can decide; `warn` lets the call go on, and tells the model and the user why it fits."""

Incident = Literal[
    "data-loss",
    "lost-work",
    "lost-history",
    "lost-infrastructure",
    "outage",
    "unread-code",
    "privilege-escalation",
    "weakened-guard",
    "leaked-secret",
]


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, cache_hash=True):
    """A decision and its conditions. Every given condition has to be met; without any, the hook's own matchers decide.

    The conditions read the event's `input.command`, `input.path` and `input.paths` (for an MCP tool the fields that mean
    the same: `bus.tool_arguments`). A rule whose condition reads a field that the event does not have does not match.
    """

    decision: Annotated[
        RuleDecision,
        Meta(
            description="What the rule decides when its conditions are met; `warn` lets the call go on, and tells the model "
            "and the user the reason.",
            examples=["ask"],
        ),
    ] = "deny"
    reason: Annotated[
        str,
        Meta(
            description="Shown to the model and the user, followed by the part of the event that matched.",
            examples=["no downloads into a shell"],
        ),
    ] = ""
    instead: Annotated[
        str, Meta(description="Tells the model what to do instead.", examples=["download it, read it, then run it"])
    ] = ""
    incident: Annotated[
        Incident | Literal[""], Meta(description="The kind of incident that the rule prevents.", examples=["data-loss"])
    ] = ""
    commands: Annotated[
        tuple[CommandMatch, ...],
        Meta(
            description="Conditions on one command of the command line, as a shell would run it. The rule matches when "
            "any command of the line meets any entry.",
            examples=[[{"program": ["rm"], "flags_all": ["-r|--recursive"], "touches": ["outside_project"]}]],
        ),
    ] = ()
    command: Annotated[
        tuple[str, ...],
        Meta(
            description="Regular expressions (RE2) over the command's text; any match is enough. Unless the rule "
            'allows, the text without its quotes (`fle""ethook`) is searched too, and with `commands` also the text '
            "after the shell's expansions.",
            examples=[[r"curl .*\| *sh"]],
        ),
    ] = ()
    path: Annotated[
        tuple[str, ...],
        Meta(
            description="Path patterns for the event's path, as written or with its links resolved; any match is enough.",
            examples=[["~/.ssh/**", "*.pem"]],
        ),
    ] = ()
    path_except: Annotated[
        tuple[str, ...],
        Meta(
            description="Path patterns that the rule leaves out: it does not match if the event's path fits one.",
            examples=[["docs/**", "*.example"]],
        ),
    ] = ()
    content: Annotated[
        tuple[str, ...],
        Meta(
            description="Regular expressions (RE2) over what the call writes, replaces or removes; any match is enough.",
            examples=[["BEGIN (RSA|OPENSSH) PRIVATE KEY"]],
        ),
    ] = ()
    secrets: Annotated[
        tuple[SecretClass, ...],
        Meta(
            description="The call adds a secret, or the person's prompt has one. `known`: a key or token of a known format; "
            "`random`: a value beside a name such as `password` that looks random. Placeholders and references are none.",
            examples=[["known", "random"]],
        ),
    ] = ()
    reaches: Annotated[
        tuple[HostKind, ...],
        Meta(
            description="The kind of a host among the call's addresses: `public`, `plain` (without TLS), `metadata` or "
            "`collector`, as in `commands`.",
            examples=[["metadata"]],
        ),
    ] = ()
    installs: Annotated[
        tuple[PackageKind, ...],
        Meta(
            description="The kind of a package that the call writes into a manifest, such as `package.json` or "
            "`requirements.txt`: `imitation` or `unpinned_source`, as in `commands`.",
            examples=[["imitation"]],
        ),
    ] = ()
    limit: Annotated[
        str,
        Meta(
            max_length=100,
            description="How many of the calls that meet the other conditions may pass: a number, a unit (`calls`, `tokens` or "
            "a currency), and per what: a period, and `session`, `agent`, `user`, `host` or `fleet`. The rule decides once "
            "the limit is reached.",
            examples=["30 per minute", "500 calls per day per user", "200k tokens per session"],
        ),
    ] = ""
    redact: Annotated[
        bool,
        Meta(
            description="Replace secrets of the known formats in the tool's output before the model reads it, where the "
            "agent accepts a changed output. Such a rule decides nothing. For `tool:post_execute`.",
            examples=[True],
        ),
    ] = False
    outside_project: Annotated[bool, Meta(description="The event's path is outside the project.", examples=[True])] = (
        False
    )
