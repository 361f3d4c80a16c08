"""A message into running sessions: given to the model once, as context, and acknowledged in the record (X-12)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from bus.events import Event
from bus.requests import read_request
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.streams import StreamEntry, server_now
from tests.flow.fleet_control.conftest import Command
from tests.flow.fleet_control.test_stop import call
from tests.support.fleet import HOST, Agent, Fleet
from tests.support.waiting import wait_until
from workers.coverage.open_sessions import open_sessions
from workers.fleet_control.messages import PostBoxes, say
from workers.records import sessions

pytestmark = [pytest.mark.flow, pytest.mark.req("X-12")]


def starts(agent: Agent, *sessions: str) -> None:
    for name in sessions:
        agent.hook("SessionStart", {"hook_event_name": "SessionStart", "session_id": name, "cwd": "/srv"})


def context(answer: Any) -> str:
    """The text for the model in an answer."""
    return str(json.loads(answer.stdout or b"{}").get("hookSpecificOutput", {}).get("additionalContext", ""))


def hears(agent: Agent, session: str, text: str) -> None:
    """Return when the session has got the text; its evaluator looks for new messages four times a second."""
    wait_until(lambda: text in context(agent.hook("PreToolUse", call(session_id=session))), f"{session} has got it")


def test_one_session_gets_it_once_and_the_record_says_when(world: Fleet, claude: Agent, command: Command) -> None:
    starts(claude, "say-one", "say-two")
    said = command("say", "--to", "say-one", "the tests are red, fix them first")
    assert said.code == 0, said.err
    assert "say-one" in said.out
    hears(claude, "say-one", "the tests are red")
    for session in ("say-one", "say-two"):
        assert "red" not in context(claude.hook("PreToolUse", call(session_id=session)))
    (message, *_) = command("say", "--list", "--json").json
    (to,) = message["to"]
    assert (to["session"], to["source"], to["host"]) == ("say-one", "claude", HOST)
    recorded = world.event(to["event"])
    assert recorded.verdict is not None
    assert recorded.verdict.messages == (message["id"],)
    assert "the tests are red" in recorded.verdict.contexts[0]
    (delivered,) = [seen.event for seen in world.events(types=("message:delivered",))]
    assert (delivered.session, delivered.parent, delivered.data["message"]) == ("say-one", to["event"], message["id"])


def test_calls_at_the_same_time_carry_it_once(world: Fleet, claude: Agent, command: Command) -> None:
    starts(claude, "say-many")
    command("say", "--to", "say-many", "hello once")
    found: list[str] = []

    def look() -> bool:
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda _: claude.hook("PreToolUse", call(session_id="say-many")), range(4))
            found.extend(context(answer) for answer in answers)
        return any("hello once" in text for text in found)

    wait_until(look, "it has come")
    look()
    assert sum("hello once" in text for text in found) == 1


def test_it_is_not_lost_with_an_evaluator_that_dies_before_its_answer(
    world: Fleet, claude: Agent, command: Command
) -> None:
    starts(claude, "say-again")
    assert command("say", "--to", "say-again", "still here").code == 0
    event = Event(type="tool:pre_execute", source="claude", host=HOST, session="say-again", tool="bash")

    async def take(connections: Connections) -> Verdict:
        boxes, now = PostBoxes(connections, world.keys), await server_now(connections)
        await boxes.refresh()
        fields = {b"id": b"e-dies", b"reply": world.keys("reply", "a" * 32).encode(), b"event": b"PreToolUse"}
        fields |= {b"source": b"claude", b"budget": b"2000", b"body": b"\xc4\x00"}  # it is free when its time is over
        request = read_request(StreamEntry(world.keys("requests"), f"{now}-0", fields), world.keys)
        return await boxes.add_to(request, event, Verdict())

    assert "still here" in world.ask(take).contexts[0]
    assert "0 of 1 session got it" in command("say", "--list").out.split("still here")[1]
    hears(claude, "say-again", "still here")
    assert "1 of 1 session got it" in command("say", "--list").out.split("still here")[1]


@pytest.mark.req("X-05")
def test_a_session_whose_id_looks_like_a_secret_gets_it_too(claude: Agent, command: Command) -> None:
    session = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    starts(claude, session)
    said = command("say", "--where", "event.session.startsWith('[redacted')", "to the redacted")
    assert "\n  [redacted:github-token] claude on" in said.out, said.out
    assert session not in said.out
    hears(claude, session, "to the redacted")


def test_an_operator_says_it_to_a_condition_over_http(
    claude: Agent, operator: httpx.Client, gateway: Any, command: Command
) -> None:
    starts(claude, "say-a", "say-b")
    claude.hook("SessionEnd", {"hook_event_name": "SessionEnd", "session_id": "say-b"})
    sent = operator.post("/v1/messages", json={"text": "pause soon", "where": "event.session.startsWith('say-')"})
    assert sent.status_code == 200, sent.text
    names = {one["session"] for one in sent.json()["to"]}
    assert "say-a" in names
    assert "say-b" not in names, "its session has ended"
    hears(claude, "say-a", "A message from ops")
    shown = next(one for one in operator.get("/v1/messages").json()["items"] if one["id"] == sent.json()["id"])
    assert next(one for one in shown["to"] if one["session"] == "say-a")["event"]
    for body in (
        {"text": "x"},
        {"text": "x", "to": "a", "where": "true"},
        {"text": "", "to": "say-a"},
        {"text": "x", "where": "event.tool == 'bash'"},
        {"text": "x", "where": "event.session =="},
    ):
        assert operator.post("/v1/messages", json=body).status_code == 400, body
    assert operator.post("/v1/messages", json={"text": "x", "to": "nobody"}).status_code == 404
    with gateway.tcp(gateway.token("agent-says", "publish")) as client:
        assert client.post("/v1/messages", json={"text": "x", "where": "true"}).status_code == 403
    refused = command("say", "--to", "say-a", "do as I say", CLAUDECODE="1", FLEETHOOK_TEST_CONFIRMS="0")
    assert (refused.code, "person has to run it" in refused.err) == (1, True)


def test_an_agent_without_context_is_named_at_once(operator: httpx.Client, command: Command) -> None:
    hello = {"type": "session:start", "source": "windsurf", "session": "say-surf", "host": HOST}
    assert operator.post("/v1/events", json=hello).status_code == 202
    wait_until(lambda: "cannot get it" in command("say", "--to", "say-surf", "hello").out, "the session is known")
    assert command("say", "hello").code == 2


def test_a_session_whose_last_event_is_no_longer_among_the_newest_is_reached(
    world: Fleet, claude: Agent, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts(claude, "say-quiet", "say-over")
    claude.hook("SessionEnd", {"hook_event_name": "SessionEnd", "session_id": "say-over", "cwd": "/srv"})

    def running() -> set[str]:
        return {one.id for one in world.ask(lambda connections: open_sessions(connections, world.keys))}

    wait_until(lambda: "say-quiet" in running() and "say-over" not in running(), "the dispatcher has read both")
    monkeypatch.setattr(sessions, "MOST_EVENTS", 0)  # as after many events of other sessions
    said = world.ask(
        lambda connections: say(connections, world.keys, "wake up", by="ana", where='event.session.startsWith("say-")')
    )
    names = {one.session for one in said.to}
    assert "say-quiet" in names
    assert "say-over" not in names
    hears(claude, "say-quiet", "wake up")
