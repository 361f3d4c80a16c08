"""Connections through a forward proxy: requests in absolute form for http, a tunnel by CONNECT for https.

Each proxy has its own connector, so that a direct connection is never used in place of one through a proxy. The policy
judges the target before the proxy gets its name; then the proxy looks the name up itself.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

from bus.errors import ProxyFailed
from bus.http.address_policy import AddressPolicy, Target
from bus.http.connector import BoundedConnector, BoundedProtocol, Connection, TargetRequest
from bus.http.exchange import Before, PreparedTarget, Response
from bus.http.proxies import Proxy, authorization, is_named
from bus.http.resolver import Lookup
from bus.http.timings import TIMER
from bus.http.vetted_resolver import UnvettedResolver, VettedResolver

_PROXY_AUTHENTICATION_REQUIRED: Final = 407


class TunnelledRequest(TargetRequest):
    """The request that identifies a proxy's connections to a target, and that asks the proxy for a tunnel to it."""

    def __init__(self, target: Target, proxy: Proxy) -> None:
        super().__init__(target.url)
        self.target = target
        self.authorization = f"Proxy-Authorization: {value}\r\n" if (value := authorization(proxy)) else ""
        place = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
        self.connect_head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{self.authorization}\r\n".encode()


class ProxiedTarget(PreparedTarget):
    """A URL's target behind a proxy; made anew for each request, since the proxy's password may have changed."""

    def __init__(self, target: Target, proxy: Proxy) -> None:
        request = TunnelledRequest(target, proxy)
        super().__init__(request)
        self._proxy_name, self._is_tunnel = proxy.name, request.is_ssl()
        if not self._is_tunnel:
            self.request_line = f"POST {target.url} HTTP/1.1\r\n{request.authorization}"

    async def post(
        self,
        connector: BoundedConnector,
        head: bytes,
        body: bytes,
        *,
        seconds: float,
        cap: int,
        before: Before | None,
    ) -> Response:
        """As PreparedTarget; raises ProxyFailed if the proxy itself answered because it requires a password."""
        response = await super().post(connector, head, body, seconds=seconds, cap=cap, before=before)
        if response.status == _PROXY_AUTHENTICATION_REQUIRED and not self._is_tunnel:
            response.close()
            raise _refused(self._proxy_name, "the request", response.status, response.reason)
        return response


class ProxyConnector(BoundedConnector):
    """Every connection through one proxy under one address policy."""

    def __init__(self, proxy: Proxy, policy: AddressPolicy, tls: ssl.SSLContext | None, lookup: Lookup) -> None:
        super().__init__(UnvettedResolver(lookup), tls)  # it resolves only the proxy's own name
        self._proxy_name, self._policy = proxy.name, policy
        self._targets = VettedResolver(policy, lookup)
        self._to_proxy = TargetRequest(f"http://{proxy.name}/")

    async def open(self, request: TargetRequest, seconds: float) -> Connection:
        """A connection for a request. The target is looked up and vetted each time. Raises ProxyFailed after `seconds`."""
        assert isinstance(request, TunnelledRequest)  # noqa: S101 - a proxied target has no other
        vetted = False
        try:
            async with asyncio.timeout(seconds):
                await self._vet(request.target)
                vetted = True
                return await super().open(request, seconds)
        except TimeoutError:
            if not vetted:
                raise
            raise ProxyFailed(f"{self._proxy_name}: no connection through it within {seconds:g} s") from None

    async def new_connection(self, request: TargetRequest, seconds: float) -> BoundedProtocol:
        """A new connection to the proxy, with a tunnel through it if the target uses TLS; raises ProxyFailed."""
        assert isinstance(request, TunnelledRequest)  # noqa: S101 - a proxied target has no other
        try:
            protocol = await super().new_connection(self._to_proxy, seconds)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ProxyFailed(self._proxy_name) from error
        if not request.is_ssl():
            return protocol
        try:
            await self._open_tunnel(protocol, request)
            return await self.start_tls(protocol, request.target.host.rstrip("."))
        except BaseException:
            protocol.drop()
            raise

    async def _vet(self, target: Target) -> None:
        """Refuse a name with any bad address. A name without an address here has to be in the allow list."""
        if target.literal is not None:
            return  # vetted when its URL was read
        try:
            await self._targets.resolve(target.host, target.port)
        except socket.gaierror as error:
            if not is_named(target, self._policy):
                text = f"{error.strerror or error} (one that only the proxy can resolve has to be in network.allow)"
                raise socket.gaierror(error.errno, text) from None
            timer = TIMER.get()
            if timer is not None:
                timer.lookup_ended()

    async def _open_tunnel(self, protocol: BoundedProtocol, request: TunnelledRequest) -> None:
        """Ask the proxy for a tunnel to the target, and wait for it."""
        protocol.begin(0)
        try:
            protocol.send(request.connect_head)
            message, _ = await protocol.read_head()
        except Exception as error:  # the client's message gives the cause
            raise ProxyFailed(self._proxy_name) from error
        protocol.end()
        if not 200 <= message.code < 300:
            raise _refused(self._proxy_name, "CONNECT", message.code, message.reason)


def _refused(proxy: str, what: str, status: int, reason: str | None) -> ProxyFailed:
    status_line = f"{status} {(reason or '')[:100]}".rstrip()
    return ProxyFailed(f"{proxy}: it answered {what} with {status_line}")
