"""Carriers and dispatchers killed with -9 under ordered sessions and batches: nothing is lost, and every order holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import defaultdict

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.http.signing import generate_secret
from bus.ids import delivery_id, event_id
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.counting import Counts, tell
from tests.chaos.fleet import Fleet
from tests.chaos.receiver import Receiver
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT

MOST = 20
HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: line, url: "http://127.0.0.1:{port}/flaky", order: fifo, retry: {retry}, max_in_flight: 20, {more}}}
  - {{id: heap, url: "http://127.0.0.1:{port}/flaky", batch: {{max_events: {most}, max_wait: 0.3}}, retry: {retry}, {more}}}
"""
MORE = 'events: ["turn:end"], secret: env:CHAOS_SECRET'


class Paced(Receiver):
    """Notes which events came under which webhook-id, and which were taken in which order."""

    def __init__(self, seed: int, secret: str) -> None:
        super().__init__(seed=seed, seconds=0.02, secret=secret)
        self.events: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self.sessions: dict[str, list[str]] = defaultdict(list)
        """By session, the events that the ordered endpoint has taken; each where it was taken first."""
        self.heaped: set[str] = set()
        self._session: dict[str, str] = {}

    def _verify(self, body: bytes, headers: dict[str, str]) -> None:
        super()._verify(body, headers)
        told = json.loads(body)
        each = told["events"] if told["type"] == "batch" else [told]
        self.events[headers["webhook-id"]].add(tuple(one["data"]["id"] for one in each))
        self._session[headers["webhook-id"]] = "" if told["type"] == "batch" else told["data"]["session"]

    def _status(self, path: str, name: str) -> int:
        status = super()._status(path, name)
        if status == 204:
            (events,) = self.events[name]
            taken = self.sessions[self._session[name]]
            if not self._session[name]:
                self.heaped.update(events)
            elif events[0] not in taken:
                taken.append(events[0])
        return status


async def havoc(fleet: Fleet, counts: Counts, pause: tuple[float, float], stop: asyncio.Event) -> None:
    """Kills a carrier that holds something, or a dispatcher, in random intervals until `stop`."""
    kinds, chance = ("carrier", "carrier", "dispatcher"), random.Random(7)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), chance.uniform(*pause))
        kind = kinds[fleet.killed % len(kinds)]
        ready = [worker for worker in fleet.of(kind) if worker.ready]
        if len(ready) < 2 and kind == "dispatcher":
            continue  # the one that stands by is still starting
        if ready and (kind == "dispatcher" or _to_kill(counts)):
            fleet.kill(kind)


def _to_kill(counts: Counts) -> bool:
    """Whether carriers hold something, and nothing that carriers died on twice: with the fourth it is poison by design."""
    held = counts.client.xpending_range(counts.keys("deliveries"), "carriers", "-", "+", 1_000)
    return bool(held) and max(entry["times_delivered"] for entry in held) < 3


@pytest.mark.req("B-03", "B-06", "G-22")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("total", "sessions", "kills", "pause"),
    [(240, 12, 4, (0.3, 1.0)), pytest.param(6_000, 60, 30, (1.0, 3.0), marks=pytest.mark.slow, id="full")],
    ids=["small", None],
)
async def test_sessions_stay_in_order_and_batches_whole_though_their_carriers_are_killed(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    total: int,
    sessions: int,
    kills: int,
    pause: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret, chance = generate_secret(), random.Random(3)
    monkeypatch.setenv("CHAOS_SECRET", secret)  # the fleet's processes have it from here
    sent: list[Event] = []
    wanted: dict[str, list[str]] = defaultdict(list)
    async with (
        Paced(5, secret) as receiver,
        Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus,
    ):
        await apply(
            connections,
            keys,
            parse_hook_file(HOOKS.format(port=receiver.port, retry=[0.1] * 30, most=MOST, more=MORE), "fleet"),
        )
        fleet.start("dispatcher", 2)
        fleet.start("carrier", 2)
        await asyncio.to_thread(fleet.ready)
        stop, start = asyncio.Event(), time.monotonic()
        killing = asyncio.create_task(havoc(fleet, counts, pause, stop))
        while len(sent) < total or fleet.killed < kills:  # something is always under way for the next kill to find
            assert time.monotonic() - start < (60 if total < 1_000 else 600)
            heap = [
                Event(
                    type="turn:end",
                    source="codex",
                    session=f"s{chance.randrange(sessions)}",
                    id=event_id(),
                    host="test-host",
                )
                for _ in range(12)
            ]
            await bus.publish_many(heap)
            sent += heap
            await asyncio.sleep(0.1)
        stop.set()
        await killing
        await counts.settled(2 * len(sent), 300)
        took = time.monotonic() - start

    for one in sent:
        wanted[one.session].append(one.id)
    states = counts.deliveries()
    assert set(states) == {delivery_id(one.id, name) for one in sent for name in ("line", "heap")}
    dead = {
        name: counts.client.hget(keys("delivery", name), "reason") for name, state in states.items() if state == "dead"
    }
    assert not dead
    assert not receiver.unsigned, "verified by an independent package"
    assert dict(receiver.sessions) | {"": []} == dict(wanted) | {"": []}, "each session in its order, and whole"
    assert receiver.heaped == {one.id for one in sent}
    assert all(len(held) == 1 for held in receiver.events.values()), "what is sent again is what was sent"
    batches = [next(iter(held)) for name, held in receiver.events.items() if name.startswith("b")]
    assert sorted(name for batch in batches for name in batch) == sorted(one.id for one in sent), (
        "each in one batch alone"
    )
    assert max(map(len, batches)) <= MOST
    assert fleet.killed >= kills
    twice = sum(times - 1 for times in receiver.taken.values())
    tell(f"{2 * len(sent)} deliveries, {len(batches)} batches, {fleet.killed} kills, {twice} taken twice, {took:.1f} s")
