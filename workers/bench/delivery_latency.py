"""Deliveries at a steady pace: the time from publishing to the receiver, compared with a bare loop."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.http.signing import generate_secret
from bus.wire.keys import Keys
from workers.bench.bare import GROUP, bare_client
from workers.bench.placing import on_one_core, server_pid
from workers.bench.request import process
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.server import bench_bus, bench_connections
from workers.bench.sinks import Sinks, open_sink

PER_SECOND: Final = 500
ENDPOINTS: Final = 10
PROMISED: Final = 20.0
"""The promised 95th percentile in milliseconds, for rounds in which the bare loop's is under `QUIET`."""

QUIET: Final = 2.0
_GRACE: Final = 1.0
"""Seconds after the last event that a delivery may take to count as carried in time."""

_PATIENCE: Final = 60.0
_CONNECTIONS: Final = 16

Send = Callable[[int, int], Awaitable[object]]
"""Publishes one event, by its mark and the number of its endpoint."""


class PaceResult(NamedTuple):
    """The result of one run at a steady pace."""

    took: list[float]
    """Milliseconds from publishing to the receiver, sorted, of the deliveries that arrived in time."""
    share: float
    """The share of the healthy endpoints' events that arrived in time."""

    def at(self, share: float) -> float:
        """A percentile in milliseconds."""
        return self.took[min(len(self.took) - 1, int(len(self.took) * share))] if self.took else _PATIENCE * 1000


async def latency_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The time from publish to receiver at a steady pace on one core, compared with bare XADD, XREADGROUP, POST, XACK."""
    ours: list[PaceResult] = []
    bare: list[PaceResult] = []
    with on_one_core(await server_pid(url)):
        async with open_sink() as sink, AsyncExitStack() as stack:
            send_ours = await stack.enter_async_context(
                delivering(
                    url, sink, "bench-pace", [sink.url("healthy", n) for n in range(ENDPOINTS)], range(ENDPOINTS)
                )
            )
            send_bare = await stack.enter_async_context(_bare(url, sink))
            for turn in range(rounds + sizes.warm_ups):
                for send, series in ((send_ours, ours), (send_bare, bare)):
                    paced = await pace(sink, send, sizes.paced, range(ENDPOINTS))
                    if turn >= sizes.warm_ups:
                        series.append(paced)
    note = f"{PER_SECOND} events a second, one delivery each; everything on one core"
    figures = [
        figure(
            f"publish to receiver, p{share * 100:.0f}",
            "bare XADD, XREADGROUP, POST, XACK",
            "ms",
            [one.at(share) for one in ours],
            [one.at(share) for one in bare],
            note=note,
        )
        for share in (0.5, 0.95, 0.99)
    ]
    quiet = [mine.at(0.95) for mine, other in zip(ours, bare, strict=True) if other.at(0.95) < QUIET]
    figures.append(
        figure(
            "publish to receiver, p95 promised",
            f"{PROMISED:g} ms wherever the bare loop's p95 is under {QUIET:g} ms",
            "ms",
            quiet or [one.at(0.95) for one in ours],
            [PROMISED],
            bar=1.0 if quiet else None,
            note=f"{len(quiet)} of {len(ours)} rounds had a bare loop that fast",
        )
    )
    return figures


async def pace(sink: Sinks, send: Send, count: int, healthy: Sequence[int]) -> PaceResult:
    """Publish `count` events at the pace, to each endpoint in turn, and wait a little for the last deliveries."""
    sink.begin()
    start = time.perf_counter()
    sending: set[asyncio.Future[object]] = set()
    for mark in range(count):
        late = start + mark / PER_SECOND - time.perf_counter()
        if late > 0:
            await asyncio.sleep(late)
        lane = mark % ENDPOINTS
        if lane in healthy:
            sink.sent[mark] = time.perf_counter()
        sent = asyncio.ensure_future(send(mark, lane))
        sending.add(sent)
        sent.add_done_callback(sending.discard)  # one `gather` of thousands would block the receivers for 40 ms
    await asyncio.gather(*sending)
    await sink.all_came(_GRACE)
    return PaceResult(sorted(sink.took.values()), len(sink.took) / len(sink.sent))


@asynccontextmanager
async def delivering(
    url: str, sink: Sinks, namespace: str, urls: Sequence[str], healthy: Sequence[int]
) -> AsyncIterator[Send]:
    """Start a dispatcher and a carrier with an endpoint at each of `urls`; once the healthy ones answer, yields a Publish."""
    keys, connections, secret = Keys(namespace), bench_connections(url), generate_secret()
    lines = "\n".join(
        f"  - {{id: e{n}, events: ['bench:e{n}'], secret: '{secret}', url: '{one}'}}" for n, one in enumerate(urls)
    )
    allow = f"network: {{allow: ['127.0.0.1:{sink.port}', '127.0.0.1:{sink.closed_port}']}}"
    await apply(connections, keys, parse_hook_file(f"{allow}\nendpoints:\n{lines}\n", "fleet"))
    carrier = ("-m", "workers.bench.naming", str(sink.names_port), "worker", "carrier")
    try:
        async with (
            process(url, "-m", "workers.cli", "worker", "dispatcher", namespace=namespace),
            process(
                url, *carrier, namespace=namespace, at_once=True
            ),  # a clean end would wait for the silent receivers
            bench_bus(url, namespace) as bus,
        ):

            def send(mark: int, lane: int) -> Awaitable[object]:
                return bus.publish(
                    Event(type=f"bench:e{lane}", source="generic", session=f"mark-{mark}-", data={"text": "d" * 700})
                )

            await _warm(sink, send, healthy)
            yield send
    finally:
        await connections.close()
        await _forget(url, f"fh:{namespace}:*", f"*fleethook-{namespace}-*")


@asynccontextmanager
async def _bare(url: str, sink: Sinks) -> AsyncIterator[Send]:
    async with process(url, "-m", "workers.bench.delivery_latency", str(sink.port)):
        client, few = bare_client(url), asyncio.Semaphore(_CONNECTIONS)

        async def send(mark: int, lane: int) -> object:
            async with few:
                return await client.xadd("bench:paced", {"lane": lane, "body": f"mark-{mark}-" + "d" * 1000})

        await _warm(sink, send, range(ENDPOINTS))
        yield send
        await client.delete("bench:paced")
        await client.aclose()


async def _warm(sink: Sinks, send: Send, healthy: Sequence[int]) -> None:
    """Return when each healthy endpoint has had two deliveries, so that their connections are open."""
    for _ in range(2):
        sink.begin()
        for lane in healthy:
            sink.sent[lane] = time.perf_counter()
            await send(lane, lane)
        if not await sink.all_came(_PATIENCE):
            raise FleethookError(f"{len(sink.took)} of {len(healthy)} deliveries came through within {_PATIENCE:g} s")


async def _forget(url: str, *patterns: str) -> None:
    bare = bare_client(url)
    for pattern in patterns:
        async for name in bare.scan_iter(match=pattern, count=1000):
            await bare.unlink(name)
    await bare.aclose()


async def _be_bare(url: str, port: int) -> None:
    """Deliver by XREADGROUP, POST with aiohttp, and XACK only."""
    import aiohttp

    client = bare_client(url)
    await client.xgroup_create("bench:paced", GROUP, id="0", mkstream=True)
    print("ready", flush=True)  # noqa: T201 - the parent process waits for it
    busy: set[asyncio.Task[None]] = set()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def carry(entry: bytes, fields: dict[bytes, bytes]) -> None:
            target = f"http://127.0.0.1:{port}/healthy/{int(fields[b'lane'])}"
            async with session.post(target, data=fields[b"body"]) as response:
                await response.read()
            await client.xack("bench:paced", GROUP, entry)

        while True:
            got: Any = await client.xreadgroup(GROUP, "one", {"bench:paced": ">"}, count=32, block=1000)
            for _, entries in got or ():
                for entry, fields in entries:
                    task = asyncio.create_task(carry(entry, fields))
                    busy.add(task)
                    task.add_done_callback(busy.discard)


if __name__ == "__main__":
    asyncio.run(_be_bare(os.environ["FLEETHOOK_REDIS_URL"], int(sys.argv[1])))
