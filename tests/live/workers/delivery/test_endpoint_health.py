"""How every endpoint stands, from its own attempts: closed, open, half-open, paused, disabled (X-05)."""

from __future__ import annotations

import pytest

from bus.secrets.replacements import REDACTED
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.live.workers.delivery.test_breakers import TARGET, are, running
from tests.support.delivering import publish, turn_end
from tests.support.receivers import Answer
from tests.support.running import do
from tests.support.servers import Server
from tests.support.waiting import until
from workers.delivery.endpoint_controls import disable, enable, pause, resume
from workers.delivery.endpoint_health import HEALTH_KEYS, EndpointHealth, health_record, list_health

OTHER = "endpoint:mine@elsewhere"


async def one(connections: Connections, keys: Keys, target: str = TARGET) -> EndpointHealth:
    """The state of an endpoint that somebody knows."""
    return next(state for state in await list_health(connections, keys, [target]) if state.target == target)


@pytest.mark.req("X-05", "G-09")
async def test_a_breaker_is_shown_closed_open_and_half_open(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "retry: [0.05, 0.05, 60]") as receiver:
        await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=1), "it answers")
        assert await one(connections, keys) == EndpointHealth(target=TARGET)
        assert (await one(connections, keys)).healthy
        assert await list_health(connections, keys, []) == []

        receiver.usual = Answer(503)
        for _ in range(7):
            await publish(connections, keys, turn_end())

        async def opened() -> bool:
            return (await one(connections, keys)).standing == "open"

        await until(opened, "the breaker is open")
        receiver.hold()

        async def probing() -> bool:
            return (await one(connections, keys)).circuit == "half-open"

        await until(probing, "a probe is under way")
        assert await list_health(connections, keys, []) == [], "one of the fleet that is not in force was taken out"
        probed = await one(connections, keys)
        assert (probed.endpoint, probed.standing, probed.healthy, probed.next_probe) == ("one", "open", False, 0)
        assert "503" in probed.reason
        assert probed.failing is not None
        assert probed.failing.count >= 5
        assert probed.failing.since <= probed.at
        record = health_record(probed)
        assert (record["breaker"], record["since"], record["next_probe"]) == ("half-open", probed.at, 0)
        assert record["failures"] == probed.failing.count
        receiver.release()

        async def waiting() -> bool:
            state = await one(connections, keys)
            return state.circuit == "open" and state.next_probe > state.at

        await until(waiting, "the probe failed, and the next is due")
        receiver.usual = Answer(204)

        async def well() -> bool:
            return (await one(connections, keys)).healthy

        await until(well, "a probe is answered")


@pytest.mark.req("X-05")
async def test_what_is_halted_anywhere_is_found_among_other_keys(
    server: Server, keys: Keys, connections: Connections
) -> None:
    for name in ("failingly", "body:e1", "flight:endpoint:x", "beat:carrier-1", "hookset:1", "halter:x", "breaker:"):
        await do(connections, "SET", keys(name), "x")
    assert await list_health(connections, keys, []) == []
    await do(connections, "FLUSHDB")
    assert await pause(connections, keys, TARGET, reason="token=abcdef123456789", by="ann")
    assert await disable(connections, keys, OTHER, by="bob")
    other, paused = await list_health(connections, keys, [TARGET])
    assert (paused.standing, paused.by, paused.reason, paused.circuit) == (
        "paused",
        "ann",
        f"token={REDACTED}",
        "closed",
    )
    assert (other.standing, other.endpoint, other.by, other.healthy) == ("disabled", "mine@elsewhere", "bob", False)
    assert other.at > 0
    await resume(connections, keys, TARGET)
    await enable(connections, keys, OTHER)
    assert [state.healthy for state in await list_health(connections, keys, [TARGET])] == [True]
    assert all(len(mark) >= 6 for mark in HEALTH_KEYS)
