"""Verdicts in the forms of Gobby's adapters, for every event of every program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bus.verdicts import Verdict, failed
from tests.support.gobby.table import REPORTED, Reported
from tests.support.rows import rows
from workers.gateway.gobby.answers import answer
from workers.gateway.gobby.events import GobbyCall, read_call, read_event
from workers.gateway.gobby.names import unified_of

pytestmark = pytest.mark.req("G-01", "G-02")

DENY = Verdict(decision="deny", reason="no rm")
CONTEXT = Verdict(contexts=("the branch is main",))
every_event = rows("one", REPORTED, ids=lambda one: f"{one.source}-{one.hook_type}")


def call_of(one: Reported, **more: Any) -> GobbyCall:
    fields = {**one.fields("s1"), **more}
    return read_call(json.dumps({"hook_type": one.hook_type, "input_data": fields, "source": one.source}).encode())


def said(one: Reported, verdict: Verdict, *, approves: bool = True) -> dict[str, Any]:
    call = call_of(one)
    return answer(call, read_event(call, "h"), verdict, approves=approves)


def refuses(reply: dict[str, Any]) -> bool:
    """What Gobby's script of February 2026 looks at; Cursor itself reads `permission`."""
    return (
        reply.get("continue") is False
        or reply.get("decision") in {"deny", "block", "decline"}
        or reply.get("permissionDecision") == "deny"
        or reply.get("permission") == "deny"
    )


@every_event
def test_an_event_is_what_gobby_takes_it_for(one: Reported) -> None:
    event = read_event(call_of(one), "h")
    assert unified_of(event.type) == one.event
    assert event.session == "s1"
    assert event.tool or one.event not in {"before_tool", "after_tool"}
    if one.source.startswith("claude_sdk"):
        assert (event.source, event.data["gobby_source"]) == ("claude", one.source)


@every_event
def test_an_event_that_nothing_objects_to_is_allowed_in_the_programs_form(one: Reported) -> None:
    reply = said(one, Verdict())
    assert not refuses(reply)
    form: dict[str, Any] = {"decision": "allow"}
    if one.source in {"claude", "claude_sdk", "claude_sdk_web_chat", "antigravity"}:
        form = {"continue": True, "decision": "approve"}
    elif one.source == "codex":
        form = {"decision": "accept"}
        if one.hook_type == "AgentTurnComplete":
            form = {"status": "processed", "decision": "allow"}
    elif one.source == "copilot":
        form = {"permissionDecision": "allow"}
    elif one.source == "cursor":
        form = {"decision": "allow"}
        if one.hook_type in {"beforeShellExecution", "beforeMCPExecution", "beforeReadFile"}:
            form = {"permission": "allow"}
        elif one.hook_type in {"stop", "subagentStop"}:
            form = {}
        elif one.hook_type in {"sessionStart", "beforeSubmitPrompt"}:
            form = {"continue": True} | ({"decision": "allow"} if one.hook_type != "sessionStart" else {})
    assert reply == form


@every_event
def test_a_refusal_has_its_reason_where_the_scripts_look_for_it(one: Reported) -> None:
    reply = said(one, DENY)
    if one.source == "cursor" and one.hook_type in {"stop", "subagentStop"}:  # a deny makes it go on
        assert reply["followup_message"].startswith("no rm")
        return
    if one.hook_type == "AgentTurnComplete":
        assert reply == {"status": "processed", "decision": "deny"}
        return
    assert refuses(reply)
    if one.source == "codex":
        return
    names = ("stopReason", "user_message", "reason", "permissionDecisionReason")
    reason = next(reply[name] for name in names if reply.get(name))
    assert reason.startswith("no rm")
    if one.source == "claude":
        assert (reply["continue"], reply["decision"], "permissionDecision" in reply) == (False, "block", False)


@every_event
def test_a_failure_has_no_decision_unless_the_policy_has_one(one: Reported) -> None:
    reply = said(one, failed("allow", "redis is away"))
    assert not refuses(reply)
    assert not {"decision", "permissionDecision", "permission"} & reply.keys(), "a failure looks like no allow"
    event = read_event(call_of(one), "h")
    closed = said(one, failed("deny", "redis is away"))
    assert refuses(closed) is (one.event in {"before_tool", "before_agent", "permission_request"}), event.type


@every_event
def test_an_ask_never_comes_out_as_an_approval(one: Reported) -> None:
    reply = said(one, Verdict(decision="ask", reason="a person has to look"))
    if not one.is_tool:
        return
    text = json.dumps(reply)
    assert '"ask"' in text or refuses(reply), reply
    assert "approve" not in reply.values()


@pytest.mark.parametrize(
    ("source", "hook_type", "place"),
    [
        ("claude", "user-prompt-submit", ("hookSpecificOutput", "additionalContext")),
        ("claude", "session-start", ("hookSpecificOutput", "additionalContext")),
        ("gemini", "BeforeAgent", ("hookSpecificOutput", "additionalContext")),
        ("cursor", "preToolUse", ("agent_message",)),
        ("cursor", "sessionStart", ("additional_context",)),
        ("cursor", "stop", ("followup_message",)),
        ("windsurf", "pre_run_command", ("context",)),
        ("copilot", "preToolUse", ("hookSpecificOutput", "additionalContext")),
        ("codex", "thread/started", ("context",)),
    ],
)
def test_context_is_where_the_program_reads_it(source: str, hook_type: str, place: tuple[str, ...]) -> None:
    found: Any = said(next(one for one in REPORTED if one[:2] == (source, hook_type)), CONTEXT)
    assert not refuses(found)
    for name in place:
        found = found[name]
    assert found == "the branch is main"


def test_a_changed_input_is_in_the_programs_own_protocol() -> None:
    changed = Verdict(updated_input={"command": "ls -l"})
    claude = said(Reported("claude", "pre-tool-use", "before_tool"), changed)
    assert claude["hookSpecificOutput"]["updatedInput"] == {"command": "ls -l"}
    assert claude["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "decision" not in claude
    gemini = said(Reported("gemini", "BeforeTool", "before_tool"), changed)
    assert gemini["hookSpecificOutput"]["tool_input"] == {"command": "ls -l"}
    model = said(Reported("gemini", "BeforeModel", "before_model"), Verdict(updated_input={"model": "x"}))
    assert (model["decision"], model["hookSpecificOutput"]["llm_request"]) == ("modify", {"model": "x"})


def test_without_approval_the_program_may_ask_the_person_itself() -> None:
    """`FLEETHOOK_GOBBY_APPROVES=0`: "approve" would switch off Claude Code's own question."""
    call = Reported("claude", "pre-tool-use", "before_tool")
    assert said(call, Verdict(), approves=False) == {"continue": True}
    assert said(call, Verdict(decision="allow", reason="known"), approves=False)["decision"] == "approve"
    assert said(Reported("claude", "stop", "stop"), Verdict(), approves=False)["decision"] == "approve"
