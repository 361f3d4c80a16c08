"""One reader of the streams for all clients of a gateway, and a bounded queue for each client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final

from bus.errors import ConfigError, FleethookError, PatternError
from bus.matching.patterns import parse_pattern
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import Backoff
from workers.gateway.live.cursors import Cursor
from workers.gateway.live.messages import Message
from workers.gateway.live.source import Source
from workers.gateway.live.subscriptions import Router, Subscriptions

log = logging.getLogger("fleethook.gateway")

MOST_WAITING: Final = 2_000
"""How many messages may wait for a slow client; it is dropped at the next one."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of messages may wait for a slow client."""

_SLOW: Final = 0.25
"""The part of these bounds from which on a client is sent how far behind it is."""

_WAIT_SECONDS: Final = 1.0
_MOST_RECENT: Final = 1_000
_MOST_RECENT_BYTES: Final = MOST_WAITING_BYTES // 2
"""Messages that are kept for clients that join: fewer than may wait for a client."""


class Client:
    """One client's queue. The feed fills it and never waits; the client's own task empties it."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.subscriptions = subscriptions
        self.waiting: deque[Message] = deque()
        self._bytes = 0
        self.at = Cursor()
        """Where the client is: everything before it was sent, or was not wanted."""
        self.changed = asyncio.Event()
        self.overflowed = asyncio.Event()
        """Set once a message had no place: the client has to be dropped."""

    @property
    def is_slow(self) -> bool:
        """Whether it is so far behind that it has to know."""
        return len(self.waiting) >= MOST_WAITING * _SLOW or self._bytes >= MOST_WAITING_BYTES * _SLOW

    def push(self, message: Message) -> None:
        """Queue a message; at the bound the client is dropped instead."""
        if self.overflowed.is_set():
            return
        if len(self.waiting) >= MOST_WAITING or (self.waiting and self._bytes + message.size > MOST_WAITING_BYTES):
            self.overflowed.set()
        else:
            self.waiting.append(message)
            self._bytes += message.size
            self.changed.set()

    def next(self) -> tuple[Message, Cursor]:
        """The next message, and where the client is after it; `sent` removes it."""
        message = self.waiting[0]
        return message, self.at.joined(message.at)  # a client that caught up by itself may be ahead in the other stream

    def sent(self, at: Cursor) -> None:
        """Note that the next message was sent."""
        self._bytes -= self.waiting.popleft().size
        self.at = at


class Feed:
    """The live feed of one gateway. It reads only while there are clients."""

    def __init__(self, connections: Connections, keys: Keys, *, events: str, payload: bool) -> None:
        self._connections, self._keys, self._payload = connections, keys, payload
        self._events = events
        try:
            parse_pattern(events)
        except PatternError as error:
            raise ConfigError(f"FLEETHOOK_FEED_EVENTS: {error}") from error
        self._clients: set[Client] = set()
        self._users = 0
        self._router: Router[Client] | None = None
        self._recent: deque[Message] = deque()
        self._recent_bytes = 0
        self._recent_start = Cursor()
        self.at = Cursor()
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.ended = asyncio.Event()
        """Set when the gateway ends."""

    def source(self) -> Source:
        """A source for a client that catches up by itself."""
        return Source(self._connections, self._keys, events=self._events, payload=self._payload)

    async def enter(self, client: Client, cursor: Cursor | None) -> bool:
        """Count a client, and place it at its cursor (None: now). Returns whether everything after the cursor is there.

        Every call is followed by one of `leave`, unless it raises Unreachable.
        """
        complete = cursor is None or await self.source().covers(cursor)
        await self._start()
        client.at = self.at if cursor is None else cursor
        return complete

    async def _start(self) -> None:
        """Start the reader if there is none."""
        async with self._starting:
            if self._reader is None:
                self.at = self._recent_start = await self.source().end()
                self._recent.clear()
                self._recent_bytes = 0
                self._reader = asyncio.create_task(self._read())
            self._users += 1

    async def leave(self, client: Client) -> None:
        """Forget a client; the last one ends the reader."""
        self._clients.discard(client)
        self._router = None
        async with self._starting:
            self._users -= 1
            if not self._users and self._reader is not None:
                reader, self._reader = self._reader, None
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader

    def join(self, client: Client) -> bool:
        """Give the client everything from now on, if no message is between where it is and what the feed still has."""
        if not client.at.reaches(self._recent_start):
            return False
        router = Router([(client, client.subscriptions.rules)])
        for message in self._recent:
            if message.place > (client.at.events if message.is_event else client.at.outcomes):
                for one in router.clients(message):
                    one.push(message)
        self._clients.add(client)
        self._router = None
        return True

    def resubscribed(self) -> None:
        """Note that a client's subscriptions changed."""
        self._router = None

    def progress(self, client: Client) -> Cursor:
        """Where a client is; one that has joined and has nothing waiting is where the feed is."""
        if client in self._clients and not client.waiting:
            client.at = client.at.joined(self.at)
        return client.at

    async def _read(self) -> None:
        source, backoff = self.source(), Backoff("the live feed")
        while True:
            try:
                page = await source.after(self.at, wait=_WAIT_SECONDS)
                backoff.back()
            except FleethookError as error:
                await backoff.wait(error)
                continue
            except Exception:
                log.exception("the live feed")
                await asyncio.sleep(_WAIT_SECONDS)
                continue
            for message in page.messages:
                self._deliver(message)
            self.at = page.at
            await asyncio.sleep(0)  # the clients' tasks have their turn even if there is always a full page

    def _deliver(self, message: Message) -> None:
        if self._router is None:
            self._router = Router([(client, client.subscriptions.rules) for client in self._clients])
        for client in self._router.clients(message):
            client.push(message)
        self._recent.append(message)
        self._recent_bytes += message.size
        self.at = message.at
        while len(self._recent) > _MOST_RECENT or self._recent_bytes > _MOST_RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.size
            self._recent_start = self._recent_start.joined(oldest.at)
