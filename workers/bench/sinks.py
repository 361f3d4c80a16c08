"""The receivers of the benchmark: healthy ones that record when a delivery arrived, and every kind of failing one."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

Kind = Literal["silent", "dripping", "resetting", "refused", "no TLS", "no name", "429"]
KINDS: Final[tuple[Kind, ...]] = ("silent", "dripping", "resetting", "refused", "no TLS", "no name", "429")
"""In this order: never answers; answers a byte at a time; resets; does not listen; has no TLS; its name server is silent;
answers 429."""

_PER_CONNECTION: Final = 10
"""A healthy receiver with a name closes a connection after this many answers, so that its name is resolved again."""

_MARK: Final = re.compile(rb"mark-(\d+)-")


class Sinks:
    """Receivers on one port, one for each path; a port without a listener; and a name server."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        self.took: dict[int, float] = {}
        """Milliseconds from sending to arrival, by mark."""
        self.more = asyncio.Event()
        """Set at each arrival."""
        self.port = self.closed_port = self.names_port = 0

    def url(self, kind: Kind | Literal["healthy", "named"], number: int) -> str:
        """The URL of an endpoint by its number and kind; a `named` one is healthy, and its name has to be resolved."""
        path = f"{kind.replace(' ', '-')}/{number}"
        match kind:
            case "refused":
                return f"http://127.0.0.1:{self.closed_port}/{path}"
            case "no TLS":
                return f"https://127.0.0.1:{self.port}/{path}"
            case "no name":
                return f"http://e{number}.silent.test:{self.port}/{path}"
            case "named":
                return f"http://e{number}.healthy.test:{self.port}/{path}"
        return f"http://127.0.0.1:{self.port}/{path}"

    def arrived(self, body: bytes) -> None:
        """Record that a healthy receiver has a whole delivery; only its first arrival counts."""
        found = _MARK.search(body)
        mark = int(found[1]) if found else -1
        if mark in self.sent and mark not in self.took:
            self.took[mark] = (time.perf_counter() - self.sent[mark]) * 1000
            self.more.set()

    def begin(self) -> None:
        """Delete the results of the run before."""
        self.sent.clear()
        self.took.clear()

    async def all_came(self, seconds: float) -> bool:
        """Wait until all deliveries to healthy receivers have arrived; False if they have not after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while len(self.took) < len(self.sent):
                    self.more.clear()
                    await self.more.wait()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def open_sink() -> AsyncIterator[Sinks]:
    """Run the receivers on loopback while the block lasts."""
    sink, loop = Sinks(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(sink), "127.0.0.1", 0)
    names, _ = await loop.create_datagram_endpoint(_Names, local_addr=("127.0.0.1", 0))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound without listening, so that no other program listens there meanwhile
        sink.port, sink.closed_port = server.sockets[0].getsockname()[1], closed.getsockname()[1]
        sink.names_port = names.get_extra_info("sockname")[1]
        try:
            yield sink
        finally:
            names.close()
            server.close()


class _Names(asyncio.DatagramProtocol):
    """A name server that answers for `*.healthy.test` with this machine, and does not answer for other names."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if b"\x07healthy\x04test" in data:
            # RFC 1035: the question again, and one A record that points to its name.
            head = data[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"
            answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04" + socket.inet_aton("127.0.0.1")
            self._transport.sendto(head + data[12:] + answer, addr)


class _Connection(asyncio.Protocol):
    def __init__(self, sink: Sinks) -> None:
        self._sink, self._buffer, self._answered = sink, b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream has no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"\x16"):  # a TLS handshake
            self._transport.write(b"HTTP/1.1 400 This is no TLS\r\n\r\n")
            self._transport.close()
            return
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            self._answer(head.split(b" ", 2)[1].split(b"/")[1], rest[:length])

    def _answer(self, kind: bytes, body: bytes) -> None:
        match kind:
            case b"silent":
                return
            case b"dripping":
                self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                self._drip()
            case b"resetting":
                peer = self._transport.get_extra_info("socket")
                peer.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )  # sends a reset and no end
                self._transport.abort()
            case b"429":
                self._transport.write(b"HTTP/1.1 429 No\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n")
            case _:
                self._sink.arrived(body)
                self._answered += 1
                closes = kind == b"named" and self._answered == _PER_CONNECTION
                more = b"connection: close\r\n" if closes else b""
                self._transport.write(b"HTTP/1.1 200 OK\r\n" + more + b"content-length: 0\r\n\r\n")
                if closes:
                    self._transport.close()

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"x")
            asyncio.get_running_loop().call_later(0.2, self._drip)
