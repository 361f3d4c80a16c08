"""Another call with the id of a held one never answers the held one, in whichever order evaluators meet them (X-03)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.held import ANA, HOOKS
from tests.support.running import bash, do, evaluating, publish_hooks, put, stream, verdict
from tests.support.servers import Server
from tests.support.waiting import until
from workers.approvals.decisions import Verb, answer
from workers.approvals.held_requests import HeldRequests

pytestmark = [pytest.mark.live, pytest.mark.req("X-03")]

SAME = "e-same"
UNREADABLE = b"\xc1"
ENTER = """
  - id: observer
    on: tool:pre_execute
    tool: bash
    command: exit 0
    when: event.input.command.startsWith("echo")
"""


async def hold(server: Server, connections: Connections, keys: Keys) -> str:
    """A held call whose evaluator has ended since; its reply key."""
    async with evaluating(server.url, keys):
        _, reply = await put(connections, keys, bash("deploy it"), id=SAME)
        await until(lambda: do(connections, "ZSCORE", keys("questions"), SAME), "it waits for a person")
    return reply


async def decide(connections: Connections, keys: Keys, verb: Verb) -> None:
    """Give ana's answer."""
    assert (await answer(connections, keys, SAME, verb, ANA)).word == "done"


def know_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the evaluators that are started from now on never look for questions."""

    async def sweep(held: HeldRequests) -> float:
        held._waiting = 0
        await asyncio.Event().wait()
        return 0.0

    monkeypatch.setattr(HeldRequests, "_sweep", sweep)


@pytest.mark.parametrize("observed", [False, True], ids=["rules", "with a command"])
@pytest.mark.parametrize(
    ("body", "more"),
    [(bash("echo harmless"), {}), (UNREADABLE, {}), (bash("echo late"), {"budget": 0})],
    ids=["harmless", "unreadable", "late"],
)
async def test_an_evaluator_that_knows_no_question_lets_the_other_call_wait(
    server: Server,
    keys: Keys,
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
    body: Any,
    more: dict[str, Any],
    observed: bool,
) -> None:
    await publish_hooks(connections, keys, HOOKS + (ENTER if observed else ""))
    first = await hold(server, connections, keys)
    know_nothing(monkeypatch)
    async with evaluating(server.url, keys) as second:
        second._held._waiting = 0
        _, other = await put(connections, keys, body, id=SAME, **more)
        await until(lambda: do(connections, "LLEN", keys("join", SAME)), "it waits for the same answer")
        assert not await do(connections, "EXISTS", first, other)
        await decide(connections, keys, "deny")
        assert [(await verdict(connections, reply)).decision for reply in (first, other)] == ["deny", "deny"]
    recorded = [entry.fields for entry in await stream(connections, keys) if entry.fields[b"id"] == SAME.encode()]
    assert len(recorded) == 1, "the record has the held call alone"
    assert b"deploy it" in recorded[0][b"body"]


async def test_an_answer_between_a_persons_no_and_its_delivery_changes_nothing(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    first = await hold(server, connections, keys)
    await decide(connections, keys, "deny")
    _, other = await put(connections, keys, bash("echo harmless"), id=SAME)
    async with evaluating(server.url, keys):  # it reads new requests first
        assert [(await verdict(connections, reply)).decision for reply in (first, other)] == ["deny", "deny"]


async def test_a_rule_that_lets_the_call_pass_now_does_not_overrule_a_persons_no(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    first = await hold(server, connections, keys)
    await publish_hooks(connections, keys, HOOKS.replace('"^deploy"', '"^never-asked"'))
    await decide(connections, keys, "deny")
    _, again = await put(connections, keys, bash("deploy it"), id=SAME)
    async with evaluating(server.url, keys):
        assert [(await verdict(connections, reply)).decision for reply in (first, again)] == ["deny", "deny"]


async def test_the_answer_to_an_earlier_call_is_not_that_of_the_held_one(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    async with evaluating(server.url, keys):
        _, other = await put(connections, keys, bash("echo harmless"), id=SAME)
        assert (await verdict(connections, other)).decision == "abstain"
    first = await hold(server, connections, keys)
    await decide(connections, keys, "deny")
    async with evaluating(server.url, keys):
        assert (await verdict(connections, first)).decision == "deny"


async def test_a_caller_that_has_its_answer_is_not_asked_about_again(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Its connection broke, so it sends the request once more with the same reply key; meanwhile a rule asks."""
    await publish_hooks(connections, keys, "hooks: []")
    async with evaluating(server.url, keys):
        _, reply = await put(connections, keys, bash("deploy it"), id=SAME)
        assert (await verdict(connections, reply)).decision == "abstain"
    await publish_hooks(connections, keys, HOOKS)
    async with evaluating(server.url, keys):
        await put(connections, keys, bash("deploy it"), id=SAME, reply=reply)
        await until(lambda: empty(connections, keys), "it is handled")
    assert not await do(connections, "EXISTS", keys("question", SAME))
    assert (await verdict(connections, reply)).decision == "abstain"


async def empty(connections: Connections, keys: Keys) -> bool:
    """Whether no request waits to be handled."""
    return not await do(connections, "XLEN", keys("requests"))
