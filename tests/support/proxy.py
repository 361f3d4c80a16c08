"""A proxy between a client and Redis that loses replies, cuts connections and goes silent, on purpose and by count."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bus.wire.scripts import every_script
from tests.support.listening import stop_listening


class Proxy:
    """Forwards to the server at `target_url` (unix:// or redis://); also an async context manager that gives itself.

    It understands RESP2 just enough to know which reply answers which command, so "the second reply to XADD" can be
    lost, and nothing else.
    """

    def __init__(self, target_url: str) -> None:
        self._target = urlsplit(target_url)
        self._folder = Path(tempfile.mkdtemp(prefix="fhp-"))
        self._server: asyncio.Server | None = None
        self._connections: set[_Forwarded] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._swallow: dict[tuple[str, str], int] = {}
        self._away = False
        self.swallowed: list[str] = []
        """What was lost, by the command's name (scripts by theirs)."""
        self.url = f"unix://{self._folder / 'p.sock'}?{self._target.query or 'db=0'}"

    async def start(self) -> str:
        """Listen, and return the URL to connect to."""
        self.loop = asyncio.get_running_loop()
        self._server = await asyncio.start_unix_server(self._connected, self._folder / "p.sock")
        return self.url

    async def stop(self) -> None:
        """Cut everything and remove the socket."""
        self._flowing.set()
        self.away()
        if self._server is not None:
            await stop_listening(self._server)
            await self._server.wait_closed()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def swallow_reply(self, after: int = 0, *, of: str = "") -> None:
        """Lose one reply and cut its connection: the one that follows `after` more replies.

        `of` counts only the replies to one command (`XADD`) or script (`answer`).
        """
        self._swallow["reply", of.upper()] = after

    def swallow_command(self, after: int = 0, *, of: str = "") -> None:
        """Lose one command before the server has it, and cut its connection; counted as replies are."""
        self._swallow["command", of.upper()] = after

    def cut(self) -> None:
        """Cut every connection; new ones are accepted."""
        for one in tuple(self._connections):
            one.cut()

    def away(self) -> None:
        """Cut every connection, and every new one at once, until `back`."""
        self._away = True
        self.cut()

    def back(self) -> None:
        """Accept connections again."""
        self._away = False

    def freeze(self) -> None:
        """Forward nothing in either direction until `thaw`; connections stay open."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Go on where it was frozen: what was written meanwhile arrives now."""
        self._flowing.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = asyncio.current_task()
        assert me is not None
        self._tasks.add(me)
        me.add_done_callback(self._tasks.discard)
        try:
            if self._target.scheme == "unix":
                there = await asyncio.open_unix_connection(self._target.path)
            else:
                there = await asyncio.open_connection(self._target.hostname, self._target.port or 6379)
        except OSError:  # the server is gone
            writer.transport.abort()
            return
        forwarded = _Forwarded(self, writer, there[1])
        self._connections.add(forwarded)
        if self._away:
            forwarded.cut()
        try:
            await forwarded.run(reader, there[0])
        finally:
            self._connections.discard(forwarded)

    async def flowing(self) -> None:
        """Wait while it is frozen."""
        await self._flowing.wait()

    def loses(self, what: str, command: str) -> bool:
        """Whether the command, or the reply to it, that has just arrived is the one to lose."""
        lost = False
        for name in {(what, ""), (what, command)} & set(self._swallow):
            self._swallow[name] -= 1
            if self._swallow[name] < 0:
                del self._swallow[name]
                lost = True
        if lost:
            self.swallowed.append(command)
        return lost


class _Forwarded:
    """One connection with its two directions, and the commands whose replies are still to come."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._asked: deque[str] = deque()

    async def run(self, from_client: asyncio.StreamReader, from_server: asyncio.StreamReader) -> None:
        ways = [asyncio.create_task(self._commands(from_client)), asyncio.create_task(self._replies(from_server))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self.cut()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    def cut(self) -> None:
        self._client.transport.abort()
        self._server.transport.abort()

    async def _commands(self, reader: asyncio.StreamReader) -> None:
        data = b""
        while chunk := await reader.read(1 << 16):
            await self._proxy.flowing()
            data += chunk
            for frame in (frames := _Frames(data)):
                command = _command(frame)
                if self._proxy.loses("command", command):
                    await self._server.drain()
                    return
                self._asked.append(command)
                self._server.write(frame)
            data = frames.rest

    async def _replies(self, reader: asyncio.StreamReader) -> None:
        data = b""
        while chunk := await reader.read(1 << 16):
            await self._proxy.flowing()
            data += chunk
            for frame in (frames := _Frames(data)):
                if self._proxy.loses("reply", self._asked.popleft()):
                    await self._client.drain()
                    return
                self._client.write(frame)
            data = frames.rest


class _Frames:
    """The whole RESP2 values at the beginning of some bytes; `rest` is what was not whole."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def __iter__(self) -> Iterator[bytes]:
        while (end := _end(self.rest, 0)) > 0:
            frame, self.rest = self.rest[:end], self.rest[end:]
            yield frame


def _end(data: bytes, at: int) -> int:
    """Where the value that begins at `at` ends; -1 where it is not whole."""
    line = data.find(b"\r\n", at)
    if line < 0:
        return -1
    kind, head, at = data[at : at + 1], data[at + 1 : line], line + 2
    if kind == b"$":
        end = at + max(0, int(head)) + (2 if int(head) >= 0 else 0)
        return end if end <= len(data) else -1
    for _ in range(int(head) if kind == b"*" else 0):
        at = _end(data, at)
        if at < 0:
            return -1
    return at


def _command(frame: bytes) -> str:
    parts = frame.split(b"\r\n")
    name = parts[2].decode().upper()
    if name == "EVALSHA":
        known = {one.sha: one.name.upper() for one in every_script()}
        return known.get(parts[4].decode(), name)
    return name
