"""Connections that are held to their limits, and that the application can cut.

uvicorn limits neither the number of connections nor the size and time of headers. ASGI has no function that cuts a connection:
after a close the server keeps all unsent data until the client's system ends the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from bus.errors import FleethookError
from workers.gateway.limits import LATE, LOCAL_PEER, Admission
from workers.gateway.live.feed_sender import ABORT, LATENCY
from workers.gateway.problems import TITLES, Problem

_HOOKS: Final = b"/v1/hooks/"
_LINGER_SECONDS: Final = 1.0
"""How long a refused caller may go on to send: closed at once, its system would throw the refusal away unread."""


class _HeadTooLarge(FleethookError):
    """The headers are too large or too many; the parser ends with it."""


class HttpProtocol(HttpToolsProtocol):
    """An HTTP connection within the limits of `admission`."""

    admission: ClassVar[Admission]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._peer = ""
        self._admitted = self._refused = self._in_head = self._between = self._begun = self._upgraded = False
        self._late: Problem | None = None
        """Why its only request will be refused."""
        self._head_bytes = self._parsed_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Admit the connection, or refuse it with a 503."""
        super().connection_made(transport)
        self._peer = _peer(self.client)
        problem = self.admission.enter(self._peer)
        if problem is None:
            self._admitted = True
        elif self.admission.enter_late():
            self._late = problem
        else:
            self._refuse(problem)
            return
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        super().connection_lost(exc)
        self._stop_timers()
        if self._admitted and not self._upgraded:
            self._admitted = False
            self.admission.leave(self._peer)
        if self._late is not None:
            self._late = None
            self.admission.leave_late()

    def data_received(self, data: bytes) -> None:
        """Read what the caller sends; headers only up to their limits."""
        if self._refused or self.transport.is_closing():
            return
        if self._between and not self._in_head:
            self._begin_head()
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_reading_head() and self._head_bytes > self.admission.limits.head_bytes:
            self._refuse(self._too_large())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope[ABORT] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        self._begin_head()
        self._parsed_bytes, self._begun = 0, True

    def on_url(self, url: bytes) -> None:
        """Take a part of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(len(name) + len(value) + 4)
        if len(self.headers) >= self.admission.limits.headers:
            raise _HeadTooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to handle the request. One on a connection too many is an agent's hook, or refused here."""
        self._in_head = False
        self._stop_timer()
        if self._late is not None:
            if not self.url.startswith(_HOOKS) or self.parser.should_upgrade():
                self._refuse(self._late)
                return
            self.scope[LATE] = self._late  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, which counts until the WebSocket ends."""
        self._stop_timers()
        super().handle_websocket_upgrade()
        self._upgraded = True

    def on_message_complete(self) -> None:
        """End a request; one that was answered before its body was complete is followed by the next one only now."""
        super().on_message_complete()
        self._between = True
        if self._has_cycle() and not self._is_at_work():
            self._stop_timer()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Go on with the next request, once the caller has sent the rest of this one's body."""
        unread = not self.pipeline and self.cycle.more_body
        if self._late is not None:
            self.transport.close()
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._stop_timer()
            self._timer = self.loop.call_later(self.admission.limits.body_seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's argument; ours says more
        """Refuse what is no HTTP request, or has too large a head."""
        if self._refused:
            return
        limits = self.admission.limits
        if self._in_head and self._begun and (len(self.headers) >= limits.headers or self._over_bytes()):
            self._refuse(self._too_large())
        else:
            self._refuse(Problem(400, "request-invalid", "this is not an HTTP request that can be read"))

    def pause_writing(self) -> None:
        """Stop writing until the caller takes more; cut it if it does not."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.admission.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _is_reading_head(self) -> bool:
        return self._in_head and not self._refused

    def _has_cycle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's annotation leaves out that there may be none
        return cycle is not None

    def _is_at_work(self) -> bool:
        """Whether the application handles a request now."""
        return self._has_cycle() and not self.cycle.response_complete

    def _count(self, size: int) -> None:
        self._parsed_bytes += size
        if self._over_bytes():
            raise _HeadTooLarge

    def _over_bytes(self) -> bool:
        return self._parsed_bytes > self.admission.limits.head_bytes

    def _begin_head(self) -> None:
        self._in_head, self._between, self._head_bytes = True, False, 0
        self._stop_timer()
        limits = self.admission.limits
        seconds = limits.head_seconds if self._late is None else limits.late_seconds
        self._timer = self.loop.call_later(seconds, self._head_too_slow)

    def _head_too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._late is not None:
            self._refuse(self._late)
        elif self._is_at_work():  # the next request has begun while one is handled
            self._begin_head()
        elif not self._head_bytes and not self._begun:
            self.transport.close()  # it never sent anything, so there is nothing to answer
        else:
            seconds = self.admission.limits.head_seconds
            self._refuse(Problem(408, "headers-slow", f"the headers were not complete after {seconds:g} s"))

    def _too_large(self) -> Problem:
        limits = self.admission.limits
        text = f"request line and headers have at most {limits.head_bytes} bytes and {limits.headers} headers"
        return Problem(431, "headers-too-large", text)

    def _refuse(self, problem: Problem) -> None:
        """Answer with the problem, and end the connection once the caller has had the time to read it.

        What the caller still sends is thrown away.
        """
        self._refused = True
        self._unset_keepalive_if_required()
        self._stop_timers()
        if self._is_at_work():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.abort()
                return
        self.transport.write(_raw(problem))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_timers(self) -> None:
        self._stop_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket, which counts as the connection that it was."""

    admission: ClassVar[Admission]

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        super().connection_lost(exc)
        self.admission.leave(_peer(self.client))

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake. The application runs after this method, so it finds the function in its scope."""
        super().handle_connect(event)
        if not self.transport.is_closing():
            self.scope[ABORT] = self.transport.abort  # type: ignore[typeddict-unknown-key]
            self.scope[LATENCY] = lambda: self.last_ping_rtt  # type: ignore[typeddict-unknown-key]

    async def send(self, message: ASGISendEvent) -> None:
        """Send. A refusal's response ends the handshake here, because uvicorn would log every refusal as an error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def limited(admission: Admission) -> tuple[type[HttpProtocol], type[WebSocketProtocol]]:
    """The protocols of one listening socket, whose connections `admission` counts."""

    class Http(HttpProtocol):
        """An HTTP connection of this socket."""

    class WebSocket(WebSocketProtocol):
        """A WebSocket of this socket."""

    Http.admission = WebSocket.admission = admission
    return Http, WebSocket


def _peer(client: tuple[str, int] | None) -> str:
    return client[0] if client else LOCAL_PEER


def _raw(problem: Problem) -> bytes:
    """A whole HTTP response; the application has not seen the request."""
    response = problem.response()
    head = [f"HTTP/1.1 {problem.status} {TITLES.get(problem.status, 'error')}".encode()]
    head += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*head, b"connection: close", b"", bytes(response.body)])
