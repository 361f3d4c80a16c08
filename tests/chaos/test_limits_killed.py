"""Limits under 20 parallel callers while evaluators are killed with -9: nothing counts twice, and no limit is passed (X-13)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.memory.charges import session_key
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.counting import Counts, tell
from tests.chaos.fleet import Fleet
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT

MOST = 100
HOOKS = f"""
hooks:
  - id: enough
    on: tool:pre_execute
    rule: {{decision: deny, limit: {MOST} per hour per session, reason: enough}}
  - id: effect
    on: tool:pre_execute:write
    command: exit 0
"""
CALLERS = 20


async def calls(bus: Bus, names: list[str], number: int, said: dict[str, Verdict], tick: asyncio.Event) -> None:
    """One subagent: a session of its own that counts for the root; every fifth call also runs a command."""
    for turn, name in enumerate(names):
        event = Event(
            type="tool:pre_execute",
            source="codex",
            session=f"sub{number}",
            tool="write" if turn % 5 == 0 else "bash",
            id=name,
            call=name,
            host="test-host",
            input={"command": "ls", "path": "a"},
            data={"parent_session": "root"},
        )
        said[name] = await bus.request(event, budget=30.0)
        tick.set()


@pytest.mark.req("X-13")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("total", "kills"), [(160, 3), pytest.param(2_000, 20, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
async def test_parallel_subagents_stay_within_a_limit_though_evaluators_are_killed(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    tmp_path: Path,
    total: int,
    kills: int,
) -> None:
    await apply(connections, keys, parse_hook_file(HOOKS, "fleet"))
    fleet.start("evaluator", 3, FLEETHOOK_SLOTS="4")
    await asyncio.to_thread(fleet.ready)
    ids = [event_id() for _ in range(total)]
    said: dict[str, Verdict] = {}
    tick = asyncio.Event()
    async with Bus(server.url, namespace=namespace(keys), on_failure="deny", connect=CONNECT) as bus:
        agents = [asyncio.create_task(calls(bus, ids[n::CALLERS], n, said, tick)) for n in range(CALLERS)]
        for kill in range(kills):
            # Most of them while the limit fills, since nothing counts after it.
            while len(said) < min(MOST, total // 2) * (kill + 1) // (kills + 1):
                await tick.wait()
                tick.clear()
            await asyncio.to_thread(fleet.ready)
            fleet.kill("evaluator")
        await asyncio.gather(*agents)
    await counts.settled()

    fallbacks = {name for name, one in said.items() if one.fallback}
    passed = {name for name, one in said.items() if one.decision == "abstain"}
    over = {name for name, one in said.items() if "enough (100 of 100 calls per hour for this session" in one.reason}
    assert set(said) == passed | over | fallbacks
    assert len(fallbacks) <= total // 500
    # A call whose evaluator died three times is denied by policy; it may have been counted by none of them.
    assert len(passed) <= MOST
    assert len(passed) + len(fallbacks) >= MOST
    counted = sorted(
        use.count for name in passed for use in [part.limit for part in said[name].parts] if use and use.count
    )
    assert counted == list(range(1, len(passed) + 1)), "each call that passed has its own number"
    with connections.lease() as connection:
        ((_, names),) = await connection.exchange([("SCAN", 0, "MATCH", keys("limit", "*"), "COUNT", 10_000)])
        (kept,) = await connection.exchange([("ZCARD", names[0])])
    assert [name.decode().rpartition(":")[2] for name in names] == [session_key("codex", "root")]
    assert kept == len(passed)
    record = counts.record()
    assert not record.repeated
    assert {name for name, one in record.verdicts.items() if one.decision == "abstain"} == passed
    tell(f"{total} calls of {CALLERS} callers, {fleet.killed} kills: {len(passed)} passed, {len(fallbacks)} fallbacks")
