"""Calls that ran without their pre-hook event, and calls that only look so (X-15)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.agents.reporter import UNKNOWN_REPORTER
from bus.events import Event
from bus.ids import event_id
from bus.requests import read_event, read_request
from bus.verdicts import Verdict
from bus.wire.codec import encode_payload, encode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import INSTALLS_MS, Keys
from bus.wire.streams import StreamEntry, server_now
from tests.support.delivering import dispatching, publish
from tests.support.running import HOST, answer, do, evaluating, put, stream
from tests.support.servers import Server
from tests.support.waiting import until
from workers.coverage.decisions import decide_gaps
from workers.coverage.installs import HostInstalls, InstalledHooks
from workers.coverage.marks import CallMarks
from workers.coverage.reports import has_other_hosts, read_reports
from workers.dispatcher import GROUP
from workers.records.sessions import SessionRecord, sessions

pytestmark = pytest.mark.req("X-15")

GOLDEN = Path("tests/golden")
PAIRS = {
    "claude": (("PreToolUse", "captured-PreToolUse-1"), ("PostToolUse", "captured-PostToolUse-1")),
    "codex": (("PreToolUse", "captured-PreToolUse-1"), ("PostToolUse", "captured-PostToolUse-1")),
    "gemini": (("BeforeTool", "captured-BeforeTool-1"), ("AfterTool", "captured-AfterTool-1")),
    "qwen": (("PreToolUse", "captured-PreToolUse-1"), ("PostToolUse", "captured-PostToolUse-1")),
    "opencode": (
        ("tool.execute.before", "captured-tool.execute.before-1"),
        ("tool.execute.after", "captured-tool.execute.after-1"),
    ),
}
"""One call of each agent as it was captured from the real program: before it, and after it."""


def payload(agent: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / agent / f"{name}.json").read_text())
    return found


async def send(
    connections: Connections, keys: Keys, agent: str, native: str, body: dict[str, Any], *more: str | bytes
) -> str:
    """Record an event of an agent as an evaluator or a hook command does; its id."""
    name = event_id()
    fields = ("id", name, "source", agent, "event", native, "host", HOST, "by", "hook-command/0.1.0")
    raw = encode_payload(json.dumps(body).encode())
    await do(connections, "XADD", keys("events"), "*", *fields, "body", raw, *more)
    return name


async def start(connections: Connections, keys: Keys, agent: str, body: dict[str, Any]) -> None:
    """The start of the session of this payload, since the records of a new fleet begin with it."""
    session = {"session_id": body.get("session_id"), "hook_event_name": "SessionStart", "cwd": "/p"}
    native = {"opencode": "session.created"}.get(agent, "SessionStart")
    if agent == "opencode":
        session = {"hook": native, "input": {"sessionID": body["input"]["sessionID"]}}
    await send(connections, keys, agent, native, session)


async def dispatched(connections: Connections, keys: Keys) -> None:
    """Return when every event has been dispatched."""

    async def done() -> bool:
        length = await do(connections, "XLEN", keys("events"))
        ((*_, group),) = [await do(connections, "XINFO", "GROUPS", keys("events"))]
        facts = dict(zip(group[::2], group[1::2], strict=True))
        return bool(facts[b"pending"] == 0 and facts[b"entries-read"] == length)

    await until(done, "all events are dispatched")


async def decided(connections: Connections, keys: Keys) -> int:
    """Decide everything whose time has come once all events are dispatched; how many calls were uncovered."""
    await dispatched(connections, keys)
    return await decide_gaps(connections, keys)


def renamed(body: dict[str, Any], name: str) -> dict[str, Any]:
    """The payload with another id of its call, where the agent has ids."""
    text = json.dumps(body)
    for known in ("call_lab000002", "call_lab000001", "toolu_lab000001", "toolu_1795293514834_ydpoqbsji"):
        text = text.replace(known, name)
    found: dict[str, Any] = json.loads(text)
    return found


async def announced(connections: Connections, keys: Keys) -> list[dict[str, Any]]:
    """The gaps that were announced."""
    found = [entry for entry in await stream(connections, keys) if entry.fields[b"event"] == b"coverage:gap"]
    events = [read_event(read_request(entry, keys)) for entry in found]

    return [{"session": one.session, "tool": one.tool, **one.data} for one in events]


async def only_session(connections: Connections, keys: Keys) -> SessionRecord:
    (one,) = await sessions(connections, keys)
    return one


@pytest.mark.parametrize("agent", PAIRS)
async def test_the_calls_of_each_agent_are_told_apart(
    server: Server, keys: Keys, connections: Connections, agent: str
) -> None:
    """Before and after a call: no gap, in either order. After it alone: a gap, announced once however many calls."""
    (before, pre), (after, post) = ((native, payload(agent, name)) for native, name in PAIRS[agent])
    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, agent, pre)
        await send(connections, keys, agent, before, pre)
        await send(connections, keys, agent, after, post)
        assert await decided(connections, keys) == 0
        await send(connections, keys, agent, after, renamed(post, "second"))
        await send(connections, keys, agent, before, renamed(pre, "second"))
        assert await decided(connections, keys) == 0, "its pre-hook event came late"
        for number in range(2):
            await send(connections, keys, agent, after, renamed(post, f"lone{number}"))
        assert await decided(connections, keys) == 2
        (gap,) = await announced(connections, keys)
        assert (gap["agent"], gap["tool"], gap["cause"]) == (agent, "bash", "stopped")
        session = await only_session(connections, keys)
        assert (session.calls, session.uncovered) == (2, 2)
        assert await decided(connections, keys) == 0, "each is decided once"


async def test_a_pre_hook_event_on_its_way_is_waited_for(server: Server, keys: Keys, connections: Connections) -> None:
    """A request without its answer, and a dispatcher that is behind, put the decision off."""
    post, pre = payload("claude", "captured-PostToolUse-1"), payload("claude", "captured-PreToolUse-1")
    waiting = await do(connections, "XADD", keys("requests"), "*", "id", "e1")
    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, "claude", post)
        await send(connections, keys, "claude", "PostToolUse", post)
        assert await decided(connections, keys) == 0
        await send(connections, keys, "claude", "PreToolUse", pre, "fallback", "no answer in time", "spooled", "1")
        await do(connections, "XDEL", keys("requests"), waiting)
        assert await decided(connections, keys) == 0
        assert await do(connections, "ZCARD", keys("uncovered")) == 0
    assert await announced(connections, keys) == []


async def test_what_is_no_gap(server: Server, keys: Keys, connections: Connections) -> None:
    """Failed calls, second events of the same call, programs without hooks, denied calls, and an event read twice."""
    failure = payload("claude", "captured-PostToolUseFailure-1")
    pre, post = payload("claude", "captured-PreToolUse-1"), payload("claude", "captured-PostToolUse-1")
    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, "claude", failure)
        await send(connections, keys, "claude", "PostToolUseFailure", failure)
        shell = {"conversation_id": "c1", "command": "ls", "output": "", "hook_event_name": "afterShellExecution"}
        await send(connections, keys, "cursor", "sessionStart", {"conversation_id": "c1"})
        await send(connections, keys, "cursor", "afterShellExecution", shell)
        made = {"type": "tool:post_execute", "source": "deployer", "session": "d1", "tool": "bash", "input": {}}

        await publish(connections, keys, Event(**made, id=event_id(), host=HOST))  # type: ignore[arg-type]  # values of a payload
        verdict = encode_verdict(Verdict(decision="deny"))
        await start(connections, keys, "claude", pre)
        await send(connections, keys, "claude", "PreToolUse", pre, "verdict", verdict)
        await send(connections, keys, "claude", "PostToolUse", post)
        assert await decided(connections, keys) == 0
        (entry, *_) = [one for one in await stream(connections, keys) if one.fields[b"event"] == b"PostToolUse"]
        fields = [part for pair in entry.fields.items() for part in pair]
        await do(connections, "XADD", keys("events"), "*", *fields)
        assert await decided(connections, keys) == 0, "a call may come twice"
    assert await announced(connections, keys) == []


async def test_a_dispatcher_that_dies_loses_no_mark(server: Server, keys: Keys, connections: Connections) -> None:
    """The mark goes out before the acknowledgement: what is acknowledged was noted, what is not comes again."""
    pre, post = payload("claude", "captured-PreToolUse-1"), payload("claude", "captured-PostToolUse-1")
    await do(connections, "XGROUP", "CREATE", keys("events"), GROUP, "0", "MKSTREAM")
    await start(connections, keys, "claude", pre)
    await send(connections, keys, "claude", "PreToolUse", pre)
    dead = ("XREADGROUP", "GROUP", GROUP, "dead", "COUNT", 10, "STREAMS", keys("events"), ">")
    assert await do(connections, *dead)
    async with dispatching(server.url, keys, grace=0.0):
        await send(connections, keys, "claude", "PostToolUse", post)
        assert await decided(connections, keys) == 0
    assert await announced(connections, keys) == []


async def test_two_workers_decide_each_call_once(server: Server, keys: Keys, connections: Connections) -> None:
    post = payload("claude", "captured-PostToolUse-1")
    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, "claude", post)
        for number in range(20):
            await send(connections, keys, "claude", "PostToolUse", {**post, "tool_use_id": f"toolu_{number}"})
        await dispatched(connections, keys)
        found = await asyncio.gather(*(decide_gaps(connections, keys) for _ in range(4)))
        assert sum(found) == 20
        assert len(await announced(connections, keys)) == 1
        session = await only_session(connections, keys)
        assert (session.uncovered, [gap.calls for gap in session.gaps]) == (20, [20])


async def test_what_an_agent_reported_last(server: Server, keys: Keys, connections: Connections) -> None:
    """By agent, host and version: the last event, the last verdict, and counts."""
    pre = payload("claude", "captured-PreToolUse-1")
    async with dispatching(server.url, keys):
        verdict, version = encode_verdict(Verdict(decision="deny")), ("version", "claude-code/2.1.330/x")
        asked = await send(connections, keys, "claude", "PreToolUse", pre, "verdict", verdict, *version)
        body = {"session_id": pre["session_id"], "hook_event_name": "Stop"}
        last = await send(connections, keys, "claude", "Stop", body, *version)
        cursor = {"conversation_id": "c1", "cursor_version": "3.18.2"}
        await send(connections, keys, "cursor", "sessionStart", cursor)
        await dispatched(connections, keys)
    found = {(one.agent, one.version): one for one in await read_reports(connections, keys)}
    claude = found["claude", "2.1.330"]
    assert (claude.host, claude.event, claude.type, claude.by) == (HOST, last, "agent:stop", "hook-command/0.1.0")
    assert (claude.verdict, claude.verdict_event, claude.events, claude.denied) == ("deny", asked, 2, 1)
    assert found["cursor", "3.18.2"].type == "session:start"
    assert not await has_other_hosts(connections, keys, HOST)
    assert await has_other_hosts(connections, keys, "another"), "whose own guards do not guard this one"


async def test_an_event_that_comes_after_the_decision_takes_it_back(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """A spool can be sent hours later: then the call is not counted any more."""
    pre, post = payload("claude", "captured-PreToolUse-1"), payload("claude", "captured-PostToolUse-1")
    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, "claude", post)
        await send(connections, keys, "claude", "PostToolUse", post)
        assert await decided(connections, keys) == 1
        assert (await only_session(connections, keys)).uncovered == 1
        await send(connections, keys, "claude", "PreToolUse", pre, "fallback", "redis away", "spooled", "1")
        assert await decided(connections, keys) == 0
        session = await only_session(connections, keys)
    assert (session.uncovered, session.gaps) == (0, ())


async def test_an_agent_that_fell_back_explains_its_gap(server: Server, keys: Keys, connections: Connections) -> None:
    """The hook command reported that it answered by itself, and its event is lost."""
    post = payload("claude", "captured-PostToolUse-1")
    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, "claude", post)
        about = ("source", "claude", "event", "PreToolUse", "host", HOST)
        report = ("id", event_id(), "of", "e0lost", "fallback", "no answer in time", *about)
        await do(connections, "XADD", keys("events"), "*", *report)
        await send(connections, keys, "claude", "PostToolUse", post)

        async def is_reported() -> bool:
            return any(one.fallback_at for one in await read_reports(connections, keys))

        await until(is_reported, "the fallback is reported")
        assert await decided(connections, keys) == 1
        (gap,) = await announced(connections, keys)
    assert (gap["cause"], "no answer in time" in gap["text"]) == ("fallback", True)


async def test_a_fallback_whose_event_arrived_explains_no_gap(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """The hook command did not wait for the answer, and an evaluator gave it later: another event was lost."""
    pre, post = payload("claude", "captured-PreToolUse-1"), payload("claude", "captured-PostToolUse-1")
    async with dispatching(server.url, keys, grace=0.0), evaluating(server.url, keys):
        await start(connections, keys, "claude", post)
        about: dict[str, Any] = {"source": "claude", "event": "PreToolUse", "host": HOST}
        name, reply = await put(connections, keys, encode_payload(json.dumps(pre).encode()), **about)
        await answer(connections, reply)
        report = {"id": event_id(), "of": name, "fallback": "no answer in time", **about}
        await do(connections, "XADD", keys("events"), "*", *(part for pair in report.items() for part in pair))
        await send(connections, keys, "claude", "PostToolUse", post)

        async def is_reported() -> bool:
            return any(one.fallback_at for one in await read_reports(connections, keys))

        await until(is_reported, "the fallback is reported")
        assert await decided(connections, keys) == 0
        await send(connections, keys, "claude", "PostToolUse", {**post, "tool_use_id": "toolu_lost"})
        assert await decided(connections, keys) == 1
        (gap,) = await announced(connections, keys)
    assert gap["cause"] == "stopped"


async def test_a_gap_is_explained_by_settings_that_were_read_after_the_call(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """The hook is removed, the call runs, and the host's worker reads the settings only then."""
    post = payload("claude", "captured-PostToolUse-1")
    whole = InstalledHooks(agent="claude", path="/s.json", events=("PreToolUse", "PostToolUse"))
    cut = InstalledHooks(agent="claude", path="/s.json", events=("PostToolUse",), removed=("PreToolUse",))

    async def write(age: int, file: InstalledHooks) -> None:
        raw = msgspec.json.encode(HostInstalls(await server_now(connections) - age, (file,)))
        await do(connections, "SET", keys("installs", HOST), raw, "PX", INSTALLS_MS)

    async with dispatching(server.url, keys, grace=0.0):
        await start(connections, keys, "claude", post)
        await write(10_000, whole)
        await send(connections, keys, "claude", "PostToolUse", post)
        assert await decided(connections, keys) == 0
        await write(-1, cut)
        assert await decided(connections, keys) == 1
        await write(120_000, whole)
        await send(connections, keys, "claude", "PostToolUse", renamed(post, "second"))
        assert await decided(connections, keys) == 1, "the host has no worker any more that reads them"
        causes = [gap["cause"] for gap in await announced(connections, keys)]
    assert causes[0] == "removed"
    assert len(causes) == 2


async def test_marks_that_a_full_server_refuses_are_sent_again(keys: Keys) -> None:
    marks, entry = CallMarks(keys, 1.0), StreamEntry("events", "1-0", {})
    event = Event(type="tool:pre_execute", id="e1", source="claude", session="s", call="c", tool="bash")
    marks.add(entry, event, None, UNKNOWN_REPORTER)
    (refused,) = marks.take()
    marks.keep_refused([refused], [Exception("OOM")])
    assert marks.take() == [refused]
    assert marks.take() == []


async def test_hostile_names_do_no_harm(server: Server, keys: Keys, connections: Connections) -> None:
    """Lone surrogates, long names and control characters in what an agent sends."""
    post = payload("claude", "captured-PostToolUse-1")
    for bad in ("\ud83d", "x" * 10_000, "a\x00\x1b[2Jb", "pre:calls:gap:"):
        body = {**post, "session_id": f"s{bad}", "tool_use_id": bad, "tool_name": bad}
        await start(connections, keys, "claude", body)
        await send(connections, keys, "claude", "PostToolUse", body)
    async with dispatching(server.url, keys, grace=0.0):
        assert await decided(connections, keys) == 4
    assert len(await announced(connections, keys)) == 4
    assert len(await sessions(connections, keys)) == 4
