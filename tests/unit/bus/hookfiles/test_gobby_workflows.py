"""Gobby's workflow files, in both forms, from the file to what a session gets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.hookfile import load_foreign, load_hook_file
from bus.workflow_steps.engine import Advance
from bus.workflow_steps.memory import MemoryFlows

pytestmark = pytest.mark.req("G-16")

STEPS = """
name: tdd
description: Tests first.
version: 1.0
type: step
settings: {priority: 10}
variables:
  plan: null
  attempts: 0
steps:
  - name: test
    description: write a failing test
    allowed_tools: [Read, Grep, Write, mcp__ci__run]
    blocked_tools: [Write]
    on_enter:
      - action: inject_message
        content: "Step {{ state.step }}: write a test for {{ variables.plan or 'it' }}."
      - {action: set_variable, name: ready, value: true}
    transitions:
      - to: code
        when: "tool_name == 'Bash' and 'pytest' in tool_args.get('command', '')"
        on_transition:
          - {action: increment_variable, name: attempts}
    rules:
      - {name: no-net, when: "tool_name == 'WebFetch'", action: block, message: "no network"}
  - name: code
    on_enter: [{action: inject_message, content: "attempt {{ attempts }}, {{ step_action_count }} actions"}]
    on_exit: [{action: set_variable, variable: left, value: "{{ 1 + 1 }}"}]
    allowed_tools: all
    transitions:
      - {to: test, when: "event.event_type == 'stop' or step_action_count >= 2"}
      - {to: nowhere, when: "true"}
"""

PHASES = """
name: plan-act
type: phase
phases:
  - name: plan
    allowed_tools: [Read]
    exit_conditions:
      - {type: user_approval, id: ok, prompt: "Plan complete?"}
    transitions:
      - {to: act, when: "variables.get('_approval_ok_granted') and phase_action_count == 0"}
  - name: act
    transitions:
      - {to: reflect, when: "workflow_state.phase_action_count > 5"}
  - name: reflect
    on_enter: [{action: enter_phase, phase: plan}]
"""

LIFECYCLE = """
name: session-lifecycle
type: lifecycle
settings: {priority: 5}
variables: {seen: 0}
triggers:
  on_session_start:
    - action: inject_context
      source: previous_session_summary
      require: false
    - {action: inject_message, content: "welcome {{ session.id }}", when: "event.data.get('source') == 'startup'"}
  on_prompt_submit:
    - {action: increment_variable, name: seen}
    - {action: inject_message, content: "prompt {{ seen }}", when: "user_says('status')"}
  on_before_tool:
    - action: block_tools
      rules:
        - tools: [Bash]
          command_pattern: "rm -rf"
          command_not_pattern: "rm -rf build"
          reason: "never {{ tool_args.command }}"
        - {tools: [Edit], when: "not mcp_called('gobby-tasks', 'claim_task')", reason: claim a task first}
  on_stop:
    - {action: generate_summary}
"""


def read(folder: Path, **files: str) -> dict[str, Hook]:
    """The workflows of files in a folder, by name."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    found, imported = load_foreign(folder, "user")
    assert imported.dialect == "gobby"
    assert not found.problems, found.problems
    return {hook.id: hook for hook in found.hooks}


class Session:
    """One session of Claude Code in one workflow."""

    def __init__(self, hook: Hook) -> None:
        workflow = hook.workflow
        assert workflow is not None
        self.hook, self.flows = hook, MemoryFlows()
        self.number = 0

    def send(self, kind: str, **fields: Any) -> Advance | None:
        """What the workflow does at an event; a tool's input is given by its fields."""
        self.number += 1
        tool = fields.pop("tool", "")
        data: dict[str, Any] = {key: fields.pop(key) for key in ("prompt", "source") if key in fields}
        event = Event(
            type=kind,
            id=f"e{self.number}",
            source="claude",
            session="s1",
            time=fields.pop("time", 1_000_000 + self.number),
            tool=tool.lower(),
            native_tool=tool,
            output=fields.pop("output", None),
            input=fields,
            data=data,
        )
        return asyncio.run(self.flows.handle(self.hook, event))

    def call(self, tool: str, **fields: Any) -> tuple[str, str]:
        """The decision on a call of a tool."""
        done = self.send("tool:pre_execute", tool=tool, **fields)
        return ("abstain", "") if done is None else (done.record.decision, done.record.reason)

    @property
    def step(self) -> str:
        """The step that it is in."""
        return next(iter(self.flows.states.values())).step

    @property
    def variables(self) -> dict[str, Any]:
        """The workflow's variables."""
        return next(iter(self.flows.states.values())).variables


def started(hook: Hook) -> Session:
    """A session to which a person has given the workflow."""
    workflow = hook.workflow
    assert workflow is not None
    assert workflow.start.by == "order", "a step workflow of a folder waits for a person"
    start = msgspec.structs.replace(workflow.start, by="event")
    return Session(msgspec.structs.replace(hook, workflow=msgspec.structs.replace(workflow, start=start)))


def test_steps_limit_tools_and_follow_each_other(tmp_path: Path) -> None:
    session = started(read(tmp_path, tdd=STEPS)["tdd"])
    began = session.send("session:start")
    assert began is not None
    assert began.record.contexts == ("Step test: write a test for it.",)
    assert session.variables["ready"] is True
    assert session.call("Read", file_path="x")[0] == "abstain"
    assert "blocked in the step 'test' of the workflow 'tdd'" in session.call("Write", file_path="x")[1]
    assert "not allowed" in session.call("Edit", file_path="x")[1]
    assert session.call("mcp__ci__run")[0] == "abstain"
    decision, reason = session.call("WebFetch", url="x")
    assert (decision, "not allowed" in reason) == ("deny", True)
    assert session.call("Bash", command="pytest -q")[0] == "deny", "a call that the step forbids moves nothing"
    moved = session.send("tool:post_execute", tool="Bash", command="pytest -q")
    assert moved is not None
    assert (moved.record.before, moved.record.after, moved.record.moved) == ("test", "code", True)
    assert moved.record.contexts == ("attempt 1, 0 actions",)
    assert session.call("Edit", file_path="x")[0] == "abstain"
    for _ in range(2):
        session.send("tool:post_execute", tool="Edit", file_path="x")
    assert session.step == "test"
    assert session.variables["left"] == 2


def test_phases_are_steps_and_ask_for_approval(tmp_path: Path) -> None:
    session = started(read(tmp_path, plan=PHASES)["plan-act"])
    asked = session.send("user:prompt_submit", prompt="do it")
    assert asked is not None
    assert "Plan complete?" in asked.record.contexts[0]
    assert "waits for the person's answer" in session.call("Read", file_path="x")[1]
    session.send("user:prompt_submit", prompt="what do you mean?")
    assert session.call("Read", file_path="x")[0] == "deny"
    granted = session.send("user:prompt_submit", prompt="Yes, go on")
    assert granted is not None
    assert session.step == "act", granted.record
    assert "Transitioning to step: act" in granted.record.contexts
    old = session.send("tool:post_execute", tool="Read", time=1_000_000 + 40 * 60_000)
    assert old is not None
    assert session.step == "reflect", "after half an hour it goes to `reflect`"


def test_triggers_run_in_every_session_and_block_tools(tmp_path: Path) -> None:
    hook = read(tmp_path, lifecycle__life=LIFECYCLE)["session-lifecycle"]
    session = Session(hook)
    began = session.send("session:start", source="startup")
    assert began is not None
    assert began.record.contexts == ("welcome s1",)
    assert session.send("user:prompt_submit", prompt="hello").record.contexts == ()  # type: ignore[union-attr]
    told = session.send("user:prompt_submit", prompt="Status, please")
    assert told is not None
    assert told.record.contexts == ("prompt 2",)
    assert session.call("Bash", command="rm -rf /") == ("deny", "never rm -rf /")
    assert session.call("Bash", command="rm -rf build")[0] == "abstain"
    assert session.call("Edit", file_path="x") == ("deny", "claim a task first")
    session.send("tool:post_execute", tool="mcp__gobby-tasks__claim_task", output={"ok": True})
    assert session.call("Edit", file_path="x")[0] == "abstain"


def test_a_folder_has_its_own_files_first_and_those_of_its_subfolders(tmp_path: Path) -> None:
    other = STEPS.replace("name: tdd", "name: other")
    found = read(tmp_path, tdd=STEPS, deep__tdd=other, deep__more=PHASES, lifecycle__tdd=LIFECYCLE)
    assert [*found] == ["session-lifecycle", "tdd", "plan-act"], "by priority; a name counts once in each kind"
    assert found["tdd"].origin.endswith("tdd.yaml:2")


def test_a_workflow_extends_another(tmp_path: Path) -> None:
    child = """
    name: strict-tdd
    extends: tdd
    variables: {attempts: 5}
    steps:
      - {name: test, blocked_tools: [Read]}
      - {name: extra}
    """
    workflow = read(tmp_path, tdd=STEPS, child=child)["strict-tdd"].workflow
    assert workflow is not None
    assert [step.name for step in workflow.steps] == ["test", "code", "extra"]
    assert workflow.steps[0].blocked_tools == ("Read",)
    assert workflow.steps[0].allowed_tools == ("Read", "Grep", "Write", "mcp__ci__run")
    assert workflow.variables == {"plan": None, "attempts": 5}
    (tmp_path / "loop.yaml").write_text("name: loop\nextends: loop\nsteps: [{name: a}]\n")
    file, _ = load_foreign(tmp_path, "user")
    assert "in a circle" in str(file.problems[0])
    assert str(file.problems[0]).startswith(f"{tmp_path / 'loop.yaml'}:2:")


def test_a_bad_workflow_is_rejected_with_its_place_and_the_others_load(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(dedent(STEPS))
    (tmp_path / "bad.yaml").write_text(
        "name: bad\nsteps:\n  - name: a\n    transitions:\n      - {to: a, when: 'x ==='}\n  - {description: no name}\n"
    )
    (tmp_path / "worse.yaml").write_text("name: [\n")
    (tmp_path / "rules.yaml").write_text("rules: {}\n")
    main = tmp_path / "fleethook.yaml"
    main.write_text(f"import: [{{path: {tmp_path}, dialect: gobby}}]\n")
    file = load_hook_file(main, "user")
    assert [hook.id for hook in file.hooks] == ["tdd"]
    texts = sorted(str(problem) for problem in file.problems)
    assert texts[0].startswith(f"{tmp_path}/bad.yaml:5:23: bad condition 'x ==='")
    assert texts[1].startswith(f"{tmp_path}/bad.yaml:6:5: a step is a mapping with a `name`")
    assert texts[2].startswith(f"{tmp_path}/worse.yaml:")
    assert any("there is no step 'nowhere'" in text for text in file.warnings)


def test_a_named_file_begins_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(dedent(PHASES))
    file, imported = load_foreign(path, "user")
    assert imported.dialect == "gobby"
    (hook,) = file.hooks
    assert hook.workflow is not None
    assert hook.workflow.start.by == "event"
    assert Session(hook).call("Edit", file_path="x")[0] == "deny"


def test_rules_are_imported_from_files_beside_the_workflows_and_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    flows, own, project = tmp_path / ".gobby/workflows", tmp_path / "home/.gobby/rules", tmp_path / ".gobby/rules"
    for folder in (own, project):
        folder.mkdir(parents=True)
    push = "{tools: [Bash], command_pattern: 'git\\s+push', reason: %s, action: block}"
    (own / "safety.yaml").write_text(
        f"rule_definitions:\n  no_push: {push % 'user'}\n  read: {{tools: [Read], reason: none}}\n"
    )
    (project / "safety.yaml").write_text(f"rule_definitions:\n  no_push: {push % 'project'}\n")
    (own / "later.yaml").write_text("rule_definitions:\n  no_net: {tools: [WebFetch], reason: later}\n")
    text = """
    name: importing
    imports: [safety, later]
    rule_definitions: {no_net: {tools: [WebFetch], action: warn, reason: local}}
    steps: [{name: work, check_rules: [no_push, no_net]}]
    """
    session = started(read(flows, steps__importing=text)["importing"])
    assert session.call("Bash", command="git push") == ("deny", "project"), "the project's file counts first"
    fetched = session.send("tool:pre_execute", tool="WebFetch", url="x")
    assert fetched is not None
    assert fetched.record.contexts == ("local",), "the workflow's own rule replaces the imported one"
    file, _ = load_foreign(flows, "user")
    assert {str(project / "safety.yaml"), str(own / "later.yaml")} <= {source.path for source in file.sources}

    (own / "later.yaml").write_text("rule_definitions:\n  no_net: {when: 'x ==='}\n")
    (flows / "lost.yaml").write_text("name: lost\nimports: [gone]\nsteps:\n  - {name: a, check_rules: [unknown]}\n")
    file, _ = load_foreign(flows, "user")
    second, third, first = sorted(str(problem) for problem in file.problems)
    assert first.startswith(f"{own / 'later.yaml'}:2:"), first
    assert second.startswith(f"{flows / 'lost.yaml'}:2:"), second
    assert "there is no file of rules 'gone' to import" in second
    assert f"into {project}" in second
    assert "4:" in third
    assert "there is no rule 'unknown'" in third
    assert [hook.id for hook in file.hooks] == ["importing"], (
        "a workflow with a rule that is not known is not half in force"
    )


def test_a_newer_form_extends_an_older_one(tmp_path: Path) -> None:
    child = "name: newer\nextends: plan-act\nsteps: [{name: plan, blocked_tools: [Edit]}, {name: more}]\n"
    workflow = read(tmp_path, **{"plan-act": PHASES, "newer": child})["newer"].workflow
    assert workflow is not None
    assert [step.name for step in workflow.steps] == ["plan", "act", "reflect", "more"]
    assert workflow.steps[0].allowed_tools == ("Read",)
    assert workflow.steps[0].blocked_tools == ("Edit",)


def test_what_needs_gobbys_own_stores_is_said_with_its_place(tmp_path: Path) -> None:
    text = """
    name: tasks
    triggers:
      on_pre_compact:
        - {action: generate_handoff, template: "on {{ topic }}"}
        - {action: save_workflow_state}
        - {action: persist_tasks}
        - {action: start_new_session}
        - {action: invented}
        - {action: inject_message, content: x, when: "task_tree_complete(topic)"}
      on_session_start:
        - {action: inject_context, source: compact_handoff}
    session_variables: {topic: bees}
    """
    session = Session(read(tmp_path, lifecycle__tasks=text)["tasks"])
    session.send("context:pre_compact")
    begun = session.send("session:start")
    assert begun is not None
    assert begun.record.contexts == ("on bees",)
    file, _ = load_foreign(tmp_path, "user")
    said = "\n".join(file.warnings)
    for line, words in (
        (7, "'persist_tasks' does nothing here: it needs Gobby's store of tasks; `call_mcp_tool` can"),
        (8, "'start_new_session' does nothing here"),
        (9, "there is no action 'invented'"),
        (10, "task_tree_complete() asks Gobby's store of tasks, which is not here: it is false for every task"),
    ):
        assert f"tasks.yaml:{line}:" in said, said
        assert words in said, said
    assert len(file.warnings) == 4


def test_a_workflow_is_extended_by_its_name_where_no_file_is_called_so(tmp_path: Path) -> None:
    child = "name: child\nextends: plan-act\nsteps: [{name: more}]\n"
    workflow = read(tmp_path, first=PHASES, child=child)["child"].workflow
    assert workflow is not None
    assert [step.name for step in workflow.steps] == ["plan", "act", "reflect", "more"]


def test_files_of_single_rules_are_in_force_for_every_session(tmp_path: Path) -> None:
    text = """
    group: my-rules
    session_variables: {ok: false}
    rules:
      no-push:
        event: before_tool
        when: not ok
        effect: {type: block, tools: [Bash], command_pattern: git push, reason: "not {{ tool_args.command }}"}
      note: {event: on_before_agent, priority: 5, effect: {type: inject_context, template: "saw {{ prompt }}"}}
      flag: {event: after_tool, effects: [{type: set_variable, variable: ok, value: true}]}
      stay: {event: stop, when: not ok, effect: {type: block, reason: not yet}}
      odd: {event: stop, effect: {type: spawn_agent}}
      off: {event: stop, enabled: false, effect: {type: block, reason: never}}
    """
    session = Session(read(tmp_path, last=text)["my-rules"])
    assert session.call("Bash", command="git push x") == ("deny", "not git push x")
    assert session.call("Bash", command="ls") == ("abstain", "")
    prompted, stayed = session.send("user:prompt_submit", prompt="hi"), session.send("agent:stop")
    assert prompted is not None
    assert stayed is not None
    assert (prompted.record.contexts, stayed.record.reason) == (("saw hi",), "not yet")
    session.send("tool:post_execute", tool="Bash", command="ls", output={"stdout": ""})
    assert session.call("Bash", command="git push x") == ("abstain", "")
    left = session.send("agent:stop")
    assert left is None or left.record.decision == "abstain"
    file, _ = load_foreign(tmp_path, "user")
    (warning,) = file.warnings
    assert warning.startswith(f"{tmp_path / 'last.yaml'}:12:")
    assert "the effect 'spawn_agent' does nothing here" in warning


def test_a_stop_is_refused_twice_and_then_the_agent_may_stop(tmp_path: Path) -> None:
    text = """
    name: stays
    type: step
    steps:
      - name: work
        rules: [{tool: [Edit], decision: block, message: "no edits"}]
        transitions: [{to: done, when: has_handoff or has_previous_session}]
      - name: done
    triggers:
      on_session_start: [{action: block, message: "not today", when: "event.data.get('source') == 'clear'"}]
    exit_condition: "step == 'done'"
    on_premature_stop: {action: guide_continuation, message: "go on in {{ step }}"}
    """
    session = started(read(tmp_path, stays=text)["stays"])
    assert session.call("Edit", file_path="a") == ("deny", "no edits"), "a rule may say `decision`"

    def stopped() -> tuple[str, str]:
        done = session.send("agent:stop")
        assert done is not None
        return done.record.reason, " ".join(done.record.notes)

    assert [stopped()[0] for _ in range(2)] == ["go on in work"] * 2
    assert "the agent may stop after 3 attempts (premature_stop_max_attempts)" in stopped()[1]
    session.send("user:prompt_submit", prompt="more")
    assert stopped()[0] == "go on in work", "a prompt begins the count anew"
    blocked = session.send("session:start", source="clear")
    assert blocked is not None
    assert (blocked.record.decision, blocked.record.reason) == ("deny", "not today")
    assert session.step == "work", "what is not known is no handoff"


def test_a_condition_that_gobby_could_not_evaluate_either_is_false_and_named(tmp_path: Path) -> None:
    text = """
    name: filters
    type: step
    steps:
      - name: one
        transitions:
          - {to: two, when: "left < tasks | length - 1"}
          - {to: three, when: "prompt.replace('-', '') == 'go'"}
      - name: two
      - name: three
    """
    session = started(read(tmp_path, filters=text)["filters"])
    moved = session.send("user:prompt_submit", prompt="g-o")
    assert moved is not None
    assert (moved.record.after, moved.record.notes) == ("three", ())
    file, _ = load_foreign(tmp_path, "user")
    (warning,) = file.warnings
    assert warning.startswith(f"{tmp_path / 'filters.yaml'}:7:")
    assert warning.endswith("`| length` is a filter of templates (column 8); write len(x); it is always false")


def test_one_bad_condition_or_text_takes_no_other_rule_away(tmp_path: Path) -> None:
    text = """
    name: parts
    steps:
      - name: one
        rules:
          - {when: "tool_name is Bash && risky", action: block, message: no}
          - {when: "tool_name == 'Write'", action: block, message: "writes {{ are {% blocked"}
          - {when: "tool_name == 'Edit'", action: block, message: "{{ 1 / 0 }} edits"}
        transitions:
          - {to: two, when: "user says done"}
          - {to: two, when: "prompt == 'done'"}
      - name: two
        on_enter:
          - {action: inject_message, content: "{% if %}"}
          - {action: inject_message, content: "in two", when: "a ? b"}
          - {action: inject_message, content: "entered"}
    """
    (tmp_path / "parts.yaml").write_text(dedent(text))
    file, _ = load_foreign(tmp_path, "user")
    (workflow,) = file.hooks
    places = {problem.line: str(problem) for problem in file.problems}
    assert sorted(places) == [6, 7, 10, 14, 15]
    assert "always false; the rule does not block there" in places[6]
    assert "this transition is never taken" in places[10]
    session = started(workflow)
    assert session.call("Write") == ("deny", "writes {{ are {% blocked"), "a text that is no template is sent as it is"
    assert session.call("Edit") == ("deny", "{{ 1 / 0 }} edits")
    called = session.send("tool:pre_execute", tool="Bash")
    assert called is not None
    assert (called.record.decision, "rule not evaluated" in str(called.record.actions)) == (
        "abstain",
        True,
    )
    moved = session.send("user:prompt_submit", prompt="done")
    assert moved is not None
    assert (moved.record.after, moved.record.contexts) == ("two", ("entered",))
    strict = started(msgspec.structs.replace(workflow, on_failure="deny")).send("tool:pre_execute", tool="Bash")
    assert strict is not None
    assert strict.record.decision == "deny"


def test_what_asks_for_something_that_is_not_here_is_named_with_its_place(tmp_path: Path) -> None:
    text = """
    name: asks
    variables: {notes: x}
    on_error: [{action: inject_message, content: oh}]
    steps:
      - name: one
        on_enter:
          - {action: inject_context, source: [skills, handoff]}
          - {action: inject_context, source: memories, require: true}
          - {action: inject_context, source: notes}
          - {action: inject_context, source: nothing}
          - {action: webhook, webhook_id: ops}
          - {action: webhook, url: "http://x.example", on_failure: tell}
    """
    read(tmp_path, asks=text)
    file, _ = load_foreign(tmp_path, "user")
    said = [text.removeprefix(f"{tmp_path}/asks.yaml:") for text in file.warnings]
    assert [text.split(" ", 1)[0] for text in said] == ["4:11:", "8:9:", "9:9:", "11:9:", "12:9:", "13:9:"]
    for text, words in zip(
        said,
        ("on_error has no effect", "'skills'", "with `require` it refuses", "'nothing'", "id 'ops'", "on_failure"),
        strict=True,
    ):
        assert words in text


def test_a_tool_is_unlocked_once_its_schema_was_looked_up(tmp_path: Path) -> None:
    text = """
    name: discovery
    type: lifecycle
    triggers:
      on_before_tool:
        - action: block
          when: >
            event.data.get('mcp_tool') and not is_discovery_tool(tool_input.get('tool_name'))
            and not is_tool_unlocked(tool_input)
          reason: look at the schema first
      on_after_tool:
        - {action: track_schema_lookup, when: "tool_name == 'mcp__gobby__get_tool_schema'"}
    """
    session = Session(read(tmp_path, discovery=text)["discovery"])
    file, _ = load_foreign(tmp_path, "user")
    assert (file.problems, file.warnings) == ((), ())
    names = {"server_name": "db", "tool_name": "query"}
    assert session.call("mcp__gobby__call_tool", **names) == ("deny", "look at the schema first")
    assert session.call("mcp__gobby__call_tool", server_name="gobby", tool_name="list_tools")[0] == "abstain"
    session.send("tool:post_execute", tool="mcp__gobby__get_tool_schema", **names)
    assert session.call("mcp__gobby__call_tool", **names)[0] == "abstain"
    assert session.call("mcp__gobby__call_tool", server_name="db", tool_name="drop")[0] == "deny"


def test_a_rule_in_a_form_that_no_condition_has_is_named_and_blocks_where_failures_deny(tmp_path: Path) -> None:
    text = """
    name: forms
    steps:
      - name: one
        rules:
          - {when: "os.path.exists('plan.md')", action: block, message: no plan}
    """
    workflow = read(tmp_path, forms=text)["forms"]
    file, _ = load_foreign(tmp_path, "user")
    (warning,) = file.warnings
    assert warning.startswith(f"{tmp_path / 'forms.yaml'}:6:")
    assert "a plugin can register such a condition (`register_condition`)" in warning
    assert warning.endswith("it is always false; the rule does not block there")
    for policy, decision in (("allow", "abstain"), ("deny", "deny")):
        hook = msgspec.structs.replace(workflow, on_failure=policy)
        called = started(hook).send("tool:pre_execute", tool="Write")
        assert called is not None
        assert called.record.decision == decision
        assert "cannot be evaluated" in " ".join(called.record.notes)


def test_a_workflow_that_only_extends_another_is_one_too(tmp_path: Path) -> None:
    found = read(tmp_path, base=STEPS, child="name: child\nextends: tdd\nvariables: {mode: grown}\n")
    assert started(found["child"]).send("session:start") is not None


def test_names_that_nothing_has_are_warned_of_with_their_place(tmp_path: Path) -> None:
    read(
        tmp_path,
        names="""
        name: names
        variables: {set: 1}
        steps:
          - name: a
            rules:
              - {when: "made_up(1) > 2", action: block}
              - {when: "session.tests_run > 0", action: block}
            transitions:
              - {to: a, when: "set == 1 and later and event.tool_nam == 'x' and any(n for n in [1])"}
            on_enter:
              - {action: set_variable, name: later, value: "{{ true }}"}
        """,
    )
    file, _ = load_foreign(tmp_path, "user")
    found = [warning.removeprefix(f"{tmp_path}/names.yaml:") for warning in file.warnings]
    assert [text.partition(": ")[0] for text in found] == ["7:16", "8:16", "10:23"]
    assert (
        "conditions have no made_up(): this one is false where it reads it; the rule does not block there" in found[0]
    )
    assert "nothing in this file sets session.tests_run" in found[1]
    assert "conditions have no event.tool_nam" in found[2]


def test_commands_files_and_artifacts_can_be_asked_about(tmp_path: Path) -> None:
    session = started(
        read(
            tmp_path,
            known="""
            name: known
            steps:
              - name: a
                exit_conditions: [{type: artifact_exists, pattern: "plan*.md"}, {type: action_count, count: 2}]
                rules:
                  - {when: "command_in('rm', 'git push')", action: block, message: "not that"}
                transitions:
                  - {to: b, when: "'notes/plan.md' in session.files_read and artifact_exists('plan')"}
              - name: b
            """,
        )["known"]
    )
    for command, decision in {"cd x && rm y": "deny", "git push -f": "deny", "git pull": "abstain"}.items():
        done = session.send("tool:pre_execute", tool="Bash", command=command)
        assert (done.record.decision if done is not None else "abstain") == decision, command
    done = session.send("tool:post_execute", tool="Read", path="/w/notes/plan.md")
    assert done is not None
    assert done.state is not None
    assert (done.state.files_read, done.state.step) == (["/w/notes/plan.md"], "a")


def test_a_rule_that_cannot_be_evaluated_is_said_once_and_traced_each_time(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        unclear="""
        name: unclear
        steps:
          - name: a
            rules:
              - {when: "tool_args.command.startswith('rm')", action: block}
        """,
    )
    session = started(found["unclear"])
    first = session.send("tool:pre_execute", tool="Read", file_path="a")
    again = session.send("tool:pre_execute", tool="Read", file_path="a")
    assert first is not None
    assert again is not None
    assert first.record.decision == again.record.decision == "abstain", "as in Gobby"
    (note,) = first.record.notes
    assert "the rule `tool_args.command.startswith('rm')` cannot be evaluated: there is no 'command'" in note
    assert (again.record.notes, again.record.actions) == ((), first.record.actions)
    assert first.record.actions == ("rule not evaluated: tool_args.command.startswith('rm')",)


def test_an_action_of_a_step_can_enter_the_next_one_at_the_next_event(tmp_path: Path) -> None:
    session = started(
        read(
            tmp_path,
            enters="""
            name: enters
            steps:
              - {name: a, transitions: [{to: b, when: "tool_name == 'Write'"}]}
              - {name: b, on_enter: [{action: enter_step, step: c}]}
              - {name: c, on_enter: [{action: inject_message, content: "in c"}]}
            """,
        )["enters"]
    )
    steps = []
    for tool in ("Write", "Read", "Read"):
        done = session.send("tool:pre_execute", tool=tool, file_path="a")
        steps.append(done.record.after if done is not None else "")
    assert steps == ["b", "c", "c"]
