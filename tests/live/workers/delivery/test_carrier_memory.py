"""A carrier's memory over many deliveries: what one leaves behind, two hundred thousand leave behind as often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bus.client import Bus
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.counting import tell
from tests.chaos.fleet import Fleet
from tests.chaos.receiver import Receiver
from tests.support.delivering import turn_end
from tests.support.memory import MIB, cpu_seconds, rss
from tests.support.running import namespace, publish_hooks
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until

ENDPOINTS = 10
STEPS = 20

TEXT = "the quick brown fox jumps over the lazy dog " * 20


@pytest.mark.req("B-06")
@pytest.mark.parametrize(
    ("total", "growth"),
    [
        (5_000, 3 * MIB),
        pytest.param(200_000, 4 * MIB, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)], id="full"),
    ],
)
async def test_a_carrier_is_flat_over_many_deliveries(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, total: int, growth: int
) -> None:
    """Against what it had after the first fifth: by then pools, caches and the allocator have what they keep."""
    async with Receiver() as receiver, Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        lines = "\n".join(f'  - {{id: e{n}, url: "http://127.0.0.1:{receiver.port}/good"}}' for n in range(ENDPOINTS))
        await publish_hooks(
            connections, keys, f'network: {{allow: ["127.0.0.1:{receiver.port}"]}}\nendpoints:\n{lines}\n'
        )
        with Fleet(server.url, keys, tmp_path / "fleet") as fleet:
            fleet.start("dispatcher")
            (carrier,) = fleet.start("carrier")
            await asyncio.to_thread(fleet.ready)
            pid = carrier.popen.pid
            sizes: list[int] = []
            for step in range(1, STEPS + 1):
                told = [turn_end(data={"text": f"{step} {n} {TEXT}"}) for n in range(total // ENDPOINTS // STEPS)]
                await bus.publish_many(told)

                async def there(count: int = step * total // STEPS) -> bool:
                    return len(receiver.attempts) >= count

                await until(there, f"{step} of {STEPS} parts", total / STEPS / 50 + 20)
                sizes.append(rss(pid))
            used = cpu_seconds(pid)
    warm, *later = sizes[STEPS // 5 - 1 :]
    shown = " ".join(f"{size / MIB:.1f}" for size in sizes)
    tell(f"{total} deliveries, {total / used:,.0f} a CPU-second, its start counted; MiB: {shown}")
    assert len(receiver.attempts) == total
    assert max(later) - warm <= growth
    assert max(sizes) <= 90 * MIB
