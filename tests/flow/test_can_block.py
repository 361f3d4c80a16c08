"""An endpoint that can block, asked and told by real processes (G-06, G-08)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook

from bus.client import SyncBus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.http.signing import generate_secret
from bus.ids import event_id
from bus.wire.connections import Connections
from tests.support.beside import beside
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import CONNECT
from workers.records.replay import ReplaySpec, chunks

SECRET, OLD = generate_secret(), generate_secret()
HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - id: policy
    url: http://127.0.0.1:{port}/policy
    events: tool:pre_execute
    headers: {{X-Team: blue}}
    secret: {secret}
    old_secrets: [{{secret: {old}, until: "2099-01-01T00:00:00Z"}}]
    retry: [0.1]
    can_block: true
    on_failure: deny
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Who decides."""
    with beside(receiving) as one:
        yield one


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    """A fleet that asks and tells it."""
    hooks = HOOKS.format(port=receiver.port, secret=SECRET, old=OLD)
    folder = tmp_path_factory.mktemp("can-block")
    with fleet(folder, "evaluator", "dispatcher", "carrier", hooks=hooks) as one:
        yield one


def call(bus: SyncBus) -> tuple[str, str, str]:
    """A tool call: its id, the decision, the reason."""
    event = Event(
        type="tool:pre_execute", tool="bash", source="codex", host=HOST, id=event_id(), input={"command": "ls"}
    )
    verdict = bus.request(event)
    return event.id, verdict.decision, verdict.reason


@pytest.mark.req("G-06", "G-08", "B-06")
def test_it_is_asked_where_an_agent_waits_and_told_where_none_does(made: Fleet, receiver: Receiver) -> None:
    with made.bus(connect=CONNECT).sync() as bus:
        receiver.next_answers.append(Answer(200, b'{"decision": "deny", "reason": "not on a Friday"}'))
        asked, decision, reason = call(bus)
        assert (decision, reason) == ("deny", "not on a Friday")
        (question,) = receiver.got
        assert (question.path, question.headers["x-team"], question.json["event"]["id"]) == ("/policy", "blue", asked)
        for secret in (SECRET, OLD):
            Webhook(secret).verify(question.body, question.headers)

        told = bus.publish(Event(type="tool:pre_execute", tool="bash", source="codex", host=HOST, id=event_id()))
        made.delivered(told)
        assert made.deliveries(asked) == [], "the deny came before what is delivered by now"
        assert (receiver.got[1].id, receiver.got[1].json["type"]) == (f"{told}_policy", "tool.pre_execute")

        receiver.fail(1)
        failed, decision, reason = call(bus)
        assert (decision, "was answered 503" in reason) == ("deny", True)
        made.delivered(failed)
        assert [one.id for one in receiver.got[2:]] == [f"{failed}_policy"] * 2, "asked in vain, then told, by one id"
        assert ["event" in one.json for one in receiver.got[2:]] == [True, False]

    until = made.events()[0].ms + 1
    file = parse_hook_file(HOOKS.format(port=receiver.port, secret=SECRET, old=OLD), "fleet")

    async def replayed(connections: Connections) -> list[str]:
        past = ReplaySpec(since=0, until=until, endpoint="policy")
        found = chunks(connections, made.keys, past, "j", lambda _: HookSet([Layered("fleet", "1", file)]))
        return [one.event.id async for chunk in found for one in chunk.replayed]

    assert made.ask(replayed) == [asked, told, failed], "a replay tells it of what it was asked, too"
