"""The types of list items that are made from more than one value. `/openapi.json` describes the items by these types."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bus.events import Event
from bus.verdicts import Verdict
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Attempt, Delivery
from workers.delivery.endpoint_health import Circuit, Standing
from workers.plugins.listing import PluginSummary
from workers.records.run_figures import RunFigures
from workers.records.trace import FallbackReport, Relative
from workers.records.webhook_requests import RecordedRequest


class EventRecord(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A redacted event with its verdict (`records.events.record`)."""

    entry: str
    """The id of its stream entry."""
    at: str
    """When it was added, as ISO 8601 in UTC; `time` has the milliseconds."""
    bytes: int
    decision: str
    """The verdict's decision; `fallback` for an agent's report, empty if the event was no request."""
    verdict: Verdict | None
    fallback: str = ""
    of: str = ""
    same: bool = False
    problem: str = ""
    pending: bool = False


class SpanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an event's time (`records.waterfall.Span`)."""

    name: str
    start: float
    """Milliseconds from the beginning of the axis: the start of the hook command, as far as it is known."""
    ms: float
    depth: int
    """0 for the parts of the whole, 1 for the parts of the part before it with depth 0, and so on."""
    kind: Literal["work", "wait", "unexplained"]
    note: str
    decision: str
    """The decision of a hook, or the outcome of an attempt."""


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event and everything that it caused (`records.waterfall.timed_trace_record`)."""

    event: EventRecord
    reports: tuple[FallbackReport, ...]
    deliveries: tuple[Delivery, ...]
    dead: tuple[DeadLetter, ...]
    parents: tuple[Relative, ...]
    children: tuple[Relative, ...]
    waterfall: tuple[SpanRecord, ...]
    """Where the time went, each part before its own parts."""
    complete: bool
    """Whether the search for children reached the end of the stream."""
    looked_until: str = ""


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a hook."""

    ms: int
    what: str
    """A decision, `failed`, or the state of a delivery."""


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A hook in force; other fields are those of its file (`records.hook_list.hook_record`)."""

    id: str
    on: tuple[str, ...]
    layer: str
    dialect: str
    enabled: bool
    kind: str
    blocking: bool
    priority: int
    last_run: LastRun | None
    figures: RunFigures


class LastFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed."""

    ms: int
    delivery: str
    status: int
    """The HTTP status; 0 if none came."""
    reason: str


class HealthRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The health of an endpoint; a field that does not apply is 0 or empty (`delivery.endpoint_health.health_record`)."""

    endpoint: str
    target: str
    standing: Standing
    breaker: Circuit
    since: int
    """Since when it is paused or disabled, or its breaker open (ms since 1970, as all times here)."""
    next_probe: int
    reason: str
    """Why it is not healthy."""
    by: str
    """Who paused or disabled it: a person's name, `receiver` or `failing`."""
    parked: int
    """Deliveries that wait."""
    missed: int
    """Events that made no delivery while it was disabled."""
    failures: int
    """Failed attempts since its last success."""
    failing_since: int
    percent: int
    """How much of the time is over after which it is disabled: the last warning, 50 to 100."""


class EndpointRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint in force, its health and its results (`records.hook_list.endpoint_record`)."""

    id: str
    url: str
    """Redacted."""
    format: str
    payload: str
    can_block: bool
    events: tuple[str, ...]
    tool: str
    when: str
    secret: bool
    """Whether its webhooks are signed."""
    layer: str
    version: str
    origin: str
    rate: Any
    order: Any
    batch: Any
    standing: Standing
    delivered: int
    """Of its newest deliveries, as `open` and `dead`."""
    open: int
    dead: int
    last_failure: LastFailure | None
    """The newest failed attempt of these deliveries."""
    health: HealthRecord
    figures: RunFigures


class DeliveryRecord(Delivery, frozen=True, kw_only=True):
    """A delivery with everything that is known of it (`records.delivery_detail.detail_record`)."""

    payload: EventRecord | None
    """Its event; null if it is not kept."""
    request: RecordedRequest | None
    """Of a webhook whose endpoint is in force on the gateway's machine, as it would be sent now, redacted."""
    waits: str
    """What a parked delivery waits for."""


class DeadRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dead letter: a delivery as `DeliveryRecord`, or an entry that could not be read, with `stream` and `body`."""

    id: str
    kind: str
    """`entry`, or the kind of the delivery."""
    reason: str
    event: str
    hook: str
    target: str
    attempts: int
    type: str
    tool: str
    session: str
    ms: int = 0
    stream: str = ""
    body: str = ""
    """The beginning of an entry's body, redacted."""
    state: str = ""
    layer: str = ""
    version: str = ""
    created: int = 0
    updated: int = 0
    due: int = 0
    redrives: int = 0
    log: tuple[Attempt, ...] = ()
    payload: EventRecord | None = None
    request: RecordedRequest | None = None
    waits: str = ""


class PluginRecord(PluginSummary, frozen=True, kw_only=True):
    """A Python plugin, or a plugin that a hook file in force imports, which has neither state nor calls."""

    state: str = ""
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of announced events: `id` of one, `ids` of a list."""

    id: str = ""
    ids: tuple[str, ...] = ()
