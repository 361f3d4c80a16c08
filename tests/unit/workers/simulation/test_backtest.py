"""What a candidate would change about past events: each kind of change, and what cannot be known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooks import Layer
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.verdicts import Approval, Decision, Part, Verdict
from workers.simulation.backtest import Backtest, BacktestResult
from workers.simulation.candidate import candidate
from workers.simulation.past_events import Past, PastEvent, Unreadable

pytestmark = pytest.mark.req("X-04")

NO_RM = "{id: no-rm, on: tool:pre_execute, rule: {commands: [{program: [rm]}], reason: no rm}}"
CHECK = "{id: check, on: tool:pre_execute, command: ./check.sh}"


def past(command: str, verdict: Verdict | None = None, *, redacted: bool = False, **fields: Any) -> PastEvent:
    event = Event(type="tool:pre_execute", tool="bash", input={"command": command}, **{"host": "h", **fields})
    return PastEvent(f"e-{command[:12]}", 1_000, event, verdict or Verdict(), redacted)


def by(hook: str, decision: Decision, layer: str = "fleet", **more: Any) -> Part:
    return Part(hook=hook, decision=decision, layer=layer, version="1", **more)


def said(*parts: Part, **more: Any) -> Verdict:
    return Verdict(decision=parts[0].decision, parts=parts, **more)


def judge(
    hooks: str,
    *events: Past,
    layer: Layer = "fleet",
    now: str = "hooks: []",
    beside: bool = False,
    path: Path | None = None,
) -> BacktestResult:
    """What the backtest of a hook file says, beside the hooks that are in force `now` in its layer."""
    read, known = parse_hook_file(hooks, layer), parse_hook_file(now, layer)
    assert not read.problems, read.problems
    in_force = HookSet([Layered(layer, "1", known)])
    tried = candidate(read, "candidate.yaml", layer, in_force, host="h", path=path, beside=beside)

    async def work() -> BacktestResult:
        async with Backtest(tried, seconds=10.0, policy="allow") as run:
            await run.add(events)
        return run.result()

    return asyncio.run(work())


def kinds(found: BacktestResult) -> dict[str, int]:
    return {f"{change.before}>{change.after}": change.events for change in found.changes}


def test_a_new_deny_is_shown_with_its_hook_and_reason() -> None:
    found = judge(f"hooks: [{NO_RM}]", past("rm -rf build"), past("ls"))
    assert (found.events, kinds(found)) == (2, {"abstain>deny": 1})
    (change,) = found.changed
    assert (change.id, change.what, change.hooks_after) == ("e-rm -rf build", "rm -rf build", ("no-rm",))
    assert change.reason.startswith("no rm")
    assert (found.hooks[0].deny, found.hooks[0].changes, found.never_matched) == (1, 1, ())


@pytest.mark.parametrize(
    ("then", "decision", "change"),
    [
        (said(by("no-rm", "deny")), "deny", {}),
        (said(by("no-rm", "deny")), "ask", {"deny>ask": 1}),
        (said(by("no-rm", "ask")), "deny", {"ask>deny": 1}),
        (said(by("old", "allow")), "deny", {"allow>deny": 1}),
        (said(by("no-rm", "deny"), by("mine", "ask", "user")), "abstain", {"deny>ask": 1}),
        (said(by("no-rm", "deny", "user")), "abstain", {}),
        (said(by("no-rm", "allow", "project")), "abstain", {}),
    ],
)
def test_every_change_is_between_what_the_hooks_said_then_and_would_say(
    then: Verdict, decision: str, change: dict[str, int]
) -> None:
    hooks = f"hooks: [{{id: no-rm, on: '*', rule: {{decision: {decision}}}}}]"
    assert kinds(judge(hooks, past("rm x", then))) == change


def test_what_is_no_longer_denied_says_that_lower_layers_did_not_run() -> None:
    found = judge("hooks: []", past("rm x", said(by("no-rm", "deny", reason="no rm"))))
    assert (kinds(found), found.not_reached) == ({"deny>abstain": 1}, 1)
    assert (found.changed[0].hooks_before, found.changed[0].reason) == (("no-rm",), "no rm")


def test_beside_the_hooks_in_force_nothing_is_taken_away() -> None:
    then = said(by("old", "deny"))
    assert kinds(judge(f"hooks: [{NO_RM}]", past("ls", then), past("rm x"), beside=True)) == {"abstain>deny": 1}


def test_a_person_or_a_stop_is_no_hook() -> None:
    """The decision of the hooks is compared, and not what came after it."""
    asked = said(by("no-rm", "ask"), approval=Approval(question="q", state="approved"))
    held = Verdict(decision="allow", parts=asked.parts, approval=asked.approval)
    stopped = Verdict(decision="deny", stop="s1", reason="stopped")
    found = judge(f"hooks: [{NO_RM}]", past("rm x", held), past("ls", stopped))
    assert kinds(found) == {"ask>deny": 1}
    assert found.changed[0].approval == "approved"


def test_the_fallback_of_an_outage_is_what_the_agent_got() -> None:
    away = Verdict(decision="deny", fallback="no evaluator")
    assert kinds(judge("hooks: []", past("ls", away))) == {"deny>abstain": 1}


def test_a_command_counts_as_it_answered_then_if_it_is_the_same() -> None:
    hooks = f"hooks: [{CHECK}]"
    then = past("make", said(by("check", "deny", reason="no")))
    same = judge(hooks, then, past("ls"), now=hooks)
    assert kinds(same) == {}, "its recorded deny stays"
    assert same.hooks[0].unknown == 1, "and nobody knows what it would say to the other event"
    other = judge(f"hooks: [{CHECK.replace('check.sh', 'new.sh')}]", then, now=hooks)
    assert (kinds(other), other.hooks[0].unknown, other.never_matched) == ({"deny>abstain": 1}, 1, ())


def test_a_changed_failure_policy_answers_recorded_failures() -> None:
    now = f"hooks: [{CHECK}]"
    then = past("make", said(by("check", "abstain", fallback="hook 'check' failed: exit 1")))
    hooks = "hooks: [{id: check, on: tool:pre_execute, command: ./check.sh, on_failure: deny}]"
    found = judge(hooks, then, now=now)
    assert (kinds(found), found.hooks[0].failed) == ({"abstain>deny": 1}, 1)


def test_what_only_observes_is_counted_and_changes_nothing() -> None:
    found = judge(f"hooks: [{NO_RM.replace(' on:', ' observe: true, on:')}]", past("rm x"), past("rm y"), past("ls"))
    assert (kinds(found), found.hooks[0].observed) == ({}, {"deny": 2})
    switched_on = judge(
        f"hooks: [{CHECK}]",
        past("make", said(by("check", "abstain", observed="deny"))),
        now=f"hooks: [{CHECK.replace(' on:', ' observe: true, on:')}]",
    )
    assert kinds(switched_on) == {"abstain>deny": 1}, "what it observed is what it decides once it is switched on"


def test_a_rule_that_says_nothing_is_listed() -> None:
    assert judge(f"hooks: [{NO_RM}]", past("ls")).never_matched == ("no-rm",)


def test_events_of_other_machines_and_folders_are_left_out_of_a_files_layer(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    file = project / "fleethook.yaml"
    file.write_text("hooks: []", encoding="utf-8")
    events = (past("rm 1", host="other", cwd=str(project)), past("rm 2", cwd="/"), past("rm 3", cwd=str(project)))
    for layer, judged in (("fleet", 3), ("user", 2), ("project", 1)):
        found = judge(f"hooks: [{NO_RM}]", *events, layer=layer, path=file)  # type: ignore[arg-type]
        assert (found.events, found.elsewhere, kinds(found)) == (judged, 3 - judged, {"abstain>deny": judged})


def test_secrets_are_redacted_and_redacted_fields_are_named() -> None:
    raw = past("rm x --token=sk-hunter2hunter2hunter2")
    hidden = past("rm y --token=[redacted:api-key]", redacted=True)
    found = judge(f"hooks: [{NO_RM}]", raw, hidden)
    assert "hunter2" not in str(found)
    assert found.redacted == {"input.command": 1}
    assert [change.redacted for change in found.changed] == [(), ("input.command",)]


def test_what_cannot_be_read_is_counted_and_the_rest_is_judged() -> None:
    found = judge(f"hooks: [{NO_RM}]", Unreadable("e9", "message of 3 bytes"), past("rm x"))
    assert (found.unreadable, found.unreadable_examples, found.events) == (1, ("e9: message of 3 bytes",), 1)


def test_a_line_that_takes_long_to_read_is_judged_in_another_process() -> None:
    slow = "rm -f" + " b{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" * 700
    found = judge("guards: {destructive-commands: true}", past(slow), past("ls"))
    assert found.events == 2


@pytest.mark.req("X-13")
def test_limits_and_facts_are_those_of_the_recorded_events() -> None:
    hooks = """hooks:
      - {id: two, on: tool:pre_execute, rule: {limit: 2 per minute, reason: enough}}
      - {id: told, on: agent:stop, when: '!session.ran("pytest").ok', rule: {reason: test it}}
    """

    def at(ms: int, kind: str = "tool:pre_execute", **fields: Any) -> PastEvent:
        event = Event(type=kind, time=ms, source="claude", session="s", host="h", **fields)
        return PastEvent(f"e-{ms}", ms, event, Verdict(), False)

    call: dict[str, Any] = {"tool": "bash", "input": {"command": "ls"}}
    tests: dict[str, Any] = {"tool": "bash", "input": {"command": "pytest"}, "output": {"stdout": ""}}
    found = judge(
        hooks,
        *(at(ms, **call) for ms in (1_000, 2_000, 3_000, 61_500)),
        at(70_000, "agent:stop"),
        at(80_000, "tool:post_execute", **tests),
        at(90_000, "agent:stop"),
    )
    assert [(one.ms, one.after, one.hooks_after) for one in found.changed] == [
        (3_000, "deny", ("two",)),
        (70_000, "deny", ("told",)),
    ]
    assert found.changed[0].reason.startswith(
        "enough (2 of 2 calls per minute for this session used; free again at 00:01:01 UTC"
    )


FLOW = """
workflows:
  - name: plan-first
    steps:
      - name: plan
        allowed_tools: [read]
        transitions: [{to: work, on: user:prompt_submit, when: event.data.prompt == "go"}]
      - name: work
        transitions:
          - to: plan
            on: agent:stop
            actions: [{action: command, command: ./done.sh, save: said}, {action: publish, type: "plan:done"}]
"""


@pytest.mark.req("G-16")
def test_workflows_go_on_from_step_to_step_and_start_nothing() -> None:
    def at(number: int, session: str, kind: str, verdict: Verdict | None = None, **fields: Any) -> PastEvent:
        known: dict[str, Any] = {"id": f"e{number}", "source": "claude", "host": "h", "session": session}
        known["time"] = 1_000 + number
        event = Event(type=kind, **known, **fields)
        return PastEvent(event.id, event.time, event, verdict, False)

    edit: dict[str, Any] = {"tool": "edit", "input": {"path": "a.py"}}
    asked, denied = Verdict(), said(by("no", "deny"))
    events = [
        at(1, "s1", "tool:pre_execute", asked, **edit),
        at(2, "s1", "user:prompt_submit", None, data={"prompt": "go"}),  # announced, and it moves all the same
        at(3, "s1", "tool:pre_execute", asked, **edit),
        at(4, "s2", "tool:pre_execute", asked, **edit),
        at(5, "s2", "user:prompt_submit", denied, data={"prompt": "go"}),  # the fleet's deny came before the workflow
        at(6, "s2", "tool:pre_execute", asked, **edit),
        at(7, "s1", "agent:stop", asked),
        at(8, "s1", "tool:pre_execute", asked, **edit),
        at(9, "", "tool:pre_execute", asked, **edit),
    ]
    found = judge(FLOW, *events, layer="user")
    assert [change.id for change in found.changed] == ["e1", "e4", "e6", "e8"], found.changed
    (counts,) = found.hooks
    assert (counts.kind, counts.deny, counts.steps, counts.unknown) == ("workflow", 4, 2, 1), counts
    assert found.never_matched == ()
