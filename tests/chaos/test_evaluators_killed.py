"""Evaluators killed with -9 under load: every request is answered or falls back within its budget, and is on record."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import EVALUATORS_MS, Keys
from tests.chaos.counting import Counts, tell
from tests.chaos.fleet import Fleet
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT, PATIENCE, at_most

HOOKS = """
hooks:
  - id: no-forbidden
    on: tool:pre_execute:bash
    rule: {{decision: deny, command: [forbidden], reason: it says forbidden}}
  - id: effect
    on: tool:pre_execute:write
    command: echo "$FLEETHOOK_EVENT_ID" >> {effects}; sleep 0.03; echo looked at it >&2; exit 2
"""
BUDGET = 12.0
MARGIN = 1.5
"""Seconds that a client may come late on two shared cores."""

AGENTS = 12


async def asked(
    bus: Bus, ids: list[str], answered: dict[str, Verdict], took: dict[str, float], tick: asyncio.Event
) -> None:
    """One agent: asks for its requests one after the other; every third runs a command."""
    for turn, name in enumerate(ids):
        tool = ("bash", "bash", "write")[turn % 3]
        command = {"command": "echo forbidden" if turn % 2 else "ls"} if tool == "bash" else {"path": "a"}
        event = Event(
            type="tool:pre_execute", source="codex", session="s", tool=tool, id=name, host="test-host", input=command
        )
        start = time.monotonic()
        answered[name] = await bus.request(event, budget=BUDGET)
        took[name] = time.monotonic() - start
        tick.set()


@pytest.mark.req("B-01", "B-05", "F-03")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("total", "rounds"), [(240, 2), pytest.param(6_000, 30, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
async def test_every_request_is_answered_and_on_record_though_evaluators_are_killed(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    tmp_path: Path,
    total: int,
    rounds: int,
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    await apply(connections, keys, parse_hook_file(HOOKS.format(effects=effects), "fleet"))
    fleet.start("evaluator", 2, FLEETHOOK_SLOTS="4")
    await asyncio.to_thread(fleet.ready)
    chance = random.Random(7)
    kills = sorted(chance.sample(range(total // 20, total - total // 10), rounds))
    ids = [event_id() for _ in range(total)]
    answered: dict[str, Verdict] = {}
    took: dict[str, float] = {}
    tick = asyncio.Event()
    async with Bus(server.url, namespace=namespace(keys), on_failure="deny", connect=CONNECT) as bus:
        agents = [asyncio.create_task(asked(bus, ids[n::AGENTS], answered, took, tick)) for n in range(AGENTS)]
        for after in kills:
            while len(answered) < after:
                await tick.wait()
                tick.clear()
            # The restarted one first: two at the same time would be no evaluator at all, which has its own test.
            await asyncio.to_thread(fleet.ready)
            fleet.kill("evaluator")
        await asyncio.gather(*agents)
    await counts.settled()

    assert set(answered) == set(ids)
    late = {name: seconds for name, seconds in took.items() if seconds > BUDGET + MARGIN}
    assert not late
    record = counts.record()
    assert not record.repeated, "an event stands in the stream twice"
    assert set(record.ids) == set(ids), "every request is on record, and nothing else"
    fell_back = {name: verdict.fallback for name, verdict in answered.items() if verdict.fallback}
    # One evaluator lived at all times. What died three times with whoever had it is answered by policy (poison).
    assert all("handed out" in why for why in fell_back.values()), fell_back
    assert len(fell_back) <= total // 1000
    for name, verdict in answered.items():
        assert record.verdicts[name] == verdict, "what the agent was told is what was recorded"
    ran = Counter(effects.read_text().split())
    with_effect = {name for n in range(AGENTS) for turn, name in enumerate(ids[n::AGENTS]) if turn % 3 == 2}
    assert with_effect - set(fell_back) <= set(ran) <= with_effect, "every hook with effects ran"
    twice = {name for name, times in ran.items() if times > 1}
    assert not {name for name in twice if not answered[name].repeated}, "a second run that the verdict does not tell"
    assert {answered[name].decision for name in with_effect - set(fell_back)} == {"deny"}
    tell(
        f"{total} requests, {fleet.killed} kills: {len(twice)} hooks ran twice, {len(fell_back)} poison, "
        f"slowest {max(took.values()):.2f} s"
    )


@pytest.mark.req("B-05", "F-03")
async def test_with_no_evaluator_left_the_policy_answers_at_once_and_both_are_on_record(
    server: Server, keys: Keys, fleet: Fleet, counts: Counts
) -> None:
    fleet.start("evaluator", 2)
    await asyncio.to_thread(fleet.ready)
    async with Bus(server.url, namespace=namespace(keys), on_failure="deny", connect=CONNECT) as bus:
        one = await bus.request(call())
        fleet.kill("evaluator", again=False)
        fleet.kill("evaluator", again=False)
        stuck = [call() for _ in range(10)]
        start = time.monotonic()
        verdicts = await asyncio.gather(*(bus.request(event, budget=12.0) for event in stuck))
        waited = time.monotonic() - start
        start = time.monotonic()
        at_once = await bus.request(gone := call(), budget=120)
        assert time.monotonic() - start < at_most(0.5)
        fleet.start("evaluator")
        await asyncio.to_thread(fleet.ready)
        back = await bus.request(call(), budget=PATIENCE)
    await counts.settled()
    assert (one.fallback, back.fallback) == ("", "")
    assert {verdict.decision for verdict in (*verdicts, at_once)} == {"deny"}
    assert all("no evaluator" in verdict.fallback for verdict in (*verdicts, at_once)), (
        "their last heartbeat counted for 6 s"
    )
    assert waited < at_most(EVALUATORS_MS / 1000 + MARGIN)
    record = counts.record()
    assert not record.repeated
    assert {event.id for event in (*stuck, gone)} < set(record.verdicts), "the next evaluator put them on record"
    assert set(record.reports) == {event.id for event in (*stuck, gone)}, "and what their agents did stands beside it"
    assert set(map(len, record.reports.values())) == {1}


def call() -> Event:
    """A tool call that no hook knows."""
    return Event(type="tool:pre_execute", source="codex", session="s", tool="bash", id=event_id(), host="test-host")
