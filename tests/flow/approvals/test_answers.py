"""A held call waits for a person; each state is told apart to the model and in the record (X-03)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bus.events import Event
from bus.wire.connections import sync_client
from tests.support.fleet import HOST, Fleet
from tests.support.gateway import Gateway
from tests.support.held import ANA, BEN, HOOKS, USER, Held
from tests.support.waiting import PATIENCE, wait_until
from workers.approvals.decisions import LINK_HOLDER, Person

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03")]
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


def own_events(world: Fleet, question: str) -> list[tuple[str, str]]:
    """Type and state of the events about a question, oldest first."""
    found = [seen.event for seen in reversed(world.events(types=("approval:*",)))]
    return [(event.type, event.data["state"]) for event in found if event.data["question"] == question]


@pytest.fixture
def record(world: Fleet) -> Callable[[str], Any]:
    """The recorded approval of a question."""

    def read(question: str) -> Any:
        wait_until(lambda: any(seen.id == question for seen in world.events()), "it is recorded")
        return world.event(question).verdict.approval  # type: ignore[union-attr]  # a request has a verdict

    return read


def waits(world: Fleet) -> int:
    """How many waits for a person the metrics have."""
    with sync_client(world.url("admin")) as client:
        counted = client.hgetall(world.keys("metrics"))
    found = {name.decode(): int(number) for name, number in counted.items()}
    return sum(n for name, n in found.items() if name.startswith("approval_wait_seconds|") and "sum" not in name)


@pytest.mark.req("G-19")
def test_a_yes_lets_the_call_run(world: Fleet, held: Held, record: Any) -> None:
    before = waits(world)
    call = held.call("deploy yes")
    question = held.question("deploy yes")
    assert (question.state, question.agent_waits, question.rules[0].hook) == ("waiting", True, "deploy")
    assert held.answer(question, "approve", comment="go").word == "done"
    verdict = call.result(PATIENCE)
    assert (verdict.decision, verdict.approval.state, verdict.approval.by) == ("allow", "approved", "ana")  # type: ignore[union-attr]
    assert "ana said yes" in verdict.reason
    assert "go" in verdict.reason
    assert record(question.id).via == "token"
    assert own_events(world, question.id) == [("approval:requested", "waiting"), ("approval:answered", "approved")]
    wait_until(lambda: waits(world) == before + 1, "the wait is counted")


@pytest.mark.req("X-05")
def test_a_held_call_and_its_events_are_in_one_trace(
    world: Fleet, held: Held, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The context waits with the question, and comes back with the answer."""
    monkeypatch.setenv("TRACEPARENT", f"00-{'7' * 32}-{'8' * 16}-01")
    call = held.call("deploy traced")
    question = held.question("deploy traced")
    held.answer(question, "approve")
    call.result(PATIENCE)
    record(question.id)
    found = [seen.event for seen in world.events(trace="7" * 32)]
    assert sorted(event.type for event in found) == ["approval:answered", "approval:requested", "tool:pre_execute"]


def test_a_no_denies_it_and_says_who(world: Fleet, held: Held, record: Any) -> None:
    call = held.call("deploy no")
    question = held.question("deploy no")
    held.answer(question, "deny", USER, "not today")
    verdict = call.result(PATIENCE)
    assert verdict.decision == "deny"
    assert "dev@laptop said no to this call: not today" in verdict.reason
    assert record(question.id).state == "denied"


@pytest.mark.parametrize(("command", "decision"), [("brief x", "deny"), ("gentle x", "abstain"), ("prompt x", "ask")])
def test_silence_is_no_persons_no(world: Fleet, held: Held, record: Any, command: str, decision: str) -> None:
    verdict = held.call(command).result(PATIENCE)
    assert verdict.decision == decision
    assert verdict.approval is not None
    assert verdict.approval.state == "timed_out"
    told = verdict.reason or verdict.notes[-1]
    assert "Nobody answered within" in told
    assert "No person has refused this call" in told
    assert "said no" not in told
    assert own_events(world, verdict.event)[-1] == ("approval:ended", "timed_out")


def test_nobody_could_be_asked(held: Held) -> None:
    verdict = held.call("ghost x").result(PATIENCE)
    assert (verdict.decision, verdict.approval.state) == ("deny", "nobody_could_be_asked")  # type: ignore[union-attr]
    assert "Nobody could be asked: 1 of ghost have to approve" in verdict.reason


def test_the_first_answer_counts(held: Held) -> None:
    call = held.call("deploy once")
    question = held.question("deploy once")
    assert held.answer(question, "deny").word == "done"
    late = held.answer(question, "approve", BEN)
    assert (late.word, late.state, late.by) == ("before", "denied", "ana")
    assert call.result(PATIENCE).decision == "deny"


@pytest.fixture(scope="module")
def _members(gateway: Gateway) -> None:
    """Tokens of the group's members: without them nobody could be asked."""
    for name in ("ana", "ben"):
        gateway.token(name, "operate")


@pytest.mark.usefixtures("_members")
def test_a_group_is_asked_and_nobody_else(held: Held) -> None:
    call = held.call("release it")
    question = held.question("release it")
    for stranger in (USER, Person("carl", "token"), Person(LINK_HOLDER, "link")):
        assert held.answer(question, "approve", stranger).word == "refused"
    assert held.answer(question, "approve", BEN).word == "done"
    assert call.result(PATIENCE).approval.by == "ben"  # type: ignore[union-attr]


@pytest.mark.usefixtures("_members")
def test_two_persons_have_to_agree(held: Held) -> None:
    call = held.call("twice it")
    question = held.question("twice it")
    assert held.answer(question, "approve", ANA)[0:4:3] == ("more", 1)
    assert held.answer(question, "approve", ANA)[0:4:3] == ("more", 1)
    assert held.question("twice it").approved_by == ("ana",)
    assert held.answer(question, "approve", BEN).word == "done"
    assert call.result(PATIENCE).approval.by == "ana, ben"  # type: ignore[union-attr]


def test_an_ask_of_another_rule_stays(held: Held) -> None:
    call = held.call("deploy plainly")
    held.answer(held.question("deploy plainly"), "approve")
    verdict = call.result(PATIENCE)
    assert (verdict.decision, verdict.reason.startswith("The agent asks")) == ("ask", True)


def test_a_late_yes_lets_the_same_call_pass_once(held: Held) -> None:
    verdict = held.unanswered("deploy late")
    assert (verdict.decision, verdict.approval.state) == ("deny", "waiting")  # type: ignore[union-attr]
    assert "No person has refused this call" in verdict.reason
    assert "within ten minutes of a yes" in verdict.reason
    question = held.question("deploy late")
    assert not question.agent_waits
    assert held.answer(question, "approve").word == "done"
    others = [held.unanswered("deploy later"), held.unanswered("deploy late", session="other")]
    assert [verdict.decision for verdict in others] == ["deny", "deny"], "they are other calls"
    again = held.call("deploy late").result(PATIENCE)
    assert (again.decision, again.approval.ticket, again.approval.question) == ("allow", True, question.id)  # type: ignore[union-attr]
    third = held.unanswered("deploy late")
    assert third.decision == "deny"


def test_over_http_with_a_token(held: Held, gateway: Gateway) -> None:
    call = held.call("deploy http")
    question = held.question("deploy http")
    with (
        gateway.tcp(gateway.token("phone", "observe", "operate")) as phone,
        gateway.tcp(gateway.token("agent")) as agent,
    ):
        path = f"/v1/approvals/{question.id}/approve"
        assert agent.post(path).status_code == 403
        listed = phone.get("/v1/approvals", params={"state": "waiting"}).json()["items"]
        assert question.id in {one["id"] for one in listed}
        done = phone.post(path, json={"comment": f"from my phone {SECRET}"})
        assert (done.status_code, done.json()["state"], done.json()["by"]) == (200, "approved", "phone")
        assert phone.post(path).status_code == 409
        assert phone.get(f"/v1/approvals/{question.id}").json()["comment"] == "from my phone [redacted:github-token]"
    assert call.result(PATIENCE).approval.by == "phone"  # type: ignore[union-attr]


def happen(world: Fleet, *events: Event) -> None:
    """Publish events."""

    async def publish() -> None:
        async with world.bus() as bus:
            for event in events:
                await bus.publish(event)

    asyncio.run(publish())


def test_a_session_that_ends_overtakes_its_questions(world: Fleet, held: Held, record: Any) -> None:
    ends, goes_on = held.call("deploy ends", session="ends"), held.call("deploy goes on", session="goes-on")
    first, second = held.question("deploy ends"), held.question("deploy goes on")
    happen(world, Event(type="session:end", source="claude", session="ends", host=HOST))
    verdict = ends.result(PATIENCE)
    assert (verdict.decision, verdict.approval.state) == ("deny", "overtaken")  # type: ignore[union-attr]
    assert "its agent has gone on" in verdict.reason
    assert "No person has refused this call" in verdict.reason
    assert record(first.id).state == "overtaken"
    assert own_events(world, first.id)[-1] == ("approval:ended", "overtaken")
    assert held.answer(first, "approve").word == "before"
    assert held.answer(second, "approve").word == "done"
    assert goes_on.result(PATIENCE).decision == "allow"


def test_a_call_that_has_run_overtakes_its_question(world: Fleet, held: Held) -> None:
    call, other = held.call("deploy runs", call="t1"), held.call("deploy waits", call="t2")
    held.question("deploy runs")
    question = held.question("deploy waits")
    happen(world, Event(type="tool:post_execute", source="claude", session="s", host=HOST, tool="bash", call="t1"))
    assert call.result(PATIENCE).approval.state == "overtaken"  # type: ignore[union-attr]
    held.answer(question, "approve")
    assert other.result(PATIENCE).decision == "allow"


def test_a_rule_that_denies_by_now_overtakes_a_yes(world: Fleet, held: Held) -> None:
    call = held.call("deploy forbid-later")
    question = held.question("deploy forbid-later")
    later = (
        "\n  - {id: later, on: tool:pre_execute, rule: {decision: deny, command: [forbid-later], reason: It is over}}\n"
    )
    world.publish_hooks(HOOKS.rstrip("\n") + later)
    held.answer(question, "approve")
    verdict = call.result(PATIENCE)
    assert (verdict.decision, verdict.approval.state) == ("deny", "overtaken")  # type: ignore[union-attr]
    assert "ana said yes, and by now a rule denies the call. It is over" in verdict.reason
    assert verdict.parts[-1].hook == "later"


def test_a_repeated_request_that_a_newer_rule_denies_is_denied(world: Fleet, held: Held, record: Any) -> None:
    """The first caller still waits: it gets the same deny, and the question ends."""
    call = held.call("deploy asked-again")
    question = held.question("deploy asked-again")
    later = (
        "\n  - {id: by-now, on: tool:pre_execute, rule: {decision: deny, command: [asked-again], reason: It is over}}\n"
    )
    world.publish_hooks(HOOKS.rstrip("\n") + later)
    again = held.call("deploy asked-again", id=question.id).result(PATIENCE)
    first = call.result(PATIENCE)
    for verdict in (again, first):
        assert (verdict.decision, verdict.approval.state) == ("deny", "overtaken")  # type: ignore[union-attr]
        assert verdict.reason.startswith("The question was overtaken: by now a rule denies the call. It is over")
    assert record(question.id).state == "overtaken"
    assert held.answer(question, "approve")[0:2] == ("before", "overtaken")
    assert [seen.id for seen in world.events()].count(question.id) == 1
    world.publish_hooks(HOOKS)


def test_a_ticket_lifts_its_question_and_no_deny(world: Fleet, held: Held) -> None:
    verdict = held.unanswered("deploy then-barred")
    assert verdict.decision == "deny"
    held.answer(held.question("deploy then-barred"), "approve")
    later = "\n  - {id: no, on: tool:pre_execute, rule: {decision: deny, command: [then-barred], reason: It is over}}\n"
    world.publish_hooks(HOOKS.rstrip("\n") + later)
    assert held.call("deploy then-barred").result(PATIENCE).reason.startswith("It is over")
    world.publish_hooks(HOOKS)
    assert held.call("deploy then-barred").result(PATIENCE).decision == "allow", "the deny has not used the ticket"


def test_a_ticket_is_used_once_by_calls_that_race(held: Held) -> None:
    assert held.unanswered("deploy race").decision == "deny"
    held.answer(held.question("deploy race"), "approve")
    with ThreadPoolExecutor(8) as pool:
        decisions = Counter(verdict.decision for verdict in pool.map(held.unanswered, ["deploy race"] * 8))
    assert decisions == {"allow": 1, "deny": 7}
