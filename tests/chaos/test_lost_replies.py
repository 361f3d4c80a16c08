"""A proxy that swallows one reply at each step of whoever asks or publishes: no event twice, no verdict lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from pathlib import Path

import pytest

from bus.client import Bus
from bus.errors import Unreachable
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import RedisServer, compile_shim
from bus.shim.spool import spool_status
from bus.wire.codec import decode_body
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.counting import Counts
from tests.chaos.fleet import Fleet
from tests.cli_kit import namespace
from tests.shim_kit import FALLBACK, World
from tests.support.proxy import Proxy
from tests.support.servers import Server
from tests.support.waiting import CONNECT, at_most, until

HOOKS = """
hooks:
  - id: no-forbidden
    on: tool:pre_execute:bash
    rule: {{decision: deny, command: [forbidden], reason: it says forbidden}}
  - id: effect
    on: tool:pre_execute:write
    command: echo "$FLEETHOOK_EVENT_ID" >> {effects}; sleep 0.15; echo looked at it >&2; exit 2
"""
Losses = list[tuple[int, ...]]
FEW: Losses = [(0,), (1,), (2,), (3,), (0, 0), (1, 0), (2, 1)]
ALL: Losses = [(n,) for n in range(8)] + [(n, m) for n in range(8) for m in range(4)]
"""Which replies are lost, counted over all connections: one; or two, that one and the reply to the m-th XADD."""

LOSSES = pytest.mark.parametrize(
    "several", [FEW, pytest.param(ALL, marks=pytest.mark.slow, id="full")], ids=["small", None]
)

BUDGET = 6.0
NEVER = 1_000_000


def lose(proxy: Proxy, losses: tuple[int, ...]) -> None:
    """Arm the proxy: one reply, or two."""
    proxy.swallowed.clear()
    proxy.swallow_reply(losses[0])
    proxy.swallow_reply(losses[1] if len(losses) == 2 else NEVER, of="XADD")


def write_call(tool: str) -> Event:
    """A call that is denied, by a rule or by a command that takes its time."""
    return Event(
        type="tool:pre_execute",
        source="codex",
        session="s",
        tool=tool,
        id=event_id(),
        host="test-host",
        input={"command": "echo forbidden"} if tool == "bash" else {"path": "a"},
    )


@LOSSES
@pytest.mark.req("B-01", "B-05")
async def test_a_request_has_its_verdict_whichever_reply_is_lost(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    tmp_path: Path,
    several: Losses,
) -> None:
    effects = tmp_path / "effects"
    await apply(connections, keys, parse_hook_file(HOOKS.format(effects=effects), "fleet"))
    fleet.start("evaluator", 2)
    await asyncio.to_thread(fleet.ready)
    asked: list[Event] = []
    async with Proxy(server.url) as proxy, Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bus:
        for tool in ("bash", "write"):
            for losses in several:
                lose(proxy, losses)
                asked.append(event := write_call(tool))
                start = time.monotonic()
                verdict = await bus.request(event, budget=BUDGET)
                assert time.monotonic() - start < at_most(BUDGET)
                assert (verdict.decision, verdict.fallback) == ("deny", ""), (losses, proxy.swallowed)
    await counts.settled()
    record = counts.record()
    assert record.ids == Counter(event.id for event in asked), "one event for each, and no report of a fallback"
    assert not record.reports
    assert Counter(effects.read_text().split()) == Counter(event.id for event in asked if event.tool == "write")


@pytest.mark.req("B-01", "B-05")
async def test_an_event_is_published_once_whichever_reply_is_lost(
    server: Server, keys: Keys, fleet: Fleet, counts: Counts
) -> None:
    fleet.start("dispatcher")
    await asyncio.to_thread(fleet.ready)
    names: list[str] = []
    async with Proxy(server.url) as proxy, Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bus:
        for after in range(4):
            proxy.swallow_reply(after)
            heap = [Event(type="turn:end", source="codex", id=event_id(), host="test-host") for _ in range(3)]
            names += await bus.publish_many(heap)
            names.append(await bus.publish(Event(type="turn:end", source="codex", host="test-host")))
        assert len(proxy.swallowed) == 4
    await counts.settled()
    assert counts.record().ids == Counter(names)


@pytest.mark.req("B-05", "X-06")
async def test_an_event_whose_reply_is_lost_twice_comes_out_of_the_spool_once(
    server: Server, keys: Keys, fleet: Fleet, counts: Counts, tmp_path: Path
) -> None:
    world = World(tmp_path, server.socket, counts.client, keys)
    world.install()
    fleet.start("dispatcher")
    await asyncio.to_thread(fleet.ready)
    async with Proxy(server.url) as proxy:
        async with Bus(proxy.url, namespace=namespace(keys), connect=CONNECT, spool=world.spool) as bus:
            lose(proxy, (1, 0))  # the first XADD, and the reply after it: the second XADD
            spooled = await bus.publish(Event(type="turn:end", source="codex", host="test-host"))
            assert proxy.swallowed == ["XADD", "XADD"]
            direct = await bus.publish(Event(type="turn:end", source="codex", host="test-host"))
        async with Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bus:
            lose(proxy, (1, 0))
            with pytest.raises(Unreachable):
                await bus.publish(unsure := Event(type="turn:end", source="codex", host="test-host", id=event_id()))
            assert await bus.publish(unsure) == unsure.id
    assert spool_status(world.spool).records == 0, "the next publish has sent it on"
    await counts.settled()
    assert set(counts.record().ids) == {spooled, direct, unsure.id}
    assert counts.record().ids[spooled] == 1


@LOSSES
@pytest.mark.req("B-05", "X-06")
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
@pytest.mark.usefixtures("each_shim")
async def test_a_hook_call_is_on_record_once_whichever_reply_is_lost(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    tmp_path: Path,
    event: str,
    several: Losses,
) -> None:
    compile_shim()
    await apply(connections, keys, parse_hook_file(HOOKS.format(effects=tmp_path / "effects"), "fleet"))
    world = World(tmp_path, server.socket, counts.client, keys)
    world.install(deadline_ms=3_000)
    fleet.start("dispatcher")
    fleet.start("evaluator")
    await asyncio.to_thread(fleet.ready)
    marks: list[str] = []

    async def hook() -> HookAnswer:
        marks.append(f"mark-{len(marks)}")
        payload = {
            "tool_name": "Bash",
            "tool_input": {"command": "echo forbidden"},
            "tool_use_id": marks[-1],
            "session_id": "s",
            "cwd": "/",
            "hook_event_name": event,
        }
        return await asyncio.to_thread(world.hook, json.dumps(payload).encode(), event)

    answers: list[tuple[int, HookAnswer]] = []
    async with Proxy(server.url) as proxy:
        world.use(RedisServer(kind="unix", address=proxy.url.removeprefix("unix://").partition("?")[0]))
        for losses in several:
            lose(proxy, losses)
            start = time.monotonic()
            answers.append((len(losses), await hook()))
            assert time.monotonic() - start < at_most(3.0 + 1.0)
    world.install(deadline_ms=3_000)

    async def drained() -> bool:
        last = await hook()
        assert last.exit_code == 0
        return spool_status(world.spool).records == 0

    await until(drained, "the spool is drained")
    await counts.settled()
    record = counts.record()
    assert not record.repeated
    told: Counter[str] = Counter()
    for row in world.entries("events"):
        if b"of" not in row:
            body = decode_body(row[b"body"])
            assert isinstance(body, bytes)
            told[json.loads(body)["tool_use_id"]] += 1
    assert told == Counter(marks), "every hook call is on record once"
    if event == "PreToolUse":
        fell_back = [number for number, answer in answers if answer == FALLBACK]
        denied = [number for number, answer in answers if b"it says forbidden" in answer.stdout]
        assert len(denied) + len(fell_back) == len(answers), "the verdict, or the policy"
        assert 1 not in fell_back, "one lost reply costs no verdict"
        told_so = sum(1 for verdict in record.verdicts.values() if verdict.fallback) + len(record.reports)
        assert len(fell_back) <= told_so, "whoever fell back says so"


@pytest.mark.req("B-05")
async def test_a_reply_that_comes_too_late_is_taken_by_nobody_else(server: Server) -> None:
    async with Proxy(server.url) as proxy:
        slow = Connections(proxy.url, connect=CONNECT)
        with slow.lease() as connection:
            assert await connection.exchange([("ECHO", "first")]) == [b"first"]
            proxy.freeze()
            with pytest.raises(Unreachable, match="in time"):
                await connection.exchange([("ECHO", "late")], seconds=0.2)
        proxy.thaw()
        with slow.lease() as connection:
            assert await connection.exchange([("ECHO", "second")]) == [b"second"]
        await slow.close()
