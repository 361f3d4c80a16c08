"""Breakers, pauses and disabled endpoints against a real server: what waits costs nothing, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.live.workers.test_carrier import endpoints
from tests.support.delivering import carrying, dispatch_event, dispatching, left, publish, settled, turn_end
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.running import do, publish_hooks, stream
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, until
from workers.delivery.breakers import BreakerLimits
from workers.delivery.dead_letters import dead_letters
from workers.delivery.deliveries import deliveries
from workers.delivery.endpoint_controls import (
    NotHalted,
    disable,
    enable,
    pause,
    recoverable,
    resume,
)
from workers.delivery.endpoint_health import Breaker, read_health
from workers.delivery.filters import Filter

TARGET = "endpoint:one"
RETRIES = ", ".join(["0.05"] * 20)


FAST = BreakerLimits(first_probe=0.2, most_probe=0.8)


async def hook_one(connections: Connections, keys: Keys, receiver: Receiver, more: str = "retry: [5]") -> None:
    """One endpoint at the receiver."""
    await publish_hooks(connections, keys, endpoints(receiver, f'id: one, url: "URL", {more}'))


@asynccontextmanager
async def running(
    server: Server,
    keys: Keys,
    connections: Connections,
    more: str = "retry: [5]",
    *,
    carriers: int = 1,
    limits: BreakerLimits = FAST,
) -> AsyncIterator[Receiver]:
    """A receiver, its endpoint, a dispatcher that knows it, and carriers."""
    async with AsyncExitStack() as fleet:
        receiver = await fleet.enter_async_context(receiving())
        await hook_one(connections, keys, receiver, more)
        for _ in range(carriers):
            await fleet.enter_async_context(carrying(server.url, keys, limits=limits))
        await fleet.enter_async_context(dispatching(server.url, keys))
        yield receiver


async def states(connections: Connections, keys: Keys) -> dict[str, int]:
    """How many deliveries are in each state."""
    found: dict[str, int] = {}
    for one in await deliveries(connections, keys, most=10_000):
        found[one.state] = found.get(one.state, 0) + 1
    return found


def are(connections: Connections, keys: Keys, **wanted: int) -> Any:
    """Whether the deliveries are in these states."""

    async def holds() -> bool:
        return await states(connections, keys) == wanted

    return holds


async def open_breaker(connections: Connections, keys: Keys) -> list[Breaker]:
    """The breaker of the endpoint, if it is open."""
    breaker = (await read_health(connections, keys, [TARGET]))[TARGET].breaker
    return [] if breaker is None else [breaker]


async def events(connections: Connections, keys: Keys, kind: str) -> list[dict[str, Any]]:
    """The data of our own events of one type."""
    from bus.requests import read_event, read_request

    read = [
        read_event(read_request(one, keys))
        for one in await stream(connections, keys)
        if one.fields[b"event"] == kind.encode()
    ]
    assert {one.source for one in read} <= {"fleethook"}
    return [one.data for one in read]


@pytest.mark.req("G-09", "B-06")
async def test_failures_open_the_breaker_and_what_waits_is_neither_tried_nor_carried(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, f"retry: [{RETRIES}]", limits=BreakerLimits(60)) as receiver:
        receiver.usual = Answer(503)
        first = await publish(connections, keys, turn_end())
        await until(are(connections, keys, parked=1), "it waits, though it is due again")
        (one,) = await deliveries(connections, keys, Filter(event=first))
        assert (one.attempts, len(receiver.got)) == (5, 5), "what waits uses up none of its schedule"
        for _ in range(30):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, parked=31), "all wait")
        assert len(receiver.got) == 5
        (breaker,) = await open_breaker(connections, keys)
        assert (breaker.target, breaker.interval, breaker.parked) == (TARGET, 60_000, 31)
        assert "503" in breaker.reason
        assert breaker.next - breaker.since == 60_000
        health = await read_health(connections, keys, [TARGET, "endpoint:none"])
        assert (health[TARGET].standing, health[TARGET].breaker) == ("open", breaker)
        assert (health["endpoint:none"].standing, health["endpoint:none"].parked) == ("active", 0)
        failing = health[TARGET].failing
        assert failing is not None
        assert failing.count == 5
        assert await left(connections, keys) == {"body": 31, "parked": 1}


@pytest.mark.req("G-09")
async def test_an_endpoint_that_is_gone_lets_what_waits_for_its_breaker_go_at_once(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Each is a probe, which is dropped as soon as it is looked at; the next does not wait for another interval."""
    async with running(server, keys, connections, f"retry: [{RETRIES}]", limits=BreakerLimits(2, 3600)) as receiver:
        receiver.usual = Answer(503)
        for _ in range(30):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, parked=30), "all wait")
        await publish_hooks(connections, keys, endpoints(receiver, 'id: other, url: "URL"'))
        receiver.got.clear()
        await until(are(connections, keys, dead=30), "dead letters, 29 of them without an interval of their own")
        assert {"was deleted or disabled" in one.reason for one in await deliveries(connections, keys)} == {True}
        assert receiver.got == []


@pytest.mark.req("G-09")
async def test_one_probe_an_interval_over_the_whole_fleet_and_a_success_lets_all_go(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, f"retry: [{RETRIES}], max_in_flight: 3", carriers=3) as receiver:
        receiver.usual = Answer(503)
        for _ in range(20):
            await publish(connections, keys, turn_end())

        async def probed() -> bool:
            return [breaker.interval for breaker in await open_breaker(connections, keys)] == [800]

        await until(probed, "probes that failed")
        await until(are(connections, keys, parked=20), "all wait but for probes")
        attempts = sorted(attempt.ms for one in await deliveries(connections, keys) for attempt in one.log)
        (breaker,) = await open_breaker(connections, keys)
        probes = [ms for ms in attempts if ms > breaker.since + 100]  # what was under way ends at once
        gaps = [later - earlier for earlier, later in zip([breaker.since, *probes], probes, strict=False)]
        assert all(gap >= wanted for gap, wanted in zip(gaps, (190, 390, 790, 790), strict=False)), gaps
        assert receiver.most_in_flight["/"] <= 3
        before = len(receiver.got)
        receiver.usual = Answer(204)
        await until(are(connections, keys, delivered=20), "all are delivered as soon as a probe is answered")
        assert len(receiver.got) == before + 20
        assert await open_breaker(connections, keys) == []
        assert await left(connections, keys) == {}
        assert (await read_health(connections, keys, [TARGET]))[TARGET].failing is None


@pytest.mark.req("G-09")
async def test_a_probe_whose_carrier_dies_is_made_again(server: Server, keys: Keys, connections: Connections) -> None:
    async with running(server, keys, connections, f"retry: [{RETRIES}]", carriers=0) as receiver:
        async with carrying(server.url, keys, drain=0.1, limits=FAST):
            receiver.usual = Answer(503)
            for _ in range(6):
                await publish(connections, keys, turn_end())
            await until(are(connections, keys, parked=6), "the breaker is open")
            receiver.hold()
            before = len(receiver.got)
            await until(lambda: _more(receiver, before), "a probe is under way")
            (breaker,) = await open_breaker(connections, keys)
            assert breaker.probe
            await asyncio.wait_for(asyncio.shield(_nothing_more(receiver)), PATIENCE)
        receiver.usual = Answer(200)
        receiver.release()
        async with carrying(server.url, keys):
            await until(are(connections, keys, delivered=6), "it goes on elsewhere")


async def _more(receiver: Receiver, than: int) -> bool:
    return len(receiver.got) > than


async def _nothing_more(receiver: Receiver) -> None:
    """While a probe is held, nothing else arrives for more than an interval."""
    before = len(receiver.got)
    loop = asyncio.get_running_loop()
    until_then = loop.create_future()
    loop.call_later(1.0, until_then.set_result, None)
    await until_then
    assert len(receiver.got) == before


@pytest.mark.req("G-09")
async def test_a_receiver_that_wants_to_rest_gets_no_earlier_probe(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, f"retry: [{RETRIES}], max_in_flight: 1") as receiver:
        receiver.usual = Answer(429, headers=["Retry-After: 120"])
        for _ in range(8):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, due=5, parked=3), "five tried, and then it is left alone")
        (breaker,) = await open_breaker(connections, keys)
        assert breaker.next - breaker.since >= 120_000


@pytest.mark.req("G-09")
async def test_refusals_of_single_deliveries_open_no_breaker(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.usual = Answer(404)
        await hook_one(connections, keys, receiver)
        for _ in range(7):
            await dispatch_event(connections, keys, turn_end())
        await until(are(connections, keys, dead=7), "each is a dead letter")
        assert await open_breaker(connections, keys) == []
        assert len(receiver.got) == 7


@pytest.mark.req("G-09")
async def test_410_disables_the_endpoint_and_enabling_recovers_what_waited(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "max_in_flight: 1") as receiver:
        receiver.hold()
        receiver.usual = Answer(410)
        for _ in range(4):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, running=1, parked=3), "one under way")
        receiver.release()
        await until(are(connections, keys, dead=4), "none of them is tried any more")
        assert len(receiver.got) == 1
        health = (await read_health(connections, keys, [TARGET]))[TARGET]
        assert (health.standing, health.by) == ("disabled", "receiver")
        assert health.reason.startswith("disabled: receiver answered 410")
        assert {letter.reason for letter in await dead_letters(connections, keys)} == {health.reason}
        (told,) = await events(connections, keys, "endpoint:disabled")
        assert (told["endpoint"], told["by"], told["reason"]) == ("one", "receiver", health.reason)

        async def missed() -> bool:
            return (await read_health(connections, keys, [TARGET]))[TARGET].missed >= 2

        await publish(connections, keys, turn_end())
        await until(missed, "owed nothing more: an event, and the one that says so")
        assert await states(connections, keys) == {"dead": 4}
        with pytest.raises(NotHalted):
            await resume(connections, keys, TARGET)
        receiver.usual = Answer(200)
        offer = await enable(connections, keys, TARGET)
        assert (offer.dead, offer.missed, offer.recovered, offer.since) == (4, 2, 0, health.at)
        with pytest.raises(NotHalted):
            await enable(connections, keys, TARGET)
        assert await disable(connections, keys, TARGET, by="kay")
        assert not await disable(connections, keys, TARGET)
        assert (await enable(connections, keys, TARGET, recover=True)).recovered == 4
        await until(are(connections, keys, delivered=4), "recovered")
        assert await recoverable(connections, keys, TARGET) == []
        assert await left(connections, keys) == {}


@pytest.mark.req("G-09")
async def test_a_disabled_endpoints_due_deliveries_become_dead_letters_when_they_are_due(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "retry: [1]") as receiver:
        receiver.usual = Answer(503)
        name = await publish(connections, keys, turn_end())
        await settled(connections, keys, name, "due")
        await disable(connections, keys, TARGET, reason="moved", by="kay")
        (one,) = await settled(connections, keys, name, "dead")
        assert (one.reason, one.attempts, one.due) == ("disabled: moved", 1, 0)


@pytest.mark.req("G-09", "B-06")
async def test_a_paused_endpoint_gets_nothing_and_everything_when_it_goes_on(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "max_in_flight: 4") as receiver:
        early = await publish(connections, keys, turn_end())
        await settled(connections, keys, early, "delivered")
        assert await pause(connections, keys, TARGET, by="kay", reason="new release")
        assert not await pause(connections, keys, TARGET)
        for _ in range(30):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=1, parked=30), "all wait")
        health = (await read_health(connections, keys, [TARGET]))[TARGET]
        assert (health.standing, health.by, health.reason, health.parked) == ("paused", "kay", "new release", 30)
        assert len(receiver.got) == 1
        await resume(connections, keys, TARGET)
        await until(are(connections, keys, delivered=31), "all go on")
        assert receiver.most_in_flight["/"] <= 4
        with pytest.raises(NotHalted, match="is not paused"):
            await resume(connections, keys, TARGET)
        assert await left(connections, keys) == {}


async def _at_least(count: Callable[[], Awaitable[int]], least: int) -> bool:
    return await count() >= least


@pytest.mark.req("G-09")
async def test_nothing_but_failures_is_warned_of_and_disables_in_the_end(
    server: Server, keys: Keys, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    waits = ", ".join(["0.02"] * 50)
    async with running(
        server,
        keys,
        connections,
        f'events: "turn:*", retry: [{waits}]',
        limits=BreakerLimits(0.1, 0.1, disable_after=1000.0),
    ) as receiver:
        receiver.usual = Answer(503)
        for _ in range(4):
            await publish(connections, keys, turn_end())

        async def disabled() -> bool:
            return (await read_health(connections, keys, [TARGET]))[TARGET].standing == "disabled"

        async def failures() -> int:
            return int(await do(connections, "HGET", keys("failing", TARGET), "count") or 0)

        await until(partial(_at_least, failures, 10), "fewer prove nothing")
        assert await events(connections, keys, "endpoint:failing") == []
        for percent in (51, 71, 91):
            await do(connections, "HSET", keys("failing", TARGET), "since", int((time.time() - 10 * percent) * 1000))
            await until(partial(_at_least, failures, await failures() + 2), "it goes on failing")
        await do(connections, "HSET", keys("failing", TARGET), "since", int((time.time() - 1000) * 1000))
        await until(disabled, "all of the time nothing but failures")
        warned = await events(connections, keys, "endpoint:failing")
        assert [one["percent"] for one in warned] == [50, 70, 90]
        assert all("503" in one["last"] and one["failures"] >= 10 for one in warned)
        (told,) = await events(connections, keys, "endpoint:disabled")
        assert (told["percent"], told["by"]) == (100, "failing")
        for word in ("50 %", "70 %", "90 %", "is disabled"):
            assert word in caplog.text
        await until(are(connections, keys, dead=4), "what waited is to be recovered")
        receiver.usual = Answer(200)
        await enable(connections, keys, TARGET, recover=True)
        await until(are(connections, keys, delivered=4), "a clean slate")
        health = (await read_health(connections, keys, [TARGET]))[TARGET]
        assert (health.standing, health.failing, health.breaker) == ("active", None, None)


@pytest.mark.req("G-09")
async def test_a_success_makes_the_time_of_failures_begin_anew(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys, limits=BreakerLimits(disable_after=0.001)):
        await hook_one(connections, keys, receiver, "retry: [60]")
        for status in [503, 503, 503, 503, 200] * 4:
            receiver.usual = Answer(status)
            await settled(
                connections,
                keys,
                await dispatch_event(connections, keys, turn_end()),
                "delivered" if status == 200 else "due",
            )
        assert await events(connections, keys, "endpoint:failing") == []
        assert (await read_health(connections, keys, [TARGET]))[TARGET].standing == "active"


@pytest.mark.req("G-09")
async def test_a_receiver_ends_the_retries_with_a_header(server: Server, keys: Keys, connections: Connections) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.usual = Answer(503, headers=["Webhook-Delivery: abort"])
        await hook_one(connections, keys, receiver)
        (one,) = await settled(connections, keys, await dispatch_event(connections, keys, turn_end()), "dead")
        assert "wants no more attempts (webhook-delivery: abort)" in one.reason
        assert (one.attempts, (await read_health(connections, keys, [TARGET]))[TARGET].standing) == (1, "active")


async def test_what_was_in_the_stream_when_its_endpoint_was_paused_waits_too(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        await hook_one(connections, keys, receiver)
        for _ in range(5):
            await dispatch_event(connections, keys, turn_end())
        await pause(connections, keys, TARGET)
        async with carrying(server.url, keys):
            await until(are(connections, keys, parked=5), "all wait")
        assert receiver.got == []
        assert await do(connections, "XLEN", keys("deliveries")) == 0
