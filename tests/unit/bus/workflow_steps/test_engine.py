"""What a workflow of fleethook.yaml does at an event, with its state in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.workflow_steps.engine import Advance
from bus.workflow_steps.memory import MemoryFlows

pytestmark = pytest.mark.req("G-16")


class Session:
    """A session of one workflow, written as the entry of `workflows:`."""

    def __init__(self, entry: str) -> None:
        file = parse_hook_file(f"workflows:\n{entry}", "user")
        assert not file.problems, file.problems
        (self.hook,) = file.hooks
        self.flows = MemoryFlows()

    def send(self, kind: str, tool: str = "", data: dict[str, Any] | None = None, **fields: Any) -> Advance:
        """What it does at an event."""
        event = Event(
            type=kind, id="e", source="codex", session="s", tool=tool, input=fields, data=data or {}, time=1_000
        )
        done = asyncio.run(self.flows.handle(self.hook, event))
        assert done is not None
        return done

    @property
    def step(self) -> str:
        """The step that it is in."""
        return next(iter(self.flows.states.values())).step


def test_exit_conditions_hold_a_transition_back() -> None:
    session = Session("""
  - name: gated
    steps:
      - name: plan
        exit_conditions:
          - {approval: "Plan done?", id: plan}
          - {variable: file}
          - {expression: "vars.file.endsWith('.md')"}
        transitions: [{to: work, on: "tool:pre_execute"}]
      - name: work
    triggers:
      - {on: "tool:pre_execute", tool: write, actions: [{action: set, values: {file: "{{ event.input.path }}"}}]}
""")
    assert "Plan done?" in session.send("user:prompt_submit", data={"prompt": "go"}).record.contexts[0]
    assert session.send("tool:pre_execute", "read").record.decision == "deny"
    session.send("user:prompt_submit", data={"prompt": "approve"})
    session.send("tool:pre_execute", "read")
    session.send("tool:pre_execute", "write", path="plan.txt")
    assert session.step == "plan"
    session.send("tool:pre_execute", "write", path="plan.md")
    assert session.step == "work"


def test_a_deny_is_told_and_a_refused_question_keeps_the_step() -> None:
    session = Session("""
  - name: locks
    on_failure: deny
    steps:
      - name: open
        transitions:
          - to: locked
            on: tool:error
            actions: [{action: deny, reason: "{{ event.tool }} failed"}, {action: note, text: "not said"}]
          - to: locked
            on: user:prompt_submit
            actions: [{action: set, values: {asked: true}}, {action: command, command: "ask {{ prompt }}", can_block: true}]
      - name: locked
        on_enter: [{action: context, text: "locked from {{ from_step }}"}]
""")
    refused = session.send("user:prompt_submit", data={"prompt": "a b"})
    assert (refused.record.decision, session.step) == ("deny", "open"), "it was not run, and its failure policy is deny"
    assert "asked" not in session.flows.states[next(iter(session.flows.states))].variables
    assert session.flows.would == ["would wait for: ask 'a b'"]
    denied = session.send("tool:error", "bash").record
    assert (denied.decision, denied.reason, denied.contexts) == ("deny", "bash failed", ("locked from open",))
    assert denied.notes == ()
    assert session.step == "locked"


def test_an_agent_goes_on_until_the_workflow_is_done() -> None:
    session = Session("""
  - name: tested
    variables: {tested: false}
    exit_condition: vars.tested
    on_premature_stop: {message: "run the tests", when: "workflow.total_actions > 0"}
    triggers:
      - on: tool:post_execute
        when: event.input.command.startsWith("pytest") && event.output.exit == 0
        actions: [{action: set, values: {tested: true}}]
""")
    assert session.send("agent:stop").record.decision == "abstain"
    session.send("tool:post_execute", "bash", command="ls")
    stop = session.send("agent:stop").record
    assert (stop.decision, stop.reason) == ("deny", "run the tests")
    event = Event(
        type="tool:post_execute",
        id="e",
        source="codex",
        session="s",
        tool="bash",
        input={"command": "pytest"},
        output={"exit": 0},
    )
    asyncio.run(session.flows.handle(session.hook, event))
    assert session.send("agent:stop").record.actions == ("end",)
    assert asyncio.run(session.flows.handle(session.hook, event)) is None, "it has ended"


def test_rules_that_cannot_be_evaluated_hold_and_transitions_do_not() -> None:
    session = Session("""
  - name: strict
    steps:
      - name: one
        rules:
          - {tools: [bash], when: "vars.unset == 1", message: no}
          - {tools: [write], when: "vars.unset == 1", decision: warn, message: careful}
        transitions: [{to: two, when: "vars.unset == 1"}]
      - name: two
""")
    denied = session.send("tool:pre_execute", "bash", command="ls").record
    assert (denied.decision, denied.reason) == ("deny", "no")
    assert session.send("tool:pre_execute", "write", path="x").record.contexts == ()
    assert session.step == "one"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("  - {name: a}\n", "2:5: a workflow has steps, triggers or rules; it has none"),
        ("  - {name: a, steps: [{name: x, transitions: [{to: y}]}]}\n", "2:52: there is no step 'y'; steps: x"),
        ("  - {name: a, steps: [{name: x}, {name: x}]}\n", "2:41: the step 'x' is there twice"),
        ("  - name: a\n    steps:\n      - name: x\n        on_enter: [{action: contxt}]\n", "5:29: "),
        (
            "  - {name: a, steps: [{name: x, on_enter: [{action: publish, type: x, event: y}]}]}\n",
            'unknown key "event"; known keys: data, type, when',
        ),
        ("  - {name: a, triggers: [{on: tool:pre_exec, actions: [{action: end}]}]}\n", "no event type is called"),
        ("  - {name: a, rules: [{when: 'event.typo(', message: x}]}\n", "2:30: bad condition"),
        ("  - {name: a, rules: [{message: '{% x'}]}\n", "2:33: bad template"),
        ("  - {name: a, rules: [{command_pattern: '('}]}\n", "bad regular expression"),
    ],
)
def test_a_bad_workflow_has_its_place(entry: str, problem: str) -> None:
    file = parse_hook_file(f"workflows:\n{entry}  - {{name: good, rules: [{{tools: [bash]}}]}}\n", "user")
    assert [hook.id for hook in file.hooks] == ["good"]
    assert problem in str(file.problems[0])
