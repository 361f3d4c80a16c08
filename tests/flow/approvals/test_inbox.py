"""`fleethook inbox` and `/v1/inbox`: which sessions of all hosts wait for a person (X-03)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bus.events import Event
from bus.wire.streams import server_now
from tests.flow.approvals.test_commands import fleethook
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.held import HOOKS, Held
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03")]


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("inbox"), "evaluator", hooks=HOOKS) as one:
        yield one


def happen(world: Fleet, *events: Event) -> None:
    """Publish events in this order."""

    async def publish() -> None:
        async with world.bus() as bus:
            for event in events:
                await bus.publish(event)
                await asyncio.sleep(0.002)  # times are whole milliseconds, and the inbox is in their order

    asyncio.run(publish())


def event(kind: str, session: str, **more: Any) -> Event:
    return Event(type=kind, source="claude", session=session, host=more.pop("host", "laptop"), **more)


def call(name: str, command: str) -> dict[str, Any]:
    return {"tool": "bash", "call": name, "input": {"command": command}}


def test_everything_that_waits_is_listed_oldest_first(world: Fleet) -> None:
    held = Held(world)
    happen(
        world,
        event("permission:request", "asks", **call("c1", "make it")),
        event(
            "notification",
            "asks",
            data={"message": "Claude needs your permission", "notification_type": "permission_prompt"},
        ),
        event("notification", "idle", host="server", data={"message": "Claude is waiting for your input"}),
        event("notification", "signed-in", data={"message": "signed in", "notification_type": "auth_success"}),
        # These went on, each in its way.
        event("permission:request", "ran", **call("c2", "ls")),
        event("tool:post_execute", "ran", **call("c2", "ls")),
        event("notification", "prompted", data={"message": "waiting"}),
        event("user:prompt_submit", "prompted", data={"prompt": "go on"}),
        event("permission:prompt", "gone", **call("c3", "ls")),
        event("session:end", "gone"),
        # Another call of the session has run, and this one still waits.
        event("permission:request", "beside", **call("c4", "cat")),
        event("tool:post_execute", "beside", **call("c5", "ls")),
    )
    waiting = held.call("deploy the inbox", session="held")
    question = held.question("deploy the inbox")
    # The evaluator estimates the server's clock, and may be some milliseconds ahead of it.
    wait_until(lambda: world.ask(server_now) > question.asked, "the server's clock is past the question")
    asked = held.call("plainly", session="prompts").result(PATIENCE)
    assert asked.decision == "ask"
    printed = fleethook(world, "inbox", "--json")
    items = json.loads(printed.stdout)
    assert [(item["kind"], item["session"], item["host"]) for item in items] == [
        ("permission", "asks", "laptop"),
        ("notification", "idle", "server"),
        ("permission", "beside", "laptop"),
        ("question", "held", "test-host"),
        ("permission", "prompts", "test-host"),
    ]
    assert [item["text"] for item in items][:4] == [
        "make it",
        "Claude is waiting for your input",
        "cat",
        "deploy the inbox",
    ]
    assert items[3]["event"] == question.id
    assert "held call" in fleethook(world, "inbox").stdout
    held.answer(question, "approve")
    assert waiting.result(PATIENCE).decision == "allow"
    left = json.loads(fleethook(world, "inbox", "--json").stdout)
    assert "held" not in {item["session"] for item in left}


def test_over_http(world: Fleet) -> None:
    gateway: Gateway = start_gateway(world)
    happen(world, event("notification", "idle", data={"message": "token ghp_abcdefghijklmnopqrstuvwxyz012345"}))
    with gateway.tcp(gateway.token("watch", "observe")) as client:
        (item,) = client.get("/v1/inbox").json()["items"]
    assert (item["kind"], item["text"]) == ("notification", "token [redacted:github-token]")


def test_who_has_the_newest_inbox_gets_no_second_copy_and_every_change_is_one(world: Fleet) -> None:
    """The gateway keeps what it has read; what it says is what a reader from nothing says."""
    gateway, held = start_gateway(world), Held(world)
    with gateway.tcp(gateway.token("watch", "observe")) as client:
        known: list[str] = []

        def changed(what: str) -> list[str]:
            """The sessions that wait, once the inbox is another one than before, and is that of the command."""
            tags = {"If-None-Match": known[-1]} if known else {}
            wait_until(lambda: client.get("/v1/inbox", headers=tags).status_code == 200, what)
            response = client.get("/v1/inbox")
            known.append(response.headers["etag"])
            items = response.json()["items"]
            assert items == json.loads(fleethook(world, "inbox", "--json").stdout), what
            return [item["session"] for item in items]

        assert changed("it is read") == []
        same = client.get("/v1/inbox", headers={"If-None-Match": f'"other", {known[0]}'})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", known[0])
        assert client.get("/v1/inbox?limit=1", headers={"If-None-Match": known[0]}).status_code == 200
        waiting = held.call("deploy it", session="held")
        question = held.question("deploy it")
        assert changed("a call is held") == ["held"]
        happen(world, event("permission:request", "asks", **call("c1", "make it")))
        assert changed("an agent asks") == ["held", "asks"]
        happen(world, event("tool:post_execute", "asks", **call("c1", "make it")))
        assert changed("its call has run") == ["held"]
        held.answer(question, "deny")
        waiting.result(PATIENCE)
        assert changed("it is answered") == []
