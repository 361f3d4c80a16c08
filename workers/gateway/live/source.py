"""Reads the feed out of Redis: what comes after a cursor, where the feed is, and whether a cursor is still covered."""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

from bus.wire.connections import MARGIN_SECONDS, Connection, Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, checked, flat
from workers.gateway.live.cursors import START, Cursor, Place, entry_id, place
from workers.gateway.live.messages import Message, event_message, outcome_message
from workers.gateway.live.subscriptions import Router, Rule
from workers.runtime.spooled_once import Repeats
from workers.runtime.stream_repair import AHEAD_MS

_PAGE: Final = 100
_FIELDS: Final = ("event", "hook", "kind", "target", "type", "tool", "session", "reason")


class Page(NamedTuple):
    """A part of the feed."""

    messages: list[Message]
    at: Cursor
    """Where the feed is after it."""
    full: bool
    """Whether there may be more already."""


class Source:
    """The two streams as one sequence of messages. Each reader has one, since it remembers what was sent twice."""

    def __init__(self, connections: Connections, keys: Keys, *, events: str, payload: bool) -> None:
        self._connections, self._keys, self._payload = connections, keys, payload
        self._streams = (keys("events"), keys("outcomes"))
        self._repeats = Repeats()
        self._sent = Router([("", (Rule(events),))])
        """Which messages the feed sends at all."""

    async def end(self) -> Cursor:
        """Where the feed is now; raises Unreachable."""
        with self._connections.lease() as connection:
            replies = await connection.exchange([("XREVRANGE", name, "+", "-", "COUNT", 1) for name in self._streams])
        newest = [checked(reply, "reading the feed") for reply in replies]
        return Cursor(*(place(rows[0][0]) if rows else START for rows in newest))

    async def covers(self, cursor: Cursor) -> bool:
        """Whether everything after a cursor is still there; False where that is not certain. Raises Unreachable."""
        with self._connections.lease() as connection:
            asked = [("XINFO", "STREAM", name) for name in self._streams]
            replies = await connection.exchange(asked)
        return all(_covered(at, reply) for at, reply in zip(cursor, replies, strict=True))

    async def after(self, cursor: Cursor, *, wait: float = 0.0) -> Page:
        """The next messages after a cursor, in the order of their times; waits so many seconds for one. Raises Unreachable."""
        blocking = ("BLOCK", int(wait * 1000)) if wait else ()
        with self._connections.lease() as connection:
            cursor = await self._repaired(connection, cursor)
            ids = (entry_id(cursor.events), entry_id(cursor.outcomes))
            asked = ("XREAD", "COUNT", _PAGE, *blocking, "STREAMS", *self._streams, *ids)
            (reply,) = await connection.exchange([asked], seconds=wait + MARGIN_SECONDS if wait else 5.0)
            rows = {name.decode(): some for name, some in checked(reply, "reading the feed") or ()}
            events, outcomes = (
                [StreamEntry(name, entry.decode(), flat(fields)) for entry, fields in rows.get(name, ())]
                for name in self._streams
            )
            deliveries = await self._deliveries(connection, outcomes)
        counted = {entry.id for entry in await self._repeats.without_repeats(self._connections, self._keys, events)}
        full = len(events) == _PAGE or len(outcomes) == _PAGE
        if (
            full
        ):  # what one stream has after the other's last entry comes with the next page, so that times do not go back
            events, outcomes = _cut(events, outcomes)
        messages = list[Message]()
        for entry in sorted(
            [*events, *outcomes], key=lambda entry: (place(entry.id)[0], entry.stream != self._streams[0])
        ):
            if entry.stream == self._streams[1]:
                message = outcome_message(entry, deliveries[entry.id], cursor)
            elif entry.id in counted:
                message = event_message(entry, self._keys, cursor, payload=self._payload)
            else:
                cursor = cursor._replace(events=place(entry.id))
                continue
            if any(True for _ in self._sent.clients(message)):
                messages.append(message)
            cursor = message.at
        return Page(messages, cursor, full)

    async def _repaired(self, connection: Connection, cursor: Cursor) -> Cursor:
        """The cursor after a repair of the event stream: no entry follows a made-up id, and a repair changes such ids."""
        if cursor.events[0] <= time.time() * 1000 + AHEAD_MS:
            return cursor
        (moved,) = await connection.exchange([("HGET", self._keys("moved", "events"), entry_id(cursor.events))])
        return cursor._replace(events=place(moved)) if isinstance(moved, bytes) else cursor

    async def _deliveries(self, connection: Connection, outcomes: list[StreamEntry]) -> dict[str, dict[bytes, bytes]]:
        """What is known of the delivery of each outcome: its own fields and the one attempt."""
        if not outcomes:
            return {}
        names = [(*_FIELDS, "attempt:" + entry.fields.get(b"n", b"0").decode()) for entry in outcomes]
        asked = [
            ("HMGET", self._keys("delivery", entry.fields.get(b"id", b"").decode("utf-8", "replace")), *wanted)
            for entry, wanted in zip(outcomes, names, strict=True)
        ]
        replies = await connection.exchange(asked)
        return {
            entry.id: {
                name.encode(): value
                for name, value in zip(wanted, checked(reply, "reading a delivery"), strict=True)
                if value is not None
            }
            for entry, wanted, reply in zip(outcomes, names, replies, strict=True)
        }


def _cut(events: list[StreamEntry], outcomes: list[StreamEntry]) -> tuple[list[StreamEntry], list[StreamEntry]]:
    """The entries up to the end of the stream of which there may be more."""
    ends = [entries[-1].ms for entries in (events, outcomes) if len(entries) == _PAGE]
    end = min(ends)
    return [one for one in events if one.ms <= end], [one for one in outcomes if one.ms <= end]


def _covered(at: Place, reply: Any) -> bool:
    if isinstance(reply, Exception):  # there is no such stream, so nothing was ever in it, or it was lost
        return at == START
    info: dict[bytes, Any] = dict(flat(reply))
    first, last = info.get(b"first-entry"), place(info[b"last-generated-id"])
    if at == START:  # the stream was empty then
        return int(info.get(b"entries-added", info[b"length"])) == int(info[b"length"])
    return at <= last and (at == last or (isinstance(first, list) and place(first[0]) <= at))
