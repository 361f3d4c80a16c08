"""Lists in pages, newest first: events, deliveries and dead letters that pass a filter.

A position is the last entry that was searched, so what is added between two pages neither repeats nor hides an entry.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Delivery
from workers.delivery.filters import Filter, delivery_test, letter_test
from workers.records.events import RecordedEvent, event_test, events_pages, read_recorded_event
from workers.records.selection import read_deliveries, read_letters

MOST_SEARCHED: Final = 20_000
"""A page ends after so many entries even if few of them pass the filter; the next one goes on from there."""

EVENT_POSITION: Final = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
"""The position in the event stream: an entry's id."""

INDEX_POSITION: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?:.{1,1000}", re.DOTALL)
"""The position in a sorted set: a score and a member."""

_PAGE: Final = 200
_TURN: Final = 25
"""After so many events other tasks of the process run: to redact one event takes about a third of a millisecond."""


class _Named(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T")
N = TypeVar("N", bound=_Named)


class Page(NamedTuple, Generic[T]):
    """Some items, and the position after them; an empty position is the end of the list."""

    items: list[T]
    after: str = ""


async def event_page(
    connections: Connections, keys: Keys, wanted: Filter, most: int, before: str = ""
) -> Page[RecordedEvent]:
    """The newest events before a position that pass the filter."""
    fits, found, looked = event_test(wanted), list[RecordedEvent](), 0
    end = f"({before}" if before else str(wanted.until or "+")
    pages = events_pages(connections, keys, start=str(wanted.since or "-"), end=end, newest_first=True)
    async for entries in pages:
        for number, entry in enumerate(entries):
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
            seen = read_recorded_event(entry, keys)
            if fits(seen):
                found.append(seen)
                if len(found) == most:
                    return Page(found, entry.id)
        looked += len(entries)
        if looked >= MOST_SEARCHED:
            return Page(found, entries[-1].id)
    return Page(found)


async def delivery_page(
    connections: Connections, keys: Keys, wanted: Filter, most: int, before: str = ""
) -> Page[Delivery]:
    """The newest deliveries before a position that pass the filter."""
    return await _page(connections, keys, "recent", wanted, read_deliveries, delivery_test(wanted), most, before)


async def letter_page(
    connections: Connections, keys: Keys, wanted: Filter, most: int, before: str = ""
) -> Page[DeadLetter]:
    """The newest dead letters before a position that pass the filter."""
    return await _page(connections, keys, "dead", wanted, read_letters, letter_test(wanted), most, before)


async def _page(
    connections: Connections,
    keys: Keys,
    index: str,
    wanted: Filter,
    read: Callable[[Connections, Keys, Sequence[str]], Awaitable[list[N]]],
    test: Callable[[N], bool],
    most: int,
    before: str,
) -> Page[N]:
    found, looked = list[N](), 0
    async for rows in _newest(connections, keys(index), wanted, before):
        items = {item.id: item for item in await read(connections, keys, [name for _, name in rows])}
        for position, name in rows:
            item = items.get(name)
            if item is not None and test(item):
                found.append(item)
                if len(found) == most:
                    return Page(found, position)
        looked += len(rows)
        if looked >= MOST_SEARCHED:
            return Page(found, rows[-1][0])
    return Page(found)


async def _newest(
    connections: Connections, index: str, wanted: Filter, before: str
) -> AsyncIterator[list[tuple[str, str]]]:
    """The members of a sorted set within the times of the filter, newest first, each with its position."""
    score, _, last = before.partition(":")
    offset, high = 0, score or str(wanted.until or "+inf")
    while True:
        asked = ("ZREVRANGEBYSCORE", index, high, wanted.since or "-inf", "WITHSCORES", "LIMIT", offset, _PAGE)
        with connections.lease() as connection:
            (reply,) = await connection.exchange([asked])
        flat_rows = checked(reply, "reading a list")
        rows = [
            (_text(at), member.decode("utf-8", "replace"))
            for member, at in zip(flat_rows[::2], flat_rows[1::2], strict=True)
        ]
        if not rows:
            return
        fresh = [row for row in rows if not before or row[0] != score or row[1] < last]
        if fresh:
            yield [(f"{at}:{name}", name) for at, name in fresh]
            # Members with the same score are in the order of their names, so the next page begins below the last name.
            score, last, before, high, offset = *fresh[-1], "more", fresh[-1][0], 0
        else:
            offset += len(rows)


def _text(score: object) -> str:
    return score.decode() if isinstance(score, bytes) else str(score)
