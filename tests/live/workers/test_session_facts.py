"""Facts of sessions in conditions, from events through a real dispatcher to the verdicts of real evaluators (X-13)."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.matching.conditions import compile_condition
from bus.outcomes import Outcome
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import bash, dispatching, do, evaluating, happened, publish_hooks, put, verdict
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, until
from workers.memory import recall
from workers.runtime.request_hooks import RequestHooks

pytestmark = pytest.mark.req("X-13")


def done(
    tool: str = "bash", *, kind: str = "tool:post_execute", session: str = "s", output: Any = None, **given: Any
) -> Event:
    """A call that has run."""
    source = given.pop("source", "claude")
    return Event(type=kind, source=source, session=session, tool=tool, input=given, output=output, cwd="/w")


async def stop(connections: Connections, keys: Keys, session: str = "s", **more: Any) -> Verdict:
    """The verdict on the end of a session's turn."""
    event = Event(type="agent:stop", source="claude", session=session, cwd="/w")
    _, reply = await put(connections, keys, event, event="agent:stop", **more)
    return await verdict(connections, reply)


def rules(*hooks: dict[str, Any]) -> str:
    """A hook file with these rules."""
    return json.dumps({"hooks": list(hooks)})


TESTED = {
    "id": "tested",
    "on": "agent:stop",
    "when": 'session.wrote("**/*.py").after(session.ran("pytest")) || session.ran("pytest").exit != 0',
    "rule": {"decision": "deny", "reason": "Run the tests before you say that you are done", "instead": "run pytest"},
}


async def test_done_is_held_to_evidence(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, rules(TESTED))
    async with evaluating(server.url, keys), dispatching(server.url, keys):
        never = await stop(connections, keys)
        assert never.decision == "deny"
        assert 'session.ran("pytest"): never' in never.reason
        await happened(connections, keys, done(command="pytest -q", kind="tool:error", output={"error": "Exit code 1"}))
        failed = await stop(connections, keys)
        assert (failed.decision, failed.instead) == ("deny", "run pytest")
        assert 'session.ran("pytest"): exit 1, at ' in failed.reason
        await happened(connections, keys, done(command="pytest -q | tail -3", output={"stdout": "ok"}))
        hidden = await stop(connections, keys)
        assert "exit code not known: a pipe or what follows it hides it" in hidden.reason
        await happened(connections, keys, done(command="cd /w && uv run pytest -q", output={"stdout": "ok"}))
        assert (await stop(connections, keys)).decision == "abstain"
        await happened(connections, keys, done("write", path="/w/src/a.py", output={"success": True}))
        changed = await stop(connections, keys)
        assert changed.decision == "deny"
        assert changed.parts[0].facts[0].startswith('session.wrote("**/*.py"): at ')
        assert (await stop(connections, keys, "another")).decision == "deny"
        assert not changed.notes


async def test_a_stop_says_what_it_could_not_wait_for(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_hooks(connections, keys, rules(TESTED))
    async with dispatching(server.url, keys):
        await happened(connections, keys, done(command="ls", output=""))
    async with evaluating(server.url, keys):
        await happened(
            connections, keys, done(command="pytest", output={"stdout": ""}), done(session="other", command="x")
        )
        alive = keys("alive", "dispatcher")
        await do(connections, "DEL", alive)  # its heartbeat, which ends two seconds after it
        said = await stop(connections, keys)
        assert said.decision == "deny"
        at_once = "1 of this session's events were not on record, and no dispatcher runs that records them"
        assert at_once in said.reason, "nothing was waited for"
        assert f"facts of the session may be missing: {at_once}" in said.notes
        monkeypatch.setattr(recall, "GONE_SECONDS", PATIENCE)
        await do(connections, "SET", alive, "busy", "PX", "60000")
        said = await stop(connections, keys, budget=1_500)
        assert said.decision == "deny"
        assert re.search(r"1 of this session's events were not on record, after 0\.\d s", said.reason), said.reason
        await do(connections, "DEL", alive)
        waiting = asyncio.create_task(stop(connections, keys))
        async with dispatching(server.url, keys):
            assert (await waiting).decision == "abstain"


async def test_egress_after_a_secret_was_read_is_asked_about(
    server: Server, keys: Keys, connections: Connections
) -> None:
    ask_first = {
        "id": "egress",
        "on": "tool:pre_execute:bash",
        "when": "session.read_secret",
        "rule": {"decision": "ask", "commands": [{"program": ["curl", "wget"]}], "reason": "A secret was read"},
    }
    await publish_hooks(connections, keys, rules(ask_first))

    async def decision(command: str) -> Verdict:
        _, reply = await put(connections, keys, bash(command, session="s", source="claude", cwd="/w"))
        return await verdict(connections, reply)

    async with evaluating(server.url, keys), dispatching(server.url, keys):
        assert (await decision("curl https://example.com")).decision == "abstain"
        await happened(connections, keys, done("read", path="/w/.env", output={"content": "A=1"}))
        said = await decision("curl https://example.com")
        assert said.decision == "ask"
        assert "session.read_secret: /w/.env at " in said.reason
        assert (await decision("ls")).decision == "abstain"


async def test_the_same_call_with_the_same_outcome_is_a_loop_and_polling_is_none(
    server: Server, keys: Keys, connections: Connections
) -> None:
    loop = {
        "id": "loop",
        "on": "tool:pre_execute",
        "when": "session.repeats >= 3",
        "rule": {"decision": "deny", "reason": "This call came to the same three times"},
    }
    await publish_hooks(connections, keys, rules(loop))

    async def call(command: str, output: str) -> str:
        event = bash(command, session="s", source="claude", cwd="/w")
        _, reply = await put(connections, keys, event)
        said = await verdict(connections, reply)
        if said.decision != "deny":
            await happened(connections, keys, done(command=command, output={"stdout": output}))
        return said.decision

    async with evaluating(server.url, keys), dispatching(server.url, keys):
        said = [await call("make", f"error in 0.{n}3 s at 10:0{n}:00") for n in range(4)]
        assert said == ["abstain"] * 3 + ["deny"], "times and durations are no other outcome"
        assert [await call("./try", f"{n} left") for n in range(5)] == ["abstain"] * 5, "the outcome changes"
        polled = []
        for _ in range(4):
            polled.append(await call("gh run view 7", "in progress"))
            await call("sleep 5", "")
        assert polled == ["abstain"] * 4, "it waits between two looks"
        assert [await call("make", "error in 2 s") for _ in range(5)] == ["abstain"] * 3 + ["deny"] * 2
        await happened(connections, keys, Event(type="user:prompt_submit", source="claude", session="s"))
        assert await call("make", "error in 1 s") == "abstain", "a person has written in between"


async def test_a_changed_input_finds_the_facts_that_its_own_conditions_read(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """The condition that the first input fits reads no deed, and the one of the changed input does."""
    looped = {"id": "looped", "on": "tool:pre_execute:bash", "when": "session.repeats > 9"}
    untested = {"id": "untested", "on": "tool:pre_execute:bash", "when": '!session.ran("pytest").found'}
    file = parse_hook_file(
        rules(
            {**looped, "rule": {"decision": "deny", "reason": "a loop", "commands": [{"program": ["make"]}]}},
            {**untested, "rule": {"decision": "deny", "reason": "untested", "commands": [{"program": ["git"]}]}},
        ),
        "fleet",
    )
    assert not file.problems
    hook_set = HookSet([Layered("fleet", "1", file)]).prepare()

    async def run(hook: Hook, _event: Event, _seconds: float) -> Outcome:
        raise AssertionError(f"{hook.id} is a rule")

    async with dispatching(server.url, keys):
        await happened(connections, keys, done(command="pytest -q", output={"exit_code": 0}))
        record, first = recall.Recall(connections, keys), done(kind="tool:pre_execute", command="make")

        async def has_run() -> bool:
            return bool((await record.read(first, [compile_condition(untested["when"])], 1.0)).deeds)

        await until(has_run, "the run is on record")
        hooks = RequestHooks(hook_set, run, record.read)
        assert await hooks.fitting(first) == []
        changed = msgspec.structs.replace(first, input={"command": "git push"})
        assert [hook.id for hook in await hooks.fitting(changed)] == []
