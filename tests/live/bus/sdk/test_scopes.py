"""Agents written in Python: what they are told, what is recorded of them, and what happens when nobody answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bus import Bus, Denied, Event
from bus.sdk.scopes import MOST_REFUSED_STOPS, Scope, current_defaults
from bus.shim.spool import spool_status
from bus.wire.codec import decode_body, decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import evaluating, namespace, publish_hooks, stream
from tests.support.servers import Server
from tests.support.waiting import CONNECT

HOOKS = r"""
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', when: 'event.input.command.startsWith("rm")', rule: {reason: no rm, instead: ls}}
  - {id: deploy, on: 'tool:pre_execute:deploy', rule: {decision: ask, reason: it is friday}}
  - id: timeout
    on: 'tool:pre_execute:bash'
    when: 'event.input.command == "make"'
    command: 'echo "{\"decision\":\"allow\",\"updated_input\":{\"command\":\"make -j2\"},\"context\":\"two cores\"}"'
  - {id: cwd, on: 'tool:pre_execute:narrow', command: 'echo "{\"updated_input\":{\"cwd\":\"/x\"}}"'}
  - {id: start, on: 'session:start', command: 'echo be kind'}
  - {id: prompt, on: 'user:prompt_submit', when: 'event.data.prompt.contains("secret")', rule: {reason: no secrets}}
  - {id: model, on: 'llm:pre_request', when: 'event.data.model == "big"', rule: {reason: too dear}}
  - {id: tests, on: 'agent:stop', when: 'event.data.last_assistant_message == "done"', rule: {reason: run the tests}}
"""


@pytest.fixture
async def bus(server: Server, keys: Keys, connections: Connections) -> AsyncIterator[Bus]:
    """A bus with these hooks and an evaluator."""
    await publish_hooks(connections, keys, HOOKS)
    async with evaluating(server.url, keys), Bus(server.url, namespace=namespace(keys), connect=CONNECT) as one:
        yield one


async def recorded(connections: Connections, keys: Keys) -> list[Event]:
    """The events that stand in the record, in order."""
    events = []
    for entry in await stream(connections, keys):
        event = decode_body(entry.fields[b"body"])
        assert isinstance(event, Event)
        events.append(event)
    return events


@pytest.mark.req("B-02", "B-08")
async def test_a_tool_call_is_asked_for_and_recorded(bus: Bus, keys: Keys, connections: Connections) -> None:
    ran = False
    with pytest.raises(Denied, match="no rm") as caught:
        async with bus.tool("bash", {"command": "rm -rf x"}):
            ran = True
    assert not ran
    denied = caught.value
    assert denied.verdict is not None
    assert denied.reason.startswith("no rm. Instead: ls. [fleethook: no-rm; fleethook trace e")
    assert denied.verdict.parts[0].hook == "no-rm"

    options = object()  # nothing that the wire takes
    async with bus.tool("bash", {"command": "make", "options": options}) as call:
        assert call.input == {"command": "make -j2", "options": options}
        assert (call.original["command"], call.context, call.verdict.decision) == ("make", "two cores", "allow")
        call.result = {"stdout": "ok", "at": Path("/x")}
    assert call.event == call.verdict.event
    with pytest.raises(ZeroDivisionError):
        async with bus.tool("divide", {"by": 0}):
            1 / 0  # noqa: B018 - it raises
    asked, before, after, _, error = await recorded(connections, keys)
    assert [one.type for one in (asked, before, after, error)] == [
        "tool:pre_execute",
        "tool:pre_execute",
        "tool:post_execute",
        "tool:error",
    ]
    assert before.call == after.call != asked.call
    assert (after.input["command"], after.output) == ("make -j2", {"stdout": "ok", "at": "/x"})
    assert after.data["duration_ms"] >= 0
    assert error.data["error"] == "ZeroDivisionError: division by zero"
    (entry, *_) = await stream(connections, keys)
    assert decode_verdict(entry.fields[b"verdict"]).decision == "deny"


@pytest.mark.req("B-02", "B-08")
async def test_what_hooks_want_a_person_to_say(bus: Bus, keys: Keys, connections: Connections) -> None:
    with pytest.raises(Denied, match="this program has no way to ask one"):
        async with bus.tool("deploy"):
            raise AssertionError("it must not run")

    seen: list[str] = []

    async def yes(scope: Scope) -> bool:
        seen.append(scope.verdict.reason)
        return True

    async with bus.session("s1", ask=yes), bus.tool("deploy") as call:
        call.result = "up"
    assert seen == ["it is friday"]
    for answer in (False, "yes", None):
        with pytest.raises(Denied, match="a person refused it"):
            async with bus.tool("deploy", ask=lambda _, said=answer: said):  # type: ignore[misc]  # anything but True is no
                raise AssertionError("it must not run")
    kinds = [one.type for one in await recorded(connections, keys)]
    assert kinds.count("permission:denied") == 4
    assert kinds.count("permission:granted") == 1


@pytest.mark.req("B-08", "P-04", "P-08")
async def test_scopes_know_where_they_are(bus: Bus, keys: Keys, connections: Connections) -> None:
    async with bus.session("outer", source="acme", model="small", cwd="/w", parent="e1") as session:
        assert session.context == "be kind"
        with pytest.raises(Denied, match="no secrets"):
            async with bus.prompt("tell me the secret"):
                raise AssertionError("it must not be taken on")
        async with bus.prompt("list files") as prompt:
            for _ in range(2):
                async with bus.turn():
                    async with bus.llm(messages=[{"role": "user", "content": prompt.text}]) as llm:
                        llm.response, llm.tokens = "ls", 7
                    async with asyncio.TaskGroup() as group:
                        for command in ("a", "b"):
                            group.create_task(_bash(bus, command))
            with pytest.raises(Denied, match="too dear"):
                async with bus.llm("big"):
                    raise AssertionError("it must not be called")
        async with bus.session("inner"):
            assert current_defaults().cwd == "/w"
    assert current_defaults().session == ""

    events = await recorded(connections, keys)
    kinds = [one.type for one in events if one.type not in {"tool:pre_execute", "tool:post_execute"}]
    turn = ["turn:start", "llm:pre_request", "llm:post_response", "turn:end"]
    assert kinds == [
        "session:start",
        "user:prompt_submit",
        "user:prompt_submit",
        "agent:start",
        *turn,
        *turn,
        "llm:pre_request",
        "agent:end",
        "session:start",
        "session:end",
        "session:end",
    ]
    assert {one.source for one in events} == {"acme"}
    assert {one.parent for one in events} == {"e1"}
    assert {one.cwd for one in events} == {"/w"}
    assert [one.session for one in events if one.type.startswith("session:")] == ["outer", "inner", "inner", "outer"]
    calls = [one for one in events if one.type == "tool:pre_execute"]
    assert sorted((one.data["turn_number"], one.input["command"]) for one in calls) == [
        (1, "a"),
        (1, "b"),
        (2, "a"),
        (2, "b"),
    ]
    answer = next(one for one in events if one.type == "llm:post_response")
    assert (answer.data["model"], answer.data["response"], answer.data["tokens"]) == ("small", "ls", 7)
    assert next(one for one in events if one.session == "inner").data["parent_session"] == "outer"


async def _bash(bus: Bus, command: str) -> None:
    async with bus.tool("bash", {"command": command}) as call:
        await asyncio.tasks.__sleep0()  # type: ignore[attr-defined]  # let the other one in
        call.result = command


@pytest.mark.req("B-08")
async def test_a_stop_may_be_refused_but_not_for_ever(bus: Bus, keys: Keys, connections: Connections) -> None:
    async with bus.session(), bus.prompt("go"):
        assert await bus.stop("not yet") == ""
        for _ in range(MOST_REFUSED_STOPS):
            assert (await bus.stop("done")).startswith("run the tests")
        assert await bus.stop("done") == "", "eight times in a row"
        assert (await bus.stop("done")).startswith("run the tests")
    stops = [one for one in await recorded(connections, keys) if one.type == "agent:stop"]
    assert [one.data["stop_hook_active"] for one in stops[:3]] == [False, False, True]


@pytest.mark.req("B-02")
async def test_functions_as_tools(bus: Bus, keys: Keys, connections: Connections) -> None:
    class Shell:
        @bus.tool_call("bash")
        async def run(self, command: str, *words: str, timeout: float = 5.0, **env: str) -> str:
            """Run it."""
            return f"{command} {words} {timeout} {env}"

    @bus.tool_call
    async def deploy(where: str) -> str:
        return where

    assert Shell.run.__doc__ == "Run it."
    assert await Shell().run("make", "a", A="1") == "make -j2 ('a',) 5.0 {'A': '1'}"
    with pytest.raises(Denied, match="no rm"):
        await Shell().run("rm x")
    with pytest.raises(Denied, match="no way to ask one"):
        await deploy("here")
    with pytest.raises(TypeError, match="missing"):
        await deploy()  # type: ignore[call-arg]  # on purpose
    with pytest.raises(TypeError, match="not async"):
        bus.tool_call(lambda: None)

    @bus.tool_call
    async def narrow(script: str) -> str:
        raise AssertionError("a change that it cannot take must not be dropped")

    with pytest.raises(Denied, match="a hook changed 'cwd' of this call, and narrow takes no such argument"):
        await narrow("x")
    call = (await recorded(connections, keys))[0]
    assert (call.tool, call.input) == ("bash", {"command": "make", "words": ["a"], "timeout": 5.0, "A": "1"})


@pytest.mark.req("B-02", "G-20", "X-06")
@pytest.mark.parametrize("policy", ["allow", "deny"])
async def test_when_nobody_answers_the_policy_does_and_says_so(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """No evaluator, then no server: gates follow the policy, what has happened is spooled or said to be lost."""
    spool = tmp_path / "spool"
    for url in (server.url, "unix:///nowhere/at/all"):
        async with (
            Bus(url, namespace=namespace(keys), on_failure=policy, spool=spool, connect=CONNECT) as bus,
            bus.session(),
        ):
            caplog.clear()
            if policy == "deny":
                with pytest.raises(Denied) as caught:
                    async with bus.tool("bash", {"command": "ls"}):
                        raise AssertionError("it must not run")
                assert caught.value.verdict is not None
                assert caught.value.verdict.fallback
            else:
                async with bus.tool("bash", {"command": "ls"}, budget=0.5) as call:
                    call.result = "a"
                assert call.verdict.fallback
                assert "no hook answered" in caplog.text
            async with bus.llm("m"):
                pass
            assert await bus.stop() == "", "a failure never makes an agent go on"
    assert spool_status(spool).records > 0
    async with Bus("unix:///nowhere/at/all", namespace=namespace(keys)) as bare:
        async with bare.tool("bash", {"command": "ls"}) as call:
            call.result = 1
        assert "could not be recorded" in caplog.text


@pytest.mark.req("B-02", "B-08")
def test_the_same_without_an_event_loop(server: Server, keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    """No evaluator is needed to see that it is the same: the record says it all."""
    caplog.set_level(logging.ERROR, "fleethook.agent")
    with Bus(server.url, namespace=namespace(keys), connect=CONNECT).sync() as bus:

        @bus.tool_call
        def add(a: int, b: int = 2) -> int:
            return a + b

        with bus.session("s1", source="acme") as session, bus.prompt("add"), bus.turn() as turn:
            assert (session.id, turn.number, current_defaults().session) == ("s1", 1, "s1")
            with bus.llm("m") as llm:
                llm.response = "add"
            assert add(1) == 3
            with pytest.raises(KeyError), bus.tool("get", {"key": "x"}):
                raise KeyError("x")
            assert bus.stop("3") == ""
        assert current_defaults().session == ""
        with pytest.raises(TypeError, match="is async"):
            bus.tool_call(_bash)
