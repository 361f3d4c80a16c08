"""Connections that are vetted and timed when they are made, and that read no more than was asked for.

aiohttp makes, pools and parses them. This is the only file that uses undocumented parts of aiohttp;
`tests/contract/test_aiohttp.py` lists them. Why not aiohttp's documented client, a ClientSession: `fleethook bench deliveries`
(aiohttp 3.14.5, seven alternated runs of 4,000 deliveries) requires at least 0.55 of a raw aiohttp loop's requests per
CPU-second. With this file a carrier reaches 0.73, with a ClientSession 0.43 (0.40 with a TraceConfig).
"""

from __future__ import annotations

import functools
import socket
import ssl
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from bus.errors import AnswerTooLong, FleethookError
from bus.http.timings import TIMER

__all__ = ["BoundedConnector", "BoundedProtocol", "Connection", "HttpProcessingError", "TargetRequest"]

KEEP_ALIVE: Final = 4.0
"""Seconds that an idle connection is kept: less than most servers' own limit (Node and uvicorn: 5 s). If the server closes
a connection while a POST is sent, we cannot know whether it has processed the POST."""

OVERHEAD: Final = 64 * 1024
"""The most bytes of a response in addition to its body: interim responses, head, chunk lines, trailers."""

_BUFFER: Final = 64 * 1024


class TargetRequest(aiohttp.ClientRequest):
    """The request by which aiohttp identifies a target's connections; created once a target, since it is expensive."""

    def __init__(self, url: str) -> None:
        super().__init__("POST", URL(url, encoded=True))
        self._key = super().connection_key

    @property
    def connection_key(self) -> ConnectionKey:
        """What a pooled connection has to match."""
        return self._key


class BoundedProtocol(ResponseHandler):
    """One connection: reads a limited number of bytes of each response, and accepts none between requests."""

    _room = _most = 0
    _cap = 0
    _open = False

    def begin(self, cap: int) -> None:
        """Expect a response; at most `cap` bytes of its body are read."""
        self.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=_BUFFER)
        self._cap, self._most, self._open = cap, cap + OVERHEAD, True
        self._room = self._most

    def end(self) -> None:
        """Expect no data until the next request; data that comes before it closes the connection."""
        self._open = False

    def send(self, data: bytes) -> None:
        """Write a request; if the connection has ended, raises the error that ended it."""
        if self.transport is None or self.exception() is not None:
            raise self.exception() or aiohttp.ServerDisconnectedError()
        self.transport.write(data)

    async def read_head(self) -> tuple[RawResponseMessage, StreamReader]:
        """Wait for the head of the response, after any interim ones; raises the error that `fail` got."""
        message, body = await self.read()
        while 100 <= message.code < 200 and message.code != 101:
            message, body = await self.read()
        return message, body

    def fail(self, error: Exception) -> None:
        """Make waiting for and reading the response raise `error`, unless the response is complete."""
        self.set_exception(error)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)

    def time_out(self) -> None:
        """Fail with TimeoutError, at the deadline."""
        self.fail(TimeoutError())

    def sent_whole(self) -> bool:
        """Whether the connection is open and the whole request was sent."""
        return self.transport is not None and not self.transport.get_write_buffer_size()

    def drop(self) -> None:
        """Close at once: a graceful close would wait for ever for a receiver that reads nothing."""
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Called by the transport; bytes beyond the limit are not parsed."""
        if not self._open:  # otherwise the next request would take these bytes for its response
            self.fail(ConnectionError("the server sent data before a request"))
            self.drop()
            return
        room = self._room = self._room - len(data)
        if room >= 0:
            super().data_received(data)
        elif (left := len(data) + room) > 0:
            super().data_received(data[:left])
            error = AnswerTooLong(f"it is not complete after {self._most >> 10} KiB")
            if self._payload is None or self._payload.total_bytes <= self._cap:
                self.fail(error)
            else:  # as much of the body as is read; the connection is not to be kept
                self.set_exception(error)


class BoundedConnector(aiohttp.TCPConnector):
    """A pool of connections, each a BoundedProtocol to an address that the resolver returned.

    `tls` replaces the system's trust store.
    """

    def __init__(self, resolver: AbstractResolver, tls: ssl.SSLContext | None) -> None:
        self._context = tls if tls is not None else _default_tls()
        self._context.sslobject_class = _TimedTls
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=KEEP_ALIVE,
            ssl=self._context,
            socket_factory=_timed_socket,
        )
        if not hasattr(self, "_factory"):
            raise FleethookError(f"aiohttp {aiohttp.__version__} is not supported; install 3.14")
        factory: Any = functools.partial(BoundedProtocol, loop=self._loop)
        self._factory = factory

    async def open(self, request: TargetRequest, seconds: float) -> Connection:
        """A connection to the target, pooled or new, within `seconds`; TimeoutError, and what aiohttp raises."""
        return await self.connect(request, [], _timeout(seconds))

    async def new_connection(self, request: TargetRequest, seconds: float) -> BoundedProtocol:
        """A new connection to the target; a connector through a proxy makes it in its own way."""
        _, protocol = await self._create_direct_connection(request, [], _timeout(seconds))
        assert isinstance(protocol, BoundedProtocol)  # noqa: S101 - the factory makes no other
        return protocol

    async def start_tls(self, protocol: BoundedProtocol, host: str) -> BoundedProtocol:
        """Starts TLS for `host` over a connection that exists already; returns the protocol on top of it."""
        inner: Any = self._factory()
        assert protocol.transport is not None  # noqa: S101 - it is connected
        transport = await self._loop.start_tls(protocol.transport, inner, self._context, server_hostname=host)
        if transport is None:
            raise ConnectionResetError("it was closed")
        inner.connection_made(transport)
        secured: BoundedProtocol = inner
        return secured

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> BoundedProtocol:  # noqa: ARG002, ASYNC109 - as aiohttp has it
        return await self.new_connection(req, timeout.connect)


@functools.lru_cache(maxsize=256)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    """A limit for connecting alone; a request's own deadline is set on its connection."""
    # aiohttp rounds deadlines above `ceil_threshold` up to the next second.
    return aiohttp.ClientTimeout(
        total=None, connect=max(seconds, 0.001), sock_connect=None, ceil_threshold=float("inf")
    )


@functools.lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """The system's trust store, for HTTP/1.1."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _TimedTls(ssl.SSLObject):
    """A TLS connection that notes when its handshake begins."""

    def do_handshake(self) -> None:
        timer = TIMER.get()
        if timer is not None:
            timer.tls_started()
        super().do_handshake()


def _timed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket for an address that is about to be connected to."""
    timer = TIMER.get()
    if timer is not None:
        timer.connect_started()
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
    sock.setblocking(False)
    return sock
