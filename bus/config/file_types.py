"""What fleethook.yaml looks like: its keys, their types and their descriptions, for the loader and the JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from bus.config.validation import END
from bus.hooks import Format, HttpCall, OldSecret, Payload, Resolve, Schedule
from bus.matching.rules import Rule
from bus.pacing import Batch, Order
from bus.verdicts import Policy

ID_PATTERN: Final = "^[A-Za-z0-9_-]{1,64}" + END
ENV_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]{0,127}" + END
DAY: Final = 86_400

Id = Annotated[str, Meta(pattern=ID_PATTERN, description="Letters, digits, `_` and `-`; unique in the file.")]
Text = Annotated[str, Meta(max_length=10_000)]
Patterns = str | list[str]
Seconds = Annotated[float, Meta(gt=0, le=DAY)]
Delay = Annotated[float, Meta(ge=0, le=30 * DAY)]
EnvName = Annotated[str, Meta(pattern=ENV_PATTERN)]


class HookEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hook: when it runs, and exactly one of `command`, `http` and `rule`."""

    on: Annotated[
        Patterns,
        Meta(description="Event patterns: `tool:pre_execute`, `tool:*`, `tool:*:write`, `*`; a list, or with commas."),
    ]
    id: Id | None = None
    tool: Annotated[Text, Meta(description="Tool names with `|`, or a regular expression; without it, every tool.")] = (
        ""
    )
    when: Annotated[Text, Meta(description="A CEL condition over `event.…`.")] = ""
    command: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100_000)] | None,
        Meta(description="A shell command; the event is on its stdin and in FLEETHOOK_*."),
    ] = None
    http: Annotated[str | HttpCall | None, Meta(description="A URL that is asked, or `{url, headers, secret, …}`.")] = (
        None
    )
    rule: Annotated[Rule | None, Meta(description="A decision that needs no process.")] = None
    blocking: Annotated[bool, Meta(description="Whether the agent waits for it.")] = True
    priority: Annotated[int, Meta(ge=0, le=1000, description="Lower runs earlier, within its layer.")] = 50
    timeout: Annotated[Seconds, Meta(description="Seconds; fractions are allowed.")] = 10.0
    on_failure: Annotated[
        Policy | None, Meta(description="What a failure of the hook amounts to; a failure is never a decision of it.")
    ] = None
    enabled: bool = True
    description: Text = ""
    env: Annotated[dict[str, Text], Meta(description="Variables for the command.")] = msgspec.field(
        default_factory=dict
    )
    env_pass: Annotated[
        list[EnvName], Meta(description="Names of the worker's environment that the command may see.")
    ] = msgspec.field(default_factory=list)
    working_dir: Annotated[Text, Meta(description="Where the command runs; without it, the event's directory.")] = ""
    retry: Annotated[
        list[Delay],
        Meta(
            max_length=50, description="Seconds before each next attempt where nobody waits; without it, one attempt."
        ),
    ] = msgspec.field(default_factory=list)
    place: Annotated[
        Literal["", "host"], Meta(description="`host`: on the event's own machine only; without it, on any worker.")
    ] = ""
    observe: Annotated[bool, Meta(description="Say what it would have decided, and decide nothing.")] = False


class EndpointEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a webhook goes, for which events, and how it is tried again."""

    url: Annotated[
        str,
        Meta(
            description="https://… (http:// and private addresses only where `network.allow` says so). "
            "Only `format: pagerduty` knows where it goes without."
        ),
    ] = ""
    id: Id | None = None
    events: Annotated[Patterns, Meta(description="Event patterns, as in a hook's `on`.")] = "*"
    tool: Annotated[Text, Meta(description="Tool names with `|`, or a regular expression.")] = ""
    when: Annotated[Text, Meta(description="A CEL condition over `event.…` and `verdict.…`.")] = ""
    secret: Annotated[
        str, Meta(max_length=1000, description="Standard Webhooks secret: `env:NAME`, `file:PATH` or `whsec_…`.")
    ] = ""
    old_secrets: Annotated[
        list[OldSecret],
        Meta(max_length=8, description="Secrets that `secret` replaced; each signs as well until its time is over."),
    ] = msgspec.field(default_factory=list)
    headers: Annotated[
        dict[str, Text], Meta(description="Sent with each attempt; values may hold `${VAR}` and `${file:PATH}`.")
    ] = msgspec.field(default_factory=dict)
    format: Annotated[
        Format,
        Meta(description="Whose message is sent: ours, a CloudEvent, or what a chat or an on-call service reads."),
    ] = "fleethook"
    payload: Annotated[
        Payload,
        Meta(
            description="`thin`: ids and facts only, nothing of what the agent did; above 256 KiB always. `raw`, only with "
            "`can_block: true`: the question has the event as the agent sent it, its secrets included."
        ),
    ] = "full"
    routing_key: Annotated[
        str, Meta(max_length=1000, description="PagerDuty's integration key: `env:NAME` or `file:PATH`.")
    ] = ""
    resolve: Annotated[
        Resolve,
        Meta(
            description="What ends an incident at PagerDuty: nothing (one incident a session and rule), the next call of "
            "the tool that passes (one a session and tool), or the session's end (one a session)."
        ),
    ] = "never"
    timeout: Annotated[Seconds, Meta(description="Seconds for one attempt.")] = 15.0
    retry: Annotated[
        Annotated[list[Delay], Meta(max_length=50)] | Schedule,
        Meta(
            description="Seconds before each next attempt, or a schedule by name: `default` (three days), `fast` (nine "
            "minutes), `gobby` (1, 2 and 4 s), `once` (no other attempt)."
        ),
    ] = msgspec.field(default_factory=list)
    max_in_flight: Annotated[int, Meta(ge=1, le=10_000, description="Attempts at the same time.")] = 10
    rate: Annotated[
        str,
        Meta(max_length=40, description="Attempts at most, over the whole fleet: `10/s`, `600/min`, `20/h`."),
    ] = ""
    order: Annotated[
        Order,
        Meta(
            description="`fifo`: a session's events go out one after the other, in their order; one that fails holds "
            "up its own session until it is delivered or given up."
        ),
    ] = "none"
    batch: Annotated[
        Batch | None, Meta(description="Several events in one body, `{max_events, max_wait}`; without it, one each.")
    ] = None
    can_block: Annotated[
        bool,
        Meta(
            description="Ask it, as a blocking http hook, where an agent waits for an answer, and tell it of the other "
            "events."
        ),
    ] = False
    on_failure: Annotated[
        Policy | None, Meta(description="With `can_block`: what a question that got no usable answer amounts to.")
    ] = None
    enabled: bool = True
    description: Text = ""


class ImportEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook file or plugin folder of another system, read in place."""

    path: Annotated[
        str,
        Meta(min_length=1, max_length=4096, description="A file or folder; relative to this file, `~` is your home."),
    ]
    dialect: Annotated[
        Literal["fleethook", "pigo", "forge", "gobby", "claude", "ion"] | None,
        Meta(description="Whose file it is; guessed by its name and content without it."),
    ] = None
    on_failure: Annotated[
        Policy | None, Meta(description="What a failure amounts to for its hooks that do not say it themselves.")
    ] = None
    enabled: Annotated[bool, Meta(description="Whether it is read at all.")] = True
    sha256: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}" + END,
            description="The content that you accepted, of a folder that of every file that is read: another one is not in "
            "force. `hooks import --to user` writes it.",
        ),
    ] = ""
    scripts: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}" + END,
            description="The same of the scripts that its commands name: where one is another, they are not run.",
        ),
    ] = ""


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one guard pack is used."""

    enabled: bool = True
    decision: Annotated[
        Literal["deny", "ask"] | None, Meta(description="Instead of what each rule of the pack says.")
    ] = None
    disable: Annotated[tuple[str, ...], Meta(description="Ids of rules that are switched off.")] = ()
    observe: Annotated[bool, Meta(description="Say what would have been decided, and decide nothing.")] = False


class Network(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where webhooks and http hooks may connect beyond public addresses."""

    allow: Annotated[
        tuple[str, ...], Meta(description="`host`, `host:port`, `address:port`, `10.0.0.0/8`, `[::1]:9000`.")
    ] = ()
    proxy: Annotated[
        Annotated[str, Meta(max_length=2048)] | None,
        Meta(
            description="The forward proxy for all of them: `none`, `environment` (HTTPS_PROXY, HTTP_PROXY and NO_PROXY of "
            "the workers) or `http://user:${VAR}@proxy.example:3128`. Only in the fleet's set and the user's own file."
        ),
    ] = None


class FileFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The top level; entries stay raw here, so that a bad one does not take the others with it (F-11)."""

    version: Literal[1] = 1
    on_failure: Policy | None = None
    hooks: list[Any] = msgspec.field(default_factory=list)
    endpoints: list[Any] = msgspec.field(default_factory=list)
    imports: list[Any] = msgspec.field(default_factory=list, name="import")
    guards: dict[str, Any] = msgspec.field(default_factory=dict)
    network: Any = None
    settings: Any = None
