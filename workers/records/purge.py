"""Deletes events before their retention ends, but only those that every group has acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bus.errors import DecodeError, NotFound
from bus.requests import read_event, read_request
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, call, checked, flat, server_now
from workers.records.events import OnProgress, pages

_NO_LIMIT: Final = 10**15


class ReaderGroup(NamedTuple):
    """A consumer group of the event stream, and how far it has read."""

    name: str
    last: tuple[int, int]
    """The last entry that was delivered to it."""
    pending: int
    """The number of entries that were delivered to it and that it has not acknowledged."""


async def purge_older(
    connections: Connections, keys: Keys, seconds: float, *, on_progress: OnProgress | None = None
) -> int:
    """Delete acknowledged events that are older than `seconds` (0: all of them); returns how many."""
    await groups(connections, keys)
    oldest = await server_now(connections) - int(seconds * 1000)
    # The script's XTRIM deletes everything before an id at once.
    aged, _ = await call(connections, "trim", (keys("events"),), (f"{oldest + 1}-0", _NO_LIMIT, 0, 1))
    if on_progress is not None:
        on_progress(int(aged))
    return int(aged)


async def purge_session(
    connections: Connections, keys: Keys, session: str, *, on_progress: OnProgress | None = None
) -> tuple[int, int]:
    """Delete the acknowledged events of one session; returns how many, and how many are not acknowledged yet.

    Open deliveries and dead letters keep their copies of the events.
    """
    readers = await groups(connections, keys)
    removed = kept = looked = 0
    async for entries in pages(connections, keys("events")):
        session_entries = [entry for entry in entries if _session(entry, keys) == session]
        if session_entries:
            acknowledged = await _acknowledged(connections, keys, readers, session_entries)
            if acknowledged:
                with connections.lease() as connection:
                    (reply,) = await connection.exchange([("XDEL", keys("events"), *acknowledged)])
                removed += int(checked(reply, "removing events"))
            kept += len(session_entries) - len(acknowledged)
        looked += len(entries)
        if on_progress is not None:
            on_progress(looked)
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
        ReaderGroup(row[b"name"].decode(), _split_id(row[b"last-delivered-id"].decode()), int(row[b"pending"]))
        for row in rows
    ]


async def _acknowledged(
    connections: Connections, keys: Keys, readers: Iterable[ReaderGroup], entries: list[StreamEntry]
) -> list[str]:
    """The ids of the entries that every group has acknowledged.

    The answer stays true: an entry that a group has read and acknowledged never becomes pending again.
    """
    acknowledged = [entry.id for entry in entries if all(_split_id(entry.id) <= group.last for group in readers)]
    busy = [group for group in readers if group.pending]
    if not acknowledged or not busy:
        return acknowledged
    with connections.lease() as connection:
        for group in busy:
            asked = [("XPENDING", keys("events"), group.name, name, name, 1) for name in acknowledged]
            replies = await connection.exchange(asked)
            acknowledged = [
                name
                for name, rows in zip(acknowledged, replies, strict=True)
                if checked(rows, "asking what is pending") == []
            ]
    return acknowledged


def _session(entry: StreamEntry, keys: Keys) -> str | None:
    if b"of" in entry.fields:
        return None
    try:
        return read_event(read_request(entry, keys)).session
    except DecodeError:
        return None


def _split_id(name: str) -> tuple[int, int]:
    ms, _, number = name.partition("-")
    return int(ms), int(number or 0)
