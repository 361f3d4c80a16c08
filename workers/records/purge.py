"""Delete events before their retention ends; never one that a group has not acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bus.errors import DecodeError, NotFound
from bus.requests import read_event, read_request
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, call, checked, flat, server_now
from workers.records.events import Say, pages

_NO_LIMIT: Final = 10**15


class ReaderGroup(NamedTuple):
    """A consumer group of the event stream, and how far it has read."""

    name: str
    last: tuple[int, int]
    """The last entry that it was handed."""
    pending: int
    """Entries that it was handed and has not acknowledged."""


async def purge_older(connections: Connections, keys: Keys, seconds: float, *, say: Say | None = None) -> int:
    """Delete acknowledged events that are older than `seconds` (0: all of them); returns how many."""
    await groups(connections, keys)
    oldest = await server_now(connections) - int(seconds * 1000)
    # The script's XTRIM takes everything that is over its age at once.
    aged, _ = await call(connections, "trim", (keys("events"),), (f"{oldest + 1}-0", _NO_LIMIT, 0, 1))
    if say is not None:
        say(int(aged))
    return int(aged)


async def purge_session(
    connections: Connections, keys: Keys, session: str, *, say: Say | None = None
) -> tuple[int, int]:
    """Delete the acknowledged events of one session; returns how many, and how many are not acknowledged yet.

    Open deliveries and dead letters keep their copies of the events.
    """
    readers = await groups(connections, keys)
    removed = kept = looked = 0
    async for entries in pages(connections, keys("events")):
        mine = [entry for entry in entries if _session(entry, keys) == session]
        if mine:
            free = await _acknowledged(connections, keys, readers, mine)
            if free:
                with connections.lease() as connection:
                    (reply,) = await connection.exchange([("XDEL", keys("events"), *free)])
                removed += int(checked(reply, "removing events"))
            kept += len(mine) - len(free)
        looked += len(entries)
        if say is not None:
            say(looked)
    return removed, kept


async def groups(connections: Connections, keys: Keys) -> list[ReaderGroup]:
    """The groups that read the events; raises NotFound if there is none, since then no event is acknowledged."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("XINFO", "GROUPS", keys("events"))])
    nothing = isinstance(reply, Exception) and "no such key" in str(reply).lower()
    rows = [] if nothing else [flat(row) for row in checked(reply, "looking for the groups")]
    if not rows:
        raise NotFound(
            "no dispatcher has ever read these events, so none of them is delivered and none is removed; "
            "`fleethook worker dispatcher` (or `up`) starts one"
        )
    return [
        ReaderGroup(row[b"name"].decode(), _parts(row[b"last-delivered-id"].decode()), int(row[b"pending"]))
        for row in rows
    ]


async def _acknowledged(
    connections: Connections, keys: Keys, readers: Iterable[ReaderGroup], entries: list[StreamEntry]
) -> list[str]:
    """The ids of the entries that every group has acknowledged.

    An entry that a group has read and that is not pending never becomes pending again: so the answer stays true.
    """
    free = [entry.id for entry in entries if all(_parts(entry.id) <= group.last for group in readers)]
    busy = [group for group in readers if group.pending]
    if not free or not busy:
        return free
    with connections.lease() as connection:
        for group in busy:
            asked = [("XPENDING", keys("events"), group.name, name, name, 1) for name in free]
            replies = await connection.exchange(asked)
            free = [
                name for name, rows in zip(free, replies, strict=True) if checked(rows, "asking what is pending") == []
            ]
    return free


def _session(entry: StreamEntry, keys: Keys) -> str | None:
    if b"of" in entry.fields:
        return None
    try:
        return read_event(read_request(entry, keys)).session
    except DecodeError:
        return None


def _parts(name: str) -> tuple[int, int]:
    ms, _, number = name.partition("-")
    return int(ms), int(number or 0)
