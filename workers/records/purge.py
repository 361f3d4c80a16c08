"""Removing events before their time, on a person's word; never one that a group has not acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bus.errors import DecodeError, NotFound
from bus.requests import read_event, read_request
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import Entry, call, checked, flat, server_now
from workers.records.events import Say, pages

_NO_LIMIT: Final = 10**15


class ReaderGroup(NamedTuple):
    """How far one group has read the event stream."""

    name: str
    last: tuple[int, int]
    """The last entry that it was handed."""
    pending: int
    """Entries that it was handed and has not acknowledged."""


async def purge_older(connections: Connections, keys: Keys, seconds: float, *, say: Say | None = None) -> int:
    """Remove what is older than `seconds` (0: everything) and acknowledged; returns how many events."""
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
    """Remove the acknowledged events of one session; returns how many, and how many were not acknowledged yet.

    What its open deliveries and dead letters keep of an event goes with them, not with this.
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
    """The groups that read the events; NotFound where there is none: nobody has acknowledged anything then."""
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
    connections: Connections, keys: Keys, readers: Iterable[ReaderGroup], entries: list[Entry]
) -> list[str]:
    """The ids of those entries that every group was handed and has acknowledged.

    An entry behind a group's last delivered one that is not pending stays so, hence nothing can change in between.
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


def _session(entry: Entry, keys: Keys) -> str | None:
    if b"of" in entry.fields:
        return None
    try:
        return read_event(read_request(entry, keys)).session
    except DecodeError:
        return None


def _parts(name: str) -> tuple[int, int]:
    ms, _, number = name.partition("-")
    return int(ms), int(number or 0)
