"""A receiver of webhooks on loopback: keeps what it gets, and fails, waits and answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.support.http_servers import receiver as listening


class Got(NamedTuple):
    """One request; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """Its webhook-id."""
        return self.headers.get("webhook-id", "")

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


class Answer(NamedTuple):
    """What is said to a request."""

    status: int = 200
    body: bytes = b""
    headers: Sequence[str] = ()


class Receiver:
    """Answers `usual`, after what lies in `next_answers`; `hold` keeps every answer back until `release`."""

    def __init__(self) -> None:
        self.port = 0
        self.got: list[Got] = []
        self.usual = Answer()
        self.next_answers: deque[Answer] = deque()
        self.by_path: dict[str, Answer] = {}
        self.in_flight: Counter[str] = Counter()
        self.most_in_flight: Counter[str] = Counter()
        """By path."""
        self._gate = asyncio.Event()
        self._gate.set()
        self._loop = asyncio.get_running_loop()

    def url(self, path: str = "/") -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}{path}"

    def fail(self, times: int, status: int = 503, headers: Sequence[str] = ()) -> None:
        """Answer the next requests with `status`."""
        self.next_answers.extend([Answer(status, b"busy", headers)] * times)

    def hold(self) -> None:
        """Take requests and answer none of them."""
        self._loop.call_soon_threadsafe(self._gate.clear)

    def release(self) -> None:
        """Answer all that were held."""
        self._loop.call_soon_threadsafe(self._gate.set)

    @property
    def ids(self) -> Counter[str]:
        """How often each webhook-id came."""
        return Counter(one.id for one in self.got)

    async def serve(self, request: bytes, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        path = first.split(" ")[1]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self.got.append(Got(path, headers, body))
        self.in_flight[path] += 1
        self.most_in_flight[path] = max(self.in_flight[path], self.most_in_flight[path])
        answer = self.next_answers.popleft() if self.next_answers else self.by_path.get(path, self.usual)
        try:
            await self._gate.wait()
        finally:
            self.in_flight[path] -= 1
        lines = [f"HTTP/1.1 {answer.status} X", f"Content-Length: {len(answer.body)}", *answer.headers, "", ""]
        writer.write("\r\n".join(lines).encode() + answer.body)
        await writer.drain()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on the test's own loop."""
    one = Receiver()
    async with listening(one.serve) as one.port:
        try:
            yield one
        finally:
            one.release()
