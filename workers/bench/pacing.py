"""Deliveries at a steady pace: how long from publishing to the receiver, and what ill receivers cost the healthy ones."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

from bus.client import Bus
from bus.config.hookfile import parse_hook_file
from bus.connections import Links
from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets import apply
from bus.keys import Keys
from bus.signing import generate_secret
from workers.bench.bare import GROUP, bare_client
from workers.bench.request import process
from workers.bench.rounds import Figure, Sizes, figure

PER_SECOND: Final = 500
ENDPOINTS: Final = 10
PROMISED: Final = 20.0
"""Milliseconds at the 95th percentile, wherever the bare loop's are under 2."""

ADDED: Final = 25.0
"""Milliseconds that ill receivers may add to the healthy ones' 99th percentile."""

ILLS: Final = (("silent", 9), ("silent", 1), ("dripping", 9), ("resetting", 9), ("refusing", 9), ("no TLS", 9))
"""What is ill, and how many of the endpoints."""

_GRACE: Final = 1.0
"""Seconds after the last event that a delivery may take to count as carried in time."""

_PATIENCE: Final = 60.0
_CONNECTIONS: Final = 16
_MARK: Final = re.compile(rb"mark-(\d+)-")


class Paced(NamedTuple):
    """What one run of one pace came to."""

    took: list[float]
    """Milliseconds from publishing to the receiver, sorted, of those that came in time."""
    share: float
    """Which part of the healthy endpoints' events came in time."""

    def at(self, share: float) -> float:
        """A percentile in milliseconds."""
        return self.took[min(len(self.took) - 1, int(len(self.took) * share))] if self.took else _PATIENCE * 1000


class Sink:
    """Receivers behind one port: healthy ones by any path, ill ones under `/<ill>/`."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        self.took: dict[int, float] = {}
        self.more = asyncio.Event()
        """Set at each arrival."""
        self.port = 0

    def arrived(self, body: bytes) -> None:
        """A healthy receiver has a delivery whole; only its first arrival counts."""
        found = _MARK.search(body)
        mark = int(found[1]) if found else -1
        if mark in self.sent and mark not in self.took:
            self.took[mark] = (time.perf_counter() - self.sent[mark]) * 1000
            self.more.set()

    def begin(self) -> None:
        """Forget the run before."""
        self.sent.clear()
        self.took.clear()

    async def all_came(self, seconds: float) -> bool:
        """Wait until everything that was sent to healthy ones has come; False where it has not in so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while len(self.took) < len(self.sent):
                    self.more.clear()
                    await self.more.wait()
        except TimeoutError:
            return False
        return True


class _Connection(asyncio.Protocol):
    def __init__(self, sink: Sink) -> None:
        self._sink, self._buffer = sink, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream has no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"\x16"):  # a TLS handshake
            self._transport.write(b"HTTP/1.1 400 This is no TLS\r\n\r\n")
            self._transport.close()
            return
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            self._answer(head.split(b" ", 2)[1].split(b"/")[1], rest[:length])

    def _answer(self, kind: bytes, body: bytes) -> None:
        match kind:
            case b"silent":
                return
            case b"dripping":
                self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                self._drip()
            case b"resetting":
                self._transport.abort()
            case b"refusing":
                self._transport.write(b"HTTP/1.1 429 No\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n")
            case _:
                self._sink.arrived(body)
                self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"x")
            asyncio.get_running_loop().call_later(0.2, self._drip)


async def latency_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Publish to receiver at a steady pace: ours, whole, beside XADD, XREADGROUP, POST and XACK and nothing else."""
    ours: list[Paced] = []
    bare: list[Paced] = []
    async with _sink() as sink, AsyncExitStack() as stack:
        send_ours = await stack.enter_async_context(_ours(url, sink, "bench-pace", "", 0))
        send_bare = await stack.enter_async_context(_bare(url, sink))
        for turn in range(rounds + sizes.warm_ups):
            for send, series in ((send_ours, ours), (send_bare, bare)):
                paced = await _pace(sink, send, sizes.paced, range(ENDPOINTS))
                if turn >= sizes.warm_ups:
                    series.append(paced)
    note = f"{PER_SECOND} events a second, one delivery each"
    series_at = {
        share: ([one.at(share) for one in ours], [one.at(share) for one in bare]) for share in (0.5, 0.95, 0.99)
    }
    figures = [
        figure(f"publish to receiver, p{share * 100:.0f}", "bare XADD, XREADGROUP, POST, XACK", "ms", *both, note=note)
        for share, both in series_at.items()
    ]
    mine, other = (statistics.median(series) for series in series_at[0.95])
    # Where the machine is so busy that the bare loop needs more than 2 ms, ours may need as many times more.
    figures.append(figure("publish to receiver, p95 promised", f"{PROMISED:g} ms, or ten bare loops where that is more",
                          "ms", [mine], [max(PROMISED, 10 * other)], bar=1.0, note=note))  # fmt: skip
    return figures


async def isolation_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Healthy endpoints beside ill ones against the run just before, in which all were healthy."""
    figures: list[Figure] = []
    async with _sink() as sink:
        for ill, count in ILLS[: sizes.ills]:
            p99: tuple[list[float], list[float]] = ([], [])
            share: tuple[list[float], list[float]] = ([], [])
            for turn in range(max(1, rounds // 2)):
                before = await _isolated(url, sink, sizes.paced, "", 0, turn)
                beside = await _isolated(url, sink, sizes.paced, ill, count, turn)
                for side, paced in enumerate((beside, before)):
                    p99[side].append(paced.at(0.99) + (ADDED if side else 0.0))
                    share[side].append(paced.share)
            what = f"{count} of {ENDPOINTS} {ill}"
            figures += [
                figure(f"healthy p99, {what}", f"all healthy, plus {ADDED:g} ms", "ms", *p99, bar=1.0),
                figure(f"healthy deliveries in time, {what}", "all healthy", "share", *share, bar=0.95,
                       sense="at least"),
            ]  # fmt: skip
    return figures


async def _isolated(url: str, sink: Sink, count: int, ill: str, ills: int, turn: int) -> Paced:
    """One run on a fleet of its own: nothing that ill receivers left waits in the next one's way."""
    async with _ours(url, sink, f"bench-{turn}-{ill.lower().replace(' ', '-') or 'healthy'}-{ills}", ill, ills) as send:
        return await _pace(sink, send, count, range(ills, ENDPOINTS))


async def _pace(sink: Sink, send: Callable[[int, int], Awaitable[object]], count: int, healthy: Sequence[int]) -> Paced:
    """Publish `count` events at the pace, to one endpoint each in turn, and wait a little for the last ones."""
    sink.begin()
    start, sending = time.perf_counter(), []
    for mark in range(count):
        late = start + mark / PER_SECOND - time.perf_counter()
        if late > 0:
            await asyncio.sleep(late)
        lane = mark % ENDPOINTS
        if lane in healthy:
            sink.sent[mark] = time.perf_counter()
        sending.append(asyncio.ensure_future(send(mark, lane)))
    await asyncio.gather(*sending)
    await sink.all_came(_GRACE)
    return Paced(sorted(sink.took.values()), len(sink.took) / len(sink.sent))


@asynccontextmanager
async def _sink() -> AsyncIterator[Sink]:
    sink = Sink()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(sink), "127.0.0.1", 0)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()


@asynccontextmanager
async def _ours(
    url: str, sink: Sink, namespace: str, ill: str, ills: int
) -> AsyncIterator[Callable[[int, int], Awaitable[object]]]:
    """A dispatcher and a carrier, with endpoints of which the first `ills` are ill; yields what publishes."""
    keys, links, secret = Keys(namespace), Links(url), generate_secret()
    scheme = "https" if ill == "no TLS" else "http"
    lines = "\n".join(
        f"  - {{id: e{n}, events: ['bench:e{n}'], secret: '{secret}', url: '"
        + (f"{scheme}://127.0.0.1:{sink.port}/{ill.replace(' ', '-')}/{n}'}}" if n < ills
           else f"http://127.0.0.1:{sink.port}/healthy/{n}'}}")
        for n in range(ENDPOINTS)
    )  # fmt: skip
    await apply(
        links, keys, parse_hook_file(f"network: {{allow: ['127.0.0.1:{sink.port}']}}\nendpoints:\n{lines}\n", "fleet")
    )
    try:
        async with (
            process(url, "-m", "workers.cli", "worker", "dispatcher", namespace=namespace),
            process(url, "-m", "workers.cli", "worker", "carrier", namespace=namespace),
            Bus(url, namespace=namespace) as bus,
        ):

            def send(mark: int, lane: int) -> Awaitable[object]:
                return bus.publish(
                    Event(type=f"bench:e{lane}", source="generic", session=f"mark-{mark}-", data={"text": "d" * 700})
                )

            await _warm(sink, send, range(ills, ENDPOINTS))
            yield send
    finally:
        await links.close()
        await _forget(url, f"fh:{namespace}:*", f"*fleethook-{namespace}-*")


@asynccontextmanager
async def _bare(url: str, sink: Sink) -> AsyncIterator[Callable[[int, int], Awaitable[object]]]:
    async with process(url, "-m", "workers.bench.pacing", str(sink.port)):
        client, few = bare_client(url), asyncio.Semaphore(_CONNECTIONS)

        async def send(mark: int, lane: int) -> object:
            async with few:
                return await client.xadd("bench:paced", {"lane": lane, "body": f"mark-{mark}-" + "d" * 1000})

        await _warm(sink, send, range(ENDPOINTS))
        yield send
        await client.delete("bench:paced")
        await client.aclose()


async def _warm(sink: Sink, send: Callable[[int, int], Awaitable[object]], healthy: Sequence[int]) -> None:
    """Return when a delivery to each healthy one has come through, twice: over connections that are there."""
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
    """XREADGROUP, POST with aiohttp, XACK, and nothing else."""
    import aiohttp

    client = bare_client(url)
    await client.xgroup_create("bench:paced", GROUP, id="0", mkstream=True)
    print("ready", flush=True)  # noqa: T201 - whoever started this waits for it
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
