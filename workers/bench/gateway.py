"""The gateway: a hook over HTTP compared with the same verdict by Redis plus an empty endpoint; also its hook command."""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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
from workers.bench.gateway_load import load_figures
from workers.bench.request import RULE, process
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.server import bench_connections
from workers.bench.spawning import PAYLOAD, spawned
from workers.gateway.tokens import create_token, revoke_token

BAR: Final = 1.4
_PORT: Final = "FLEETHOOK_GATEWAY_PORT"
_PATH: Final = "/v1/hooks/claude/PreToolUse"
_SHIM: Final = "shim by the gateway's unix socket"
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
    """A rule's verdict over HTTP against an empty endpoint plus the same verdict by Redis; 32 clients; and the hook command.

    Every connection is kept. The port needs a token, the unix socket none.
    """
    keys, connections = Keys("bench"), bench_connections(url)
    await apply(connections, keys, parse_hook_file(RULE, "fleet"))
    secret, _ = await create_token(connections, keys, "bench", ["publish"], by="fleethook bench")
    async with running_gateway(url) as port, process(url, "-m", "workers.cli", "worker", "evaluator"):
        socket_path = directories().gateway_socket
        figures = await _door_figures("unix socket", _UnixConnection(socket_path), {}, connections, rounds, sizes)
        tcp = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        bearer = {"Authorization": f"Bearer {secret}"}
        figures += await _door_figures("TCP with a token", tcp, bearer, connections, rounds, sizes)
        figures += await load_figures(socket_path, _PATH, PAYLOAD, rounds, sizes)
        figures += await _shim_figures(keys, rounds, sizes)
    await revoke_token(connections, keys, "bench")
    await connections.close()
    return figures


async def _door_figures(
    door: str,
    connection: http.client.HTTPConnection,
    headers: Mapping[str, str],
    connections: Connections,
    rounds: int,
    sizes: Sizes,
) -> list[Figure]:
    """Median and p99 through one door."""
    keys = Keys("bench")
    transport, payload = Transport(connections, keys), encode_payload(PAYLOAD)
    entry = ("source", "claude", "event", "PreToolUse", "policy", "allow", "host", host_name(), "body", payload)
    ours: list[float] = []
    theirs: list[float] = []

    async def over_http() -> float:
        took = _times(lambda: _call(connection, "POST", _PATH, PAYLOAD, headers), sizes.requests)
        ours.extend(took)
        return statistics.median(took) * 1e3

    async def by_redis_and_empty() -> float:
        took = []
        for _ in range(sizes.requests):
            start = time.perf_counter()
            await transport.ask(("id", event_id(), *entry), time.monotonic() + 10)
            _call(connection, "GET", "/livez", b"", {})
            took.append(time.perf_counter() - start)
        theirs.extend(took)
        return statistics.median(took) * 1e3

    one, other = await alternate(over_http, by_redis_and_empty, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
    connection.close()
    baseline = "the same by Redis, and an empty endpoint"
    slow = [[sorted(series)[int(len(series) * 0.99)] * 1e3] * rounds for series in (ours, theirs)]
    return [
        figure(f"hook over HTTP, {door}, p50", baseline, "ms", one, other, bar=BAR),
        figure(
            f"hook over HTTP, {door}, p99", baseline, "ms", slow[0], slow[1], bar=BAR, note="of all rounds together"
        ),
    ]


async def _shim_figures(keys: Keys, rounds: int, sizes: Sizes) -> list[Figure]:
    """The hook command by the gateway's unix socket, from spawn to exit; and beside a shell hook that forwards with curl."""
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

        async def by_curl() -> float:
            return await asyncio.to_thread(spawned, _curl(), {})

        one, other = await alternate(ours, theirs, rounds, slices=sizes.processes, warm_ups=sizes.warm_ups)
        figures = [_spawn_figure(one, other)]
        if shutil.which("curl"):
            one, other = await alternate(ours, by_curl, rounds, slices=sizes.processes, warm_ups=sizes.warm_ups)
            figures.append(figure(f"{_SHIM}, beside curl", "a shell hook that forwards with curl", "ms", one, other))
    return figures


def _curl() -> tuple[str, ...]:
    """The hook that a person writes who has no hook command."""
    script = f'exec curl -sS --fail --unix-socket "$0" --data-binary @- http://localhost{_PATH}'
    return ("/bin/sh", "-c", script, str(directories().gateway_socket))


def _spawn_figure(one: Sequence[float], other: Sequence[float]) -> Figure:
    return figure(
        f"{_SHIM}, spawn to exit",
        "python -I -S -c pass",
        "ms",
        one,
        other,
        bar=1.25 + 1.0 / statistics.median(other),
        note="the bar is 1.25 times plus 1 ms",
    )


@asynccontextmanager
async def running_gateway(url: str) -> AsyncIterator[int]:
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


def _times(call: Callable[[], None], count: int) -> Sequence[float]:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return took


def _call(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> None:
    connection.request(method, path, body or None, headers)
    response = connection.getresponse()
    response.read()
    if response.status != 200 or response.getheader("Fleethook-Fallback"):
        raise RuntimeError(f"{method} {path} was answered with {response.status}, or by the failure policy")
