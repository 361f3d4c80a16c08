"""Recent activity: events per minute, times of verdicts, the last denials, and fallbacks."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from bus.errors import DecodeError
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.records.events import RecordedEvent, events_pages, read_recorded_event

MINUTES: Final = 60
MOST_EVENTS: Final = 5_000
"""How many of the newest events are read: about ten megabytes at most."""

MOST_DENIALS: Final = 3


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """The last hour, or as much of it as the newest `MOST_EVENTS` events cover."""

    minutes: tuple[int, ...]
    """Events in each of the last `MINUTES` minutes, the current one last."""
    events: int
    verdicts: int
    p50: float = 0.0
    """The median time of a verdict in milliseconds; `p95` is the 95th percentile."""
    p95: float = 0.0
    fallbacks: int = 0
    """The number of answers that no hook gave, plus the number of hooks that failed and whose failure policy decided."""
    denials: tuple[RecordedEvent, ...] = ()
    """The last ones, newest first."""
    since: int = 0
    """If not all events of the hour were read: when the oldest one that was read was recorded (ms since 1970); else 0."""


async def recent_activity(connections: Connections, keys: Keys, now: int | None = None) -> Activity:
    """The activity in the hour before `now` (ms since 1970; default: this machine's clock)."""
    now = int(time.time() * 1000) if now is None else now
    minutes, took = [0] * MINUTES, list[float]()
    events, fallbacks, since = 0, 0, 0
    denials: list[RecordedEvent] = []
    start = str(now - MINUTES * 60_000)
    async for entries in events_pages(connections, keys, start=start, newest_first=True):
        for entry in entries:
            minutes[max(0, MINUTES - 1 - max(0, now - entry.ms) // 60_000)] += b"of" not in entry.fields
            events += b"of" not in entry.fields
            fallbacks += b"fallback" in entry.fields
            verdict = _verdict(entry)
            if verdict is None:
                continue
            took.append(verdict.ms)
            fallbacks += bool(verdict.fallback) + sum(1 for part in verdict.parts if part.fallback)
            if verdict.blocks and len(denials) < MOST_DENIALS:
                denials.append(read_recorded_event(entry, keys))
        if events >= MOST_EVENTS:
            since = entries[-1].ms
            break
    took.sort()
    return Activity(
        minutes=tuple(minutes),
        events=events,
        verdicts=len(took),
        p50=_quantile(took, 0.5),
        p95=_quantile(took, 0.95),
        fallbacks=fallbacks,
        denials=tuple(denials),
        since=since,
    )


def _verdict(entry: StreamEntry) -> Verdict | None:
    try:
        return decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
    except DecodeError:
        return None


def _quantile(ordered: list[float], share: float) -> float:
    """The value at this share (0 to 1) of the sorted values; 0 for no values."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
