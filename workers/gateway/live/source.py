"""Reads the feed from Redis: its end, the messages after a cursor, and whether the streams still have them."""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

from bus.wire.connections import MARGIN_SECONDS, Connection, Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, checked, flat
from workers.gateway.live.cursors import START, Cursor, StreamPosition, position_after
from workers.gateway.live.messages import FeedMessage, RecordedOutcome, event_message, outcome_message, read_outcomes
from workers.gateway.live.subscriptions import Router, Subscription
from workers.runtime.spooled_once import Repeats
from workers.runtime.stream_repair import AHEAD_MS

_PAGE: Final = 100
_FIELDS: Final = ("event", "hook", "kind", "target", "type", "tool", "session", "reason")


class FeedPage(NamedTuple):
    """A part of the feed."""

    messages: list[FeedMessage]
    at: Cursor
    """The feed's place after it."""
    full: bool
    """Whether there may already be more messages."""


class FeedSource:
    """The two streams as one sequence of messages. Each reader needs its own, because it remembers repeated events."""

    def __init__(self, connections: Connections, keys: Keys, *, events: str, payload: bool) -> None:
        self._connections, self._keys, self._payload = connections, keys, payload
        self._streams = (keys("events"), keys("outcomes"))
        self._repeats = Repeats()
        self._sent = Router([("", (Subscription(events),))])
        """Leaves out the messages that no client may get: the setting `feed_events` says which."""

    async def end(self) -> Cursor:
        """The feed's place now; raises Unreachable."""
        with self._connections.lease() as connection:
            replies = await connection.exchange([("XREVRANGE", name, "+", "-", "COUNT", 1) for name in self._streams])
        newest = [checked(reply, "reading the feed") for reply in replies]
        return Cursor(*(position_after(rows[0][0]) if rows else START for rows in newest))

    async def covers(self, cursor: Cursor) -> bool:
        """Whether the streams surely still have everything after a cursor. Raises Unreachable."""
        with self._connections.lease() as connection:
            asked = [("XINFO", "STREAM", name) for name in self._streams]
            replies = await connection.exchange(asked)
        return all(_covered(at, reply) for at, reply in zip(cursor, replies, strict=True))

    async def after(self, cursor: Cursor, *, wait: float = 0.0) -> FeedPage:
        """The next messages after a cursor, ordered by time; waits `wait` seconds for the first. Raises Unreachable."""
        blocking = ("BLOCK", int(wait * 1000)) if wait else ()
        with self._connections.lease() as connection:
            cursor = await self._repaired(connection, cursor)
            ids = (cursor.events.read_after, cursor.outcomes.read_after)
            asked = ("XREAD", "COUNT", _PAGE, *blocking, "STREAMS", *self._streams, *ids)
            (reply,) = await connection.exchange([asked], seconds=wait + MARGIN_SECONDS if wait else 5.0)
            rows = {name.decode(): some for name, some in checked(reply, "reading the feed") or ()}
            stream = self._streams[0]
            events = [StreamEntry(stream, entry.decode(), flat(fields)) for entry, fields in rows.get(stream, ())]
            read = [one for entry, parts in rows.get(self._streams[1], ()) for one in read_outcomes(entry, parts)]
            outcomes = [one for one in read if one.position > cursor.outcomes][:_PAGE]
            deliveries = await self._deliveries(connection, outcomes)
        counted = {entry.id for entry in await self._repeats.without_repeats(self._connections, self._keys, events)}
        full = len(events) == _PAGE or len(outcomes) == _PAGE
        # What is later than the last entry of the other stream waits for the next page, so that times never go back.
        if full:
            events, outcomes = _cut(events, outcomes)
        messages = list[FeedMessage]()
        both: list[StreamEntry | RecordedOutcome] = [*events, *outcomes]
        for entry in sorted(both, key=lambda entry: entry.ms):  # of the same time, events come first
            if isinstance(entry, RecordedOutcome):
                message = outcome_message(entry, deliveries[entry.position], cursor)
            elif entry.id in counted:
                message = event_message(entry, self._keys, cursor, payload=self._payload)
            else:
                cursor = cursor._replace(events=position_after(entry.id))
                continue
            if any(True for _ in self._sent.clients(message)):
                messages.append(message)
            cursor = message.at
        return FeedPage(messages, cursor, full)

    async def _repaired(self, connection: Connection, cursor: Cursor) -> Cursor:
        """The cursor, or its new id if it was far in the future and a repair of the event stream has changed it."""
        if cursor.events[0] <= time.time() * 1000 + AHEAD_MS:
            return cursor
        (moved,) = await connection.exchange([("HGET", self._keys("moved", "events"), cursor.events.entry_id)])
        return cursor._replace(events=position_after(moved)) if isinstance(moved, bytes) else cursor

    async def _deliveries(
        self, connection: Connection, outcomes: list[RecordedOutcome]
    ) -> dict[StreamPosition, dict[bytes, bytes]]:
        """By the place of each outcome: the fields of its delivery that still exist, and the record of its attempt."""
        if not outcomes:
            return {}
        names = [(*_FIELDS, f"attempt:{one.attempt}") for one in outcomes]
        asked = [
            ("HMGET", self._keys("delivery", one.delivery), *wanted)
            for one, wanted in zip(outcomes, names, strict=True)
        ]
        replies = await connection.exchange(asked)
        return {
            one.position: {
                name.encode(): value
                for name, value in zip(wanted, checked(reply, "reading a delivery"), strict=True)
                if value is not None
            }
            for one, wanted, reply in zip(outcomes, names, replies, strict=True)
        }


def _cut(events: list[StreamEntry], outcomes: list[RecordedOutcome]) -> tuple[list[StreamEntry], list[RecordedOutcome]]:
    """The entries up to the end of a full page: the stream may have more entries after it."""
    ends = [entries[-1].ms for entries in (events, outcomes) if len(entries) == _PAGE]
    end = min(ends)
    return [one for one in events if one.ms <= end], [one for one in outcomes if one.ms <= end]


def _covered(at: StreamPosition, reply: Any) -> bool:
    if isinstance(reply, Exception):  # there is no such stream: it never had an entry, or was lost
        return at == START
    info: dict[bytes, Any] = dict(flat(reply))
    first, last = info.get(b"first-entry"), position_after(info[b"last-generated-id"])
    if at == START:  # the stream was empty then
        return int(info.get(b"entries-added", info[b"length"])) == int(info[b"length"])
    return at <= last and (at == last or (isinstance(first, list) and position_after(first[0]).entry <= at.entry))
