"""The gateway: a hook over HTTP against the same verdict by Redis plus an empty endpoint; the hook command by its socket."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id, host_name
from bus.shim.answer_file import (
    AnswerFile,
    EventLine,
    compile_shim,
    gateway_from_url,
    hook_command,
    write_answer_file,
)
from bus.system.directories import directories
from bus.transport import Transport
from bus.wire.codec import encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.bench.request import RULE, process
from workers.bench.rounds import Figure, Measure, Sizes, alternate, figure
from workers.bench.spawning import PAYLOAD, spawned

BAR: Final = 1.4
_PORT: Final = "FLEETHOOK_GATEWAY_PORT"
_PATH: Final = "/v1/hooks/claude/PreToolUse"
_EMPTY: Final = (sys.executable, "-I", "-S", "-c", "pass")


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


async def gateway_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """A rule's verdict over the unix socket, kept alive, against an empty endpoint plus the same verdict by Redis; and the hook
    command by the unix socket against an empty interpreter."""
    keys, connections = Keys("bench"), Connections(url)
    await apply(connections, keys, parse_hook_file(RULE, "fleet"))
    transport, payload = Transport(connections, keys), encode_payload(PAYLOAD)
    entry = ("source", "claude", "event", "PreToolUse", "policy", "allow", "host", host_name(), "body", payload)
    async with _gateway(url), process(url, "-m", "workers.cli", "worker", "evaluator"):
        unix = _UnixConnection(directories().gateway_socket)

        async def by_redis_and_empty() -> float:
            took = []
            for _ in range(sizes.requests):
                start = time.perf_counter()
                await transport.ask(("id", event_id(), *entry), time.monotonic() + 10)
                _call(unix, "GET", "/livez", b"")
                took.append(time.perf_counter() - start)
            return statistics.median(took) * 1e3

        over_unix = _median(lambda: _call(unix, "POST", _PATH, PAYLOAD), sizes.requests)
        one, other = await alternate(
            over_unix, by_redis_and_empty, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups
        )
        baseline = "the same by Redis, and an empty endpoint"
        figures = [figure("hook over HTTP, unix socket, p50", baseline, "ms", one, other, bar=BAR)]
        figures.append(await _shim_figure(keys, rounds, sizes))
    await connections.close()
    return figures


async def _shim_figure(keys: Keys, rounds: int, sizes: Sizes) -> Figure:
    """The hook command from spawn to exit, by the gateway's unix socket."""
    compile_shim()
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder, "claude.answers")
        contents = AnswerFile(
            agent="claude",
            server=gateway_from_url(f"unix://{directories().gateway_socket}", ""),
            prefix=keys.prefix,
            host=host_name(),
            spool=str(Path(folder, "spool")),
            events=(EventLine(name="PreToolUse"),),
        )
        write_answer_file(answers, contents)
        shim = hook_command(sys.executable, "claude", "PreToolUse", answers)

        async def ours() -> float:
            return await asyncio.to_thread(spawned, shim, {})

        async def theirs() -> float:
            return await asyncio.to_thread(spawned, _EMPTY, {})

        one, other = await alternate(ours, theirs, rounds, slices=sizes.processes, warm_ups=sizes.warm_ups)
    return figure(
        "shim by the gateway's unix socket, spawn to exit",
        "python -I -S -c pass",
        "ms",
        one,
        other,
        bar=1.25 + 1.0 / statistics.median(other),
        note="the bar is 1.25 times plus 1 ms",
    )


@asynccontextmanager
async def _gateway(url: str) -> AsyncIterator[int]:
    """A gateway on a free port, which it yields."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
    before = os.environ.get(_PORT)
    os.environ[_PORT] = str(port)
    try:
        async with process(url, "-m", "workers.cli", "worker", "gateway"):
            yield port
    finally:
        if before is None:
            del os.environ[_PORT]
        else:
            os.environ[_PORT] = before


def _median(call: Callable[[], None], count: int) -> Measure:
    """The median of so many calls, in milliseconds."""

    async def measure() -> float:
        return statistics.median(_times(call, count)) * 1e3

    return measure


def _times(call: Callable[[], None], count: int) -> Sequence[float]:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return took


def _call(connection: http.client.HTTPConnection, method: str, path: str, body: bytes) -> None:
    connection.request(method, path, body or None)
    response = connection.getresponse()
    response.read()
    if response.status != 200 or response.getheader("Fleethook-Fallback"):
        raise RuntimeError(f"{method} {path} was answered with {response.status}, or by the failure policy")
