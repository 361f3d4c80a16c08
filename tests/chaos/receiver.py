"""A receiver of webhooks that fails as the seed says, on loopback; it counts every attempt by its webhook-id."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import TracebackType
from typing import Self

from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.listening import stop_listening


class Receiver:
    """Answers `/good` with 204, `/flaky` with 503 at 30 %, `/picky` with 422 for the ids in `refused`, each after `seconds`."""

    def __init__(self, seed: int = 0, *, seconds: float = 0.0, secret: str = "") -> None:
        self._chance, self._seconds = random.Random(seed), seconds
        self._verifier = Webhook(secret) if secret else None
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.refused: set[str] = set()
        self.taken: Counter[str] = Counter()
        """2xx answers by webhook-id."""
        self.attempts: Counter[str] = Counter()
        self.unsigned: list[str] = []
        """What the independent verifier says against a request, where there is a secret."""
        self.port = 0
        self.gate = asyncio.Event()
        """Closed, it holds back every answer."""
        self.gate.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.gate.set()
        await stop_listening(self._server)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                pairs = (line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                headers = {name.lower(): value for name, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self._verify(body, headers)
                status = self._status(head.split(" ", 2)[1], headers.get("webhook-id", ""))
                await self.gate.wait()
                await asyncio.sleep(self._seconds)
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _verify(self, body: bytes, headers: dict[str, str]) -> None:
        if self._verifier is None:
            return
        try:
            self._verifier.verify(body, headers)
        except WebhookVerificationError as error:
            self.unsigned.append(f"{headers}: {error}")

    def _status(self, path: str, name: str) -> int:
        self.attempts[name] += 1
        if path == "/flaky" and self._chance.random() < 0.3:
            return 503
        if path == "/picky" and name.partition("_")[0] in self.refused:
            return 422
        self.taken[name] += 1
        return 204
