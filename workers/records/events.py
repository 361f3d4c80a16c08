"""Finds events in the stream: one by its id, many by a filter, new ones as they arrive; always redacted."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bus.agents import find
from bus.errors import ConditionError, DecodeError, NotFound, OverBudget, Unreachable
from bus.events import Event, EventType, native_type, source_name
from bus.lazy.conversions import converted
from bus.matching.patterns import parse_tool
from bus.requests import MOST_BUDGET_MS, read_event, read_request
from bus.secrets.redaction import redact, redact_text
from bus.tools import tool_names
from bus.tracing.context import trace_of
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import MARGIN_SECONDS, Connections
from bus.wire.keys import Keys
from bus.wire.streams import Backoff, StreamEntry, checked, flat
from workers.delivery.deliveries import unpack_fields
from workers.delivery.filters import NO_FILTER, Filter, type_index
from workers.runtime.spooled_once import Repeats
from workers.runtime.stream_repair import AHEAD_MS

BLOCK_SECONDS: Final = 1.0
"""How long one read of `follow` waits (seconds), and so how long Ctrl-C may take."""

_MOST_PAGE: Final = 1_000
_PAGE_BYTES: Final = 1024 * 1024
_TURN: Final = 100
"""After so many entries other tasks of the process run."""
CLOCK_MS: Final = 2_000
"""An event whose agent's clock is at most this far ahead of the server's is found without a search of the whole stream."""
_ID_TIME: Final = re.compile(r"e([0-9a-f]{12})[0-9a-f]{20}")
_KINDS: Final = frozenset(kind.value for kind in EventType)

OnProgress = Callable[[int], None]
"""Called with the number of entries that have been searched."""


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the event stream as people see it; secrets in it are redacted."""

    id: str
    entry: str
    ms: int
    """When it was added (ms since 1970), by the server's clock."""
    event: Event
    verdict: Verdict | None = None
    fallback: str = ""
    """Why the failure policy on the agent's side answered; empty if it did not."""
    of: str = ""
    """Of an agent's report that it used its own fallback: the request that got no verdict in time."""
    same: bool = False
    """Whether it repeats an earlier request for the same hook call: it got the same answer and makes no deliveries."""
    problem: str = ""
    """Why its body could not be read; empty if it could."""
    size: int = 0
    """Bytes of its body."""
    pending: bool = False
    """Whether it is a request that has no answer yet."""
    asked: int = 0
    """When the request was added, by the server's clock; 0 if it was no request, or if an older evaluator answered it."""
    decided: int = 0
    """When its verdict was ready and the evaluator began to reply, by the server's clock; 0 as for `asked`."""

    @property
    def decision(self) -> str:
        """The decision; `fallback` for an agent's report, empty if the event was no request."""
        return "fallback" if self.of else self.verdict.decision if self.verdict is not None else ""

    @property
    def fallback_reason(self) -> str:
        """Why no hook gave the answer; empty if one did."""
        return self.fallback or (self.verdict.fallback if self.verdict is not None else "")


def event_test(wanted: Filter) -> Callable[[RecordedEvent], bool]:
    """A function that tests an event; raises PatternError."""
    types, tool = type_index(wanted), parse_tool(wanted.tool)
    source = source_name(wanted.source) if wanted.source else ""
    fits = _condition_test(wanted.where) if wanted.where else None

    def test(seen: RecordedEvent) -> bool:
        event = seen.event
        return (
            seen.ms >= wanted.since
            and source in {"", event.source}
            and event.session.startswith(wanted.session)
            and trace_of(event).trace_id.startswith(wanted.trace)
            and _has_decision(seen, wanted.decision)
            and (types is None or bool(types.find(event)))
            and (tool.matches_all or tool(tool_names(event.tool, event.native_tool)))
            and (fits is None or fits(seen))
        )

    return test


def _has_decision(seen: RecordedEvent, decision: str) -> bool:
    return decision in {"", seen.decision} or (decision == "fallback" and bool(seen.fallback_reason))


def _condition_test(expression: str) -> Callable[[RecordedEvent], bool]:
    """A function that says whether a condition holds; False if it uses a field that the event does not have."""
    # Imported with the reader of shell commands, half of what a list of events needs, and few lists have a condition.
    from bus.matching.conditions import compile_condition
    from bus.matching.findings import holds

    condition = compile_condition(expression)

    def test(seen: RecordedEvent) -> bool:
        verdict = seen.verdict
        facts = {"decision": seen.decision, "reason": verdict.reason if verdict is not None else ""}
        try:
            return holds(condition, seen.event, facts)
        except (ConditionError, OverBudget):
            return False

    return test


async def pages(
    connections: Connections, stream: str, *, start: str = "-", end: str = "+", newest_first: bool = False
) -> AsyncIterator[list[StreamEntry]]:
    """The entries of a stream in pages; pages are smaller if bodies are large."""
    count = 50
    while True:
        command = ("XREVRANGE", stream, end, start) if newest_first else ("XRANGE", stream, start, end)
        with connections.lease() as connection:
            (reply,) = await connection.exchange([(*command, "COUNT", count)])
        rows = checked(reply, f"reading {stream}")
        entries = [StreamEntry(stream, name.decode(), flat(fields)) for name, fields in rows]
        if entries:
            yield entries
        if len(entries) < count:
            return
        if newest_first:
            end = f"({entries[-1].id}"
        else:
            start = f"({entries[-1].id}"
        size = sum(len(value) for entry in entries for value in entry.fields.values())
        count = min(_MOST_PAGE, count * 2) if size < _PAGE_BYTES else max(1, count // 2)


async def events_pages(
    connections: Connections, keys: Keys, *, start: str = "-", end: str = "+", newest_first: bool = False
) -> AsyncIterator[list[StreamEntry]]:
    """The event stream in pages, without entries that a spool sent a second time."""
    shown = Repeats()
    async for entries in pages(connections, keys("events"), start=start, end=end, newest_first=newest_first):
        if left := await shown.without_repeats(connections, keys, entries):
            yield left


async def newest_entries(connections: Connections, keys: Keys, most: int) -> AsyncIterator[StreamEntry]:
    """About `most` of the newest entries of the events stream, newest first. Other tasks of the process run in between."""
    looked = 0
    async for entries in events_pages(connections, keys, newest_first=True):
        for number, entry in enumerate(entries):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            yield entry
        looked += len(entries)
        if looked >= most:
            return


async def recent(
    connections: Connections,
    keys: Keys,
    wanted: Filter = NO_FILTER,
    *,
    most: int = 50,
    on_progress: OnProgress | None = None,
) -> list[RecordedEvent]:
    """At most `most` events that pass the filter, newest first; reads no events before its `since`."""
    fits, found, looked = event_test(wanted), [], 0
    async for entries in events_pages(connections, keys, start=str(wanted.since or "-"), newest_first=True):
        for entry in entries:
            seen = read_recorded_event(entry, keys)
            if fits(seen):
                found.append(seen)
                if len(found) == most:
                    return found
        looked += len(entries)
        if on_progress is not None:
            on_progress(looked)
    return found


async def find_event(
    connections: Connections, keys: Keys, name: str, *, on_progress: OnProgress | None = None
) -> RecordedEvent:
    """The event of this id, recorded or still waiting for its verdict; raises NotFound.

    Searches around the time in the id, then the copies that deliveries keep, then the whole stream: an agent's
    clock may be wrong, and a spooled event arrives late. If only the agent's report of its fallback is kept, returns that.
    """
    entry, pending = await find_entry_anywhere(connections, keys, name, on_progress)
    return msgspec.structs.replace(read_recorded_event(entry, keys), pending=pending)


async def find_entry_anywhere(
    connections: Connections, keys: Keys, name: str, on_progress: OnProgress | None
) -> tuple[StreamEntry, bool]:
    """The entry of an event, searched as in `find_event`, and whether it still waits for its verdict; raises NotFound."""
    near = await _near_its_time(connections, keys, name) or await kept_event(connections, keys, name)
    if near is not None:
        return near, False
    for stream in (keys("requests"), keys("waiting")):
        async for entries in pages(connections, stream):
            for entry in entries:
                if _named(entry, b"id") == name:
                    return entry, True
    looked, report = 0, None
    async for entries in events_pages(connections, keys, newest_first=True):
        for entry in entries:
            if _named(entry, b"id") == name:
                return entry, False
            if _named(entry, b"of") == name:
                report = entry
        looked += len(entries)
        if on_progress is not None:
            on_progress(looked)
    if report is not None:
        return report, False
    raise NotFound(
        f"no event is called {name!r}: it was never sent, its retention is over, or its call waits for a person; "
        "see `fleethook events list` and `fleethook approvals list`"
    )


async def _near_its_time(connections: Connections, keys: Keys, name: str) -> StreamEntry | None:
    """The entry of this id if it was recorded at about the time in its id; else None."""
    match = _ID_TIME.fullmatch(name)
    if match is None:
        return None
    id_ms = int(match[1], 16)
    around = events_pages(connections, keys, start=str(max(0, id_ms - CLOCK_MS)), end=str(id_ms + MOST_BUDGET_MS))
    async for entries in around:
        for entry in entries:
            if _named(entry, b"id") == name:
                return entry
    return None


async def kept_event(connections: Connections, keys: Keys, name: str) -> StreamEntry | None:
    """The copy of an event that its open deliveries keep beyond the stream's retention; None if there is none."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HGET", keys("body", name), "data")])
    raw = checked(reply, "reading an event's body")
    try:
        fields = unpack_fields(raw) if raw else {}
        return StreamEntry(keys("events"), fields[b"entry"].decode(), fields) if fields else None
    except (DecodeError, KeyError):
        return None


async def find_entry(connections: Connections, keys: Keys, name: str) -> StreamEntry | None:
    """The event of a delivery, from the copy that deliveries keep, else from the stream; None if it is in neither."""
    return await kept_event(connections, keys, name) or await _near_its_time(connections, keys, name)


async def payload(connections: Connections, keys: Keys, name: str) -> dict[str, Any] | None:
    """The event of a delivery in the form of `record`; None if it is no longer kept."""
    entry = await find_entry(connections, keys, name)
    return None if entry is None else record(read_recorded_event(entry, keys))


async def follow(connections: Connections, keys: Keys) -> AsyncIterator[StreamEntry]:
    """Every entry that is added to the event stream from now on; waits through an outage of Redis."""
    stream, last, backoff = keys("events"), "", Backoff("tail")
    shown = Repeats()
    while True:
        try:
            with connections.lease() as connection:
                if not last:
                    (reply,) = await connection.exchange([("XREVRANGE", stream, "+", "-", "COUNT", 1)])
                    newest = checked(reply, "reading events")
                    last = newest[0][0].decode() if newest else "0-0"
                elif int(last.partition("-")[0]) > time.time() * 1000 + AHEAD_MS:
                    # A program made up this id, far in the future. The repair of the stream gives the entry an id of today, and
                    # reading goes on after that one.
                    (moved,) = await connection.exchange([("HGET", keys("moved", "events"), last)])
                    last = moved.decode() if isinstance(moved, bytes) else last
                wait = ("XREAD", "COUNT", 100, "BLOCK", int(BLOCK_SECONDS * 1000), "STREAMS", stream, last)
                (reply,) = await connection.exchange([wait], seconds=BLOCK_SECONDS + MARGIN_SECONDS)
            rows = [row for _, some in checked(reply, "reading events") or () for row in some]
            entries = [StreamEntry(stream, name.decode(), flat(fields)) for name, fields in rows]
            left = await shown.without_repeats(connections, keys, entries)
            backoff.back()
        except Unreachable as error:
            await backoff.wait(error)
            continue
        _end_if_cancelled()
        last = entries[-1].id if entries else last
        for entry in left:
            yield entry


def _end_if_cancelled() -> None:
    """Raise a cancellation that got lost: Python 3.11's wait_for, within redis-py, swallows one that arrives as it ends."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def read_recorded_event(entry: StreamEntry, keys: Keys) -> RecordedEvent:
    """An entry as people see it; never raises: `problem` says what could not be read."""
    request = read_request(entry, keys)
    event = Event(
        type=_type(request.source, request.native),
        id=request.id,
        source=request.source,
        native=request.native,
        host=request.host,
        parent=request.parent,
        time=entry.ms,
    )
    verdict, problem, of = None, "", _named(entry, b"of")
    try:
        if b"verdict" in entry.fields:  # first, so that the answer is shown even if the event cannot be read
            verdict = decode_verdict(entry.fields[b"verdict"])
        if not of:
            event = read_event(request)
    except DecodeError as error:
        problem = str(error)
    return RecordedEvent(
        id=request.id,
        entry=entry.id,
        ms=entry.ms,
        event=_redacted(event, Event),
        verdict=_redacted(verdict, Verdict) if verdict is not None else None,
        fallback=redact_text(request.fallback),
        of=of,
        same=b"same" in entry.fields,
        problem=redact_text(problem),
        size=len(request.body),
        asked=min(entry.ms, _number(entry.fields.get(b"asked", b""))),
        decided=min(entry.ms, _number(entry.fields.get(b"decided", b""))),
    )


def record(seen: RecordedEvent, *, raw: bool = False) -> dict[str, Any]:
    """An event as `--json` gives it: its fields and its verdict; `raw` adds the agent's own payload."""
    plain: dict[str, Any] = msgspec.to_builtins(seen.event)
    if not raw:
        plain.pop("raw", None)
    more = {
        "fallback": seen.fallback,
        "of": seen.of,
        "same": seen.same,
        "problem": seen.problem,
        "pending": seen.pending,
    }
    return {
        **plain,
        "id": seen.id,
        "entry": seen.entry,
        "time": seen.ms,
        "at": moment(seen.ms),
        "bytes": seen.size,
        "decision": seen.decision,
        **{name: value for name, value in more.items() if value},
        "verdict": None if seen.verdict is None else msgspec.to_builtins(seen.verdict),
    }


def moment(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _redacted(value: Any, kind: type[Any]) -> Any:
    return converted(redact(msgspec.to_builtins(value)), kind)


def _type(source: str, native: str) -> str:
    """The event type of an entry whose body is missing or cannot be read."""
    if native in _KINDS:
        return native
    known = find(source).capabilities.get(native)
    return known.type if known is not None else native_type(source, native)


def _number(digits: bytes) -> int:
    return int(digits) if digits.isdigit() and len(digits) < 16 else 0


def _named(entry: StreamEntry, field: bytes) -> str:
    return entry.fields.get(field, b"").decode("utf-8", "replace")
