"""The sessions of agents, read from the newest events: where each one runs, and what it did."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from bus.errors import DecodeError
from bus.events import EventType
from bus.requests import read_event, read_request
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.records.events import events_pages

MOST_EVENTS: Final = 5_000
"""How many of the newest events are read: about ten megabytes at most."""

_TURN: Final = 100
"""After so many events other tasks of the process run."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
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


class _Tally(msgspec.Struct, kw_only=True):
    last: int
    last_type: str
    first: int = 0
    cwd: str = ""
    events: int = 0
    denied: int = 0
    fallbacks: int = 0


async def sessions(connections: Connections, keys: Keys) -> list[Session]:
    """The sessions of the newest `MOST_EVENTS` events, the one with the newest event first."""
    found: dict[tuple[str, str, str], _Tally] = {}
    looked = 0
    async for entries in events_pages(connections, keys, newest_first=True):
        for number, entry in enumerate(entries):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            _count(entry, keys, found)
        looked += len(entries)
        if looked >= MOST_EVENTS:
            break
    return [
        Session(
            id=redact_text(name),
            source=source,
            host=host,
            cwd=redact_text(one.cwd),
            first=one.first,
            last=one.last,
            last_type=one.last_type,
            events=one.events,
            denied=one.denied,
            fallbacks=one.fallbacks,
            ended=one.last_type == EventType.SESSION_END.value,
        )
        for (name, source, host), one in found.items()
    ]


def _count(entry: StreamEntry, keys: Keys, found: dict[tuple[str, str, str], _Tally]) -> None:
    """Add an event to its session; reports of fallbacks and events that cannot be read belong to none."""
    if b"of" in entry.fields:
        return
    try:
        event = read_event(read_request(entry, keys))
    except DecodeError:
        return
    if not event.session:
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
