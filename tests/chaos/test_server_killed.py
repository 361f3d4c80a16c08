"""The server killed with -9 and started again: what it acknowledged is there, and the workers find it by themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bus.client import Bus
from bus.errors import Unreachable
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import delivery_id, event_id, webhook_id
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.conftest import Owned
from tests.chaos.counting import tell, when
from tests.chaos.fleet import Fleet
from tests.chaos.receiver import Receiver
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until

HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
hooks:
  - id: no-forbidden
    on: tool:pre_execute:bash
    rule: {{decision: deny, command: [forbidden], reason: it says forbidden}}
endpoints:
  - {{id: good, url: "http://127.0.0.1:{port}/good", events: ["turn:end"], retry: [0.2, 0.4, 0.8, 1.6], max_in_flight: 8}}
"""
WINDOW = {"always": 0.0, "everysec": 2.5}
"""Seconds before a kill within which an acknowledged write may be lost. A killed process loses only what it had not handed
to the kernel: with everysec Redis answers before it writes while an fsync is under way, for two seconds at most."""


class Traffic:
    """Agents that publish and ask without a pause, and remember what was acknowledged and when."""

    def __init__(self, url: str, keys: Keys) -> None:
        self._bus = Bus(url, namespace=namespace(keys), connect=1.0)
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = False
        self.published: dict[str, float] = {}
        self.answered: dict[str, float] = {}
        self.refused = 0
        self.late: list[float] = []

    async def run(self, each: int) -> None:
        """Start `each` publishers and as many askers."""
        for _ in range(each):
            self._tasks += [asyncio.create_task(self._publish()), asyncio.create_task(self._ask())]

    async def end(self) -> None:
        """Stop them and close the connections; once more does no harm."""
        self._stop = True
        await asyncio.gather(*self._tasks)
        await self._bus.close()

    async def flows(self, more: int) -> None:
        """Wait until so many more of both kinds have been acknowledged."""
        events, verdicts = len(self.published) + more, len(self.answered) + more

        async def enough() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            return len(self.published) >= events and len(self.answered) >= verdicts

        await until(enough, f"{more} more events and verdicts", 120)

    async def notices(self) -> None:
        """Wait until they have been refused a few times."""
        some = self.refused + 4
        await when(lambda: self.refused >= some, "the agents notice")

    async def _publish(self) -> None:
        while not self._stop:
            event = Event(type="turn:end", source="codex", session="s", id=event_id(), host="test-host")
            try:
                self.published[await self._bus.publish(event)] = time.monotonic()
            except Unreachable:
                self.refused += 1
            await asyncio.sleep(0.01)

    async def _ask(self) -> None:
        while not self._stop:
            event = Event(
                type="tool:pre_execute",
                source="codex",
                session="s",
                tool="bash",
                id=event_id(),
                host="test-host",
                input={"command": "echo forbidden"},
            )
            start = time.monotonic()
            verdict = await self._bus.request(event, budget=4.0)
            self.late.append(time.monotonic() - start)
            if verdict.fallback:
                self.refused += 1
                await asyncio.sleep(0.01)
            else:
                assert verdict.decision == "deny"
                self.answered[event.id] = time.monotonic()


@asynccontextmanager
async def running(
    server: Server, keys: Keys, fleet: Fleet, *, each: int = 1
) -> AsyncIterator[tuple[Traffic, Receiver]]:
    """Hooks in force, a fleet with `each` evaluators, dispatchers and carriers, a receiver, and agents at work."""
    connections = Connections(server.url, connect=CONNECT)
    async with Receiver() as receiver:
        await put_in_force(connections, keys, receiver)
        for kind, count in (("evaluator", each), ("dispatcher", each), ("carrier", each), ("chores", 1)):
            fleet.start(kind, count)
        await asyncio.to_thread(fleet.ready)
        traffic = Traffic(server.url, keys)
        await traffic.run(3)
        try:
            yield traffic, receiver
        finally:
            await traffic.end()
            await connections.close()


async def put_in_force(connections: Connections, keys: Keys, receiver: Receiver) -> None:
    """Publishes the hooks."""
    await apply(connections, keys, parse_hook_file(HOOKS.format(port=receiver.port), "fleet"))


def alive(fleet: Fleet) -> dict[str, int]:
    """How many of each kind live."""
    return {kind: len(fleet.of(kind)) for kind in ("evaluator", "dispatcher", "carrier", "chores")}


@pytest.mark.req("B-05", "X-06")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fsync", ["everysec", "always"])
@pytest.mark.parametrize(
    ("rounds", "more"), [(1, 50), pytest.param(8, 350, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
async def test_what_was_acknowledged_is_there_after_the_server_was_killed(
    own: Callable[..., Owned], fsync: str, rounds: int, more: int
) -> None:
    server, keys, fleet, counts = own(fsync=fsync)
    kills: list[float] = []
    each = 1 if rounds == 1 else 2
    async with running(server, keys, fleet, each=each) as (traffic, _):
        for _ in range(rounds):
            await traffic.flows(more)
            kills.append(time.monotonic())
            await asyncio.to_thread(server.kill)
            await traffic.notices()
            await asyncio.to_thread(server.start)
        back = time.monotonic()
        await traffic.flows(more)
        back = time.monotonic() - back
        await traffic.end()
        await counts.settled()
        record = counts.record()
        kept = [name for name in traffic.published if name in record.ids]
        await counts.settled(len(kept))
    assert alive(fleet) == {"evaluator": each, "dispatcher": each, "carrier": each, "chores": 1}, "none ended over it"

    assert not record.repeated
    lost = {name: when for name, when in (traffic.published | traffic.answered).items() if name not in record.ids}
    ages = [min(kill - when for kill in kills if kill >= when) for when in lost.values()]
    assert max(ages, default=0.0) <= WINDOW[fsync]
    assert all(record.verdicts[name].decision == "deny" for name in traffic.answered if name not in lost)
    states = counts.deliveries()
    assert {states.get(delivery_id(name, "good")) for name in kept} == {"delivered"}
    assert max(traffic.late) < 4.0 + 1.5, "policy answered within the budget"
    tell(
        f"{fsync}: {len(traffic.published)} events and {len(traffic.answered)} verdicts acknowledged, {rounds} kills, "
        f"{len(lost)} lost (at most {max(ages, default=0.0):.3f} s before the kill), {traffic.refused} refused meanwhile, "
        f"flowing {back:.1f} s after the last start"
    )


@pytest.mark.slow
@pytest.mark.req("B-02", "B-05")
async def test_after_a_long_outage_deliveries_flow_within_five_seconds(own: Callable[..., Owned]) -> None:
    server, keys, fleet, counts = own()
    async with running(server, keys, fleet) as (traffic, receiver):
        await traffic.flows(10)
        await traffic.end()
        await counts.settled()
        await when(lambda: not counts.client.exists(keys("alive", "carrier")), "the RQ workers have nothing to do")
        await asyncio.to_thread(server.kill)
        await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=8.5)
        await asyncio.to_thread(server.start)
        async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
            name = await bus.publish(Event(type="turn:end", source="codex", session="s", host="test-host"))
        await when(lambda: receiver.taken[webhook_id(delivery_id(name, "good"))], "deliveries flow again", 5.0)


@pytest.mark.req("B-05")
async def test_a_server_that_comes_back_empty_gets_its_groups_again(own: Callable[..., Owned]) -> None:
    server, keys, fleet, counts = own(persistent=False)
    async with running(server, keys, fleet) as (traffic, receiver):
        await traffic.flows(20)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        connections = Connections(server.url, connect=CONNECT)
        await put_in_force(connections, keys, receiver)
        await connections.close()
        taken = len(receiver.taken)
        await traffic.flows(40)
        await when(lambda: len(receiver.taken) > taken + 20, "deliveries flow again")
        await traffic.end()
        await counts.settled()
    assert alive(fleet) == {"evaluator": 1, "dispatcher": 1, "carrier": 1, "chores": 1}
    assert not counts.record().repeated
