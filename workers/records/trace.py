"""The trace of an event: its verdict, its deliveries with their attempts, its parents and children (X-05)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from bus.errors import NotFound
from bus.requests import MOST_BUDGET_MS
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, checked
from workers.delivery.dead_letters import DeadLetter, dead_letters
from workers.delivery.deliveries import Delivery, delivery
from workers.records.events import (
    OnProgress,
    RecordedEvent,
    events_pages,
    find_event,
    moment,
    read_recorded_event,
    record,
)

MOST_STEPS: Final = 16
"""The most parents that a trace follows."""

MOST_SCANNED: Final = 100_000
"""How many entries after the event are searched for its children; `Trace.stopped` is set if there are more."""

_MOST_DEAD: Final = 10_000
_BEFORE_MS: Final = 5_000


class Relative(msgspec.Struct, frozen=True, kw_only=True):
    """An event above or below the traced event; FLEETHOOK_PARENT links them."""

    id: str
    ms: int = 0
    type: str = ""
    source: str = ""
    tool: str = ""
    decision: str = ""
    parent: str = ""
    depth: int = 0
    """How many generations it is away from the traced event."""
    known: bool = True
    """False if only its id is known."""


class FallbackReport(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's report that it used its fallback: what it did may differ from the recorded verdict."""

    id: str
    ms: int
    why: str
    host: str = ""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """An event and everything that it caused, as far as it is still kept."""

    event: RecordedEvent
    reports: tuple[FallbackReport, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    dead: tuple[DeadLetter, ...] = ()
    """Its poison entries. Dead deliveries are in `deliveries`."""
    parents: tuple[Relative, ...] = ()
    """Oldest first."""
    children: tuple[Relative, ...] = ()
    """Each one after its own parent."""
    stopped: int = 0
    """The time (ms) up to which children were searched, if the search stopped early; else 0."""


async def trace(connections: Connections, keys: Keys, name: str, *, on_progress: OnProgress | None = None) -> Trace:
    """The trace of the event with this id; the id of a fallback report leads to its request. Raises NotFound."""
    event = await find_event(connections, keys, name, on_progress=on_progress)
    if event.of and event.of != name:
        try:
            event = await find_event(connections, keys, event.of, on_progress=on_progress)
        except NotFound:
            name = event.of
        else:
            name = event.id
    relatives, reports, stopped = await _children_and_reports(connections, keys, event, name)
    letters = [letter for letter in await dead_letters(connections, keys, most=_MOST_DEAD) if letter.event == name]
    return Trace(
        event=event,
        reports=tuple(reports),
        deliveries=tuple(await _deliveries(connections, keys, name, letters)),
        dead=tuple(letter for letter in letters if letter.kind == "entry"),
        parents=tuple(await _parents(connections, keys, event)),
        children=tuple(_descendants(name, relatives)),
        stopped=stopped,
    )


async def event_deliveries(connections: Connections, keys: Keys, name: str) -> list[str]:
    """The ids of an event's deliveries that are still listed; the server searches for `<event>.*`."""
    found: set[str] = set()
    cursor = b"0"
    with connections.lease() as connection:
        while True:
            (reply,) = await connection.exchange(
                [("ZSCAN", keys("recent"), cursor, "MATCH", f"{name}.*", "COUNT", 1000)]
            )
            cursor, rows = checked(reply, "looking for deliveries")
            found.update(row.decode() for row in rows[::2])
            if cursor == b"0":
                return sorted(found)


async def _deliveries(connections: Connections, keys: Keys, name: str, letters: Iterable[DeadLetter]) -> list[Delivery]:
    ids = {
        *await event_deliveries(connections, keys, name),
        *(letter.id for letter in letters if letter.kind == "delivery"),
    }
    found = []
    for delivery_name in sorted(ids):
        try:
            found.append(await delivery(connections, keys, delivery_name))
        except NotFound:  # it was finished, and expired between the two reads
            continue
    return sorted(found, key=lambda each: (each.created, each.id))


async def _children_and_reports(
    connections: Connections, keys: Keys, event: RecordedEvent, name: str
) -> tuple[dict[str, list[Relative]], list[FallbackReport], int]:
    """Children by their parent, and the fallback reports about this event, from its request to the end of the stream.

    The event of a request is added when it is answered, so events that its hooks caused are before it in the stream.
    """
    children: dict[str, list[Relative]] = {}
    reports: list[FallbackReport] = []
    looked = 0
    # A spooled event may arrive long after its agent's report; reports are searched only this far back.
    start = max(0, event.ms - (MOST_BUDGET_MS if event.fallback_reason or event.of else _took(event)) - _BEFORE_MS)
    async for entries in events_pages(connections, keys, start=str(start)):
        for entry in entries:
            if _text(entry, b"of") == name:
                reports.append(_report(read_recorded_event(entry, keys), entry))
            elif parent := _text(entry, b"parent"):
                children.setdefault(parent, []).append(_relative(read_recorded_event(entry, keys)))
        looked += len(entries)
        if looked >= MOST_SCANNED:
            return children, reports, entries[-1].ms
    return children, reports, 0


def _took(event: RecordedEvent) -> int:
    return int(event.verdict.ms) + 1 if event.verdict is not None else 0


async def _parents(connections: Connections, keys: Keys, event: RecordedEvent) -> list[Relative]:
    found: list[Relative] = []
    name, seen = event.event.parent, {event.id}
    while name and name not in seen and len(found) < MOST_STEPS:
        seen.add(name)
        try:
            above = _relative(await find_event(connections, keys, name), depth=len(found) + 1)
        except NotFound:
            above = Relative(id=name, depth=len(found) + 1, known=False)
        found.append(above)
        name = above.parent
    return found[::-1]


def _descendants(name: str, children: dict[str, list[Relative]]) -> Iterable[Relative]:
    """The children and their children, depth first; an event that is its own ancestor appears once."""
    seen, stack = {name}, [(child, 1) for child in reversed(children.get(name, []))]
    while stack:
        child, depth = stack.pop()
        if child.id in seen:
            continue
        seen.add(child.id)
        yield msgspec.structs.replace(child, depth=depth)
        stack += [(below, depth + 1) for below in reversed(children.get(child.id, []))]


def _relative(seen: RecordedEvent, *, depth: int = 0) -> Relative:
    event = seen.event
    return Relative(
        id=seen.id,
        ms=seen.ms,
        type=event.type,
        source=event.source,
        tool=event.tool,
        decision=seen.decision,
        parent=event.parent,
        depth=depth,
    )


def _report(seen: RecordedEvent, entry: StreamEntry) -> FallbackReport:
    return FallbackReport(id=seen.id, ms=entry.ms, why=seen.fallback, host=seen.event.host)


def _text(entry: StreamEntry, field: bytes) -> str:
    return entry.fields.get(field, b"").decode("utf-8", "replace")


def trace_record(found: Trace) -> dict[str, Any]:
    """A trace as `--json` gives it."""
    return {
        "event": record(found.event),
        "reports": _plain(found.reports),
        "deliveries": _plain(found.deliveries),
        "dead": _plain(found.dead),
        "parents": _plain(found.parents),
        "children": _plain(found.children),
        "complete": not found.stopped,
        **({"looked_until": moment(found.stopped)} if found.stopped else {}),
    }


def _plain(values: Sequence[msgspec.Struct]) -> list[Any]:
    return [msgspec.to_builtins(value) for value in values]
