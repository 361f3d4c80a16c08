"""A small forward proxy on loopback: absolute form and CONNECT, Basic where it is told; every name is this machine to it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.listening import stop_listening


class ForwardProxy:
    """Keeps what it was asked; `login` is the `user:password` that it wants, `answer` what it says instead of working."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.asked: list[str] = []
        """The first line of each request, CONNECT among them."""
        self.heads: list[bytes] = []
        self.login = ""
        self.answer = b""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def place(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    def url(self, userinfo: str = "") -> str:
        """As `network.proxy` names it."""
        return f"http://{userinfo + '@' if userinfo else ''}{self.place}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        me = asyncio.current_task()
        assert me is not None
        self._tasks.add(me)
        self.connections += 1
        try:
            while await self._request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # cancelled by `stop`; Python 3.11 would report it as an error of the callback
        finally:
            writer.transport.abort()
            self._tasks.discard(me)

    async def stop(self) -> None:
        """End every connection."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.asked.append(first)
        self.heads.append(head)
        wanted = f"Proxy-Authorization: Basic {b64encode(self.login.encode()).decode()}"
        if self.answer or (self.login and wanted not in lines):
            writer.write(self.answer or b"HTTP/1.1 407 Who Are You\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return False
        method, url, _ = first.split(" ")
        if method == "CONNECT":
            await self._tunnel(int(url.rpartition(":")[2]), reader, writer)
            return False
        place, slash, path = url.removeprefix("http://").partition("/")
        kept = [line for line in lines if not line.lower().startswith("proxy-")]
        body = await reader.readexactly(_length(lines))
        there = await asyncio.open_connection("127.0.0.1", int(place.rpartition(":")[2]))
        there[1].write("\r\n".join([f"{method} {slash}{path} HTTP/1.1", *kept, "", ""]).encode("latin-1") + body)
        answer = await there[0].readuntil(b"\r\n\r\n")
        answer += await there[0].readexactly(_length(answer.decode("latin-1").split("\r\n")))
        there[1].transport.abort()
        writer.write(answer)
        await writer.drain()
        return True

    async def _tunnel(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        ways = [asyncio.create_task(_pump(reader, there[1])), asyncio.create_task(_pump(there[0], writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there[1].transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


@asynccontextmanager
async def forwarding() -> AsyncIterator[ForwardProxy]:
    """A forward proxy on the test's own loop."""
    one = ForwardProxy()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        await stop_listening(server)
        await one.stop()
        await server.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def _length(lines: list[str]) -> int:
    found = (line.partition(":")[2] for line in lines if line.lower().startswith("content-length:"))
    return int(next(found, "0"))
