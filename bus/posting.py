"""HTTP out: one POST, with everything that the receiver may do to us bounded. The one module that knows aiohttp.

What leaves here goes only to addresses that the policy has vetted: a literal before the request, a name inside the
resolver, so that the connection is made to exactly the addresses that were looked at, with the name in Host and SNI.
A pooled connection is reused for its own name and port only, and was vetted when it was made. No redirect is followed,
no proxy of the environment used, no cookie kept, no body decompressed.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from bus.addresses import AddressPolicy, Target, parse_target, vet
from bus.errors import FleethookError, TargetRefused
from bus.lookups import Lookups
from bus.phases import CLOCK, NO_PHASES, Phases, start_clock

if TYPE_CHECKING:  # importing it takes about 150 ms, which only those who post pay
    import aiohttp
    from aiohttp import AddrInfoType
    from aiohttp.abc import AbstractResolver, AbstractStreamWriter
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace
    from yarl import URL

CAP: Final = 64 * 1024
"""Bytes of a response's body that are read; with more to come the connection is dropped."""

KEEP_ALIVE: Final = 4.0
"""Seconds that an idle connection is kept: less than most servers' own limit (Node and uvicorn: 5 s), since a POST on a
connection that the server is just closing cannot be told from one that it has acted upon."""

AGENT: Final = "Fleethook"

Failure = Literal["", "refused", "dns", "connect", "tls", "timeout", "protocol"]
Lookup = Callable[[str, int], Awaitable[list[str]]]
Before = Callable[[], Awaitable[None]]
"""Is awaited on an open connection, right before the first byte is sent; where it raises, none is sent."""

_REMEMBERED = 1024  # URLs, about as many as a fleet has endpoints


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. It is an answer only where `error` is empty: a status may stand beside a body that broke off."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    """The first bytes, as many as the cap allows, as sent (never decompressed)."""
    ms: float = 0.0
    error: Failure = ""
    detail: str = ""
    """For the operator: the rule that refused, the system's error, or which limit was met."""
    retry_after: str = ""
    """The header of that name, as sent."""
    reason: str = ""
    """What the status line says after the status."""
    phases: Phases = NO_PHASES


class Poster:
    """A pool of connections under one address policy; an async context manager.

    `tls` replaces the system's trust store, `lookup(host, port)` the system's resolver (its answers are vetted too).
    """

    def __init__(
        self, policy: AddressPolicy, *, tls: ssl.SSLContext | None = None, lookup: Lookup | None = None
    ) -> None:
        self._policy, self._tls, self._lookup = policy, tls, lookup
        self._accepted: dict[str, URL] = {}
        self._session: aiohttp.ClientSession | None = None
        self._lookups: Lookups | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def open(self) -> aiohttp.ClientSession:
        """The session, made at the first use; a process that is about to post a lot may call this beforehand."""
        if self._session is None:
            self._lookups = Lookups()
            self._session = _session(self._policy, self._tls, self._lookup or self._lookups)
        return self._session

    async def close(self) -> None:
        """Drop every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._lookups is not None:
            self._lookups.close()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, cap: int = CAP,
        before: Before | None = None,
    ) -> Reply:  # fmt: skip
        """POST `body` and read the answer, all within `seconds`: look-up, connecting, sending and reading.

        Never raises for what the URL says or the receiver does; a FleethookError out of `before` is raised as it is. The
        URL is sent in its canonical spelling.
        """
        clock = start_clock()
        status, got = 0, b""
        found: tuple[tuple[str, str], ...] = ()
        error: Failure = ""
        detail = ""
        response: aiohttp.ClientResponse | None = None
        held = None if before is None else _Held(before)
        try:
            response = await self.open().post(
                self._accept(url),
                data=body if held is None else held.payload(body),
                headers=headers,
                allow_redirects=False,
                timeout=_timeout(seconds),
            )
            clock.answered()
            status, found = response.status, tuple(response.headers.items())
            got = await _read(response, cap)
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever aiohttp raises is sorted, and nothing is let through
            if held is not None and held.refusal is not None:
                raise held.refusal from None
            error, detail = _sort(problem, seconds)
        finally:
            if response is not None:
                response.close()  # drops the connection unless the body was read to its end
        phases = clock.phases()
        if response is None:
            return Reply(ms=phases.total, error=error, detail=detail, phases=phases)
        retry_after = response.headers.get("Retry-After", "")
        return Reply(status, found, got, phases.total, error, detail, retry_after, response.reason or "", phases)

    def _accept(self, url: str) -> URL:
        """The URL to ask for. What is remembered depends on the text and the policy alone; names are vetted later."""
        known = self._accepted.get(url)
        if known is None:
            from yarl import URL  # comes with aiohttp

            target = parse_target(url)
            if target.literal is not None:
                vet(target, [str(target.literal)], self._policy)
            if len(self._accepted) >= _REMEMBERED:
                self._accepted.clear()
            known = self._accepted[url] = URL(target.url, encoded=True)
        return known


class _Held:
    """A question that a body asks before it lets itself be written, and with it the head that is sent along."""

    def __init__(self, before: Before) -> None:
        self._before = before
        self.refusal: FleethookError | None = None

    def payload(self, body: bytes) -> object:
        """The body as aiohttp writes it."""
        made = _held_payload()(body)
        made.held = self
        return made

    async def ask(self) -> None:
        """Raises what `before` raises, and keeps it: aiohttp wraps what comes out of a body."""
        try:
            await self._before()
        except FleethookError as error:
            self.refusal = error
            raise


@lru_cache(maxsize=1)
def _held_payload() -> Any:  # noqa: ANN401 - a class of aiohttp's, whose import is put off
    from aiohttp.payload import BytesPayload

    class HeldPayload(BytesPayload):
        held: _Held

        async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
            await self.held.ask()
            await super().write_with_length(writer, content_length)

    return HeldPayload


def _session(policy: AddressPolicy, tls: ssl.SSLContext | None, lookup: Lookup) -> aiohttp.ClientSession:
    import aiohttp

    context = tls if tls is not None else _tls()
    context.sslobject_class = _TimedTls
    connector = _connector()(
        resolver=_resolver(policy, lookup), use_dns_cache=False, limit=0, keepalive_timeout=KEEP_ALIVE, ssl=context,
        socket_factory=_timed_socket,
    )  # fmt: skip
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False,
        headers={"User-Agent": AGENT, "Accept-Encoding": "identity"}, timeout=_timeout(60.0),
    )  # fmt: skip


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """The system's trust store, for HTTP/1.1."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _TimedTls(ssl.SSLObject):
    """A TLS connection that says when its handshake begins."""

    def do_handshake(self) -> None:
        clock = CLOCK.get()
        if clock is not None:
            clock.shakes()
        super().do_handshake()


def _timed_socket(address: AddrInfoType) -> socket.socket:
    """A socket for an address that is about to be connected to."""
    clock = CLOCK.get()
    if clock is not None:
        clock.dials()
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setblocking(False)
    return made


@lru_cache(maxsize=1)
def _connector() -> type[aiohttp.TCPConnector]:
    import aiohttp

    class Timed(aiohttp.TCPConnector):
        """A connector that says when the request can be sent."""

        async def connect(
            self,
            req: aiohttp.ClientRequest,
            traces: list[Trace],
            timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's
        ) -> Connection:
            connection = await super().connect(req, traces, timeout)
            clock = CLOCK.get()
            if clock is not None:
                clock.connected()
            return connection

    return Timed


def _resolver(policy: AddressPolicy, lookup: Lookup) -> AbstractResolver:
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Vetting(AbstractResolver):
        """Answers with vetted addresses only, and refuses a name with any address that is not allowed."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            clock = CLOCK.get()
            if clock is not None:
                clock.looks_up()
            target = Target(url="", scheme="", host=host, port=port, literal=None)
            found = [
                ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
                for address in vet(target, await lookup(host, port), policy)
            ]
            if clock is not None:
                clock.found()
            return found

        async def close(self) -> None:
            """Nothing is held."""

    return Vetting()


@lru_cache(maxsize=256)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    import aiohttp

    # aiohttp rounds deadlines above `ceil_threshold` up to the next second.
    return aiohttp.ClientTimeout(total=max(seconds, 0.001), ceil_threshold=float("inf"))


async def _read(response: aiohttp.ClientResponse, cap: int) -> bytes:
    """The body's first `cap` bytes; the connection goes back to the pool only if that was all of it."""
    length = response.content_length
    if length is not None and length <= cap:
        return await response.read()
    kept = bytearray()
    while len(kept) <= cap:
        chunk = await response.content.readany()
        if not chunk:
            break
        kept += chunk
    return bytes(kept[:cap])


def _sort(problem: Exception, seconds: float) -> tuple[Failure, str]:
    """The class of an error and a text for the operator; neither the URL's path nor its query is in it."""
    import aiohttp

    if isinstance(problem, TargetRefused):
        return "refused", problem.reason
    if isinstance(problem, TimeoutError):
        return "timeout", f"no complete answer within {seconds:g} s"
    if isinstance(problem, aiohttp.ClientConnectorDNSError | socket.gaierror):
        cause = getattr(problem, "os_error", problem)
        return "dns", f"the name cannot be resolved: {cause.strerror or cause}"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return "tls", f"the certificate is not accepted: {problem.certificate_error}"
    if isinstance(problem, aiohttp.ClientSSLError | ssl.SSLError):
        return "tls", f"no TLS connection: {problem}"
    if isinstance(problem, aiohttp.ServerDisconnectedError | OSError):
        return "connect", _connection_text(problem)
    if isinstance(
        problem, aiohttp.ClientResponseError
    ):  # its own text ends with the whole URL, and a path may be a secret
        return "protocol", f"the answer is no HTTP: {problem.message}"[:500]
    return "protocol", f"{type(problem).__name__}: {problem}"[:500]


_URL: Final = re.compile(r"https?://\S+")


def _connection_text(problem: Exception) -> str:
    if isinstance(problem, OSError):
        said = _URL.sub("the target", str(problem.strerror or problem))  # a path may be a secret
        return f"no connection, or it was lost: {said}"
    return "the connection was closed before an answer came"
