"""What the ending of a Claude Code or ion hook means, as its documents and the real program have it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bus.agents import find
from bus.events import Event
from bus.hookfiles.claude import HOOKS
from bus.hookfiles.claude.matching import patterns
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.system.processes import Finished

INPUT = {"command": "rm -rf /", "description": "d"}


def ended(
    said: object,
    code: int | None = 0,
    *,
    on: str = "PreToolUse",
    dialect: str = "claude",
    stderr: str = "",
    event: Event | None = None,
    matchers: list[str] | None = None,
    on_failure: Any = None,
    **more: Any,
) -> Outcome:
    """The outcome of a hook that printed `said` (text, or JSON) and exited with `code`."""
    payload = {"hook_event_name": on, "session_id": "s", "cwd": "/p"}
    payload |= {"tool_name": "Bash", "tool_input": INPUT} if "Tool" in on or on == "PermissionRequest" else {}  # type: ignore[dict-item]  # a payload holds anything
    event = event or find("claude").read(on, json.dumps(payload).encode())
    own = {"event": on, **({"matchers": matchers} if matchers else {})}
    hook = Hook(id="h", on=patterns(on), command="x", dialect=dialect, own=own, on_failure=on_failure, origin="f:1")
    text = said if isinstance(said, str) else json.dumps(said)
    done = Finished(exit_code=code, stdout=text.encode(), stderr=stderr.encode(), **more)
    return HOOKS[dialect].outcome(hook, event, done, 5.0)


def specific(on: str = "PreToolUse", **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": on, **fields}}


def said(got: Outcome) -> tuple[str, str]:
    assert not got.failure, got.failure
    return got.decision, got.reason


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        ({}, "abstain", ""),
        (specific(permissionDecision="deny", permissionDecisionReason="no"), "deny", "no"),
        (specific(permissionDecision="deny"), "deny", "hook 'h' says deny and gives no reason"),
        (specific(permissionDecision="allow", permissionDecisionReason="ok"), "allow", "ok"),
        (specific(permissionDecision="ask", permissionDecisionReason="sure?"), "ask", "sure?"),
        ({"decision": "block", "reason": "old form"}, "deny", "old form"),
        ({"decision": "approve", "reason": "old form"}, "allow", "old form"),
        ({"decision": "approve", **specific(permissionDecision="deny", permissionDecisionReason="new")}, "deny", "new"),
        ({"continue": False, "stopReason": "enough"}, "deny", "enough"),
        ({"continue": True, "suppressOutput": True, "whatever": 1}, "abstain", ""),
        (specific(permissionDecision="deny", permissionDecisionReason="x", later=1), "deny", "x"),
    ],
)
def test_the_decisions_before_a_tool(answer: dict[str, Any], decision: str, reason: str) -> None:
    assert said(ended(answer)) == (decision, reason)


@pytest.mark.req("I-03", "X-11")
def test_a_changed_output_is_read_in_both_spellings() -> None:
    for name in ("updatedToolOutput", "updatedMCPToolOutput"):
        got = ended(specific("PostToolUse", **{name: {"stdout": "clean"}}), on="PostToolUse")
        assert (got.updated_output, got.note) == ({"stdout": "clean"}, "")
    assert ended(specific("PreToolUse", updatedToolOutput="x")).updated_output is None, "there is no output yet"


@pytest.mark.req("I-03")
def test_a_permission_answer_brings_its_changes_and_its_interrupt() -> None:
    rules = [{"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"}]
    allow = specific("PermissionRequest", decision={"behavior": "allow", "updatedPermissions": rules})
    assert ended(allow, on="PermissionRequest").permissions == tuple(rules)
    deny = specific("PermissionRequest", decision={"behavior": "deny", "interrupt": True, "updatedPermissions": rules})
    got = ended(deny, on="PermissionRequest")
    assert (got.decision, got.interrupt, got.permissions) == ("deny", True, ())


@pytest.mark.req("I-03")
def test_continue_false_ends_the_agents_work() -> None:
    stop = {"continue": False, "stopReason": "enough"}
    got = ended(stop)
    assert (got.decision, got.reason, got.halt) == ("deny", "enough", "enough")
    got = ended({**stop, "decision": "block", "reason": "r"}, on="Stop")
    assert (got.decision, got.halt) == ("abstain", "enough"), "a block would make it go on"
    assert ended(stop, on="SessionStart").halt == "enough"


@pytest.mark.req("I-03")
def test_defer_becomes_ask_and_says_so() -> None:
    got = ended(specific(permissionDecision="defer"))
    assert got.decision == "ask"
    assert "defer became ask" in got.note


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("answer", "decision", "updated"),
    [
        ({"behavior": "allow"}, "allow", None),
        ({"behavior": "deny", "message": "m"}, "deny", None),
        ({"behavior": "allow", "updatedInput": {**INPUT, "command": "ls"}}, "allow", {"command": "ls"}),
    ],
)
def test_a_permission_question(answer: dict[str, Any], decision: str, updated: dict[str, Any] | None) -> None:
    got = ended(specific("PermissionRequest", decision=answer), on="PermissionRequest")
    assert (got.decision, got.updated_input, got.failure) == (decision, updated, "")
    assert got.reason == answer.get("message", "")


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("on", "answer", "decision"),
    [
        ("UserPromptSubmit", {"decision": "block", "reason": "r"}, "deny"),
        ("PostToolUse", {"decision": "block", "reason": "r"}, "deny"),
        ("Stop", {"decision": "block", "reason": "r"}, "deny"),
        ("SubagentStop", {"decision": "block", "reason": "r"}, "deny"),
        ("PreCompact", {"decision": "block", "reason": "r"}, "deny"),
        ("SessionStart", {"decision": "block", "reason": "r"}, "abstain"),
        ("Notification", {"continue": False}, "abstain"),
        ("Stop", {"continue": False, "decision": "block", "reason": "r"}, "abstain"),
        ("UserPromptSubmit", {"decision": "approve"}, "abstain"),
        ("Elicitation", specific("Elicitation", action="decline"), "deny"),
        ("Elicitation", specific("Elicitation", action="accept", content={}), "abstain"),
    ],
)
def test_the_decisions_of_other_moments(on: str, answer: dict[str, Any], decision: str) -> None:
    got = ended(answer, on=on)
    assert (got.decision, got.failure) == (decision, "")
    if decision == "abstain" and "approve" not in str(answer):
        assert got.note or got.halt


@pytest.mark.req("I-03")
@pytest.mark.parametrize("on", ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStart"])
def test_context_in_json(on: str) -> None:
    assert ended(specific(on, additionalContext=" facts \n"), on=on).contexts == ("facts",)


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("dialect", "on", "contexts"),
    [
        ("claude", "SessionStart", ("text",)),
        ("claude", "UserPromptSubmit", ("text",)),
        ("claude", "PreToolUse", ()),
        ("claude", "Stop", ()),
        ("ion", "UserPromptSubmit", ("text",)),
        ("ion", "PostToolUse", ("text",)),
    ],
)
def test_plain_text_on_stdout(dialect: str, on: str, contexts: tuple[str, ...]) -> None:
    assert ended("text\n", on=on, dialect=dialect).contexts == contexts


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("answer", "stderr", "reason"),
    [
        ("", "no\n", "no"),
        ("chatter", "", "hook 'h' blocks it (exit 2) and gives no reason"),
        ({"decision": "block", "reason": "json"}, "stderr", "json"),
        (specific(permissionDecision="allow", permissionDecisionReason="fine"), "no", "no"),
        ("{broken", "no", "no"),
    ],
)
def test_exit_2_blocks_whatever_stdout_says(answer: object, stderr: str, reason: str) -> None:
    got = ended(answer, 2, stderr=stderr)
    assert said(got) == ("deny", reason)
    assert got.exit_code == 2


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("dialect", "on", "decision"),
    [
        ("claude", "UserPromptSubmit", "deny"),
        ("claude", "Stop", "deny"),
        ("claude", "TeammateIdle", "deny"),
        ("claude", "PreCompact", "deny"),
        ("claude", "PostToolUse", "deny"),
        ("claude", "PermissionRequest", "abstain"),
        ("ion", "PermissionRequest", "deny"),
        ("claude", "SessionStart", "abstain"),
        ("claude", "Notification", "abstain"),
        ("claude", "PermissionDenied", "abstain"),
    ],
)
def test_exit_2_where_it_blocks_and_where_it_is_a_word_to_the_person(dialect: str, on: str, decision: str) -> None:
    got = ended("", 2, on=on, dialect=dialect, stderr="why")
    assert got.decision == decision
    assert "why" in (got.reason if decision == "deny" else got.note)


@pytest.mark.req("I-03")
@pytest.mark.parametrize("code", [1, 3, 126, 127])
def test_any_other_exit_code_is_a_failure(code: int) -> None:
    got = ended("out", code, on="UserPromptSubmit", stderr="bad")
    assert (got.decision, got.contexts) == ("abstain", ())
    assert got.failure.endswith("(bad)")


@pytest.mark.req("I-03")
def test_a_failing_hook_may_still_answer_but_allows_nothing() -> None:
    deny = specific(permissionDecision="deny", permissionDecisionReason="no")
    assert said(ended(deny, 1)) == ("deny", "no")  # observed: blocks
    assert said(ended(deny, 1, on_failure="deny")) == ("deny", "no")
    context = specific("UserPromptSubmit", additionalContext="facts")
    got = ended(context, 1, on="UserPromptSubmit")
    assert (got.contexts, got.failure) == (("facts",), "")
    assert "exit 1" in got.note
    assert ended(context, 1, on="UserPromptSubmit", on_failure="deny").failure
    assert ended(specific(permissionDecision="allow"), 1).failure
    assert ended("{", 1).failure


@pytest.mark.req("I-03")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("{broken", "JSON"),
        ('{"hookSpecificOutput": {"permissionDecision": "deny"}}', "hookEventName has to be 'PreToolUse', not None"),
        (specific("PostToolUse"), "hookEventName has to be 'PreToolUse', not 'PostToolUse'"),
        (specific(permissionDecision="maybe"), "permissionDecision has to be allow, deny, ask or defer"),
        ({"decision": "perhaps"}, "decision has to be 'approve' or 'block'"),
        (specific(updatedInput="ls"), "updatedInput"),
        ({"continue": "no"}, "continue"),
    ],
)
def test_an_answer_that_does_not_fit_is_a_failure_in_words(answer: object, words: str) -> None:
    got = ended(answer)
    assert got.failure.startswith("hook 'h' (f:1) gave an answer that cannot be used:")
    assert words in got.failure
    assert got.decision == "abstain"


def test_ion_does_not_ask_for_the_events_name() -> None:
    answer = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}
    assert said(ended(answer, dialect="ion")) == ("deny", "no")


def test_a_cut_answer_a_signal_a_timeout_and_no_start_are_failures() -> None:
    assert "70000 bytes long" in ended("{" + "x" * 9, stdout_cut=69990).failure
    assert "SIGKILL" in ended("", None, signal=9).failure
    late = ended(specific(permissionDecision="deny"), 0, timed_out=True)
    assert "timed out" in late.failure
    assert late.decision == "abstain"
    assert "did not run" in ended("", None, spawn_error="gone").failure


@pytest.mark.req("I-03")
def test_a_changed_input_is_what_differs() -> None:
    got = ended(specific(permissionDecision="allow", updatedInput={**INPUT, "command": "ls"}))
    assert (got.decision, got.updated_input, got.note) == ("allow", {"command": "ls"}, "")
    got = ended(specific(updatedInput={"command": "ls"}))
    assert (got.decision, got.updated_input) == ("abstain", {"command": "ls"})
    assert "left out description" in got.note
    assert ended(specific(permissionDecision="allow", updatedInput=INPUT)).updated_input is None
    denied = specific(permissionDecision="deny", permissionDecisionReason="no", updatedInput={"command": "ls"})
    assert ended(denied).updated_input is None


@pytest.mark.req("X-01", "I-03")
def test_a_changed_input_of_another_agents_call_comes_back_in_its_own_fields() -> None:
    given = {"file_path": "a", "old_string": "x", "new_string": "y"}
    payload = {"hook_event_name": "BeforeTool", "tool_name": "replace", "tool_input": given}
    event = find("gemini").read("BeforeTool", json.dumps(payload).encode())
    got = ended(specific(updatedInput={**given, "file_path": "b"}), event=event)
    assert got.updated_input == {"path": "b"}
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    payload = {"hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_input": {"command": patch}}
    event = find("codex").read("PreToolUse", json.dumps(payload).encode())
    updated = {"file_path": "a.py", "old_string": "x", "new_string": "z", "patch": patch, "paths": ["a.py"]}
    got = ended(specific(permissionDecision="allow", updatedInput=updated), event=event)
    assert got.decision == "deny"
    assert '{"new_string":"z"}' in got.reason
    assert got.updated_input is None


@pytest.mark.req("I-03")
def test_what_the_bus_does_not_carry_is_named() -> None:
    got = ended(
        {**specific("SessionStart", sessionTitle="t", watchPaths=["/x"]), "systemMessage": "hello"}, on="SessionStart"
    )
    assert got.note.startswith("hook 'h': hello; ")
    for word in ("sessionTitle", "watchPaths"):
        assert word in got.note
    assert "async" in ended({"async": True}).note
