"""The webhook client: one POST, with limits on its time, its response and the addresses that it may reach.

A request goes only to addresses that the policy has vetted. A literal address is vetted before the request, a name
in the resolver: the connection is made to exactly the addresses that were checked, with the name in Host and SNI. A
pooled connection was vetted when it was made, and is reused for its own name and port only. No redirect is followed, no
cookie is kept, no body is decompressed, and no proxy is used but the one that `network.proxy` names.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec

from bus.errors import AnswerTooLong, FleethookError, ProxyFailed, TargetRefused
from bus.http.address_policy import AddressPolicy, parse_target, vet
from bus.http.proxies import NONE, Proxy, proxy_for
from bus.http.resolver import Lookup, Lookups
from bus.http.timings import NO_PHASES, Phases, start_timer

if TYPE_CHECKING:  # they import aiohttp, which takes about 150 ms; it is imported before the first POST
    from bus.http.connector import BoundedConnector
    from bus.http.exchange import PreparedTarget, Response

CAP: Final = 64 * 1024
"""The most bytes of a response's body that are read; if it is longer, the connection is dropped."""

AGENT: Final = "Fleethook"

Failure = Literal["", "refused", "dns", "connect", "tls", "timeout", "protocol", "proxy"]
Before = Callable[[], Awaitable[None]]
"""Awaited on an open connection, right before the first byte is sent; if it raises, nothing is sent."""

_REMEMBERED = 1024  # URLs, about as many as a fleet has endpoints
_DEFAULTS: Final = {
    "accept": "Accept: */*\r\n",
    "accept-encoding": "Accept-Encoding: identity\r\n",
    "user-agent": f"User-Agent: {AGENT}\r\n",
}
_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "expect"})
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # without the line feed that joins the lines to be checked


_NO_HEADERS: Final[tuple[tuple[str, str], ...]] = ()
_NO_FAILURE: Final[tuple[Failure, str]] = ("", "")


class Reply(msgspec.Struct, frozen=True):
    """The result of one POST. It is a response only if `error` is empty: there may be a status and a body that broke off."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    """The first bytes of the body, up to the cap, as sent (never decompressed)."""
    ms: float = 0.0
    error: Failure = ""
    detail: str = ""
    """For the operator: the rule that refused, the system's error, or the limit that was reached."""
    retry_after: str = ""
    """The header of that name, as sent."""
    reason: str = ""
    """The text after the status in the status line."""
    phases: Phases = NO_PHASES


class WebhookClient:
    """Posts to webhooks under one address policy; an async context manager.

    `proxy` is what `network.proxy` says. `tls` replaces the system's trust store, `lookup(host, port)` the system's
    resolver (its answers are vetted too).
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        proxy: str = "",
        tls: ssl.SSLContext | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self._policy, self._proxy, self._tls, self._lookup = policy, proxy, tls, lookup
        self._routes: dict[str, tuple[PreparedTarget, BoundedConnector]] = {}
        self._connectors: dict[Proxy | None, BoundedConnector] = {}
        self._lookups: Lookups | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def open(self) -> BoundedConnector:
        """The direct connections, made at the first use; a process that is about to post a lot may call this first."""
        connector = self._connectors.get(None)
        if connector is None:
            from bus.http.connector import BoundedConnector
            from bus.http.vetted_resolver import VettedResolver

            resolver = VettedResolver(self._policy, self._resolver())
            connector = self._connectors[None] = BoundedConnector(resolver, self._tls)
        return connector

    def _through(self, proxy: Proxy) -> BoundedConnector:
        """The connections through a proxy."""
        connector = self._connectors.get(proxy)
        if connector is None:
            from bus.http.tunnels import ProxyConnector

            connector = self._connectors[proxy] = ProxyConnector(proxy, self._policy, self._tls, self._resolver())
        return connector

    def _resolver(self) -> Lookup:
        if self._lookup is not None:
            return self._lookup
        if self._lookups is None:
            self._lookups = Lookups()
        return self._lookups

    async def close(self) -> None:
        """Drop every connection."""
        connectors, self._connectors = self._connectors, {}
        self._routes.clear()
        for connector in connectors.values():
            await connector.close()
        if self._lookups is not None:
            self._lookups.close()

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        cap: int = CAP,
        before: Before | None = None,
        method: str = "POST",
    ) -> Reply:
        """POST `body` and read the response, all within `seconds`: look-up, connecting, sending and reading.

        `method` is POST, or what a workflow names in its place.

        Failures of the URL or the receiver are in the Reply and are not raised; a FleethookError of `before` is raised. The
        URL is sent in its canonical spelling.
        """
        timer = start_timer()
        status, received, content, reason, retry_after = 0, _NO_HEADERS, b"", "", ""
        error, detail = _NO_FAILURE
        response: Response | None = None
        try:
            target, connector = self._routes.get(url) or self._route(url)
            head = _head(target, headers, len(body), method)
            response = await target.post(connector, head, body, seconds=seconds, cap=cap, before=before)
            status, reason, received = response.status, response.reason, tuple(response.headers.items())
            retry_after = response.headers.get("Retry-After", "")
            content = await response.read(cap)
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # anything that aiohttp raises becomes the reply's error
            if isinstance(problem, FleethookError) and not isinstance(
                problem, TargetRefused | AnswerTooLong | ProxyFailed
            ):
                raise  # it came out of `before`
            error, detail = _classify(problem, seconds)
        finally:
            if response is not None:
                response.close()  # drops the connection unless the body was read to its end
        phases = timer.phases()
        return Reply(status, received, content, phases.total, error, detail, retry_after, reason, phases)

    def _route(self, url: str) -> tuple[PreparedTarget, BoundedConnector]:
        """The target of a URL, and the connector that reaches it; a name is vetted when it is connected to.

        Without a proxy it depends on the URL's text and the policy alone, and is remembered. A proxy depends on variables
        and files too, which may change.
        """
        target = parse_target(url)
        if target.literal is not None:
            vet(target, [str(target.literal)], self._policy)
        proxy = proxy_for(self._proxy, target)
        if proxy is not None:
            from bus.http.tunnels import ProxiedTarget

            return ProxiedTarget(target, proxy), self._through(proxy)
        connector = self.open()
        from bus.http.connector import TargetRequest
        from bus.http.exchange import PreparedTarget

        route = PreparedTarget(TargetRequest(target.url)), connector
        if self._proxy in ("", NONE):
            if len(self._routes) >= _REMEMBERED:
                self._routes.clear()
            self._routes[url] = route
        return route


def _head(target: PreparedTarget, headers: Mapping[str, str], length: int, method: str = "POST") -> bytes:
    """The head of a request; ValueError for a header that is not one line."""
    lines = "\n".join([f"{name}: {value}" for name, value in headers.items()])
    if lines.count("\n") != max(len(headers) - 1, 0) or _CONTROL.search(lines):
        raise ValueError("a header holds a control character")
    defaults, has_framing, has_host = _defaults_for(tuple(headers))
    if has_framing:
        lines = "\n".join([f"{name}: {value}" for name, value in headers.items() if name.lower() not in _FRAMING])
    written = lines.replace("\n", "\r\n") + "\r\n" if lines else ""
    first = target.request_line if has_host else target.request_line + target.host_line
    if method != "POST":
        first = method + first.removeprefix("POST")
    return f"{first}{defaults}{written}Content-Length: {length}\r\n\r\n".encode()


@lru_cache(maxsize=1024)
def _defaults_for(names: tuple[str, ...]) -> tuple[str, bool, bool]:
    """The default header lines to add to headers of these names; whether framing headers are dropped; whether Host is set."""
    if not all(_TOKEN.fullmatch(name) for name in names):
        raise ValueError("a header's name holds a character that is not allowed")
    folded = {name.lower() for name in names}
    defaults = "".join(line for name, line in _DEFAULTS.items() if name not in folded)
    return defaults, not _FRAMING.isdisjoint(folded), "host" in folded


def _classify(problem: Exception, seconds: float) -> tuple[Failure, str]:
    """The kind of a failure and a text for the operator, without the URL's path and query."""
    import aiohttp

    from bus.http.connector import HttpProcessingError

    if isinstance(problem, TargetRefused):
        return "refused", problem.reason
    if isinstance(problem, ProxyFailed):
        cause = problem.__cause__
        why = _classify(cause, seconds)[1] if isinstance(cause, Exception) else ""
        return "proxy", f"{problem.reason}: {why}" if why else problem.reason
    if isinstance(problem, TimeoutError):
        return "timeout", f"no complete answer within {seconds:g} s"
    if isinstance(problem, aiohttp.ClientConnectorDNSError | socket.gaierror):
        cause = getattr(problem, "os_error", problem)
        return "dns", f"the name cannot be resolved: {cause.strerror or cause}"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return "tls", f"the certificate is not accepted: {getattr(problem, 'certificate_error', problem)}"
    if isinstance(problem, aiohttp.ClientSSLError | ssl.SSLError):
        return "tls", f"no TLS connection: {problem}"
    if isinstance(problem, aiohttp.ServerDisconnectedError | OSError):
        return "connect", _connection_text(problem)
    if isinstance(problem, AnswerTooLong):
        return "protocol", f"the answer is too long: {problem}"
    if isinstance(problem, HttpProcessingError):
        return "protocol", f"the answer is no HTTP: {problem.message}"[:500]
    return "protocol", f"{type(problem).__name__}: {problem}"[:500]


_URL: Final = re.compile(r"https?://\S+")


def _connection_text(problem: Exception) -> str:
    if isinstance(problem, OSError):
        reason = _URL.sub("the target", str(problem.strerror or problem))  # a path may be a secret
        return f"no connection, or it was lost: {reason}"
    return "the connection was closed before an answer came"
