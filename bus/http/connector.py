"""HTTP lines: connections that are vetted and timed when they are made, and that take no more than was asked for.

aiohttp makes, pools and parses them; what is ours is the policy under which one is made and the bounds of an answer.
"""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from bus.errors import AnswerTooLong, FleethookError
from bus.http.address_policy import AddressPolicy, Target, vet
from bus.http.timings import TIMER

KEEP_ALIVE: Final = 4.0
"""Seconds that an idle connection is kept: less than most servers' own limit (Node and uvicorn: 5 s), since a POST on a
connection that the server is just closing cannot be told from one that it has acted upon."""

OVERHEAD: Final = 64 * 1024
"""Bytes of an answer that may come beside as many of its body as are read: interim answers, head, chunks, trailers."""

Lookup = Callable[[str, int], Awaitable[list[str]]]


class BoundedProtocol(ResponseHandler):
    """One connection: takes a request's answer, at most so many bytes of it, by a deadline; between requests, nothing."""

    _room = _most = 0
    _cap = 0
    _open = False

    def begin(self, cap: int) -> None:
        """From here on an answer is awaited."""
        self._cap, self._most, self._open = cap, cap + OVERHEAD, True
        self._room = self._most

    def end(self) -> None:
        """The answer is there: whatever comes before the next request was not asked for."""
        self._open = False

    def fail(self, error: Exception) -> None:
        """Whoever waits for the answer, or reads it, gets `error`; not where it is whole already."""
        self.set_exception(error)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)

    def late(self) -> None:
        """The deadline has come."""
        self.fail(TimeoutError())

    def data_received(self, data: bytes) -> None:
        """Called by the transport; what is more than any answer may have is not even looked at."""
        if not self._open:  # the next request would take it for its answer
            self.fail(ConnectionError("it spoke before it was asked"))
            if self.transport is not None:
                self.transport.abort()
            return
        room = self._room = self._room - len(data)
        if room >= 0:
            super().data_received(data)
        elif (left := len(data) + room) > 0:
            super().data_received(data[:left])
            error = AnswerTooLong(f"{self._most >> 10} KiB came, and the answer was not whole")
            if self._payload is None or self._payload.total_bytes <= self._cap:
                self.fail(error)
            else:  # as much of the body as is read; the connection is not to be kept
                self.set_exception(error)


class Pool(aiohttp.TCPConnector):
    """Every connection under one address policy."""

    def __init__(
        self,
        policy: AddressPolicy,
        tls: ssl.SSLContext | None,
        lookup: Lookup,
        *,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self.tls = tls if tls is not None else _tls()
        self.tls.sslobject_class = _TimedTls
        super().__init__(
            resolver=resolver or VettedResolver(policy, lookup),
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=KEEP_ALIVE,
            ssl=self.tls,
            socket_factory=_timed_socket,
        )
        if not hasattr(self, "_factory"):  # aiohttp has no public place for it
            raise FleethookError(f"aiohttp {aiohttp.__version__} makes its connections in another way; install 3.14")
        make: Any = functools.partial(BoundedProtocol, loop=self._loop)
        self._factory = make


class VettedResolver(AbstractResolver):
    """Answers with vetted addresses only, and refuses a name with any address that is not allowed."""

    def __init__(self, policy: AddressPolicy, lookup: Lookup) -> None:
        self._policy, self._lookup = policy, lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`, every one of them allowed; raises TargetRefused and what the look-up raises."""
        timer = TIMER.get()
        if timer is not None:
            timer.lookup_started()
        target = Target(url="", scheme="", host=host, port=port, literal=None)
        found = [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in vet(target, await self._lookup(host, port), self._policy)
        ]
        if timer is not None:
            timer.lookup_ended()
        return found

    async def close(self) -> None:
        """Nothing is held."""


class Unvetted(AbstractResolver):
    """Answers with every address: for the operator's own proxy, which no policy judges."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`; raises what the look-up raises."""
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in await self._lookup(host, port)
        ]

    async def close(self) -> None:
        """Nothing is held."""


@functools.lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """The system's trust store, for HTTP/1.1."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _TimedTls(ssl.SSLObject):
    """A TLS connection that says when its handshake begins."""

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
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setblocking(False)
    return made
