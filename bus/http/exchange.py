"""One exchange: a POST that a session carries over one of its lines, and the answer, of which so much is read.

A session, its connector and its parser are aiohttp's. The request and the answer are ours, handed to the session as its
`request_class`: the head is written as it was made, in one piece with the body and by no task of its own, so that a
signed POST takes about 40 us of CPU and not 75 (measured on aiohttp 3.14). Cookies, redirects, proxies and variables of
the environment play no part.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Self

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.streams import StreamReader
from yarl import URL

from bus.http.connector import BoundedProtocol, Pool
from bus.http.timings import TIMER

_BUFFER: Final = 64 * 1024

Before = Callable[[], Awaitable[None]]


class PreparedTarget(aiohttp.ClientRequest):
    """Where a URL leads: what a connection to it is known by, and the first lines of every request."""

    def __init__(self, url: str) -> None:
        super().__init__("POST", URL(url, encoded=True))
        self.host_line = f"Host: {self.headers['Host']}\r\n"
        self.request_line = f"POST {self.url.raw_path_qs} HTTP/1.1\r\n"
        self.key = self.connection_key

    async def ask(
        self,
        session: aiohttp.ClientSession,
        head: bytes,
        body: bytes,
        *,
        seconds: float,
        cap: int,
        before: Before | None,
    ) -> Answer:
        """Send a request and wait for the head of its answer, all within `seconds`; then that is read, and closed.

        Raises what aiohttp raises, TimeoutError, AnswerTooLong, ProxyFailed, and what `before` raises.
        """
        post = Post(self, head, body, self.loop.time() + seconds, cap, before)
        answer = await session.post(self.url, data=post, allow_redirects=False, timeout=_timeout(seconds))
        assert isinstance(answer, Answer)  # noqa: S101 - the request below makes no other
        return answer


class Post(NamedTuple):
    """What is to be sent through a door, until when it has to be answered, and how much of the answer is wanted."""

    door: PreparedTarget
    head: bytes
    body: bytes
    until: float
    cap: int
    before: Before | None


class PostRequest(aiohttp.ClientRequest):
    """A post as a session sees it; everything that aiohttp would work out for each request, its door knows."""

    proxy = None
    server_hostname = None
    _ssl = True

    def __init__(self, method: str, url: URL, *, data: Post, loop: asyncio.AbstractEventLoop, **_: object) -> None:
        self.method, self.url, self.loop = method, url, loop
        self.post = data

    @property
    def connection_key(self) -> ConnectionKey:
        """What a pooled connection has to match; told apart once a door, and not at each request."""
        return self.post.door.key

    async def send(self, conn: Connection) -> Answer:
        """Write it all, once `before` has let it go; the answer's head is not there yet."""
        post, line, timer = self.post, conn.protocol, TIMER.get()
        if timer is not None:
            timer.connection_ready()
        assert isinstance(line, BoundedProtocol)  # noqa: S101 - the pool makes no other
        line.begin(post.cap)
        answer = Answer(self, conn, line, self.loop.call_at(post.until, line.late))
        try:
            if post.before is not None:
                await post.before()
            if line.transport is None or line.exception() is not None:
                raise line.exception() or aiohttp.ServerDisconnectedError()
            line.transport.write(post.head + post.body)
        except BaseException:
            answer.close()
            raise
        return answer


class Answer(aiohttp.ClientResponse):
    """An answer, read to a cap."""

    _payload: StreamReader | None = None
    _whole = False

    def __init__(
        self, request: PostRequest, connection: Connection, line: BoundedProtocol, timer: asyncio.TimerHandle
    ) -> None:
        self.method, self._real_url, self._loop = request.method, request.url, request.loop
        self._connection, self._line, self._timer_handle = connection, line, timer
        self._cache: dict[str, object] = {}

    async def start(self, connection: Connection) -> Self:  # noqa: ARG002 - the line of this connection is known
        """Wait for the head; those of interim answers are passed over."""
        message, payload = await self._line.read()
        while 100 <= message.code < 200 and message.code != 101:
            message, payload = await self._line.read()
        timer = TIMER.get()
        if timer is not None:
            timer.response_started()
        self.status, self.reason, self._headers = message.code, message.reason, message.headers
        self._payload = payload
        return self

    async def first(self, cap: int) -> bytes:
        """The body's first `cap` bytes."""
        payload = self._payload
        assert payload is not None  # noqa: S101 - a session gives nobody an answer that has not started
        if payload.is_eof():
            got = payload.read_nowait()
            self._whole = len(got) <= cap
            return got[:cap]
        kept = bytearray()
        while len(kept) <= cap:
            chunk = await payload.readany()
            if not chunk:
                self._whole = True
                break
            kept += chunk
        return bytes(kept[:cap])

    def close(self) -> None:
        """Give the connection back where all of the answer was read, and all of the request taken; else drop it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._timer_handle.cancel()
        self._line.end()
        transport = self._line.transport
        if self._whole and transport is not None and not transport.get_write_buffer_size():
            connection.release()
            return
        if transport is not None:  # closed politely, it would wait for a receiver that takes nothing, for ever
            transport.abort()
        connection.close()


def open_session(pool: Pool) -> aiohttp.ClientSession:
    """A session over these connections; closing it closes them."""
    return aiohttp.ClientSession(
        connector=pool,
        request_class=PostRequest,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        read_bufsize=_BUFFER,
    )


@functools.lru_cache(maxsize=256)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    """A limit for connecting alone, in aiohttp's words; from there on the line itself is told when it is late."""
    # aiohttp rounds deadlines above `ceil_threshold` up to the next second.
    return aiohttp.ClientTimeout(
        total=None, connect=max(seconds, 0.001), sock_connect=None, ceil_threshold=float("inf")
    )
