"""Connections through a forward proxy: absolute form for http, a tunnel made by CONNECT for https.

They have a pool of their own, one a proxy, so that no direct connection is ever taken for one of these or the other way
round. The policy judges the target before the proxy hears of it; the proxy then connects by a look-up of its own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, Final

import aiohttp
from aiohttp.connector import Connection

from bus.errors import ProxyFailed
from bus.http.address_policy import AddressPolicy, Target
from bus.http.connector import BoundedProtocol, Lookup, Pool, Unvetted, VettedResolver
from bus.http.exchange import Answer, Before, PostRequest, PreparedTarget
from bus.http.proxies import Proxy, authorization, is_named
from bus.http.timings import TIMER

_AUTHENTICATE: Final = 407


class ProxiedTarget(PreparedTarget):
    """Where a URL leads through a proxy; made anew for each request, since the proxy's password may have changed."""

    def __init__(self, target: Target, proxy: Proxy) -> None:
        super().__init__(target.url)
        self.target, self.proxy_name = target, proxy.name
        said = authorization(proxy)
        line = f"Proxy-Authorization: {said}\r\n" if said else ""
        place = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
        self.connect_head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{line}\r\n".encode()
        if not self.is_ssl():
            self.request_line = f"POST {target.url} HTTP/1.1\r\n{line}"

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
        """As of any door; raises ProxyFailed where the proxy itself answered, since it wants a password."""
        answer = await super().ask(session, head, body, seconds=seconds, cap=cap, before=before)
        if answer.status == _AUTHENTICATE and not self.is_ssl():
            answer.close()
            raise _refused(self.proxy_name, "the request", answer.status, answer.reason)
        return answer


class ProxiedPool(Pool):
    """Every connection through one proxy under one address policy."""

    def __init__(self, proxy: Proxy, policy: AddressPolicy, tls: ssl.SSLContext | None, lookup: Lookup) -> None:
        super().__init__(policy, tls, lookup, resolver=Unvetted(lookup))  # it resolves the proxy's name alone
        self._through, self._policy = proxy, policy
        self._vetting = VettedResolver(policy, lookup)
        self._to_proxy = PreparedTarget(f"http://{proxy.name}/")

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:  # noqa: ASYNC109 - as aiohttp has it
        """A connection for a request, whose name was looked up and vetted just now."""
        assert isinstance(req, PostRequest)  # noqa: S101 - the session makes no other
        door = req.post.door
        assert isinstance(door, ProxiedTarget)  # noqa: S101 - the client makes no other for this pool
        vetted = False
        try:
            async with asyncio.timeout(timeout.connect):
                await self._vet(door.target)
                vetted = True
                return await super().connect(req, traces, timeout)
        except TimeoutError:
            if not vetted:
                raise
            raise ProxyFailed(f"{self._through.name}: no connection through it within {timeout.connect:g} s") from None
        except socket.gaierror as error:  # in aiohttp's words, as from its own connector
            raise aiohttp.ClientConnectorDNSError(door.key, error) from error
        except ssl.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(door.key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(door.key, error) from error

    async def _vet(self, target: Target) -> None:
        """Refuse a name with any bad address; one without any here goes to the proxy only where the operator lists it."""
        if target.literal is not None:
            return  # vetted when its URL was read
        try:
            await self._vetting.resolve(target.host, target.port)
        except socket.gaierror as error:
            if not is_named(target, self._policy):
                text = f"{error.strerror or error} (one that only the proxy can resolve has to stand in network.allow)"
                raise socket.gaierror(error.errno, text) from None
            timer = TIMER.get()
            if timer is not None:
                timer.lookup_ended()

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> BoundedProtocol:  # noqa: ASYNC109 - as aiohttp has it
        try:
            transport, line = await self._create_direct_connection(self._to_proxy, traces, timeout)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ProxyFailed(self._through.name) from error
        assert isinstance(line, BoundedProtocol)  # noqa: S101 - the pool's factory makes no other
        if not req.is_ssl():
            return line
        try:
            door = req.post.door
            await self._open_tunnel(line, door)
            made: Any = self._factory()
            inner = await self._loop.start_tls(transport, made, self.tls, server_hostname=door.target.host.rstrip("."))
            if inner is None:
                raise ConnectionResetError("it was closed")
        except BaseException:
            transport.abort()
            raise
        made.connection_made(inner)
        tunnelled: BoundedProtocol = made
        return tunnelled

    async def _open_tunnel(self, line: BoundedProtocol, door: ProxiedTarget) -> None:
        """Ask the proxy for a connection to the target; it is there when this returns."""
        assert line.transport is not None  # noqa: S101 - it was connected just now
        line.set_response_params(read_until_eof=True, auto_decompress=False)
        line.begin(0)
        line.transport.write(door.connect_head)
        try:
            message, _ = await line.read()
            while 100 <= message.code < 200:
                message, _ = await line.read()
        except Exception as error:  # the client says what it was: the proxy hung up, or speaks something else
            raise ProxyFailed(self._through.name) from error
        line.end()
        if not 200 <= message.code < 300:
            raise _refused(self._through.name, "CONNECT", message.code, message.reason)


def _refused(proxy: str, what: str, status: int, reason: str | None) -> ProxyFailed:
    said = f"{status} {(reason or '')[:100]}".rstrip()
    return ProxyFailed(f"{proxy}: it answered {what} with {said}")
