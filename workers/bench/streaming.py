"""Streams: publishing in a pipeline against bare XADD, and deliveries against a raw aiohttp loop."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time

import msgspec

from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.http.signing import generate_secret
from bus.wire.codec import encode_event
from bus.wire.keys import Keys
from workers.bench.bare import bare_client
from workers.bench.placing import on_one_core, server_pid
from workers.bench.request import event, process
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.server import bench_bus, bench_connections
from workers.bench.simple_webhooks import CLIENT, deliver_simply
from workers.runtime.process import fast_loop

BATCH = 100
ENDPOINTS = 10
IN_FLIGHT = 50


async def publish_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """`publish_many` against redis-py's pipeline of XADD with the same bytes."""
    bare = bare_client(url)
    sent = event()
    events = [sent] * BATCH
    body = encode_event(msgspec.structs.replace(sent, id="e" + "0" * 32, host="bench"))
    fields: dict[str | bytes, str | bytes] = {
        "id": "e" + "0" * 32,
        "source": sent.source,
        "event": sent.type,
        "host": "bench",
        "body": body,
    }
    async with bench_bus(url, "bench-publish") as bus:
        stream = bus.keys("events")

        async def ours() -> float:
            start = time.perf_counter()
            for _ in range(sizes.published // BATCH):
                await bus.publish_many(events)
            took = time.perf_counter() - start
            await bare.delete(stream)
            return sizes.published / took

        async def theirs() -> float:
            start = time.perf_counter()
            for _ in range(sizes.published // BATCH):
                pipeline = bare.pipeline(transaction=False)
                for _ in range(BATCH):
                    pipeline.xadd("bench:events", fields)  # type: ignore[arg-type]  # the type of its argument is invariant
                await pipeline.execute()
            took = time.perf_counter() - start
            await bare.delete("bench:events")
            return sizes.published / took

        one, other = await alternate(ours, theirs, rounds, warm_ups=sizes.warm_ups)
    await bare.aclose()
    return [
        figure(
            "publish, pipelined", "bare XADD of the same bytes, pipelined", "/s", one, other, bar=0.7, sense="at least"
        )
    ]


async def delivery_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Deliveries per CPU-second of one carrier, compared with a raw aiohttp loop, each in a separate process."""
    with on_one_core(await server_pid(url)):  # on two hyperthreads of one core each would slow the other down
        async with process(url, "-m", "workers.bench.streaming", "sink"):
            port = await _port(url)
            ours, theirs = await alternate(
                lambda: _carried(url, port, sizes.delivered),
                lambda: _raw(port, sizes.delivered),
                sizes.carried * rounds,
                warm_ups=sizes.warm_ups,
            )
            plain = [await deliver_simply(url, port, sizes.plain) for _ in range(min(rounds, 3))]
    note = f"{IN_FLIGHT} in flight over {ENDPOINTS} endpoints, 1 KiB, signed, attempts logged"
    what = "deliveries per CPU-second of the carrier"
    return [
        figure(
            what,
            "raw aiohttp keep-alive loop",
            "/cpu-s",
            ours,
            theirs,
            bar=0.55,
            sense="at least",
            note=f"{note}; all on one core and on the workers' event loop",
        ),
        figure(
            f"{what}, simple way",
            f"an RQ job each, {CLIENT}, tenacity in the job",
            "/cpu-s",
            ours,
            plain,
            bar=20.0,
            sense="at least",
            note=note,
        ),
    ]


async def _port(url: str) -> int:
    bare = bare_client(url)
    port = await bare.get("bench:sink")
    await bare.aclose()
    return int(port or 0)


async def _carried(url: str, port: int, most: int) -> float:
    """Fill the stream with deliveries, then let one carrier in a separate process send them all."""
    from bus.hooksets.in_force import HookSet, Layered
    from bus.requests import read_event, read_request
    from bus.wire.streams import StreamEntry, call_all
    from workers.delivery.deliveries import deliveries_of, dispatch_call, now_ms, pack_fields

    namespace = "bench-deliver"
    keys, connections = Keys(namespace), bench_connections(url)
    secret = generate_secret()
    lines = "\n".join(
        f"  - {{id: e{n}, url: 'http://127.0.0.1:{port}/{n}', secret: '{secret}', max_in_flight: {IN_FLIGHT}}}"
        for n in range(ENDPOINTS)
    )
    file = parse_hook_file(f"network: {{allow: ['127.0.0.1:{port}']}}\nendpoints:\n{lines}\n", "fleet")
    await apply(connections, keys, file)
    in_force = HookSet([Layered("fleet", "1", file)])
    with connections.lease() as connection:
        await connection.exchange([("XGROUP", "CREATE", keys("events"), "dispatchers", "0", "MKSTREAM")])
    async with bench_bus(url, namespace) as bus:
        await bus.publish_many([event() for _ in range(most // ENDPOINTS)])
    with connections.lease() as connection:
        (reply,) = await connection.exchange(
            [("XREADGROUP", "GROUP", "dispatchers", "bench", "COUNT", most, "STREAMS", keys("events"), ">")]
        )
    calls = []
    for entry_id, flat_fields in reply[0][1]:
        pairs = iter(flat_fields)
        entry = StreamEntry(keys("events"), entry_id.decode(), dict(zip(pairs, pairs, strict=True)))
        published: Event = read_event(read_request(entry, keys))
        calls.append(
            dispatch_call(
                entry,
                published,
                deliveries_of(published, None, in_force, keys),
                keys,
                "dispatchers",
                pack_fields(entry),
                now_ms(),
            )
        )
    await call_all(connections, calls)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workers.bench.streaming",
        "carrier",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "FLEETHOOK_REDIS_URL": url, "FLEETHOOK_NAMESPACE": namespace},
    )
    out, _ = await child.communicate()
    count, seconds = out.split()
    bare = bare_client(url)
    async for name in bare.scan_iter(match=f"fh:{namespace}:*", count=1000):
        await bare.unlink(name)
    await bare.aclose()
    await connections.close()
    if int(count) != most:
        raise RuntimeError(f"{count!r} deliveries instead of {most}")
    return most / float(seconds)


async def _raw(port: int, count: int) -> float:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.bench.streaming", "raw", str(port), str(count), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    return count / float(out)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _be_sink(url: str) -> None:
    """The simplest receiver that asyncio allows: it answers 200 as soon as the body has arrived."""

    class Sink(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport, self.left, self.buffer = transport, 0, b""

        def data_received(self, data: bytes) -> None:
            self.buffer += data
            while True:
                head, found, rest = self.buffer.partition(b"\r\n\r\n")
                if not found:
                    return
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                if len(rest) < length:
                    return
                self.buffer = rest[length:]
                assert isinstance(self.transport, asyncio.Transport)  # noqa: S101 - a stream has no other
                self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    bare = bare_client(url)
    await bare.set("bench:sink", server.sockets[0].getsockname()[1], ex=3600)
    await bare.aclose()
    print("ready", flush=True)  # noqa: T201 - the parent process waits for it
    await asyncio.Event().wait()


async def _be_carrier(url: str, namespace: str) -> None:
    """Run one carrier on the deliveries that exist; prints the attempts and its CPU seconds without its start."""
    from pathlib import Path

    from bus.hooksets.in_force import Watcher
    from bus.http.address_policy import policy
    from bus.http.webhook_client import WebhookClient
    from bus.secrets.redaction import redact_text
    from bus.secrets.references import resolve_secret
    from bus.secrets.sealing import seal
    from workers.carrier import Carrier
    from workers.runtime.process import collect_garbage_seldom

    keys, connections = Keys(namespace), bench_connections(url)
    watcher = Watcher(connections, keys, host="bench", user_file=None, trust_file=Path("/nonexistent"))
    await watcher.refresh(force=True)
    async with WebhookClient(policy([])) as client:
        client.open()  # aiohttp's import and the system's certificates (70 ms) are loaded before the measurement,
    redact_text(resolve_secret(seal(generate_secret())))  # and so is what the first delivery loads for secrets (50 ms)
    collect_garbage_seldom()  # as a carrier's process does
    before = _cpu()
    carrier = Carrier(url, keys, connections, watcher, in_flight=IN_FLIGHT)
    count = await carrier.run(asyncio.Event(), idle=0.3)
    print(count, _cpu() - before, flush=True)  # noqa: T201 - the parent process reads it
    await connections.close()


async def _be_raw(port: int, count: int) -> None:
    """Send with aiohttp's client in a keep-alive loop only."""
    import aiohttp

    body, left = b"x" * 1024, iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def lane() -> None:
            for n in left:
                async with session.post(f"http://127.0.0.1:{port}/{n % ENDPOINTS}", data=body) as response:
                    await response.read()

        before = _cpu()
        await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))
        print(_cpu() - before, flush=True)  # noqa: T201 - the parent process reads it


if __name__ == "__main__":
    role = sys.argv[1]
    where = os.environ.get("FLEETHOOK_REDIS_URL", "")
    if role == "sink":
        asyncio.run(_be_sink(where))
    else:  # both on the workers' event loop: on asyncio's loop the raw one would be slower
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            if role == "carrier":
                runner.run(_be_carrier(where, os.environ["FLEETHOOK_NAMESPACE"]))
            else:
                runner.run(_be_raw(int(sys.argv[2]), int(sys.argv[3])))
