"""Dispatchers, carriers and RQ workers killed with -9 under load: every delivery is delivered or a dead letter."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.http.signing import generate_secret
from bus.ids import delivery_id, event_id, webhook_id
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.counting import Counts, tell, when
from tests.chaos.fleet import Fleet
from tests.chaos.receiver import Receiver
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT

HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
{lines}
"""
ENDPOINTS = ("good", "more", "most", "flaky", "picky")
LINE = (
    '  - {{id: {id}, url: "http://127.0.0.1:{port}/{path}", events: ["turn:end"], retry: {retry}, max_in_flight: 8, '
    "secret: env:CHAOS_SECRET}}"
)


def hooks(port: int) -> str:
    """Three endpoints that take everything, one that fails at times and gives up soon, one that refuses some for good."""
    lines = "\n".join(
        LINE.format(
            id=name,
            port=port,
            path=name if name in {"flaky", "picky"} else "good",
            retry=[0.1, 0.2] if name == "flaky" else [0.2, 0.4, 0.8, 1.6],
        )
        for name in ENDPOINTS
    )
    return HOOKS.format(port=port, lines=lines)


async def publish(bus: Bus, names: list[str]) -> None:
    """Publishes one event a name, in small heaps."""
    for start in range(0, len(names), 10):
        await bus.publish_many(
            [
                Event(type="turn:end", source="codex", session="s", id=name, host="test-host")
                for name in names[start : start + 10]
            ]
        )


async def publish_until(bus: Bus, receiver: Receiver, names: list[str], enough: Callable[[], bool]) -> None:
    """Publishes `names`, and adds to them for as long as it is not enough: whoever is to be killed needs something to hold."""

    def arrived() -> bool:  # a fifth of them may never be taken
        return len(receiver.taken) > len(names) * len(ENDPOINTS) * 0.8 - 50 or enough()

    every = len(names) // 20
    receiver.refused.update(names[::every])
    await publish(bus, names)
    while not enough():
        more = [event_id() for _ in range(10)]
        if len(names) % every == 0:
            receiver.refused.add(more[0])
        names += more
        await publish(bus, more)
        await when(arrived, "nearly all have arrived", 300)


PROGRESS = 50
"""Attempts between two dead carriers: more than they hold, since an entry that four of them died on is poison by design."""


async def havoc(
    fleet: Fleet, counts: Counts, receiver: Receiver, pause: tuple[float, float], stop: asyncio.Event, least: int
) -> int:
    """Kills one after the other in random intervals until `stop`, `least` at least; what the carriers held as they died."""
    kinds = ("carrier", "dispatcher", "carrier", "chores")
    chance, held, seen = random.Random(11), 0, -PROGRESS
    while not stop.is_set() or fleet.killed < least:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), chance.uniform(*pause))
        kind = kinds[fleet.killed % len(kinds)]
        if not any(worker.ready for worker in fleet.of(kind)):
            continue  # on a busy machine a start takes longer than the pause, and nothing would ever be carried
        attempts = receiver.attempts.total()
        if kind == "carrier" and not stop.is_set() and attempts < seen + PROGRESS:
            continue
        if (
            kind == "carrier"
            and not stop.is_set()
            and not any(counts.held(worker.popen.pid) for worker in fleet.of(kind))
        ):
            continue
        victim = fleet.kill(kind)
        if kind == "carrier":
            seen = attempts
            held += counts.held(victim.popen.pid)
    return held


@pytest.mark.req("B-02", "B-03", "G-20")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("total", "kills", "pause"),
    [(200, 5, (0.2, 1.0)), pytest.param(10_000, 40, (1.0, 3.0), marks=pytest.mark.slow, id="full")],
    ids=["small", None],
)
async def test_every_delivery_is_delivered_or_a_dead_letter_though_all_its_carriers_are_killed(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    total: int,
    kills: int,
    pause: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret, names = generate_secret(), [event_id() for _ in range(total)]
    monkeypatch.setenv("CHAOS_SECRET", secret)  # the fleet's processes have it from here
    async with (
        Receiver(seed=3, seconds=0.05, secret=secret) as receiver,
        Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus,
    ):
        await apply(connections, keys, parse_hook_file(hooks(receiver.port), "fleet"))
        fleet.start("dispatcher", 2)
        fleet.start("carrier", 2)
        fleet.start("chores")
        await asyncio.to_thread(fleet.ready)
        stop = asyncio.Event()
        killing = asyncio.create_task(havoc(fleet, counts, receiver, pause, stop, kills))
        start = time.monotonic()
        await publish_until(bus, receiver, names, lambda: fleet.killed >= kills)
        owed = {delivery_id(name, endpoint) for name in names for endpoint in ENDPOINTS}

        most = len(owed) * 0.7
        await when(lambda: len(receiver.taken) > most, "most arrived in the middle of it", 600)
        stop.set()
        held = await killing
        calm = time.monotonic()

        await counts.settled(len(owed), 500)  # the breaker of the flaky one lets its ten thousand through bit by bit
        took, after = time.monotonic() - start, time.monotonic() - calm

    states = counts.deliveries()
    assert set(states) == owed
    dead = {name for name, state in states.items() if state == "dead"}
    delivered = owed - dead
    ids = {webhook_id(name): name for name in owed}
    assert set(receiver.attempts) == set(ids), "nothing went out under another id"
    not_taken = {name for name in delivered if not receiver.taken[webhook_id(name)]}
    assert not not_taken, "called delivered, and never taken"
    refused = {delivery_id(name, "picky") for name in receiver.refused}
    more = {
        name: counts.client.hget(keys("delivery", name), "reason")
        for name in dead - refused
        if not name.endswith(".flaky")
    }
    assert not more, "nothing else is given up"
    assert refused <= dead, "what is refused for good is a dead letter"
    assert not {name for name in dead if name.endswith((".good", ".more", ".most"))}
    assert not receiver.unsigned, "verified by an independent package"
    assert counts.bodies() == {name.partition(".")[0] for name in dead}, "bodies are kept for dead letters alone"
    assert not counts.record().repeated
    twice = sum(times - 1 for times in receiver.taken.values())
    assert twice <= held, "at most what the carriers had under way when they were killed"
    tell(
        f"{len(owed)} deliveries, {fleet.killed} kills: {len(delivered)} delivered, {len(dead)} dead letters, "
        f"{twice} taken twice of {held} held by the killed, {took:.1f} s in all, {after:.1f} s after the last kill"
    )
