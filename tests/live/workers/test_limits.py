"""Limits of rules: counted once in the step that answers, by real evaluators on a real server (X-13)."""

from __future__ import annotations

import asyncio
import json

import pytest

from bus.agents import cursor
from bus.events import Event
from bus.ids import event_id
from bus.memory.charges import counted_session, session_key
from bus.shim.answer import unpack_answer
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict, encode_event, encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.held import ANA
from tests.support.running import (
    HOST,
    answer,
    ask,
    bash,
    dispatching,
    do,
    evaluating,
    publish_hooks,
    put,
    stream,
    verdict,
)
from tests.support.servers import Server
from tests.support.waiting import until
from workers.approvals.decisions import answer as answer_question
from workers.memory.counters import read_counters
from workers.memory.families import root_session

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


async def test_a_limit_that_only_observes_says_what_it_would_have_said(
    server: Server, keys: Keys, connections: Connections
) -> None:
    looks = {"id": "looks", "on": "tool:pre_execute:bash", "observe": True, "rule": {"limit": "1 per hour"}}
    await publish_hooks(connections, keys, json.dumps({"hooks": [looks]}))
    async with evaluating(server.url, keys):
        first, second = [await ask(connections, keys, session="a") for _ in range(2)]
    assert (first.decision, first.notes, first.parts[0].observed) == ("abstain", (), None)
    assert (second.decision, second.parts[0].observed, use(second)) == ("abstain", "deny", (2, 1))
    assert second.notes[0].startswith("observed only: hook 'looks' would have said deny: ")


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


async def test_tokens_and_money_are_added_up_from_the_record(
    server: Server, keys: Keys, connections: Connections
) -> None:
    rules = [
        {
            "id": "tokens",
            "on": "tool:pre_execute:bash",
            "rule": {"limit": "1k tokens per session", "reason": "too many"},
        },
        {
            "id": "money",
            "on": "tool:pre_execute:bash",
            "rule": {"limit": "0.50 USD per day per agent", "reason": "too dear"},
        },
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": rules}))

    async def used(session: str, name: str = "", **data: object) -> None:
        event = Event(type="llm:post_response", source="generic", session=session, data=data)
        fields = (
            "id",
            name or event_id(),
            "source",
            "generic",
            "event",
            event.type,
            "host",
            HOST,
            "body",
            encode_event(event),
        )
        await do(connections, "XADD", keys("events"), "*", *fields)

    async def asked(session: str) -> Verdict:
        name = f"last-{event_id()}"
        await used(session, name)  # when it is acknowledged, those before it are on record

        async def on_record() -> bool:
            (group,) = await do(connections, "XINFO", "GROUPS", keys("events"))
            return group[group.index(b"pending") + 1] == 0 and lagging(group) == 0

        await until(on_record, "the events are on record")
        return await ask(connections, keys, session=session)

    async with evaluating(server.url, keys), dispatching(server.url, keys):
        await used("a", "twice", tokens=400, cost=0.2)
        await used("a", "twice", tokens=400, cost=0.2)
        said = await asked("a")
        assert [(part.limit.count, part.limit.most) for part in said.parts if part.limit] == [(400, 1000), (0.2, 0.5)]
        await used("sub", tokens=600, parent_session="a")
        said = await asked("a")
        assert (said.decision, said.reason) == (
            "deny",
            "too many (1000 of 1000 tokens for this session used; it is not free again in this session)",
        )
        assert (await asked("b")).decision == "abstain"
        await used("b", usage={"total_cost_usd": 0.4})
        said = await asked("b")
        assert said.decision == "deny"
        assert said.reason.startswith("too dear (0.6 of 0.5 USD per day for this agent used; free again at ")


async def test_what_a_subagent_did_before_its_parent_was_known_counts_for_the_topmost_parent(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Also where the events of a family come in another order than they happened."""
    await publish_hooks(connections, keys, limited("9 per session"))

    async def asked(session: str, parent: str = "") -> float | None:
        data = {"parent_session": parent} if parent else {}
        return use(await ask(connections, keys, session=session, data=data, call=event_id()))[0]

    async with evaluating(server.url, keys):
        assert [await asked("grandchild", "child"), await asked("grandchild", "child"), await asked("child")] == [
            1,
            2,
            3,
        ]
        assert await asked("child", "root") == 1, "nothing is known of a family yet"
        async with dispatching(server.url, keys):

            async def known() -> bool:
                return bool(await do(connections, "EXISTS", keys("family", session_key("generic", "child"))))

            await until(known, "the family is noted")
            assert await asked("root") == 5
        assert [await asked("grandchild", "child"), await asked("grandchild"), await asked("child")] == [6, 7, 8]
        event = bash(session="grandchild", call=event_id(), source="generic")
        assert await root_of(connections, keys, event) == session_key("generic", "root")
        (counter,) = await read_counters(connections, keys)
        assert (counter.count, {*counter.names}) == (8, {"root", "child"})


async def root_of(connections: Connections, keys: Keys, event: Event) -> str:
    """The session that an event counts for, as a simulation finds it."""
    with connections.lease() as connection:
        return await root_session(connection, keys, counted_session(event))


def lagging(group: list[object]) -> int:
    """How many entries a group has not read."""
    value = group[group.index(b"lag") + 1]
    return value if isinstance(value, int) else 1


async def test_a_limit_that_cannot_be_looked_up_is_decided_by_its_failure_policy(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """As with access rights that are older than the key; here the key has another type."""
    rules = [
        {"id": "open", "on": "tool:pre_execute:bash", "rule": {"limit": "1 per day per fleet"}},
        {"id": "closed", "on": "tool:pre_execute:bash", "on_failure": "deny", "rule": {"limit": "5 per day per host"}},
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": rules}))
    async with evaluating(server.url, keys):
        assert (await ask(connections, keys, session="a")).decision == "abstain"
        ((_, names),) = (await do(connections, "SCAN", 0, "MATCH", keys("limit", "*"), "COUNT", 10_000),)
        for name in names:
            await do(connections, "DEL", name)
            await do(connections, "SET", name, "x")
        said = await ask(connections, keys, session="b")
        await do(connections, "DEL", *names)
    assert said.decision == "deny"
    assert "its limit cannot be looked up" in said.reason
    assert [part.decision for part in said.parts] == ["abstain", "deny"]
    assert all(part.fallback for part in said.parts)


async def test_a_person_lets_a_call_pass_beyond_a_limit_and_it_counts(
    server: Server, keys: Keys, connections: Connections
) -> None:
    rules = [
        {
            "id": "held",
            "on": "tool:pre_execute:bash",
            "hold": {"timeout": 60},
            "rule": {"decision": "ask", "limit": "1 per day per fleet", "reason": "one is enough"},
        }
    ]
    await publish_hooks(connections, keys, json.dumps({"hooks": rules}))
    async with evaluating(server.url, keys):
        assert (await ask(connections, keys)).decision == "abstain"
        name, reply = await put(connections, keys, bash())
        await until(lambda: do(connections, "ZSCORE", keys("questions"), name), "it waits for a person")
        assert (await answer_question(connections, keys, name, "approve", ANA)).word == "done"
        said = await verdict(connections, reply)
        assert (said.decision, use(said)) == ("allow", (2, 1))
        name, reply = await put(connections, keys, bash())
        await until(lambda: do(connections, "ZSCORE", keys("questions"), name), "it waits for a person")
        assert (await answer_question(connections, keys, name, "deny", ANA)).word == "done"
        assert (await verdict(connections, reply)).decision == "deny"
        names = await do(connections, "ZRANGE", keys("limits"), 0, -1)
        assert await do(connections, "ZCARD", keys("limit", names[0].decode().partition(" ")[0])) == 2
