"""How much three agents that send very slow lines delay four others that send `rm -rf /`, compared with a run without them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from bus.client import Bus
from bus.errors import FleethookError
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from workers.bench.request import event, process
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.server import bench_bus, bench_connections

MOST_MS: Final = 100.0
"""The limit for the 99th percentile of the other agents, in milliseconds."""

_NAMESPACE: Final = "bench-heavy"
_OTHERS: Final = 4
_SLOW: Final = (
    "rm -f" + " b{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" * 700,
    "rm x; " + "a|" * 30_000 + "a",
    "rm x; f0(){ a; a; };" + "".join(f"f{n}(){{ f{n - 1}; f{n - 1}; }};" for n in range(1, 40)) + "f39",
)
"""Nested braces, a line that takes the parser a minute, and functions that call each other twice."""


async def heavy_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The latency and denials of the other agents, with and without the slow lines."""
    keys, connections = Keys(_NAMESPACE), bench_connections(url)
    await apply(connections, keys, parse_hook_file("guards: {destructive-commands: true}", "fleet"))
    bus = bench_bus(url, _NAMESPACE)
    beside: list[float] = []
    alone: list[float] = []
    denied: list[float] = []
    try:
        async with process(url, "-m", "workers.cli", "worker", "evaluator", namespace=_NAMESPACE):
            for _ in range(max(1, rounds // 2)):
                p99, share = await _others(bus, sizes.requests)
                alone.append(p99)
                async with _slow_agents(bus):
                    p99, flooded = await _others(bus, sizes.requests)
                beside.append(p99)
                denied.append(min(share, flooded))
    finally:
        await bus.close()
        await connections.close()
    return [
        figure(
            "rm -rf / beside 3 agents' slowest lines, p99",
            f"{MOST_MS:g} ms",
            "ms",
            beside,
            [MOST_MS],
            bar=1.0,
            note=f"without them {statistics.median(alone):.1f} ms in the same run",
        ),
        figure(
            "rm -rf / denied beside 3 agents' slowest lines", "all", "share", denied, [1.0], bar=1.0, sense="at least"
        ),
    ]


async def _others(bus: Bus, count: int) -> tuple[float, float]:
    """Let four agents ask `count` times each; returns the 99th percentile in milliseconds, and the share of denials."""
    took: list[float] = []
    denied = 0

    async def ask(agent: int) -> None:
        nonlocal denied
        for number in range(count):
            asked = msgspec.structs.replace(event(f"ls {agent}.{number}; rm -rf /"), session=f"other-{agent}")
            start = time.perf_counter()
            verdict = await bus.request(asked)
            took.append((time.perf_counter() - start) * 1000)
            denied += verdict.decision == "deny"

    await asyncio.gather(*(ask(agent) for agent in range(_OTHERS)))
    return sorted(took)[int(len(took) * 0.99)], denied / len(took)


@asynccontextmanager
async def _slow_agents(bus: Bus) -> AsyncIterator[None]:
    """While this context lasts, three agents send slow lines, each line after the verdict on the line before."""
    numbers = itertools.count()
    answered = asyncio.Event()

    async def flood(agent: int, line: str) -> None:
        while True:
            slow = msgspec.structs.replace(event(f"{line}; echo {next(numbers)}"), session=f"slow-{agent}")
            if (await bus.request(slow)).decision != "deny":
                raise FleethookError("a slow line that names rm was not denied")
            answered.set()

    tasks = [asyncio.create_task(flood(agent, line)) for agent, line in enumerate(_SLOW)]
    try:
        await answered.wait()  # the processes that check them have started
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
