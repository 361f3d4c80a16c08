"""Redis gone under an agent, and an evaluator that stands still: policy within the deadline, and all of it on record."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import compile_shim
from bus.shim.spool import spool_status
from bus.wire.codec import decode_body, decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.conftest import Owned
from tests.chaos.counting import Counts, tell, when
from tests.chaos.fleet import Fleet
from tests.shim_kit import FALLBACK, QUIET, World
from tests.support.servers import Server
from tests.support.waiting import CONNECT, at_most

pytestmark = pytest.mark.usefixtures("each_shim")

HOOKS = """
hooks:
  - id: no-forbidden
    on: tool:pre_execute:bash
    rule: {decision: deny, command: [forbidden], reason: it says forbidden}
"""
DEADLINE = 2.0
MARGIN = 0.5
"""Seconds for the start of a Python on two shared cores, which no deadline can hold."""


class Calls:
    """Hook calls by the real command, each with a mark of its own, and how long each took."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.marks: dict[str, list[str]] = {"PreToolUse": [], "PostToolUse": []}
        self.slowest = 0.0

    def __call__(self, event: str) -> HookAnswer:
        """One hook call."""
        mark = f"mark-{sum(map(len, self.marks.values()))}"
        self.marks[event].append(mark)
        payload = {
            "tool_name": "Bash",
            "tool_input": {"command": "echo forbidden"},
            "tool_use_id": mark,
            "session_id": "s",
            "cwd": "/",
            "hook_event_name": event,
        }
        start = time.monotonic()
        answer = self._world.hook(json.dumps(payload).encode(), event)
        self.slowest = max(self.slowest, time.monotonic() - start)
        return answer


def told(world: World) -> dict[str, list[str]]:
    """The marks in the record by native event, in the order of the stream."""
    found: dict[str, list[str]] = {"PreToolUse": [], "PostToolUse": []}
    for row in world.entries("events"):
        if b"of" not in row:
            body = decode_body(row[b"body"])
            assert isinstance(body, bytes)
            found[row[b"event"].decode()].append(json.loads(body)["tool_use_id"])
    return found


@pytest.mark.req("B-05", "X-06")
@pytest.mark.timeout(1_800)  # 2,500 calls look for the server for 0.25 s each: ten minutes on a quiet machine
@pytest.mark.parametrize("total", [40, pytest.param(5_000, marks=pytest.mark.slow, id="full")], ids=["small", None])
async def test_redis_gone_means_policy_and_spool_and_back_everything_in_order_and_once(
    own: Callable[..., Owned], tmp_path: Path, total: int
) -> None:
    compile_shim()
    server, keys, fleet, counts = own(fsync="always")
    connections = Connections(server.url, connect=CONNECT)
    await apply(connections, keys, parse_hook_file(HOOKS, "fleet"))
    await connections.close()
    fleet.start("evaluator")
    fleet.start("dispatcher")
    await asyncio.to_thread(fleet.ready)
    world = World(tmp_path, server.socket, counts.client, keys)
    world.install(deadline_ms=int(DEADLINE * 1000))
    call = Calls(world)
    assert b"it says forbidden" in (await asyncio.to_thread(call, "PreToolUse")).stdout
    await asyncio.to_thread(call, "PostToolUse")

    await asyncio.to_thread(server.kill)
    for turn in range(total):
        event = ("PreToolUse", "PostToolUse")[turn % 2]
        answer = await asyncio.to_thread(call, event)
        assert answer == (FALLBACK if event == "PreToolUse" else QUIET), "the policy's own bytes"
    away = call.slowest
    assert away < at_most(DEADLINE + MARGIN)
    assert spool_status(world.spool).records == total
    await asyncio.to_thread(server.start)

    def drained() -> bool:
        call("PostToolUse")  # every shim that finds Redis looks whether something waits
        return spool_status(world.spool).records == 0

    await when(drained, "the spool is drained", 120)
    await counts.settled()
    record = counts.record()
    assert not record.repeated
    found = told(world)
    assert found["PreToolUse"] == call.marks["PreToolUse"], "the requests of the spool, in order, once"
    # Whoever found Redis again was there before what had waited; what had waited has kept its order.
    waited = call.marks["PostToolUse"][1 : 1 + total // 2]
    assert [mark for mark in found["PostToolUse"] if mark in set(waited)] == waited
    assert Counter(found["PostToolUse"]) == Counter(call.marks["PostToolUse"])
    rows = [row for row in world.entries("events") if b"of" not in row]
    fallbacks = [row[b"fallback"].decode() for row in rows if b"fallback" in row]
    assert len(fallbacks) == total // 2
    assert all("redis away" in why for why in fallbacks)
    tell(f"{total} hook calls while Redis was gone, the slowest {away:.3f} s; all came out of the spool once")


@pytest.mark.req("B-05", "F-03", "X-06")
async def test_an_evaluator_that_stands_still_costs_the_deadline_and_the_record_shows_both(
    server: Server, keys: Keys, connections: Connections, fleet: Fleet, counts: Counts, tmp_path: Path
) -> None:
    compile_shim()
    await apply(connections, keys, parse_hook_file(HOOKS, "fleet"))
    fleet.start("dispatcher")
    (evaluator,) = fleet.start("evaluator")
    await asyncio.to_thread(fleet.ready)
    world = World(tmp_path, server.socket, counts.client, keys)
    world.install(deadline_ms=1_000)
    call = Calls(world)
    assert b"it says forbidden" in (await asyncio.to_thread(call, "PreToolUse")).stdout
    evaluator.freeze()
    start = time.monotonic()
    assert await asyncio.to_thread(call, "PreToolUse") == FALLBACK
    assert time.monotonic() - start < at_most(1.0 + MARGIN)
    await when(lambda: not counts.client.exists(keys("alive", "evaluator")), "its heartbeat is gone")
    world.install(deadline_ms=120_000)
    start = time.monotonic()
    assert await asyncio.to_thread(call, "PreToolUse") == FALLBACK
    assert time.monotonic() - start < at_most(MARGIN), "nobody lives: the policy answers at once"
    evaluator.thaw()
    await counts.settled()
    assert b"it says forbidden" in (await asyncio.to_thread(call, "PreToolUse")).stdout
    await counts.settled()

    assert told(world)["PreToolUse"] == call.marks["PreToolUse"]
    rows = world.entries("events")
    verdicts = [decode_verdict(row[b"verdict"]) for row in rows if b"verdict" in row]
    late = [verdict.fallback for verdict in verdicts]
    assert late == ["", verdicts[1].fallback, "", ""]
    assert "budget" in verdicts[1].fallback, "what the evaluator recorded: out of time"
    reports = counts.record().reports
    assert [reports.get(verdict.event) for verdict in verdicts] == [
        None,
        ("no answer in time",),
        ("no evaluator",),
        None,
    ], "and what the agent did"
