"""Suggestions from past answers: what becomes of each ask, which calls get one, and which never do."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.hookfile import HookFile, parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.verdicts import Approval, ApprovalState, Hold, Part, Verdict
from workers.simulation.changes import by_hand, deny_file_change, exception_plan, suggestion_diff, with_deny
from workers.simulation.history import History
from workers.simulation.past_events import PastEvent
from workers.simulation.suggestions import LeftOut, Suggestion, deny_entry, never_matched, suggestions

pytestmark = pytest.mark.req("X-04")

_IDS = itertools.count(1)


def past(event: Event, verdict: Verdict | None = None) -> PastEvent:
    number = next(_IDS)
    return PastEvent(f"e{number}", number, event, verdict, is_redacted=False)


def call(command: str = "make deploy", kind: str = "tool:pre_execute", **more: Any) -> Event:
    fields: dict[str, Any] = {
        "tool": "bash",
        "input": {"command": command},
        "session": "s",
        "host": "h",
        "cwd": "/shop",
    }
    return Event(type=kind, **{**fields, **more})


def asked(
    event: Event, *hooks: str, layer: str = "fleet", state: ApprovalState | None = None, **more: Any
) -> PastEvent:
    """A call that hooks asked about; with a `state`, it was held."""
    parts = tuple(Part(hook=hook, decision="ask", layer=layer, **more) for hook in hooks or ("ask-deploy",))
    approval = None if state is None else Approval(question=f"q{next(_IDS)}", state=state)
    return past(event, Verdict(decision="ask", parts=parts, approval=approval))


def read(*events: PastEvent) -> History:
    history = History()
    history.add(events)
    return history


def propose(*events: PastEvent, least: int = 2) -> tuple[list[Suggestion], list[LeftOut]]:
    return asyncio.run(suggestions(read(*events).calls.values(), least))


def test_an_approved_call_gets_an_exception_for_itself_alone() -> None:
    found, left_out = propose(*(asked(call(), state="approved") for _ in range(3)), asked(call("make other")))
    assert left_out == []
    (suggestion,) = found
    assert (suggestion.kind, suggestion.asked.asked, suggestion.lets_through) == ("exception", 3, 3)
    assert suggestion.asked.call.fits(call())
    for other in (call("make deploy2"), call(cwd="/"), call(host="x"), call(source="claude"), call(tool="write")):
        assert not suggestion.asked.call.fits(other)


def test_the_answers_of_the_agents_own_prompt_count() -> None:
    """A call that ran was approved there; one whose permission was denied was not."""
    ran = [past(call(kind="tool:post_execute", call=str(n))) for n in range(2)]
    events = [asked(call(call=str(n))) for n in range(3)]
    history = read(*events, *ran, past(call(kind="permission:denied", call="2")))
    (found,) = history.calls.values()
    assert (found.asked, found.approved, found.denied, found.open) == (3, 2, 1, 0)
    assert (history.hooks()[0].approved, history.hooks()[0].refused, history.hooks()[0].sessions) == (2, 1, 1)
    without_ids = read(asked(call()), past(call("other", kind="tool:post_execute")), past(call(kind="tool:error")))
    assert next(iter(without_ids.calls.values())).approved == 1


def test_an_answer_after_the_agent_stopped_waiting_counts_once() -> None:
    waiting = asked(call(), state="waiting")
    assert waiting.verdict is not None
    assert waiting.verdict.approval is not None
    question = waiting.verdict.approval.question
    answered = past(Event(type="approval:answered", data={"question": question, "state": "approved"}))
    parts = waiting.verdict.parts
    ticket = Verdict(decision="allow", parts=parts, approval=Approval(question=question, state="approved", ticket=True))
    (found,) = read(waiting, answered, past(call(), ticket), answered).calls.values()
    assert (found.asked, found.approved, found.questions) == (1, 1, [question])


def test_unanswered_asks_are_no_evidence() -> None:
    assert propose(*(asked(call(), state="timed_out") for _ in range(5)), *(asked(call("x")) for _ in range(5))) == (
        [],
        [],
    )


def test_a_call_that_is_denied_anyway_is_not_asked_about() -> None:
    parts = (Part(hook="ask", decision="ask"), Part(hook="no", decision="deny"))
    assert read(past(call(), Verdict(decision="deny", parts=parts))).calls == {}


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([asked(call(), state="approved") for _ in range(2)] + [asked(call(), state="denied")], "do not agree"),
        ([asked(call("fleethook down"), state="approved") for _ in range(2)], "concerns Fleethook itself"),
        ([asked(call(), "fleethook-itself_x", state="approved") for _ in range(2)], "a rule of fleethook-itself"),
        ([asked(call("x --token=sk-hunter2hunter2hunter2"), state="approved") for _ in range(2)], "a secret"),
        ([asked(call("x" * 9_000), state="approved") for _ in range(2)], "too long"),
        ([asked(call(), state="approved", hold=Hold(members=("ana",))) for _ in range(2)], "who has to approve"),
        ([asked(call(), state="approved", layer="session") for _ in range(2)], "ends with it"),
        ([asked(call(input={"edits": [1]}, tool="edit"), state="denied") for _ in range(2)], "lists or mappings"),
    ],
)
def test_what_never_gets_a_suggestion(events: list[PastEvent], why: str) -> None:
    found, (left_out, *_) = propose(*events)
    assert found == []
    assert why in left_out.why


def test_a_call_that_people_denied_gets_a_rule_that_denies_it_alone() -> None:
    command = 'echo "a\\b\n\'é" {x} $y'
    ((suggestion,), _) = propose(*(asked(call(command), state="denied") for _ in range(2)))
    assert (suggestion.kind, suggestion.lets_through) == ("deny", 0)
    file = with_deny(HookFile(), suggestion)
    hooks = HookSet([Layered("fleet", "1", file)])
    assert [hook.id for hook in hooks.blocking(call(command))] == [deny_entry(suggestion)["id"]]
    for other in (call(f"{command} "), call(command, cwd="/"), call(command, tool="write"), call("x", input={})):
        assert hooks.blocking(other) == []
    assert with_deny(file, suggestion).hooks == file.hooks, "once is enough"


@pytest.mark.parametrize("tool", ["bash", "mcp__github__create", "a.b+c"])
def test_the_tool_of_a_deny_is_no_pattern(tool: str) -> None:
    event = call(tool=tool, input={"path": "a", "n": 3, "force": True})
    ((suggestion,), _) = propose(*(asked(event, state="denied") for _ in range(2)))
    hooks = HookSet([Layered("fleet", "1", with_deny(HookFile(), suggestion))])
    assert len(hooks.blocking(event)) == 1
    assert hooks.blocking(call(tool=tool, input={"path": "a", "n": 4, "force": True})) == []


def test_changes_are_diffs_of_the_layer_that_asked(tmp_path: Path) -> None:
    user = tmp_path / "fleethook.yaml"
    text = "hooks:\n  - {id: ask-deploy, on: tool:pre_execute, rule: {decision: ask}}  # mine\n"
    user.write_text(text, encoding="utf-8")
    ((mine,), _) = propose(*(asked(call(), layer="user", state="approved") for _ in range(2)))
    shown = suggestion_diff(mine, (HookFile(), 0), user, "h")
    assert "+  - {id: ask-deploy" in shown
    assert "make deploy" in shown
    assert exception_plan(mine, HookFile(), user, "h").published == ()

    published = parse_hook_file("guards: {destructive-commands: true}\n", "fleet")
    push = call("git push --force")
    ((fleets,), _) = propose(*(asked(push, "destructive-commands_force-push", state="approved") for _ in range(2)))
    plan = exception_plan(fleets, published, user, "h")
    in_force = HookSet([Layered("fleet", "2", plan.change_set(published))])
    before = HookSet([Layered("fleet", "1", published)])
    rule = "destructive-commands_force-push"
    assert rule in {hook.id for hook in before.blocking(push)}
    assert rule not in {hook.id for hook in in_force.blocking(push)}
    assert rule in {hook.id for hook in in_force.blocking(call("git push --force", cwd="/other"))}

    ((denied,), _) = propose(*(asked(call(), layer="user", state="denied") for _ in range(2)))
    edited = deny_file_change(denied, user, "h")
    assert edited.after.startswith(text)
    assert len(edited.read.hooks) == 2
    assert by_hand(deny_entry(denied)) in edited.after


def test_rules_that_said_nothing_are_listed_packs_last() -> None:
    file = parse_hook_file(
        "guards: {destructive-commands: true}\nhooks:\n"
        "  - {id: ask-deploy, on: '*', rule: {}}\n  - {id: quiet, on: '*', rule: {}}\n"
        "  - {id: later, on: '*', blocking: false, command: x}\n",
        "fleet",
    )
    silent = never_matched(HookSet([Layered("fleet", "1", file)]), read(asked(call())).hooks())
    assert silent[0][0].id == "quiet"
    assert {pack for _, pack in silent[1:]} == {"destructive-commands"}


def test_observing_hooks_are_summed_up() -> None:
    parts = (Part(hook="watch", decision="abstain", observed="deny"),)
    history = read(*(past(call(session=s), Verdict(parts=parts)) for s in ("a", "b", "b")))
    (hook,) = history.hooks()
    assert (hook.observed, hook.sessions, hook.denied, hook.other, len(hook.events)) == ({"deny": 3}, 2, 0, 0, 3)
