"""The types of what lists give where that is made from more than one value; the documentation is made from them."""

from __future__ import annotations

from typing import Any

import msgspec

from bus.events import Event
from bus.verdicts import Verdict
from workers.admin.plugins import Listed
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Delivery
from workers.delivery.endpoint_health import Standing
from workers.records.trace import FallbackReport, Relative


class EventRecord(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An event as people see it, redacted, with its verdict (`records.events.record`)."""

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


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event and everything that it caused (`records.trace.trace_record`)."""

    event: EventRecord
    reports: tuple[FallbackReport, ...]
    deliveries: tuple[Delivery, ...]
    dead: tuple[DeadLetter, ...]
    parents: tuple[Relative, ...]
    children: tuple[Relative, ...]
    complete: bool
    """Whether the search for children reached the end of the stream."""
    looked_until: str = ""


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a hook."""

    ms: int
    what: str
    """A decision, `failed`, or the state of a delivery."""


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A hook in force, with its other fields as its file has them (`records.hook_list.hook_record`)."""

    id: str
    on: tuple[str, ...]
    layer: str
    dialect: str
    enabled: bool
    kind: str
    blocking: bool
    priority: int
    last_run: LastRun | None


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
    open: int
    dead: int


class PluginRecord(Listed, frozen=True, kw_only=True):
    """A plugin that a hook file in force imports."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of announced events: `id` of one, `ids` of a list."""

    id: str = ""
    ids: tuple[str, ...] = ()
