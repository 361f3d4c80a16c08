"""From a request on the stream to the verdict on its reply key, by real evaluators on a real server."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.in_force import HookSet
from bus.shim.answer import unpack_answer
from bus.verdicts import Policy
from bus.wire.codec import decode_verdict, encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import (
    NO_RM,
    answer,
    ask,
    bash,
    command_hook,
    counts,
    do,
    evaluating,
    lines,
    namespace,
    publish_hooks,
    put,
    stream,
    take_and_die,
    until_true,
    verdict,
)
from tests.support.servers import Server
from tests.support.waiting import CONNECT, TIMED, at_most, until
from workers.delivery.dead_letters import dead_letters

# --- Verdicts


@pytest.mark.req("B-01", "B-02")
async def test_a_rule_decides_and_the_event_stands_with_its_verdict(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, NO_RM)
    async with evaluating(server.url, keys):
        name, reply = await put(connections, keys, bash("rm -rf x"))
        said = await verdict(connections, reply)
        assert (said.decision, said.reason, said.instead, said.event) == ("deny", "no rm", "ls", name)
        assert (said.version, said.layers, said.parts[0].hook) == ("fleet@1", ("fleet",), "no-rm")
        assert (await ask(connections, keys)).decision == "abstain"
        other = await put(connections, keys, bash(), event="session:start")
        assert (await verdict(connections, other[1])).parts == (), "nothing matches: abstain at once"
    (entry, *_) = await stream(connections, keys)
    assert entry.fields[b"id"] == name.encode()
    assert decode_verdict(entry.fields[b"verdict"]) == said
    assert await stream(connections, keys, "requests") == []


@pytest.mark.req("B-02")
async def test_a_command_decides(server: Server, keys: Keys, connections: Connections, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    await publish_hooks(connections, keys, command_hook(f"cat > {seen}; echo nope >&2; exit 2"))
    async with evaluating(server.url, keys):
        said = await ask(connections, keys, "make", session="s1")
    assert (said.decision, said.reason, said.parts[0].exit_code, said.repeated) == ("deny", "nope", 2, False)
    assert json.loads(seen.read_text())["session"] == "s1"


async def test_an_agents_own_payload_is_answered_in_its_own_words(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, NO_RM)
    payload = {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "tool_name": "Bash",
        "tool_input": {"command": "rm x"},
    }
    async with evaluating(server.url, keys):
        body = encode_payload(json.dumps(payload).encode())
        _, reply = await put(connections, keys, body, source="claude", event="PreToolUse")
        raw = await answer(connections, reply)
    assert raw is not None
    assert json.loads(unpack_answer(raw).stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


# --- No verdict in time


@pytest.mark.req("G-20")
@pytest.mark.parametrize(("policy", "decision"), [("allow", "abstain"), ("deny", "deny")])
async def test_an_expired_request_runs_no_hook_and_is_recorded(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, policy: Policy, decision: str
) -> None:
    await publish_hooks(connections, keys, command_hook(f"touch {tmp_path}/ran"))
    _, reply = await put(connections, keys, bash(), budget=1)
    await put(connections, keys, bash(), budget=1)
    asked = await put(connections, keys, bash(), reply=" ", fallback="redis away")
    async with evaluating(server.url, keys, policy=policy):
        said = await verdict(connections, reply)
        assert (said.decision, "budget was used up" in said.fallback) == (decision, True)
        await until(lambda: counts(connections, keys, "events", 3), "all three are recorded")
    events = {entry.fields[b"id"].decode(): entry for entry in await stream(connections, keys)}
    assert decode_verdict(events[asked[0]].fields[b"verdict"]).fallback == "redis away"
    assert events[asked[0]].fields[b"fallback"] == b"redis away"
    assert not (tmp_path / "ran").exists()


@pytest.mark.req("G-20")
async def test_a_fail_closed_bus_lets_an_agent_stop(server: Server, keys: Keys, connections: Connections) -> None:
    _, reply = await put(connections, keys, Event(type="agent:stop"), budget=1)
    async with evaluating(server.url, keys, policy="deny"):
        said = await verdict(connections, reply)
    assert (said.decision, bool(said.fallback)) == ("abstain", True)


@pytest.mark.req("G-20")
async def test_a_hook_that_hangs_is_answered_for_by_its_own_policy_in_time(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """The budget covers ending the hook and the reply: else the agent would hear the bus's policy, which lets pass."""
    await publish_hooks(connections, keys, command_hook("exec sleep 60", on_failure="deny"))
    async with evaluating(server.url, keys), Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        start = time.monotonic()
        said = await bus.request(bash(), budget=1.0 if TIMED else 6.0)
        assert time.monotonic() - start < at_most(1.1)
    assert (said.decision, said.fallback) == ("deny", "")
    assert "timed out" in said.parts[0].fallback


@pytest.mark.req("G-20", "B-02")
@pytest.mark.parametrize(("policy", "decision"), [("allow", "abstain"), ("deny", "deny"), ("ask", "ask")])
async def test_nobody_alive_is_said_at_once(
    server: Server,
    keys: Keys,
    connections: Connections,
    policy: Policy,
    decision: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with evaluating(server.url, keys):
        pass  # it was there, and has left: its heartbeat does not outlive it
    monkeypatch.setattr("bus.transport.CONNECT_SECONDS", CONNECT)  # for the report, where the machine is busy
    async with Bus(server.url, namespace=namespace(keys), on_failure=policy, connect=CONNECT) as bus:
        start = time.monotonic()
        said = await bus.request(bash(), budget=120)
        assert time.monotonic() - start < at_most(1)
    assert (said.decision, "no evaluator is alive" in said.fallback) == (decision, True)
    (report,) = await stream(connections, keys)
    assert report.fields[b"of"] == said.event.encode()
    assert b"no evaluator is alive" in report.fields[b"fallback"]


# --- Bad input


@pytest.mark.req("B-01")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xc1", "not a valid msgpack message"),
        (b"", "not a valid msgpack message"),
        (b"\x91" * 2000, "msgpack"),
        (encode_payload(b"{"), "payload is not JSON"),
        (b"\x81\xa4type\x01", "not a valid event"),
    ],
)
async def test_what_cannot_be_read_is_answered_and_buried(
    server: Server, keys: Keys, connections: Connections, body: bytes, why: str
) -> None:
    async with evaluating(server.url, keys, policy="deny"):
        _, reply = await put(connections, keys, body)
        raw = await answer(connections, reply)
        assert raw is not None
        if not body.startswith(b"\xc4") and body:
            assert decode_verdict(raw).decision == "deny"
        assert (await ask(connections, keys)).decision == "abstain", "the next one is none the worse"
    (letter,) = await dead_letters(connections, keys)
    assert why in letter.reason
    assert (await stream(connections, keys))[0].fields[b"body"] == body


@pytest.mark.req("B-02")
async def test_a_poison_entry_is_buried_before_it_is_touched(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """Handed out three times to evaluators that died over it; the fourth does not begin."""
    await publish_hooks(connections, keys, command_hook(f"touch {tmp_path}/ran"))
    _, reply = await put(connections, keys, bash())
    for n in range(3):
        await take_and_die(connections, keys, f"dead-{n}")
    async with evaluating(server.url, keys, policy="deny"):
        said = await verdict(connections, reply)
    assert (said.decision, "handed out 4 times" in said.fallback) == ("deny", True)
    assert ["handed out 4 times" in letter.reason for letter in await dead_letters(connections, keys)] == [True]
    assert not (tmp_path / "ran").exists()


async def test_what_breaks_an_evaluator_is_that_requests_alone(
    server: Server,
    keys: Keys,
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A bug in our own code over one request: it is answered by policy, the loop goes on."""
    await publish_hooks(connections, keys, NO_RM)
    async with evaluating(server.url, keys, policy="deny") as evaluator:
        real = evaluator._watcher.for_event

        def breaks(event: Event) -> HookSet:
            if event.input.get("command") == "boom":
                raise KeyError("boom")
            return real(event)

        monkeypatch.setattr(evaluator._watcher, "for_event", breaks)
        said = await ask(connections, keys, "boom")
        assert (said.decision, said.fallback) == ("deny", "the evaluator failed on this request: KeyError")
        assert (await ask(connections, keys, "rm")).reason == "no rm"
    assert "boom" in caplog.text


# --- Repeats


@pytest.mark.req("B-02")
async def test_a_repeated_id_is_evaluated_once(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """While it runs it is joined, afterwards the kept verdict is given; one event stands in the record."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    await publish_hooks(
        connections, keys, command_hook(f"echo x >> {ran}; until test -e {go}; do sleep 0.01; done; exit 2")
    )
    async with evaluating(server.url, keys):
        name, first = await put(connections, keys, bash())
        await until_true(lambda: lines(ran), "the hook runs")
        _, second = await put(connections, keys, bash(), id=name)
        await until(lambda: do(connections, "EXISTS", keys("join", name)), "the second one has joined")
        go.touch()
        _, third = await put(connections, keys, bash(), id=name)
        said = [await verdict(connections, reply) for reply in (first, second, third)]
        _, fourth = await put(connections, keys, bash(), id=name)
        said.append(await verdict(connections, fourth))
    assert said == [said[0]] * 4
    assert (said[0].decision, lines(ran)) == ("deny", ["x"])
    assert len(await stream(connections, keys)) == 1


@pytest.mark.req("B-02")
async def test_the_same_hook_call_twice_is_one_verdict(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    await publish_hooks(connections, keys, command_hook(f"echo x >> {ran}; exit 2"))
    async with evaluating(server.url, keys):
        one = await ask(connections, keys, session="s", call="c1")
        two = await ask(connections, keys, session="s", call="c1")
        other = await ask(connections, keys, "make", session="s", call="c1")
    assert (one.decision, one.parts) == (two.decision, two.parts)
    assert one.event != two.event
    assert (lines(ran), other.decision) == (["x", "x"], "deny"), "another command under the same number is another call"
    marks = [entry.fields.get(b"same") for entry in await stream(connections, keys)]
    assert marks == [None, b"1", None]


@pytest.mark.req("B-02")
async def test_the_same_hook_call_at_the_same_moment_runs_once(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """An agent that fires two events for one call gets one verdict, whichever evaluator has them."""
    ran = tmp_path / "ran"
    await publish_hooks(connections, keys, command_hook(f"echo x >> {ran}; sleep 0.1; exit 2"))
    async with evaluating(server.url, keys), evaluating(server.url, keys):
        calls = [ask(connections, keys, session="s", call="c1") for _ in range(4)]
        verdicts = await asyncio.gather(*calls)
    assert [verdict.decision for verdict in verdicts] == ["deny"] * 4
    assert lines(ran) == ["x"]
    assert sorted(entry.fields.get(b"same", b"") for entry in await stream(connections, keys)) == [
        b"",
        b"1",
        b"1",
        b"1",
    ]


@pytest.mark.req("B-02")
async def test_a_fallback_is_not_kept_as_the_verdict_of_its_call(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """The same call, asked again, is evaluated: nobody had said anything of it."""
    await publish_hooks(connections, keys, "hooks: [{id: no, on: 'tool:*', command: 'echo never >&2; exit 2'}]")
    call = bash("ls", call="toolu_1", session="s1")
    _, late = await put(connections, keys, call, budget=0)
    async with evaluating(server.url, keys):
        assert (await verdict(connections, late)).fallback
        _, reply = await put(connections, keys, call)
        asked = await verdict(connections, reply)
        assert (asked.decision, asked.reason, asked.fallback) == ("deny", "never", "")
