"""One reader of the streams for all clients of a gateway, and a bounded queue for each client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from bus.errors import ConfigError, FleethookError, PatternError
from bus.matching.patterns import parse_pattern
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import Backoff
from workers.gateway.live.cursors import Cursor
from workers.gateway.live.messages import FeedMessage
from workers.gateway.live.source import FeedSource
from workers.gateway.live.subscriptions import Router, Subscriptions

log = logging.getLogger("fleethook.gateway")

MOST_WAITING: Final = 2_000
"""The most messages that may wait for a slow client. The next one drops the client."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of messages that may wait for a slow client."""

_SLOW: Final = 0.25
"""The part of these limits at which a client is told how far behind it is."""

_WAIT_SECONDS: Final = 1.0
_MOST_RECENT: Final = 1_000
_MOST_RECENT_BYTES: Final = MOST_WAITING_BYTES // 2
"""The messages that are kept for clients that join: fewer than may wait for a client."""


Transport = Literal["websocket", "sse", "gobby"]
"""How a client gets the feed."""


class Client:
    """One client's queue. The feed fills it and never waits; the client's own task empties it."""

    def __init__(self, subscriptions: Subscriptions, transport: Transport) -> None:
        self.subscriptions, self.transport = subscriptions, transport
        self.waiting: deque[FeedMessage] = deque()
        self._bytes = 0
        self.at = Cursor()
        """The client's place: everything before it was sent, or not subscribed to."""
        self.changed = asyncio.Event()
        self.overflowed = asyncio.Event()
        """Set when a message exceeded a limit, or the client read nothing for too long: it has to be dropped."""

    @property
    def is_slow(self) -> bool:
        """Whether it is so far behind that it has to be told."""
        return len(self.waiting) >= MOST_WAITING * _SLOW or self._bytes >= MOST_WAITING_BYTES * _SLOW

    def push(self, message: FeedMessage) -> None:
        """Queue a message that the client has not got yet, or mark the client as overflowed at the limit.

        A client that caught up by itself may be ahead of the feed.
        """
        if self.overflowed.is_set() or message.position <= (self.at.events if message.is_event else self.at.outcomes):
            return
        if len(self.waiting) >= MOST_WAITING or (self.waiting and self._bytes + message.size > MOST_WAITING_BYTES):
            self.overflowed.set()
        else:
            self.waiting.append(message)
            self._bytes += message.size
            self.changed.set()

    def next(self) -> tuple[FeedMessage, Cursor]:
        """The next message, and the client's place after it; `sent` removes the message."""
        message = self.waiting[0]
        return message, self.at.furthest(
            message.at
        )  # a client that caught up by itself may be ahead in the other stream

    def sent(self, at: Cursor) -> None:
        """Note that the next message was sent."""
        self._bytes -= self.waiting.popleft().size
        self.at = at


class Feed:
    """The live feed of one gateway. It reads only while there are clients."""

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        *,
        events: str,
        payload: bool,
        on_dropped: Callable[[Transport], None] = lambda _: None,
    ) -> None:
        self._connections, self._keys, self._payload = connections, keys, payload
        self._events, self._on_dropped = events, on_dropped
        try:
            parse_pattern(events)
        except PatternError as error:
            raise ConfigError(f"FLEETHOOK_FEED_EVENTS: {error}") from error
        self._clients: set[Client] = set()
        self._users: Counter[Transport] = Counter(dict.fromkeys(get_args(Transport), 0))
        self._router: Router[Client] | None = None
        self._recent: deque[FeedMessage] = deque()
        self._recent_bytes = 0
        self._recent_start = Cursor()
        self.at = Cursor()
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.ended = asyncio.Event()
        """Set when the gateway ends."""

    @property
    def clients(self) -> Mapping[Transport, int]:
        """How many clients there are, by transport."""
        return self._users

    def source(self) -> FeedSource:
        """A source for a client that catches up by itself."""
        return FeedSource(self._connections, self._keys, events=self._events, payload=self._payload)

    async def enter(self, client: Client, cursor: Cursor | None) -> bool:
        """Count a client and set its place to the cursor (None: now). Returns whether the streams still have all after it.

        Call `leave` for each call, unless it raises Unreachable.
        """
        complete = cursor is None or await self.source().covers(cursor)
        await self._start(client)
        client.at = self.at if cursor is None else cursor
        return complete

    async def _start(self, client: Client) -> None:
        """Start the reader if there is none."""
        async with self._starting:
            if self._reader is None:
                self.at = self._recent_start = await self.source().end()
                self._recent.clear()
                self._recent_bytes = 0
                self._reader = asyncio.create_task(self._read())
            self._users[client.transport] += 1

    async def leave(self, client: Client) -> None:
        """Forget a client; the last one ends the reader."""
        self._clients.discard(client)
        self._router = None
        if client.overflowed.is_set():
            self._on_dropped(client.transport)
        async with self._starting:
            self._users[client.transport] -= 1
            if not self._users.total() and self._reader is not None:
                reader, self._reader = self._reader, None
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader

    def join(self, client: Client) -> bool:
        """Give the client everything from now on. Returns False if the feed no longer has all messages after its place."""
        if not client.at.reaches(self._recent_start):
            return False
        router = Router([(client, client.subscriptions.current)])
        for message in self._recent:
            for one in router.clients(message):
                one.push(message)
        self._clients.add(client)
        self._router = None
        return True

    def resubscribed(self) -> None:
        """Note that a client's subscriptions changed."""
        self._router = None

    def progress(self, client: Client) -> Cursor:
        """A client's place. For a client that has joined and has no waiting messages, it is the feed's place."""
        if client in self._clients and not client.waiting:
            client.at = client.at.furthest(self.at)
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
            await asyncio.sleep(0)  # lets the clients' tasks run even if every page is full

    def _deliver(self, message: FeedMessage) -> None:
        if self._router is None:
            self._router = Router([(client, client.subscriptions.current) for client in self._clients])
        for client in self._router.clients(message):
            client.push(message)
        self._recent.append(message)
        self._recent_bytes += message.size
        self.at = message.at
        while len(self._recent) > _MOST_RECENT or self._recent_bytes > _MOST_RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.size
            self._recent_start = self._recent_start.furthest(oldest.at)
