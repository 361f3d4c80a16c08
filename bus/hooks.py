"""What a hook is: the one canonical value that every dialect's files are read into."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from bus.matching.rules import Rule
from bus.pacing import Batch, Order
from bus.verdicts import Policy

Kind = Literal["command", "http", "rule"]
Layer = Literal["fleet", "user", "project", "session"]
Format = Literal["fleethook", "cloudevents", "slack", "discord", "pagerduty", "teams"]
Payload = Literal["full", "thin", "raw"]
Resolve = Literal["never", "retry", "session"]
Schedule = Literal["default", "gobby", "fast", "once"]
"""Names of retry schedules; their waits stand in `workers/delivery/retries.py`."""

LAYERS: Final[tuple[Layer, ...]] = ("fleet", "user", "project", "session")
"""From the highest to the lowest; a lower layer can add strictness and never take it away."""

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds a hook may take when it says nothing (F-03)."""

NATIVE: Final = "fleethook"
"""The dialect of hooks written in fleethook.yaml."""

HOOK_DIALECTS: Final[tuple[str, ...]] = (NATIVE, "pigo", "forge", "gobby", "claude", "ion")
"""Whose hook files are read, and run as their authors meant."""


class OldSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret that was replaced, and signs beside its successor until its time is over."""

    secret: str
    """As `env:NAME`, `file:PATH` or `whsec_…`."""
    until: Annotated[datetime, msgspec.Meta(tz=True, description="With its time zone: `2026-11-23T08:00:00Z`.")]


class HttpCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a blocking `http` hook asks: it posts the event and reads `{"decision", "reason", …}` (G-08)."""

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Values may hold `${VAR}` and `${file:PATH}`, replaced where the worker runs when the request is made."""
    secret: str = ""
    """Standard Webhooks secret, as `env:NAME`, `file:PATH` or `whsec_…`; empty sends unsigned."""
    old_secrets: tuple[OldSecret, ...] = ()
    """What `secret` replaced; each signs as well until its time is over."""
    payload: Literal["full", "raw"] = "full"
    """`full` posts the event with its secrets redacted; `raw` posts it as the agent sent it, secrets included."""


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hook: when it runs (`on`, `tool`, `when`), what it runs (`command`, `http` or `rule`), and how.

    The fields below `layer` are set by whoever loads the hook, never by the file.
    """

    id: str
    on: tuple[str, ...]
    tool: str = ""
    """A matcher over tool names: names with `|`, or a regular expression; empty matches every event of the type."""
    when: str = ""
    """A CEL condition over `event.…` (and `verdict.…` for deliveries)."""
    command: str = ""
    http: HttpCall | None = None
    rule: Rule | None = None
    blocking: bool = True
    priority: int = 50
    """Lower runs earlier, within its layer."""
    timeout: float = DEFAULT_TIMEOUT
    on_failure: Policy | None = None
    """What a failure of this hook amounts to; None leaves it to its layer, then its dialect."""
    enabled: bool = True
    description: str = ""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    env_pass: tuple[str, ...] = ()
    """Names of the worker's environment that the command may see, beyond the safe list."""
    working_dir: str = ""
    """Where the command runs; empty means the event's own directory."""
    retry: tuple[float, ...] = ()
    """Seconds before each next attempt of a non-blocking hook that failed; empty means one attempt only."""
    place: Literal["", "host"] = ""
    """`host` runs it on the event's own machine only; empty anywhere, but for what other systems' files name (X-02)."""
    observe: bool = False
    """Say what it would have decided, and decide nothing."""
    dialect: str = NATIVE
    plugin: str = ""
    """The plugin that it belongs to, where its system has plugins."""
    args: tuple[str, ...] = ()
    """Arguments of `command`, which is then a program and no text for a shell."""
    shell: str = ""
    """The shell that reads `command`; empty for /bin/sh."""
    stop_on_failure: bool = False
    """Whether a failure ends the chain; it denies nothing by itself (F-11)."""
    own: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its dialect keeps of its file to run it as its author meant; plain data, published with the hook."""

    layer: Layer = "fleet"
    position: int = 0
    """Its place in its file, from 0; ties of priority are broken by it."""
    origin: str = ""
    """`file:line` where it stands."""
    version: str = ""
    """The version of the set that it came with."""
    pins: dict[str, str] = msgspec.field(default_factory=dict)
    """By absolute path: SHA-256 (hex) of each file that a trusted project's command names; empty where there was none."""

    @property
    def kind(self) -> Kind:
        """What runs it."""
        return "command" if self.command else "http" if self.http is not None else "rule"

    @property
    def on_host(self) -> bool:
        """Whether it runs on the event's own machine only: its file lies there, or names programs that do."""
        return self.layer != "fleet" or self.place == "host" or (self.dialect != NATIVE and bool(self.command))

    @property
    def order(self) -> tuple[int, int, int]:
        """Layer, then priority, then position (docs/architecture.md, "Verdicts")."""
        return (LAYERS.index(self.layer), self.priority, self.position)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a webhook goes, for which events, and how it is tried again."""

    id: str
    url: str
    events: tuple[str, ...] = ("*",)
    tool: str = ""
    when: str = ""
    secret: str = ""
    """Standard Webhooks secret, as `env:NAME`, `file:PATH` or `whsec_…`; empty sends unsigned."""
    old_secrets: tuple[OldSecret, ...] = ()
    """What `secret` replaced, where receivers may still hold it."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    format: Format = "fleethook"
    """Whose message the body is; an endpoint of another dialect gets that dialect's body instead."""
    payload: Payload = "full"
    """`thin` sends ids and facts, and nothing of what the agent did; every larger body goes thin too. `raw`, which only
    an endpoint with `can_block` may have, asks with the event as the agent sent it; what is announced stays redacted."""
    routing_key: str = ""
    """PagerDuty's integration key, as `env:NAME` or `file:PATH`."""
    resolve: Resolve = "never"
    """What ends an incident at PagerDuty, and so what one incident is (`workers/delivery/formats/pagerduty.py`)."""
    timeout: float = 15.0
    """Seconds for one attempt: resolve, connect, send and read together."""
    retry: tuple[float, ...] | Schedule = ()
    """Seconds before each next attempt, or a schedule's name; empty means the default schedule (`retries.py`)."""
    max_in_flight: int = 10
    rate: str = ""
    """At most so many attempts, as `10/s` or `600/min`; empty for no limit (`pacing.py`)."""
    order: Order = "none"
    """`fifo`: a session's deliveries go out one after the other, in the order of its events."""
    batch: Batch | None = None
    """Several deliveries in one body; None sends each by itself."""
    can_block: bool = False
    """Whether it is asked where an agent waits for an answer (G-08), and told of the other events only."""
    on_failure: Policy | None = None
    """What a question that failed amounts to; None leaves it to the bus."""
    enabled: bool = True
    description: str = ""
    dialect: str = NATIVE
    """Whose body is sent."""
    own: dict[str, Any] = msgspec.field(default_factory=dict)
    """What its dialect keeps of its file; plain data, published with the endpoint."""

    layer: Layer = "fleet"
    origin: str = ""
    version: str = ""

    def question(self, position: int) -> Hook:
        """The blocking hook that asks it; `position` is its place among the hooks of its file."""
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
