"""Receivers of webhooks on loopback for the tests: real servers that answer as they are told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.listening import stop_listening

PEM = Path(__file__).parents[1] / "golden" / "hooks.test.pem"
"""A self-signed certificate for hooks.test with its key, valid until 2126, made with openssl for these tests."""

Serve = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def receiver(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that reads each request whole and lets `serve` answer; yields its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = asyncio.current_task()
        assert me is not None
        tasks.add(me)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await serve(head + await reader.readexactly(length), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # cancelled below; Python 3.11 would report it as an error of the callback
        finally:
            writer.transport.abort()
            tasks.discard(me)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_listening(server)
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def answer(status: str = "200 OK", body: bytes = b"", headers: Sequence[str] = ()) -> Serve:
    """A receiver that always says the same."""

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return serve
