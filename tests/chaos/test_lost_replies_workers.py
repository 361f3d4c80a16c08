"""A proxy that swallows one reply at each step of a worker's loop: nothing is forgotten, nothing is done twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import delivery_id, event_id, webhook_id
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.counting import Counts, tell
from tests.chaos.fleet import Fleet
from tests.chaos.receiver import Receiver
from tests.cli_kit import namespace
from tests.support.proxy import Proxy
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until

REQUEST_HOOKS = """
hooks:
  - id: no-forbidden
    on: tool:pre_execute:bash
    rule: {{decision: deny, command: [forbidden], reason: it says forbidden}}
  - id: effect
    on: tool:pre_execute:write
    command: echo "$FLEETHOOK_EVENT_ID" >> {effects}; exit 2
"""
EVENT_HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: good, url: "http://127.0.0.1:{port}/good", events: ["turn:end"], retry: [0.2, 0.4], max_in_flight: 3}}
  - {{id: flaky, url: "http://127.0.0.1:{port}/flaky", events: ["turn:end"], retry: [0.1, 0.1, 0.1, 0.1, 0.1, 0.1]}}
"""
EVALUATOR_STEPS = ("XREADGROUP", "ANSWER", "CLAIM", "GET", "SET", "XINFO", "EXISTS", "XPENDING", "DEFER", "HINCRBY", "")
CARRIER_STEPS = ("XREADGROUP", "TAKE", "SETTLE", "GET", "SET", "XINFO", "EXISTS", "XPENDING", "")
DISPATCHER_STEPS = ("XREADGROUP", "DISPATCH", "WAKE", "LEASE", "UNPARK", "XLEN", "XINFO", "SET", "GET", "XPENDING", "")


def steps(names: tuple[str, ...], rounds: int) -> list[tuple[str, int]]:
    """Which reply is lost in each round: of which command (any where empty), and how many go before it."""
    chance = random.Random(5)
    return [(name, chance.randrange(4 if name else 40)) for _ in range(rounds) for name in names]


@pytest.mark.req("B-01", "B-05")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow, id="full")], ids=["small", None])
async def test_an_evaluator_that_loses_replies_answers_every_request_once(
    server: Server, keys: Keys, connections: Connections, fleet: Fleet, counts: Counts, tmp_path: Path, rounds: int
) -> None:
    effects = tmp_path / "effects"
    await apply(connections, keys, parse_hook_file(REQUEST_HOOKS.format(effects=effects), "fleet"))
    asked: dict[str, str] = {}
    lost: Counter[str] = Counter()
    async with Proxy(server.url) as proxy, Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        fleet.start("evaluator", FLEETHOOK_REDIS_URL=proxy.url, FLEETHOOK_SLOTS="2")
        await asyncio.to_thread(fleet.ready)

        async def ask(tool: str) -> Verdict:
            event = Event(
                type="tool:pre_execute",
                source="codex",
                session="s",
                tool=tool,
                id=event_id(),
                host="test-host",
                input={"command": "echo forbidden"} if tool == "bash" else {"path": "a"},
            )
            asked[event.id] = tool
            return await bus.request(event, budget=8.0)

        for name, after in steps(EVALUATOR_STEPS, rounds):
            proxy.swallow_reply(after, of=name)
            for _ in range(2):
                verdicts = await asyncio.gather(*(ask(tool) for tool in ("bash", "write") * 4))
                assert {(one.decision, one.fallback) for one in verdicts} == {("deny", "")}, (name, after)
        lost.update(proxy.swallowed)
        await counts.settled()
    record = counts.record()
    assert record.ids == Counter(asked.keys()), "one event for each request"
    assert not record.reports
    assert Counter(effects.read_text().split()) == Counter(name for name, tool in asked.items() if tool == "write")
    assert {"XREADGROUP", "ANSWER", "CLAIM"} <= set(lost)
    tell(f"evaluator: {len(asked)} requests, lost replies {dict(lost)}")


@pytest.mark.req("B-02", "B-03", "G-20")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["carrier", "dispatcher"])
@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow, id="full")], ids=["small", None])
async def test_a_deliverer_that_loses_replies_delivers_every_event_once(
    server: Server, keys: Keys, connections: Connections, fleet: Fleet, counts: Counts, kind: str, rounds: int
) -> None:
    names: list[str] = []
    async with (
        Receiver(seed=1) as receiver,
        Proxy(server.url) as proxy,
        Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus,
    ):
        await apply(connections, keys, parse_hook_file(EVENT_HOOKS.format(port=receiver.port), "fleet"))
        for one in ("dispatcher", "carrier"):
            fleet.start(one, FLEETHOOK_REDIS_URL=proxy.url if one == kind else server.url, FLEETHOOK_RQ_URL=server.url)
        fleet.start("chores")
        await asyncio.to_thread(fleet.ready)
        for name, after in steps(CARRIER_STEPS if kind == "carrier" else DISPATCHER_STEPS, rounds):
            proxy.swallow_reply(after, of=name)
            heap = [event_id() for _ in range(8)]
            names += heap
            await bus.publish_many([Event(type="turn:end", source="codex", id=one, host="test-host") for one in heap])

            async def taken(heap: list[str] = heap) -> bool:
                return all(receiver.taken[webhook_id(delivery_id(one, "good"))] for one in heap)

            await until(taken, f"they arrive though a reply of {name or 'anything'} is lost")
        await counts.settled(2 * len(names))
        lost = Counter(proxy.swallowed)
    owed = {delivery_id(name, endpoint) for name in names for endpoint in ("good", "flaky")}
    states = counts.deliveries()
    assert set(states) == owed
    delivered = {webhook_id(name) for name, state in states.items() if state == "delivered"}
    assert receiver.taken == Counter(delivered), "once each: nobody died"
    assert counts.record().ids == Counter(names)
    assert counts.bodies() == {name.partition(".")[0] for name, state in states.items() if state == "dead"}
    assert {"XREADGROUP", "TAKE", "SETTLE"} <= set(lost) or {"XREADGROUP", "DISPATCH", "WAKE"} <= set(lost)
    tell(f"{kind}: {len(names)} events, lost replies {dict(lost)}")
