"""Requests: `Bus.request` against a bare asyncio redis-py loop of XADD, XREADGROUP, LPUSH, BLPOP."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bus.client import Bus, SyncBus
from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import POLL_SECONDS
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from workers.bench.bare import ask, bare_client
from workers.bench.placing import Places, on_one_core, server_pid
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.server import bench_bus, bench_connections

IN_FLIGHT = 32
PATIENCE = 60.0
"""The most seconds until a hook set with 10,000 hooks is in force."""

RULE = """
hooks:
  - id: no-disks
    on: tool:pre_execute:bash
    rule: {command: ['mkfs\\.'], decision: deny, reason: no new file systems}
"""


def event(command: str = "ls -la") -> Event:
    """An event of about 1 KB."""
    return Event(
        type="tool:pre_execute",
        source="generic",
        session="bench",
        cwd="/srv",
        tool="bash",
        input={"command": command, "description": "d" * 700},
    )


def others(count: int) -> str:
    """Hooks that do not match the event: for other tools and types, each with a different pattern."""
    rule = "rule: {decision: deny, reason: no}"
    types = ("tool:pre_execute", "tool:post_execute")
    lines = [f"  - {{id: other-{n}, on: '{types[n % 2]}:tool{n}', {rule}}}" for n in range(count)]
    return RULE + "\n".join(lines) + "\n"


@asynccontextmanager
async def process(url: str, *argv: str, namespace: str = "bench", at_once: bool = False) -> AsyncIterator[int]:
    """Start a process that prints a line when it is ready, yield its pid, and end it after the block; `at_once` kills it."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        env={**os.environ, "FLEETHOOK_REDIS_URL": url, "FLEETHOOK_NAMESPACE": namespace},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert child.stdout is not None  # noqa: S101 - it was asked for
    try:
        while (line := await child.stdout.readline()).split()[-1:] != [b"ready"]:
            if not line:
                raise FleethookError(f"{' '.join(argv)} ended before it was ready")
        yield child.pid
    finally:
        if child.returncode is None:
            child.kill() if at_once else child.terminate()
        await child.communicate()


async def request_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Latency, throughput, the synchronous client, and 10,000 other hooks, each against its baseline."""
    keys, connections = Keys("bench"), bench_connections(url)
    await apply(connections, keys, parse_hook_file(RULE, "fleet"))
    bare, bus, sync = bare_client(url), bench_bus(url, "bench"), None
    body, sent = b"b" * 1024, event()
    figures: list[Figure] = []

    async def ours() -> float:
        return await latency(lambda: bus.request(sent), sizes.requests)

    async def theirs() -> float:
        return await latency(lambda: ask(bare, "bench:bare", "bench:reply", body), sizes.requests)

    async def ours_many() -> float:
        return await _throughput(lambda _: bus.request(sent), sizes.many)

    async def theirs_many() -> float:
        return await _throughput(lambda n: ask(bare, "bench:bare", f"bench:reply{n}", body), sizes.many)

    evaluator = ("-m", "workers.cli", "worker", "evaluator")
    async with (
        process(url, *evaluator) as answering,
        process(url, "-m", "workers.bench.bare", "bench:bare") as responding,
    ):
        server = await server_pid(url)
        places = Places(server, (answering, responding))
        one, other = await alternate(ours, theirs, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
        figures.append(
            figure(
                "request p50",
                "bare XADD, XREADGROUP, LPUSH, BLPOP",
                "us",
                one,
                other,
                bar=1.4,
                note="placed by the scheduler, anew every second",
            )
        )
        for way in places.ways:
            places.put(way)
            one, other = await alternate(ours, theirs, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
            figures.append(
                figure(
                    f"request p50, {way}",
                    "the same bare loop, on the same cores",
                    "us",
                    one,
                    other,
                    note="beside it: the effect of the placement",
                )
            )
        places.free()
        many, other_many = await alternate(ours_many, theirs_many, rounds, warm_ups=sizes.warm_ups)
        figures.append(
            figure(
                f"request, {IN_FLIGHT} in flight",
                "the same bare loop",
                "/s",
                many,
                other_many,
                bar=0.6,
                sense="at least",
            )
        )
        sync = bench_bus(url, "bench")

        async def ours_sync() -> float:
            return await asyncio.to_thread(_sync_latency, sync, sent, sizes.requests)

        faced, other_sync = await alternate(ours_sync, theirs, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
        figures.append(
            figure("request p50, synchronous client", "the same bare loop", "us", faced, other_sync, bar=2.5)
        )
        few: list[float] = []
        full: list[float] = []
        sets = [parse_hook_file(text, "fleet") for text in (RULE, others(sizes.hooks))]
        for _ in range(rounds):
            for file, series in zip(sets, (few, full), strict=True):
                await put_in_force(bus, await apply(connections, keys, file))
                await ours()
                with on_one_core(server, answering):
                    series.append(statistics.median([await ours() for _ in range(sizes.slices)]))
        figures.append(
            figure(
                f"request p50, {sizes.hooks:,} other hooks",
                "the same with one hook",
                "us",
                full,
                few,
                bar=1.1,
                note="all on one core",
            )
        )
    await bus.close()
    await bare.aclose()
    await connections.close()
    return figures


async def put_in_force(bus: Bus, version: int) -> None:
    """Return when verdicts name this version of the fleet's hooks."""
    until = time.monotonic() + PATIENCE
    while f"fleet@{version}" not in (await bus.request(event())).version.split():
        if time.monotonic() > until:
            raise FleethookError(f"no verdict names version {version} of the hooks within {PATIENCE:g} s")
        await asyncio.sleep(POLL_SECONDS / 10)


async def latency(once: Callable[[], Awaitable[object]], count: int) -> float:
    """The median of so many calls, in microseconds."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        await once()
        took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e6


def _sync_latency(bus: Bus, sent: Event, count: int) -> float:
    took = []
    with SyncBus(bus) as face:
        for _ in range(count):
            start = time.perf_counter()
            face.request(sent)
            took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e6


async def _throughput(once: Callable[[int], Awaitable[object]], count: int) -> float:
    async def one(lane: int) -> None:
        for _ in range(count // IN_FLIGHT):
            await once(lane)

    start = time.perf_counter()
    await asyncio.gather(*(one(lane) for lane in range(IN_FLIGHT)))
    return count / (time.perf_counter() - start)
