"""Several evaluators: what they share, what one leaves behind that dies, and what none of them loses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bus.errors import Unreachable
from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.requests import read_request
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from tests.support.proxy import Proxy
from tests.support.running import (
    HOST,
    NO_RM,
    ask,
    bash,
    command_hook,
    counts,
    do,
    evaluating,
    lines,
    member,
    publish_hooks,
    put,
    stream,
    take_and_die,
    until_true,
    verdict,
)
from tests.support.servers import Server
from tests.support.waiting import until
from workers.evaluator import GROUP, Evaluator
from workers.runtime.consumer_loop import with_heartbeat
from workers.runtime.hook_loops import MOST_STEPS


@pytest.mark.req("B-05")
async def test_entries_of_the_dead_are_carried_on_and_those_of_the_slow_are_not(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    await publish_hooks(connections, keys, NO_RM)
    slow = member(connections, keys, "slow")
    await slow.create()
    names = [(await put(connections, keys, bash())) for _ in range(2)]
    with connections.lease() as connection:
        (kept,) = await slow.read(connection, 1, 0.01)
    await take_and_die(connections, keys, "dead", 1)
    async with evaluating(server.url, keys) as evaluator:
        said = await verdict(connections, names[1][1])
        assert said.event == names[1][0]
        for _ in range(3):  # it looks for the dead again and again, and lets the slow one be
            evaluator._consumer._claimed_at = 0.0
            with connections.lease() as connection:
                await connection.exchange(slow.beat_commands())
            await ask(connections, keys)
        assert (await do(connections, "XPENDING", keys("requests"), GROUP, "-", "+", 9))[0][:2] == [
            kept.id.encode(),
            b"slow",
        ]
        await do(connections, "DEL", keys("beat", "slow"))
        assert (await verdict(connections, names[0][1])).event == names[0][0]


@pytest.mark.req("B-05")
async def test_hooks_that_may_have_begun_are_said_to(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """An evaluator dies in the middle of a hook: another one runs it again, and the verdict says so."""
    ran = tmp_path / "ran"
    await publish_hooks(
        connections, keys, command_hook(f"echo x >> {ran}; test $(wc -l < {ran}) -gt 1 || sleep 60; exit 2")
    )
    watcher = Watcher(connections, keys, host=HOST, user_file=None, trust_file=Path("/nonexistent"))
    first = Evaluator(server.url, keys, watcher, connections)
    await first.prepare()
    running = asyncio.create_task(first.run(asyncio.Event()))
    _, reply = await put(connections, keys, bash())
    await until_true(lambda: lines(ran), "the hook runs")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with evaluating(server.url, keys):
        said = await verdict(connections, reply)
    assert (said.decision, said.repeated, lines(ran)) == ("deny", True, ["x", "x"])
    assert any("may have run twice" in note for note in said.notes)
    assert len(await stream(connections, keys)) == 1


@pytest.mark.req("B-05")
async def test_what_a_long_read_brings_is_not_resumed_as_lost(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """After a lost reply the upkeep looks for pending entries that were never seen; those just read are none of them."""
    ran = tmp_path / "ran"
    await publish_hooks(connections, keys, command_hook(f"echo x >> {ran}; exit 2"))
    watcher = Watcher(connections, keys, host=HOST, user_file=None, trust_file=Path("/nonexistent"))
    evaluator, stop = Evaluator(server.url, keys, watcher, connections), asyncio.Event()
    await evaluator.prepare()
    await evaluator._turn(stop)  # finds nothing, so the next read is a long one
    evaluator._maintained_at = float("inf")  # no upkeep but the one after that read
    _, reply = await put(connections, keys, bash())
    evaluator._consumer.must_recheck_pending, evaluator._consumer._rechecked_at = True, 0.0
    await evaluator._turn(stop)
    assert not evaluator._consumer.must_recheck_pending, "it looked"
    await asyncio.gather(*evaluator._slots.tasks)
    assert ((await verdict(connections, reply)).decision, lines(ran)) == ("deny", ["x"])
    await evaluator._reading.close()


@pytest.mark.req("B-05")
async def test_a_lost_look_for_a_question_repeats_no_hook(keys: Keys, tmp_path: Path) -> None:
    """While questions may wait, an answer looks for one. Without Redis, hooks that have run are answered all the same."""
    gone = Connections(f"unix://{tmp_path}/gone.sock", connect=0.1)
    watcher = Watcher(gone, keys, host=HOST, user_file=None, trust_file=Path("/nonexistent"))
    evaluator = Evaluator(gone.url, keys, watcher, gone)
    fields = {b"id": b"e1", b"source": b"generic", b"event": b"tool:pre_execute", b"budget": b"10000"}
    request = read_request(StreamEntry(keys("requests"), "1-0", fields), keys)
    denied = Verdict(decision="deny", event="e1")
    (call,) = await evaluator._held.answer(request, bash(), denied, owner=evaluator.name)
    assert (call.name, call.args[1]) == ("answer", "1-0")
    with pytest.raises(Unreachable):  # rules alone are judged again
        await evaluator._held.answer(request, bash(), denied)


@pytest.mark.req("B-05")
async def test_two_evaluators_share_and_one_that_leaves_finishes(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """One slot each: two hooks at once are two evaluators. One is told to end: its request is answered, then it is gone."""
    meet = tmp_path / "meet"
    both = f"echo $$ >> {meet}; until test $(wc -l < {meet}) -ge 2; do sleep 0.01; done; exit 2"
    await publish_hooks(connections, keys, command_hook(both))
    async with evaluating(server.url, keys, slots=1):
        async with evaluating(server.url, keys, slots=1):
            asked = [await put(connections, keys, bash()) for _ in range(2)]
            await until_true(lambda: len(lines(meet)) == 2, "both run at once")
        said = [await verdict(connections, reply, 0.1) for _, reply in asked]
        assert [one.decision for one in said] == ["deny", "deny"]
        assert int(await do(connections, "EXISTS", keys("alive", "evaluator"))) == 1, "the other one lives"
        assert (await ask(connections, keys)).decision == "deny"
    rows = await do(connections, "XINFO", "CONSUMERS", keys("requests"), GROUP)
    assert rows == [], "whoever leaves with nothing pending is no member any more"


@pytest.mark.req("B-05")
async def test_what_outlasts_the_drain_is_left_to_others(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    await publish_hooks(
        connections, keys, command_hook(f"echo x >> {ran}; test $(wc -l < {ran}) -gt 1 || sleep 60; exit 2")
    )
    async with evaluating(server.url, keys, drain=0.05):
        _, reply = await put(connections, keys, bash())
        await until_true(lambda: lines(ran), "the hook runs")
    async with evaluating(server.url, keys):
        assert (await verdict(connections, reply)).repeated


@pytest.mark.req("B-02", "B-05")
async def test_rules_never_queue_behind_processes(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """All slots are taken: what needs a process is put aside, what needs rules only is answered; then the rest runs."""
    go = tmp_path / "go"
    hooks = [
        {"id": "cmd", "on": "tool:pre_execute:bash", "command": f"until test -e {go}; do sleep 0.01; done; exit 2"},
        {"id": "rule", "on": "tool:pre_execute:write", "rule": {"reason": "no writing"}},
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": hooks}))
    async with evaluating(server.url, keys, slots=1):
        blocked = [await put(connections, keys, bash(), id=f"e{n}") for n in range(3)]
        await until(lambda: counts(connections, keys, "waiting", 2), "two are put aside")
        for _ in range(3):
            _, reply = await put(connections, keys, Event(type="tool:pre_execute", tool="write"))
            assert (await verdict(connections, reply, 1)).reason == "no writing"
        go.touch()
        said = [await verdict(connections, reply) for _, reply in blocked]
    assert [(one.decision, one.event, one.repeated) for one in said] == [("deny", f"e{n}", False) for n in range(3)]
    assert len(await stream(connections, keys, "waiting")) == 0


# --- A server that forgets


async def test_streams_that_vanish_are_made_anew(server: Server, keys: Keys, connections: Connections) -> None:
    async with evaluating(server.url, keys):
        await ask(connections, keys)
        await do(connections, "DEL", keys("requests"), keys("waiting"), keys("events"))
        await do(connections, "SCRIPT", "FLUSH")
        assert (await ask(connections, keys)).fallback == ""


# --- Loops


@pytest.mark.req("F-12")
async def test_a_hook_that_triggers_itself_is_stopped_and_the_chain_shown(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """While hook a runs it makes an event, whose hook b makes another: there neither runs again, and rules always do."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    hooks: list[dict[str, Any]] = [
        {
            "id": name,
            "on": "tool:pre_execute",
            "tool": tool,
            "command": f"echo {name} >> {ran}; until test -e {go}; do sleep 0.01; done",
        }
        for name, tool in (("a", "bash|write"), ("b", "edit|write"))
    ]
    hooks.append({"id": "rule", "on": "tool:pre_execute", "rule": {"decision": "ask", "reason": "rules always look"}})
    await publish_hooks(connections, keys, json.dumps({"hooks": hooks}))

    async def put_below(parent: str, tool: str) -> tuple[str, str]:
        more: dict[str, Any] = {"parent": parent} if parent else {}
        return await put(connections, keys, Event(type="tool:pre_execute", tool=tool), **more)

    async with evaluating(server.url, keys):
        first = await put_below("", "bash")
        await until_true(lambda: lines(ran) == ["a"], "a runs")
        second = await put_below(first[0], "edit")
        await until_true(lambda: lines(ran) == ["a", "b"], "b runs below it")
        third = await verdict(connections, (await put_below(second[0], "write"))[1])
        assert lines(ran) == ["a", "b"]
        go.touch()
        assert [(await verdict(connections, reply)).decision for _, reply in (first, second)] == ["ask", "ask"]
        unknown = await verdict(connections, (await put_below("e-nobody-knows", "bash"))[1])
        ended = await verdict(connections, (await put_below(first[0], "bash"))[1])
        await _long_chain(connections, keys)
        endless = await verdict(connections, (await put_below("long0", "edit"))[1])
    assert lines(ran) == ["a", "b", "a", "a"], "an unknown parent is none, and neither is one whose hooks have ended"
    assert third.decision == unknown.decision == ended.decision == "ask", "rules are never skipped"
    chain = f"{first[0]} (a) -> {second[0]} (b) -> {third.event}"
    for name in "ab":
        assert [note for note in third.notes if chain in note and f"{name!r} was not run" in note]
    assert any("was not run" in note for note in endless.notes), "what is longer than can be followed is refused"


async def _long_chain(connections: Connections, keys: Keys) -> None:
    for n in range(MOST_STEPS + 1):
        name = keys("lineage", f"long{n}")
        await do(connections, "HSET", name, "parent", f"long{n + 1}", f"hook:other{n}", "1")
        await do(connections, "PEXPIRE", name, 60_000)


# --- What is lost on the wire

BOTH = ("/rule", "/cmd")
STEPS = [
    ("XREADGROUP", BOTH),
    ("ANSWER", ("/rule",)),
    ("ANSWER", ("/cmd",)),
    ("CLAIM", BOTH),
    ("LINEAGE", BOTH),
    ("XINFO", BOTH),
    ("GET", BOTH),
]
"""What an evaluator says while it works; the second time each is lost, before or after the server has heard it."""


@pytest.mark.req("B-05", "X-06")
@pytest.mark.parametrize("lost", ["reply", "command"])
@pytest.mark.parametrize(("step", "mix"), STEPS)
async def test_what_is_lost_costs_no_verdict_and_no_second_run(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, step: str, mix: tuple[str, ...], lost: str
) -> None:
    """Whatever Redis said and nobody heard: every request is answered, once on record, its hook run once."""
    ran = tmp_path / "ran"
    await publish_hooks(
        connections, keys, command_hook(f"echo $FLEETHOOK_EVENT_ID >> {ran}; exit 2", when="event.cwd == '/cmd'")
    )
    async with Proxy(server.url) as proxy, evaluating(proxy.url, keys):
        await ask(connections, keys, cwd="/cmd")
        (proxy.swallow_reply if lost == "reply" else proxy.swallow_command)(1, of=step)
        asked = []
        for n in range(12):
            cwd = mix[n % len(mix)]
            asked.append((cwd, *await put(connections, keys, bash(cwd=cwd), parent="e0")))
        said = [(cwd, name, await verdict(connections, reply)) for cwd, name, reply in asked]
        await until_true(lambda: proxy.swallowed, f"a {lost} is lost")
        last = await put(connections, keys, bash())
        assert (await verdict(connections, last[1])).event == last[0]
    assert [(name, one.decision, one.repeated) for _, name, one in said] == [
        (name, "deny" if cwd == "/cmd" else "abstain", False) for cwd, name, _ in asked
    ]
    assert sorted(lines(ran)[1:]) == sorted(name for cwd, name, _ in asked if cwd == "/cmd")
    assert len(await stream(connections, keys)) == 14
    assert (await do(connections, "XPENDING", keys("requests"), GROUP))[0] == 0


@pytest.mark.req("B-05")
async def test_a_server_that_is_silent_for_a_while_loses_nothing(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Longer than an evaluator waits for a reply: what it wrote meanwhile is carried out late, and nothing is left lying."""
    await publish_hooks(connections, keys, NO_RM)
    async with Proxy(server.url) as proxy, evaluating(proxy.url, keys):
        await ask(connections, keys)
        proxy.freeze()
        asked = [await put(connections, keys, bash("rm")) for _ in range(3)]
        await until(lambda: _gone(connections, keys), "its heartbeat has ended")
        proxy.thaw()
        assert [(await verdict(connections, reply)).reason for _, reply in asked] == ["no rm"] * 3
    assert len(await stream(connections, keys)) == 4


async def _gone(connections: Connections, keys: Keys) -> bool:
    return bool(await do(connections, "EXISTS", keys("alive", "evaluator")) == 0)


@pytest.mark.req("B-05")
async def test_work_that_takes_long_lets_no_heartbeat_lapse(connections: Connections, keys: Keys) -> None:
    """As when a large set is compiled on a busy machine: agents would be told that no evaluator is alive."""
    consumer = member(connections, keys, "busy")
    await consumer.create()

    async def work() -> str:
        await until(lambda: do(connections, "EXISTS", keys("alive", "evaluator")), "the heartbeat is written")
        return "done"

    assert await with_heartbeat(consumer, work()) == "done"
