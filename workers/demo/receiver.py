"""The webhook receiver of the demo: a small HTTP server that verifies signatures, and fails a given number of times."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Self

import msgspec

from bus.errors import FleethookError
from bus.http.signing import verify


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request that arrived."""

    path: str
    id: str
    """Its `webhook-id`: the same over all attempts of one delivery."""
    status: int
    """The status of the answer."""
    signed: bool


class DemoReceiver:
    """Listens on 127.0.0.1; an async context manager."""

    def __init__(self, secret: str, *, failures: int) -> None:
        self._secret, self._failures = secret, failures
        self._server: asyncio.Server | None = None
        self.received: list[Received] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def delivered(self, path: str) -> Counter[str]:
        """How often each `webhook-id` was accepted on `path`."""
        return Counter(one.id for one in self.received if one.path == path and one.status < 300)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                line = await reader.readline()
                if not line:
                    break
                headers: dict[str, str] = {}
                while (row := await reader.readline()) not in {b"\r\n", b"\n", b""}:
                    name, _, value = row.decode("latin-1").partition(":")
                    headers[name.strip().lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                status = self._answer(line.split()[1].decode(), headers, body)
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def _answer(self, path: str, headers: dict[str, str], body: bytes) -> int:
        try:
            verify([self._secret], headers, body)
            signed = True
        except FleethookError:
            signed = False
        status = 204 if signed else 401
        if path == "/chat" and self._failures:
            self._failures -= 1
            status = 503
        self.received.append(Received(path=path, id=headers.get("webhook-id", ""), status=status, signed=signed))
        return status
