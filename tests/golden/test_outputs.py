"""A changed output, a halt and changed permissions, as each agent that has them reads them (X-11)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bus.agents import find
from bus.events import Event
from bus.verdicts import Part, Verdict

SECRET = "ghp_0123456789abcdefghij"
CLEAN = "[redacted:github-token]"

CLAUDE = {
    "tool_name": "Bash",
    "tool_input": {"command": "env"},
    "tool_use_id": "t1",
    "tool_response": {"stdout": SECRET, "stderr": "", "interrupted": False},
}
MCP = {**CLAUDE, "tool_name": "mcp__lab__read", "tool_response": SECRET}
GEMINI = {
    "tool_name": "run_shell_command",
    "tool_input": {},
    "tool_response": {"llmContent": SECRET, "returnDisplay": "x"},
}
COPILOT = {"toolName": "bash", "toolArgs": {}, "toolResult": {"resultType": "success", "textResultForLlm": SECRET}}
OPENCODE = {"hook": "tool.execute.after", "input": {"tool": "bash", "args": {}}, "output": {"output": SECRET}}
CURSOR = {
    "tool_name": "MCP:read",
    "server_name": "lab",
    "tool_input": "{}",
    "tool_output": json.dumps({"text": SECRET}),
}


def told(agent: str, native: str, sent: dict[str, Any], changed: object, **more: Any) -> tuple[Any, tuple[str, ...]]:
    """What the agent reads, and what was lost, where a hook changed the output."""
    dialect = find(agent)
    event = dialect.read(native, json.dumps(sent).encode())
    answer = dialect.render(native, Verdict(event="e1", updated_output=changed, **more), event)
    assert answer.exit_code == 0
    return json.loads(answer.stdout or b"{}"), answer.lost


@pytest.mark.req("X-11", "B-08")
def test_claude_code_has_a_field_for_it() -> None:
    clean = {"stdout": CLEAN, "stderr": "", "interrupted": False}
    said, lost = told("claude", "PostToolUse", CLAUDE, clean)
    assert said["hookSpecificOutput"] == {"hookEventName": "PostToolUse", "updatedToolOutput": clean}
    assert "the tool's output was changed" in said["systemMessage"]
    assert lost == ()
    said, _ = told("claude", "PostToolUse", MCP, CLEAN)
    assert said["hookSpecificOutput"] == {"hookEventName": "PostToolUse", "updatedMCPToolOutput": CLEAN}


@pytest.mark.req("X-11", "B-08")
@pytest.mark.parametrize(
    ("agent", "native", "sent", "field"),
    [
        ("codex", "PostToolUse", {**CLAUDE, "tool_response": SECRET}, "reason"),
        ("gemini", "AfterTool", GEMINI, "reason"),
        ("qwen", "PostToolUse", GEMINI, "stopReason"),
    ],
)
def test_a_block_takes_the_outputs_place(agent: str, native: str, sent: dict[str, Any], field: str) -> None:
    said, lost = told(agent, native, sent, CLEAN)
    assert f"It is now: {CLEAN}" in said[field]
    assert SECRET not in json.dumps(said)
    assert "blocked" not in said.get("systemMessage", "")
    assert lost == ()


@pytest.mark.req("X-11", "B-08")
def test_others_have_names_of_their_own_for_it() -> None:
    said, _ = told("copilot", "postToolUse", COPILOT, {"resultType": "success", "textResultForLlm": CLEAN})
    assert said["modifiedResult"] == {"resultType": "success", "textResultForLlm": CLEAN}
    assert told("opencode", "tool.execute.after", OPENCODE, CLEAN)[0]["output"] == CLEAN
    assert told("cursor", "postToolUse", CURSOR, {"text": CLEAN})[0]["updated_mcp_tool_output"] == {"text": CLEAN}


@pytest.mark.req("X-11", "B-08")
def test_where_it_cannot_be_carried_that_is_said() -> None:
    shell = {**CURSOR, "tool_name": "Shell", "server_name": ""}
    (lost,) = told("cursor", "postToolUse", shell, "x")[1]
    assert lost == "a changed output was dropped: postToolUse carries none for this tool"
    (lost,) = told("claude", "PostToolUseFailure", CLAUDE, "x")[1]
    assert lost == "a changed output was dropped: PostToolUseFailure carries none"


@pytest.mark.req("I-03", "B-08")
def test_a_halt_ends_the_work_of_agents_that_have_it() -> None:
    deny: dict[str, Any] = {"decision": "deny", "reason": "enough", "halt": "enough"}
    deny["parts"] = (Part(hook="a", decision="deny"),)
    for agent, native in (("claude", "PreToolUse"), ("gemini", "BeforeTool"), ("claude", "TaskCompleted")):
        said, lost = told(agent, native, CLAUDE, None, **deny)
        assert (said["continue"], said["stopReason"], lost) == (False, "enough", ())
    said, lost = told("claude", "Stop", {}, None, halt="enough")
    assert (said["continue"], said["stopReason"], "decision" in said) == (False, "enough", False)
    # Codex lets the tool run where it reads `continue` here.
    said, lost = told("codex", "PreToolUse", CLAUDE, None, **deny)
    assert "continue" not in said
    assert lost == ("a hook wanted to end the agent's work (enough), which PreToolUse cannot",)


@pytest.mark.req("I-03", "B-08")
def test_changed_permissions_and_an_interrupt_reach_who_has_them() -> None:
    rules = ({"type": "setMode", "mode": "acceptEdits", "destination": "session"},)
    asked = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    for agent in ("claude", "qwen"):
        said, _ = told(agent, "PermissionRequest", asked, None, decision="allow", permissions=rules)
        assert said["hookSpecificOutput"]["decision"] == {"behavior": "allow", "updatedPermissions": list(rules)}
        said, _ = told(agent, "PermissionRequest", asked, None, decision="deny", reason="no", interrupt=True)
        assert said["hookSpecificOutput"]["decision"]["interrupt"] is True
    # Codex fails closed on these keys.
    said, lost = told("codex", "PermissionRequest", asked, None, decision="allow", permissions=rules)
    assert said["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    assert lost == ("a change of permissions was dropped: PermissionRequest carries none here",)


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("agent", "native"),
    [
        ("claude", "Stop"),
        ("codex", "Stop"),
        ("gemini", "AfterAgent"),
        ("qwen", "Stop"),
        ("cursor", "stop"),
        ("copilot", "agentStop"),
        ("opencode", "session.idle"),
        ("ion", "Stop"),
        ("gobby", "stop"),
    ],
)
def test_every_reason_of_a_stop_reaches_the_model_however_long_one_is(agent: str, native: str) -> None:
    reasons = ("L" * 40_000, "run the tests", "\N{HIRAGANA LETTER A}" * 30_000, "write the docs")
    parts = tuple(
        Part(hook=f"h{number}", layer="user", decision="deny", ms=1.0, reason=reason)
        for number, reason in enumerate(reasons)
    )
    verdict = Verdict(event="e" * 33, decision="deny", reason="\n\n".join(reasons), parts=parts)
    answer = find(agent).render(native, verdict, Event(type="agent:stop", source=agent, native=native))
    said = answer.stdout.decode("unicode-escape" if answer.stdout.isascii() else "utf-8") + answer.stderr.decode()
    assert "run the tests" in said
    assert "write the docs" in said
    assert min(said.count("L"), said.count("\N{HIRAGANA LETTER A}")) > 1_000, "the long ones share what is left"
    assert "characters]" in said
