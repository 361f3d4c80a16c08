"""Hooks and endpoints: the canonical values that the hook files of every dialect are read into."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from bus.matching.exact_calls import ExactCall
from bus.matching.rule_fields import Rule
from bus.pacing import Batch, Order
from bus.verdicts import Hold, Policy
from bus.workflows.values import Workflow

Kind = Literal["command", "http", "rule", "plugin", "prompt", "agent", "workflow"]
Layer = Literal["fleet", "user", "project", "session"]
Format = Literal["fleethook", "cloudevents", "slack", "discord", "pagerduty", "teams", "ntfy"]
Payload = Literal["full", "thin", "raw"]
Resolve = Literal["never", "retry", "session"]
Schedule = Literal["default", "gobby", "fast", "once"]
"""Names of retry schedules; `workers/delivery/retries.py` has their delays."""

DECIDING: Final[frozenset[Kind]] = frozenset({"rule", "plugin", "prompt", "agent"})
"""The kinds that only take part in verdicts, and never run in the background for a delivery."""

LAYERS: Final[tuple[Layer, ...]] = ("fleet", "user", "project", "session")
"""From the highest to the lowest. A lower layer can make a decision stricter, and never less strict."""

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that a hook may take where its file does not set `timeout` (F-03)."""

NATIVE: Final = "fleethook"
"""The dialect of hooks written in fleethook.yaml."""

HOOK_DIALECTS: Final[tuple[str, ...]] = (NATIVE, "pigo", "forge", "gobby", "claude", "ion")
"""The systems whose hook files are read and run as those systems would."""


class OldSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replaced secret, which signs beside its successor until `until`."""

    secret: Annotated[
        str, Meta(description="The old secret, as `env:NAME`, `file:PATH` or `whsec_…`.", examples=["env:OLD_SECRET"])
    ]
    until: Annotated[
        datetime,
        Meta(
            tz=True,
            description="When the old secret stops signing, with a time zone.",
            examples=["2026-11-23T08:00:00Z"],
        ),
    ]


class HttpCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a blocking `http` hook asks: it posts the event and reads `{"decision", "reason", …}` (G-08)."""

    url: Annotated[
        str, Meta(description="The URL that the event is posted to.", examples=["https://policy.example/decide"])
    ]
    headers: Annotated[
        dict[str, str],
        Meta(
            description="Request headers. Values may contain `${VAR}` and `${file:PATH}`, which the worker replaces when it "
            "makes the request.",
            examples=[{"Authorization": "Bearer ${POLICY_TOKEN}"}],
        ),
    ] = msgspec.field(default_factory=dict)
    secret: Annotated[
        str,
        Meta(
            description="Standard Webhooks secret, as `env:NAME`, `file:PATH` or `whsec_…`; without it, requests are not "
            "signed.",
            examples=["env:POLICY_SECRET"],
        ),
    ] = ""
    old_secrets: Annotated[
        tuple[OldSecret, ...],
        Meta(
            description="Earlier values of `secret`. Each one signs too, up to the time in its `until`.",
            examples=[[{"secret": "env:OLD_SECRET", "until": "2026-11-23T08:00:00Z"}]],
        ),
    ] = ()
    payload: Annotated[
        Literal["full", "raw"],
        Meta(
            description="`full` posts the event with its secrets redacted; `raw` posts it as the agent sent it, secrets "
            "included.",
            examples=["raw"],
        ),
    ] = "full"


class PluginHandler(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A handler of a Python plugin, which runs in the plugin's process (G-11)."""

    method: str = ""
    """The method's name; empty for all handlers that are known only once the plugin is loaded."""
    event: str = ""
    """The name under which the handler was registered: Gobby's name of the event, or a pattern."""


class Plugin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Python plugin that a hook file enables, and how it runs."""

    name: str
    path: str = ""
    """The absolute path of its file; empty in a published set, where each worker looks for it by name."""
    module: str = ""
    """The module of an installed package, for a plugin that was found by its entry point."""
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    requires: tuple[str, ...] = ()
    """The names of the plugins that are loaded before it, in the same process."""
    env_pass: tuple[str, ...] = ()
    memory: int = 512
    """MiB that its process may use."""
    sha256: str = ""
    """SHA-256 (hex) of its file as the user trusted it; empty where any content is loaded."""
    origin: str = ""
    """`file:line` of the entry that enables it."""
    expands: bool = False
    """Whether `${VAR}` in its config is a variable of its environment, as in Gobby's configuration."""
    state_files: tuple[str, ...] = ()
    """The files that its state is in. Plugins with one of them in common have one process."""


class ModelPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a `prompt` or `agent` hook asks a model, which answers `{"ok": …, "reason": …}` (I-12)."""

    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="The question. The event is sent beside it; `$ARGUMENTS` in the text refers to it.",
            examples=["May this command run on a developer's machine? $ARGUMENTS"],
        ),
    ]
    model: Annotated[
        str,
        Meta(max_length=200, description="The model; without it, the `name` of `model:`.", examples=["gpt-5-mini"]),
    ] = ""
    decision: Annotated[
        Literal["deny", "ask"],
        Meta(description="The decision where the model says that it is not ok.", examples=["ask"]),
    ] = "deny"
    rounds: Annotated[
        int,
        Meta(ge=1, le=30, description="Of an `agent`: the most requests to the model.", examples=[4]),
    ] = 8


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hook: when it runs (`on`, `tool`, `when`), what it runs (`command`, `http`, `rule`, …), and how.

    The loader sets `layer` and the fields below it; a file cannot.
    """

    id: str
    on: tuple[str, ...]
    tool: str = ""
    """Tool names separated by `|`, or a regular expression; empty matches every event of the type."""
    when: str = ""
    """A CEL condition over `event.…`."""
    command: str = ""
    http: HttpCall | None = None
    rule: Rule | None = None
    handler: PluginHandler | None = None
    prompt: ModelPrompt | None = None
    """The question to a model, without tools."""
    agent: ModelPrompt | None = None
    """The question to a model that may read the project's files."""
    workflow: Workflow | None = None
    """A workflow, which keeps a state for each session."""
    blocking: bool = True
    priority: int = 50
    """Within a layer, hooks with a lower priority run first."""
    timeout: float = DEFAULT_TIMEOUT
    on_failure: Policy | None = None
    """The decision when this hook fails; None: its dialect's policy, else the bus's."""
    enabled: bool = True
    description: str = ""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    env_pass: tuple[str, ...] = ()
    """Variables of the worker's environment that the command gets, in addition to the safe list."""
    working_dir: str = ""
    """The directory that the command runs in; empty: the event's own."""
    retry: tuple[float, ...] = ()
    """Seconds before each further attempt of a non-blocking hook that failed; empty: no further attempt."""
    place: Literal["", "host"] = ""
    """`host`: run only on the event's own machine. Empty: on any worker, except commands of other systems' hook files,
    which always run on the event's machine (X-02)."""
    observe: bool = False
    """Record what it would have decided, and decide nothing."""
    hold: Hold | None = None
    """How its `ask` waits for a person's answer; None: the agent itself asks."""
    unless: tuple[ExactCall, ...] = ()
    """Exact calls at which it does not run."""
    dialect: str = NATIVE
    plugin: str = ""
    """The plugin that it belongs to; empty if its system has no plugins."""
    args: tuple[str, ...] = ()
    """Arguments of `command`, which is then a program that is started without a shell."""
    shell: str = ""
    """The shell that runs `command`; empty: /bin/sh."""
    stop_on_failure: bool = False
    """Whether a failure of this hook skips the hooks after it; the failure itself denies nothing (F-11)."""
    own: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its dialect needs from the original file to run it; plain data, published with the hook."""

    layer: Layer = "fleet"
    position: int = 0
    """Its index in its file; of two hooks with the same priority, the lower index runs first."""
    origin: str = ""
    """`file:line` of its definition."""
    version: str = ""
    """The version of the hook set that it belongs to."""
    pins: dict[str, str] = msgspec.field(default_factory=dict)
    """SHA-256 (hex) by absolute path, for each file that a trusted project's command names; "" for a missing file."""

    @property
    def kind(self) -> Kind:
        """What it has: `command`, `http`, `rule`, `handler` (a plugin's), `prompt`, `agent` or `workflow`."""
        if self.handler is not None:
            return "plugin"
        if self.workflow is not None:
            return "workflow"
        if self.prompt is not None or self.agent is not None:
            return "prompt" if self.agent is None else "agent"
        return "command" if self.command else "http" if self.http is not None else "rule"

    @property
    def target(self) -> str:
        """What it runs, without its arguments: its command, its URL, its question to a model; empty for the other kinds."""
        prompt = self.agent or self.prompt
        if prompt is not None:
            named = f" {prompt.model}" if prompt.model else ""
            return (
                f"asks the model{named}{'' if self.agent is None else ', which may read files'}: {prompt.text.strip()}"
            )
        if self.workflow is not None:
            names = " -> ".join(step.name for step in self.workflow.steps)
            return f"workflow: {names}" if names else "workflow of triggers"
        return self.command or (self.http.url if self.http is not None else "")

    @property
    def on_host(self) -> bool:
        """Whether it runs only on the event's own machine, because its file or its programs are on that machine."""
        return (
            self.layer != "fleet"
            or self.place == "host"
            or self.agent is not None
            or (self.dialect != NATIVE and bool(self.command))
        )

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key: layer, then priority, then position (docs/architecture.md, "Verdicts")."""
        return (LAYERS.index(self.layer), self.priority, self.position)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where webhooks are sent, for which events, and how failed deliveries are retried."""

    id: str
    url: str
    events: tuple[str, ...] = ("*",)
    tool: str = ""
    when: str = ""
    secret: str = ""
    """Standard Webhooks secret, as `env:NAME`, `file:PATH` or `whsec_…`; empty: not signed."""
    old_secrets: tuple[OldSecret, ...] = ()
    """Secrets that `secret` replaced and that receivers may still use."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    format: Format = "fleethook"
    """The format of the body; an endpoint of another dialect gets that dialect's body instead."""
    payload: Payload = "full"
    """`thin` sends ids and facts without the tool's input and output; bodies above the size limit are always thin. `raw`
    needs `can_block`: questions carry the event as the agent sent it; all other deliveries stay redacted."""
    routing_key: str = ""
    """PagerDuty's integration key, as `env:NAME` or `file:PATH`."""
    resolve: Resolve = "never"
    """What resolves an incident at PagerDuty (`workers/delivery/formats/pagerduty.py`)."""
    timeout: float = 15.0
    """Seconds for one attempt: resolving, connecting, sending and reading together."""
    retry: tuple[float, ...] | Schedule = ()
    """Seconds before each further attempt, or a schedule's name; empty: the default schedule."""
    max_in_flight: int = 10
    rate: str = ""
    """The highest rate of attempts, such as `10/s` or `600/min`; empty: no limit (`bus/pacing.py`)."""
    order: Order = "none"
    """`fifo`: a session's deliveries are sent one at a time, in the order of its events."""
    batch: Batch | None = None
    """How several deliveries are combined in one body; None: one delivery per request."""
    can_block: bool = False
    """Whether it is asked for a decision where an agent waits for one (G-08); other events are delivered as usual."""
    on_failure: Policy | None = None
    """The decision when a question fails; None: the bus's own policy."""
    enabled: bool = True
    description: str = ""
    dialect: str = NATIVE
    """The system whose body format is sent."""
    own: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its dialect needs from the original file; plain data, published with the endpoint."""

    layer: Layer = "fleet"
    origin: str = ""
    version: str = ""

    def question(self, position: int) -> Hook:
        """The blocking hook that asks this endpoint; `position` is its index among the hooks of its file."""
        call = HttpCall(
            url=self.url,
            headers=self.headers,
            secret=self.secret,
            old_secrets=self.old_secrets,
            payload="raw" if self.payload == "raw" else "full",
        )
        return Hook(
            id=self.id,
            on=self.events,
            tool=self.tool,
            when=self.when,
            http=call,
            timeout=self.timeout,
            on_failure=self.on_failure,
            description=self.description,
            dialect=self.dialect,
            layer=self.layer,
            position=position,
            origin=self.origin,
            version=self.version,
        )
