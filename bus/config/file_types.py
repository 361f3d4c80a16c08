"""The format of fleethook.yaml: its keys with types, descriptions and examples, for loader, JSON Schema and docs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bus.config.field_types import END, Delay, EnvName, Id, Patterns, Seconds, Text
from bus.hooks import HttpCall, ModelPrompt
from bus.matching.exact_calls import ExactCall
from bus.matching.rule_fields import Rule
from bus.verdicts import Hold, Policy


class HookEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hook: when it runs, and exactly one of `command`, `http`, `rule`, `prompt` and `agent`."""

    on: Annotated[
        Patterns,
        Meta(
            description="The events that it runs at: patterns as a list, or as one text with commas. `tool:*` is every "
            "event of tools, `tool:*:write` the same for one tool, `*` every event.",
            examples=["tool:pre_execute", ["session:*", "tool:*:write"]],
        ),
    ]
    id: Annotated[
        Id | None,
        Meta(
            description="Its name in verdicts, traces and `hooks list`: letters, digits, `_` and `-`; unique in the file. "
            "Without it, an id is made from the description.",
            examples=["no-force-push"],
        ),
    ] = None
    tool: Annotated[
        Text,
        Meta(
            description="Tool names separated by `|`, or a regular expression; without it, every tool.",
            examples=["bash|write", "mcp__github__.*"],
        ),
    ] = ""
    when: Annotated[
        Text,
        Meta(
            description="A CEL condition over `event.…`; the hook runs where it is true.",
            examples=['event.cwd.startsWith("/srv/")'],
        ),
    ] = ""
    command: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100_000)] | None,
        Meta(
            description="A shell command. It reads the event as JSON on stdin and in FLEETHOOK_* variables.",
            examples=["./check.sh"],
        ),
    ] = None
    http: Annotated[
        str | HttpCall | None,
        Meta(
            description="A URL that is asked for the decision, or a mapping with `url`, `headers`, `secret` and others.",
            examples=["https://policy.example/decide", {"url": "https://policy.example/decide", "payload": "raw"}],
        ),
    ] = None
    rule: Annotated[
        Rule | None,
        Meta(
            description="A decision with conditions; it runs inside the worker, without a process.",
            examples=[{"decision": "ask", "path": ["*.pem"], "reason": "keys are not for agents"}],
        ),
    ] = None
    prompt: Annotated[
        str | ModelPrompt | None,
        Meta(
            description="A question to the model of `model:`, which sees the event and answers whether it is ok; a text, or a "
            "mapping with `text`, `model` and `decision`.",
            examples=["Does this command delete work that git does not have? $ARGUMENTS"],
        ),
    ] = None
    agent: Annotated[
        str | ModelPrompt | None,
        Meta(
            description="A question as in `prompt`; the model may read the files of the event's project before it answers.",
            examples=[{"text": "Do the tests cover this change? $ARGUMENTS", "rounds": 6}],
        ),
    ] = None
    blocking: Annotated[
        bool,
        Meta(
            description="Whether the agent waits for it. With `false` it runs in the background and decides nothing.",
            examples=[False],
        ),
    ] = True
    priority: Annotated[
        int, Meta(ge=0, le=1000, description="Within a layer, hooks with a lower priority run first.", examples=[10])
    ] = 50
    timeout: Annotated[
        Seconds,
        Meta(
            description="Seconds after which the hook is stopped and counts as failed; without it, 30 for a `prompt`, 60 for "
            "an `agent`, and 10 for others.",
            examples=[2.5],
        ),
    ] = 10.0
    on_failure: Annotated[
        Policy | None,
        Meta(
            description="The decision when the hook fails: it cannot start, times out, or gives no usable answer. "
            "Without it, the file's `on_failure` counts, then the setting of that name.",
            examples=["deny"],
        ),
    ] = None
    enabled: Annotated[
        bool, Meta(description="`false` keeps the hook in the file and never runs it.", examples=[False])
    ] = True
    description: Annotated[
        Text, Meta(description="What the hook is for, shown in lists.", examples=["Nobody pushes by force."])
    ] = ""
    env: Annotated[
        dict[str, Text], Meta(description="Environment variables for the command.", examples=[{"MODE": "strict"}])
    ] = msgspec.field(default_factory=dict)
    env_pass: Annotated[
        list[EnvName],
        Meta(
            description="Variables of the worker's environment that the command gets. Without it, a command gets only "
            "harmless ones such as PATH, HOME and LANG.",
            examples=[["GITHUB_TOKEN"]],
        ),
    ] = msgspec.field(default_factory=list)
    working_dir: Annotated[
        Text,
        Meta(
            description="The directory that the command runs in, relative to the event's own; without it, the event's own.",
            examples=["~/tools"],
        ),
    ] = ""
    retry: Annotated[
        list[Delay],
        Meta(
            max_length=50,
            description="With `blocking: false`: seconds before each further attempt after a failure; without it, one "
            "attempt.",
            examples=[[1, 10, 60]],
        ),
    ] = msgspec.field(default_factory=list)
    place: Annotated[
        Literal["", "host"],
        Meta(
            description="`host` runs it only on the machine of the event; without it, on any worker of the fleet.",
            examples=["host"],
        ),
    ] = ""
    observe: Annotated[
        bool, Meta(description="Record what the hook would have decided, and decide nothing.", examples=[True])
    ] = False
    hold: Annotated[
        Hold | None,
        Meta(
            description="Holds the hook's `ask` until a person answers it with `fleethook approvals`, over HTTP or by a link; "
            "without it, the agent itself asks.",
            examples=[{"timeout": 120, "default": "deny"}],
        ),
    ] = None
    unless: Annotated[
        tuple[ExactCall, ...],
        Meta(
            description="Exact calls at which the hook does not run. `fleethook approvals remember` adds them.",
            examples=[[{"tool": "bash", "input": {"command": "make deploy"}, "cwd": "/srv/shop"}]],
        ),
    ] = ()


class ImportEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook file or plugin folder of another system, which is read where it is."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="A file or folder, relative to this file; `~` is your home.",
            examples=["~/.claude/settings.json"],
        ),
    ]
    dialect: Annotated[
        Literal["fleethook", "pigo", "forge", "gobby", "claude", "ion"] | None,
        Meta(
            description="The system that the file belongs to; without it, detected from the name and content.",
            examples=["claude"],
        ),
    ] = None
    on_failure: Annotated[
        Policy | None,
        Meta(description="The decision when one of its hooks fails that does not set this itself.", examples=["ask"]),
    ] = None
    enabled: Annotated[
        bool, Meta(description="`false` keeps the entry and does not read the file.", examples=[False])
    ] = True
    sha256: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}" + END,
            description="SHA-256 of the accepted content (of a folder: of every file that is read). Changed content is not "
            "in force. `hooks import --to user` writes it.",
            examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
        ),
    ] = ""
    scripts: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}" + END,
            description="SHA-256 of the scripts that its commands name. Commands with a changed script do not run. `hooks "
            "import --to user` writes it.",
            examples=["2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"],
        ),
    ] = ""
    servers: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}" + END,
            description="SHA-256 of a plugin's whole folder. While the folder has this content, the plugin's MCP servers may "
            "be started (only in your own file). `plugins add` writes it.",
            examples=["fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"],
        ),
    ] = ""
    env_pass: Annotated[
        list[EnvName],
        Meta(
            description="Variables that the plugin's MCP servers get. Without it, they get only harmless ones such as PATH, "
            "HOME and LANG.",
            examples=[["GITHUB_TOKEN"]],
        ),
    ] = msgspec.field(default_factory=list)


class GuardException(ExactCall, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An exact call at which one rule of a pack does not count."""

    rule: Annotated[str, Meta(min_length=1, max_length=200, description="The rule's id.", examples=["force-push"])]


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one guard pack is used."""

    enabled: Annotated[bool, Meta(description="Whether the pack's rules are in force.", examples=[False])] = True
    decision: Annotated[
        Literal["deny", "ask"] | None,
        Meta(description="The decision of every rule of the pack; without it, each rule's own.", examples=["ask"]),
    ] = None
    decisions: Annotated[
        dict[str, Literal["deny", "ask"]],
        Meta(
            description="The decisions of single rules, by their ids; they come before `decision`.",
            examples=[{"force-push": "ask"}],
        ),
    ] = msgspec.field(default_factory=dict)
    disable: Annotated[
        tuple[str, ...], Meta(description="Ids of rules that are not in force.", examples=[["force-push"]])
    ] = ()
    observe: Annotated[
        bool, Meta(description="Record what the rules would have decided, and decide nothing.", examples=[True])
    ] = False
    hold: Annotated[
        Hold | None,
        Meta(
            description="Holds every `ask` of the pack until a person answers it, as a hook's `hold` does.",
            examples=[{"timeout": 120}],
        ),
    ] = None
    unless: Annotated[
        tuple[GuardException, ...],
        Meta(
            description="Exact calls, each with the rule that does not count for it. `fleethook approvals remember` adds them.",
            examples=[
                [{"rule": "force-push", "tool": "bash", "input": {"command": "git push -f"}, "cwd": "/srv/shop"}]
            ],
        ),
    ] = ()


class Network(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where webhooks and http hooks may connect in addition to public addresses over HTTPS."""

    allow: Annotated[
        tuple[str, ...],
        Meta(
            description="Hosts, addresses and networks, each with or without a port.",
            examples=[["localhost:9000", "10.0.0.0/8", "[::1]:9000"]],
        ),
    ] = ()
    proxy: Annotated[
        Annotated[str, Meta(max_length=2048)] | None,
        Meta(
            description="The forward proxy for all requests: `none`, `environment` (HTTPS_PROXY, HTTP_PROXY and NO_PROXY of "
            "the workers) or a URL. Only in the fleet's set and the user's own file.",
            examples=["http://user:${PROXY_PASSWORD}@proxy.example:3128"],
        ),
    ] = None


class FileFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The top level. Entries are converted one by one later, so that a bad one does not reject the others (F-11)."""

    version: Annotated[Literal[1], Meta(description="The version of this format.", examples=[1])] = 1
    on_failure: Annotated[
        Policy | None,
        Meta(
            description="The decision when a hook of this file fails that does not set this itself.", examples=["deny"]
        ),
    ] = None
    hooks: Annotated[
        list[Any],
        Meta(
            description="What runs, and at which events.",
            examples=[[{"on": "session:start", "command": "echo hello"}]],
        ),
    ] = msgspec.field(default_factory=list)
    endpoints: Annotated[
        list[Any],
        Meta(description="Where webhooks are sent.", examples=[[{"url": "https://hooks.example/agents"}]]),
    ] = msgspec.field(default_factory=list)
    imports: Annotated[
        list[Any],
        Meta(
            description="Hook files and plugin folders of other systems, each as a path or a mapping.",
            examples=[["~/.claude/settings.json"]],
        ),
    ] = msgspec.field(default_factory=list, name="import")
    guards: Annotated[
        dict[str, Any],
        Meta(
            description="Guard packs by name: `true`, `false`, or a mapping.",
            examples=[{"destructive-commands": {"decision": "ask"}}],
        ),
    ] = msgspec.field(default_factory=dict)
    plugins: Annotated[
        dict[str, Any],
        Meta(
            description="Python plugins by name: `true`, `false`, or a mapping. A plugin runs with the rights of the worker's "
            "user.",
            examples=[{"code-guardian": {"config": {"checks": ["ruff"]}}}],
        ),
    ] = msgspec.field(default_factory=dict)
    workflows: Annotated[
        list[Any],
        Meta(
            description="Workflows: steps with a state for each session, and what happens in them.",
            examples=[[{"name": "plan-first", "steps": [{"name": "plan", "allowed_tools": ["read"]}]}]],
        ),
    ] = msgspec.field(default_factory=list)
    groups: Annotated[
        dict[str, list[str]],
        Meta(
            description="Groups of persons for `hold`: each a list of names of tokens (`fleethook tokens list`).",
            examples=[{"release": ["ana", "ben"]}],
        ),
    ] = msgspec.field(default_factory=dict)
    network: Annotated[
        Any,
        Meta(
            description="Where webhooks may connect in addition to public addresses.",
            examples=[{"allow": ["localhost:9000"]}],
        ),
    ] = None
    model: Annotated[
        Any,
        Meta(
            description="The chat endpoint that hooks with `prompt` or `agent` ask. Only in the fleet's set and the user's own "
            "file.",
            examples=[{"url": "https://api.openai.com/v1", "name": "gpt-5-mini", "key": "env:OPENAI_API_KEY"}],
        ),
    ] = None
    tests: Annotated[
        list[Any],
        Meta(
            description="What the hooks of this file have to say to which events. `fleethook hooks test` runs them; workers "
            "ignore them.",
            examples=[[{"name": "no force push", "command": "git push --force", "expect": "deny"}]],
        ),
    ] = msgspec.field(default_factory=list)
    settings: Annotated[Any, Meta(description="Fleethook's own settings, by name.", examples=[{"budget": "5s"}])] = None
