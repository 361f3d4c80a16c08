"""Limits of rules: counted once in the step that answers, by real evaluators on a real server (X-13)."""

from __future__ import annotations

import asyncio
import json

import pytest

from bus.agents import cursor
from bus.events import Event
from bus.shim.answer import unpack_answer
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict, encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import answer, ask, bash, do, evaluating, publish_hooks, put, stream, verdict
from tests.support.servers import Server

pytestmark = pytest.mark.req("X-13")


def limited(limit: str, **more: object) -> str:
    """A hook file with one limit on bash."""
    rule = {"decision": "deny", "reason": "enough for now", "instead": "wait", "limit": limit, **more}
    return json.dumps({"hooks": [{"id": "enough", "on": "tool:pre_execute:bash", "rule": rule}]})


def use(said: Verdict) -> tuple[float | None, float]:
    """The count and the number of the verdict's one limit."""
    (part,) = said.parts
    assert part.limit is not None
    return part.limit.count, part.limit.most


async def test_a_limit_counts_what_passes_and_denies_what_is_too_much(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, limited("2 per minute"))
    async with evaluating(server.url, keys):
        passed = [await ask(connections, keys, session="a") for _ in range(2)]
        assert [(said.decision, use(said)) for said in passed] == [("abstain", (1, 2)), ("abstain", (2, 2))]
        said = await ask(connections, keys, session="a")
        assert (said.decision, said.instead, use(said)) == ("deny", "wait", (2, 2))
        assert said.reason.startswith("enough for now (2 of 2 calls per minute for this session used; free again at ")
        seconds, _ = await do(connections, "TIME")
        assert said.parts[0].limit is not None
        assert int(seconds) * 1000 < said.parts[0].limit.free_at <= int(seconds) * 1000 + 61_000
        assert (await ask(connections, keys, session="b")).decision == "abstain", "another session has its own count"
        assert (await ask(connections, keys, session="a")).decision == "deny", "a denied call does not count"
    recorded = [decode_verdict(entry.fields[b"verdict"]) for entry in await stream(connections, keys)]
    assert recorded[:3] == [*passed, said]
    assert all(not one.charges for one in recorded)


async def test_a_call_that_comes_again_counts_once(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, limited("2 per session"))
    async with evaluating(server.url, keys):
        first = [await ask(connections, keys, session="a", call="c1") for _ in range(4)]
        assert [use(said) for said in first] == [(1, 2)] * 4
        assert use(await ask(connections, keys, session="a", call="c2")) == (2, 2)
        third = [await ask(connections, keys, session="a", call="c3") for _ in range(2)]
        assert [said.decision for said in third] == ["deny", "deny"], "also where the denied call comes again"
        assert third[0].reason.endswith("it is not free again in this session)")
        name, reply = await put(connections, keys, bash(session="a", call="c4"))
        await verdict(connections, reply)
        _, again = await put(connections, keys, bash(session="a", call="c4"), id=name)
        assert (await verdict(connections, again)).decision == "deny"


async def test_cursors_two_events_of_a_call_count_once(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, limited("2 per session"))

    async def decision(native: str, number: int) -> str:
        common = {"conversation_id": "c", "generation_id": "g", "workspace_roots": ["/w"], "cwd": "/w"}
        own = (
            {"tool_name": "Shell", "tool_input": {"command": "make"}, "tool_use_id": f"u{number}"}
            if native == "preToolUse"
            else {"command": "make"}
        )
        payload = json.dumps({"hook_event_name": native, **common, **own}).encode()
        _, reply = await put(connections, keys, encode_payload(payload), source=cursor.NAME, event=native)
        raw = await answer(connections, reply)
        assert raw is not None
        return str(json.loads(unpack_answer(raw).stdout or b"{}").get("permission", ""))

    async with evaluating(server.url, keys):
        said = [
            await decision(native, number) for number in range(3) for native in ("preToolUse", "beforeShellExecution")
        ]
    assert said[:4].count("deny") == 0
    assert said[4:] == ["deny", "deny"]


async def test_a_warning_passes_and_says_so_and_an_asking_limit_asks(
    server: Server, keys: Keys, connections: Connections
) -> None:
    rules = [
        {
            "id": "warns",
            "on": "tool:pre_execute:bash",
            "rule": {"decision": "warn", "limit": "1 per hour", "reason": "busy"},
        },
        {
            "id": "asks",
            "on": "tool:pre_execute:bash",
            "rule": {"decision": "ask", "limit": "2 per hour", "reason": "hm"},
        },
        {"id": "looks", "on": "tool:pre_execute:bash", "observe": True, "rule": {"limit": "1 per hour"}},
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": rules}))
    async with evaluating(server.url, keys):
        first, second, third = [await ask(connections, keys, session="a") for _ in range(3)]
    assert (first.decision, first.notes, first.contexts) == ("abstain", (), ())
    assert second.decision == "abstain"
    assert second.contexts[0].startswith("busy (1 of 1 calls per hour for this session used; free again at ")
    assert any(note.startswith("observed only: hook 'looks' would have said deny") for note in second.notes)
    assert third.decision == "ask"
    assert third.reason.startswith("hm (2 of 2 calls per hour")
    counted = [[part.limit.count for part in said.parts if part.limit] for said in (first, second, third)]
    assert counted == [[1, 1, 1], [2, 2, 2], [3, 3, 3]], "they passed, so they count"


async def test_a_call_that_another_hook_denies_does_not_count(
    server: Server, keys: Keys, connections: Connections
) -> None:
    hooks = json.loads(limited("1 per day per agent"))["hooks"]
    no_rm = {"id": "no-rm", "on": "tool:pre_execute:bash", "priority": 90, "rule": {"command": ["^rm"]}}
    await publish_hooks(connections, keys, json.dumps({"hooks": [*hooks, no_rm]}))
    async with evaluating(server.url, keys):
        assert [(await ask(connections, keys, "rm x", session=str(n))).decision for n in range(3)] == ["deny"] * 3
        assert (await ask(connections, keys, session="x")).decision == "abstain"
        assert (await ask(connections, keys, session="y")).reason.startswith("enough for now (1 of 1 calls per day")


async def test_many_evaluators_count_calls_of_the_same_moment_one_after_the_other(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, limited("20 per minute"))
    async with evaluating(server.url, keys), evaluating(server.url, keys), evaluating(server.url, keys):
        said = await asyncio.gather(*(ask(connections, keys, session="a", call=f"c{n}") for n in range(60)))
    assert sorted(one.decision for one in said) == ["abstain"] * 20 + ["deny"] * 40
    assert sorted(use(one)[0] or 0 for one in said if one.decision == "abstain") == list(range(1, 21))


async def test_without_a_session_the_host_counts(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, limited("1 per session"))
    async with evaluating(server.url, keys):
        event = Event(type="tool:pre_execute", tool="bash", input={"command": "ls"})
        replies = [(await put(connections, keys, event))[1] for _ in range(2)]
        assert [(await verdict(connections, reply)).decision for reply in replies] == ["abstain", "deny"]
