"""The sessions of agents, read from the newest events: where each one runs, and what it did."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.errors import DecodeError
from bus.events import OWN, EventType
from bus.requests import read_event, read_request
from bus.secrets.redaction import redact_texts
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.coverage.gaps import NO_COVERAGE, Gap, read_coverage
from workers.records.events import newest_entries

MOST_EVENTS: Final = 5_000
"""How many of the newest events are read: about ten megabytes at most."""


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One session of an agent, as far as the newest events say; what could be a secret is redacted."""

    id: str
    source: str
    host: str
    cwd: str
    """The folder of its newest event that says one."""
    first: int
    """When the oldest of its events that were read was added (ms since 1970)."""
    last: int
    last_type: str
    events: int
    denied: int
    fallbacks: int
    """Answers that no hook gave."""
    ended: bool
    """Whether its newest event is its end."""
    version: str = ""
    """The agent's version; empty if it does not send one."""
    calls: int = 0
    """How many of its tool calls came with their pre-hook event."""
    uncovered: int = 0
    """How many of its tool calls ran without their pre-hook event, so no hook was asked (X-15)."""
    gaps: tuple[Gap, ...] = ()
    """Why, by cause."""


class _Tally(msgspec.Struct, kw_only=True):
    last: int
    last_type: str
    first: int = 0
    cwd: str = ""
    events: int = 0
    denied: int = 0
    fallbacks: int = 0


async def sessions(connections: Connections, keys: Keys) -> list[SessionRecord]:
    """The sessions of the newest `MOST_EVENTS` events, the one with the newest event first."""
    found: dict[tuple[str, str, str], _Tally] = {}
    async for entry in newest_entries(connections, keys, MOST_EVENTS):
        _count(entry, keys, found)
    known = await read_coverage(connections, keys, ((source, name) for name, source, _ in found))
    return [
        SessionRecord(
            **redact_texts({"id": name, "source": source, "host": host, "cwd": one.cwd, "last_type": one.last_type}),
            first=one.first,
            last=one.last,
            events=one.events,
            denied=one.denied,
            fallbacks=one.fallbacks,
            ended=one.last_type == EventType.SESSION_END.value,
            version=calls.version,
            calls=calls.pre,
            uncovered=calls.uncovered,
            gaps=calls.gaps,
        )
        for (name, source, host), one in found.items()
        for calls in (known.get((source, name), NO_COVERAGE),)
    ]


def _count(entry: StreamEntry, keys: Keys, found: dict[tuple[str, str, str], _Tally]) -> None:
    """Add an event to its session; reports of fallbacks and events that cannot be read belong to none."""
    if b"of" in entry.fields:
        return
    try:
        event = read_event(read_request(entry, keys))
    except DecodeError:
        return
    if not event.session or event.type in OWN:  # ours are about a session, and no part of it
        return
    name = (event.session, event.source, event.host)
    one = found.setdefault(name, _Tally(last=entry.ms, last_type=event.type))
    verdict = _verdict(entry)
    one.first = entry.ms
    one.cwd = one.cwd or event.cwd
    one.events += 1
    one.denied += verdict is not None and verdict.decision == "deny"
    one.fallbacks += b"fallback" in entry.fields or bool(verdict is not None and verdict.fallback)


def _verdict(entry: StreamEntry) -> Verdict | None:
    try:
        return decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
    except DecodeError:
        return None
