"""One exchange: a POST over one connection, and its response.

The request is written together with its body, without a task for it. Cookies, redirects and environment variables are not
used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bus.http.connector import BoundedConnector, BoundedProtocol, Connection, TargetRequest
from bus.http.timings import TIMER

Before = Callable[[], Awaitable[None]]


class PreparedTarget:
    """A URL's target: the request that identifies its connections, and the first lines of every request to it."""

    def __init__(self, request: TargetRequest) -> None:
        self._request = request
        self.host_line = f"Host: {request.headers['Host']}\r\n"
        self.request_line = f"POST {request.url.raw_path_qs} HTTP/1.1\r\n"

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
        """Send a request and wait for the head of its response, all within `seconds`; the caller reads and closes it.

        Raises aiohttp's errors, TimeoutError, AnswerTooLong, ProxyFailed, and the errors of `before`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        connection = await connector.open(self._request, seconds)
        protocol, timer = connection.protocol, TIMER.get()
        if timer is not None:
            timer.connection_ready()
        assert isinstance(protocol, BoundedProtocol)  # noqa: S101 - the connector makes no other
        protocol.begin(cap)
        response = Response(connection, protocol, loop.call_at(deadline, protocol.time_out))
        try:
            if before is not None:
                await before()
            protocol.send(head + body)
            await response.start()
        except BaseException:
            response.close()
            raise
        if timer is not None:
            timer.response_started()
        return response


class Response:
    """A response: its head, and its body read to a cap."""

    def __init__(self, connection: Connection, protocol: BoundedProtocol, deadline: asyncio.TimerHandle) -> None:
        self._connection: Connection | None = connection
        self._protocol, self._deadline = protocol, deadline
        self._complete = False

    async def start(self) -> None:
        """Wait for the head."""
        message, self._body = await self._protocol.read_head()
        self.status, self.reason, self.headers = message.code, message.reason or "", message.headers

    async def read(self, cap: int) -> bytes:
        """The first `cap` bytes of the body."""
        body = self._body
        if body.is_eof():
            data = body.read_nowait()
            self._complete = len(data) <= cap
            return data[:cap]
        kept = bytearray()
        while len(kept) <= cap:
            chunk = await body.readany()
            if not chunk:
                self._complete = True
                break
            kept += chunk
        return bytes(kept[:cap])

    def close(self) -> None:
        """Return the connection to the pool if the response was read and the request sent completely; else drop it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._deadline.cancel()
        self._protocol.end()
        if self._complete and self._protocol.sent_whole():
            connection.release()
        else:
            self._protocol.drop()
            connection.close()
