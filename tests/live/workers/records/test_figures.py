"""The dead letters of the metrics: how many there are by what they come from, and how old the oldest is (G-19)."""

from __future__ import annotations

import time

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import DEAD_MS, Keys
from bus.wire.streams import StreamEntry, call_all
from tests.support.running import do
from tests.support.servers import Server
from workers.delivery.dead_letters import poison_call
from workers.records import figures
from workers.records.figures import read_dead

pytestmark = [pytest.mark.live, pytest.mark.req("G-19")]


async def test_dead_letters_are_counted_by_what_they_come_from(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that could not be read by their stream, a host's stream as `hosts`, and deliveries."""
    none = await read_dead(connections, keys)
    assert {(source, dead.count, dead.oldest_s) for source, dead in none.items()} == {
        (source, 0, 0.0) for source in ("deliveries", "requests", "events", "hosts")
    }
    streams = [keys("requests"), keys("events"), keys("events"), keys("requests", "laptop")]
    entries = [StreamEntry(stream, f"{number}-0", {b"body": b"?"}) for number, stream in enumerate(streams, 1)]
    await call_all(connections, [poison_call(keys, entry, "no msgpack", acknowledge="") for entry in entries])
    now = int(time.time() * 1000)
    for number in range(5):
        await do(connections, "ZADD", keys("dead"), now - 60_000 * number, f"e{number}.log")
    await do(connections, "PEXPIRE", keys("dead"), DEAD_MS)
    found = await read_dead(connections, keys)
    assert {source: dead.count for source, dead in found.items()} == {
        "deliveries": 5,
        "requests": 1,
        "events": 2,
        "hosts": 1,
    }
    assert found["deliveries"].oldest_s >= 240
    assert found["events"].oldest_s < 240
    monkeypatch.setattr(figures, "_PAGE", 2)
    assert {source: dead.count for source, dead in (await read_dead(connections, keys)).items()} == {
        source: dead.count for source, dead in found.items()
    }, "the same in many pages"
    monkeypatch.setattr(figures, "MOST_DEAD", 4)
    assert (await read_dead(connections, keys))["uncounted"].count == 5
