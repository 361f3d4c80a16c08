"""Cursor's captured and documented payloads into events, and every kind of verdict back as the exact bytes it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import cursor, find
from bus.errors import DecodeError
from bus.events import Event
from bus.requests import call_key
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict
from bus.wire.keys import Keys
from tests.golden import matrix
from tests.support.rows import rows

DIALECT = find("cursor-agent")
RECORDED = matrix.recorded("cursor")
SILENT = HookAnswer(0, b"{}")

TYPES = {
    "sessionStart": "session:start",
    "sessionEnd": "session:end",
    "beforeSubmitPrompt": "user:prompt_submit",
    "preToolUse": "tool:pre_execute",
    "postToolUse": "tool:post_execute",
    "postToolUseFailure": "tool:error",
    "beforeShellExecution": "tool:pre_execute",
    "afterShellExecution": "tool:post_execute",
    "beforeMCPExecution": "tool:pre_execute",
    "afterMCPExecution": "tool:post_execute",
    "beforeReadFile": "tool:pre_execute",
    "afterFileEdit": "file:change",
    "beforeTabFileRead": "tool:pre_execute",
    "afterTabFileEdit": "file:change",
    "subagentStart": "subagent:start",
    "subagentStop": "subagent:stop",
    "stop": "agent:stop",
    "preCompact": "context:pre_compact",
    "afterAgentResponse": "llm:post_response",
    "afterAgentThought": "llm:post_response",
    "workspaceOpen": "cursor:workspaceOpen",
}
OTHER_TYPES = {
    "schema-stop-2": "user:interrupt",
    "schema-stop-3": "agent:error",
    "schema-postToolUseFailure-2": "permission:denied",
}
TOOLS = {
    "documented-preToolUse-1": ("bash", "Shell", {"command": "pwd"}),
    "documented-postToolUse-1": ("bash", "Shell", {"command": "pwd"}),
    "documented-beforeShellExecution-1": ("bash", "Shell", {"command": "rm -rf /", "cwd": "/home/user/project"}),
    "documented-beforeReadFile-1": ("read", "Read", {"path": "/home/user/.env"}),
    "schema-preToolUse-1": ("MCP:echo", "MCP:echo", {"text": "hi"}),
    "schema-preToolUse-2": ("edit", "StrReplace", {"path": "/home/dev/project/a.py", "old": "x", "new": "y"}),
    "schema-preToolUse-3": ("write", "Write", {"path": "/home/dev/project/lab-note.txt", "content": "y"}),
    "schema-postToolUseFailure-1": ("bash", "Shell", {"command": "false"}),
    "schema-postToolUseFailure-2": ("write", "Write", {"path": "/etc/x"}),
    "schema-afterShellExecution-1": ("bash", "Shell", {"command": "ls"}),
    "schema-beforeMCPExecution-1": ("mcp__lab__echo", "MCP:echo", {"text": "hi"}),
    "schema-afterMCPExecution-1": ("mcp__lab__echo", "MCP:echo", {"text": "hi"}),
    "schema-afterFileEdit-1": ("edit", "Edit", {"path": "/home/dev/project/a.py"}),
    "schema-beforeTabFileRead-1": ("read", "TabRead", {"path": "/home/dev/project/.env"}),
    "schema-afterTabFileEdit-1": ("write", "TabWrite", {"path": "/home/dev/project/a.py"}),
}
OUTPUTS = {
    "documented-postToolUse-1": {"output": "/tmp/host-test/cursor-workspace\n", "exitCode": 0},
    "schema-afterShellExecution-1": "a\nb\n",
    "schema-afterMCPExecution-1": {"content": [{"type": "text", "text": "hi"}]},
}
WRITTEN = {"file_path": "/home/dev/project/lab-note.txt", "content": "x"}


def _no(reason: str, message: str) -> dict[str, Any]:
    return {"permission": "deny", "agent_message": reason, "user_message": message}


def _gate(native: str) -> dict[str, dict[str, Any]]:
    """What a gate says that has a place for the model's reason."""
    return {
        "deny": _no(matrix.DENIED, matrix.BLOCKED),
        "allow": {"permission": "allow"},
        "context": {"user_message": matrix.no_context(native)},
        "fallback open": {"user_message": matrix.OPEN},
        "fallback closed": _no(matrix.NO_VERDICT, matrix.SHUT),
    }


def _asking(native: str) -> dict[str, dict[str, Any]]:
    """What a gate says that can ask; a changed input went with preToolUse."""
    asked = {"permission": "ask", "agent_message": matrix.ASKED, "user_message": matrix.ASKED}
    fallback = {"permission": "ask", "agent_message": matrix.NO_VERDICT_ASK, "user_message": matrix.NO_VERDICT_ASK}
    allowed = {"permission": "allow"}
    return {**_gate(native), "ask": asked, "ask+rewrite": asked, "allow+rewrite": allowed, "fallback ask": fallback}


def _plain(native: str) -> dict[str, dict[str, Any]]:
    """What a gate says whose only text is the person's."""
    asked = {"permission": "deny", "user_message": matrix.unaskable("Cursor", native)}
    return {
        "deny": {"permission": "deny", "user_message": matrix.DENIED},
        "ask": asked,
        "ask+rewrite": asked,
        "allow": {"permission": "allow"},
        "allow+rewrite": {"permission": "allow"},
        "context": {"user_message": matrix.no_context(native)},
        "fallback open": {"user_message": matrix.OPEN},
        "fallback closed": {"permission": "deny", "user_message": matrix.NO_VERDICT},
        "fallback ask": {"permission": "deny", "user_message": matrix.unaskable_fallback("Cursor", native)},
    }


_GO: dict[str, Any] = {"continue": True}
_NEXT = {"deny": {"followup_message": matrix.DENIED}, "context": {"followup_message": matrix.CONTEXT}}

ANSWERS: dict[str, dict[str, dict[str, Any]]] = {
    "preToolUse": {
        **_gate("preToolUse"),
        "ask": _no(matrix.unaskable("Cursor", "preToolUse"), matrix.ASK_BLOCKED),
        "rewrite": _no(matrix.CALL_IT, matrix.CHANGE_BLOCKED),
        "allow+rewrite": {"permission": "allow", "updated_input": WRITTEN, "user_message": matrix.INPUT_CHANGED},
        "ask+rewrite": _no(matrix.ASKED_CALL_IT, matrix.ASK_BLOCKED),
        "fallback ask": _no(matrix.unaskable_fallback("Cursor", "preToolUse"), matrix.SHUT),
    },
    "beforeShellExecution": _asking("beforeShellExecution"),
    "beforeMCPExecution": _asking("beforeMCPExecution"),
    "beforeReadFile": _plain("beforeReadFile"),
    "beforeTabFileRead": {
        name: {"permission": "allow" if name == "allow" else "deny"}
        for name in matrix.VERDICTS
        if name not in ("abstain", "context", "fallback open")
    },
    "subagentStart": {
        **_plain("subagentStart"),
        "rewrite": {"user_message": matrix.no_input("subagentStart")},
        "allow+rewrite": {"permission": "allow", "user_message": matrix.no_input("subagentStart")},
        "fallback closed": {"user_message": matrix.OPEN},  # no gate of ours: a failure holds no subagent up
        "fallback ask": {"user_message": matrix.OPEN},
    },
    "beforeSubmitPrompt": {
        "deny": {"continue": False, "user_message": matrix.DENIED},
        "ask": {"continue": False, "user_message": matrix.unaskable("Cursor", "beforeSubmitPrompt")},
        "ask+rewrite": {"continue": False, "user_message": matrix.unaskable("Cursor", "beforeSubmitPrompt")},
        "allow": _GO,
        "abstain": _GO,
        "context": {**_GO, "user_message": matrix.no_context("beforeSubmitPrompt")},
        "rewrite": {**_GO, "user_message": matrix.no_input("beforeSubmitPrompt")},
        "allow+rewrite": {**_GO, "user_message": matrix.no_input("beforeSubmitPrompt")},
        "fallback open": {**_GO, "user_message": matrix.OPEN},
        "fallback closed": {"continue": False, "user_message": matrix.NO_VERDICT},
        "fallback ask": {"continue": False, "user_message": matrix.unaskable_fallback("Cursor", "beforeSubmitPrompt")},
    },
    "sessionStart": {"context": {"additional_context": matrix.CONTEXT}},
    "postToolUse": {"deny": {"additional_context": matrix.DENIED}, "context": {"additional_context": matrix.CONTEXT}},
    "stop": _NEXT,
    "subagentStop": _NEXT,
    "sessionEnd": {},
    "postToolUseFailure": {},
    "afterShellExecution": {},
    "afterMCPExecution": {},
    "afterFileEdit": {},
    "afterTabFileEdit": {},
    "preCompact": {},
    "afterAgentResponse": {},
    "afterAgentThought": {},
    "workspaceOpen": {},
}


def _event(native: str) -> Event:
    return matrix.sample(DIALECT, "cursor", native, "schema-preToolUse-3" if native == "preToolUse" else "")


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), matrix.native_of(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")
    matrix.check_kept(event, sent)
    assert DIALECT.read("", path.read_bytes()).native == native

    assert event.type == OTHER_TYPES.get(path.stem, TYPES[native])
    assert (event.source, event.native, event.host) == ("cursor", native, "laptop")
    assert event.session == sent["conversation_id"]
    assert event.cwd == (sent.get("cwd") or sent["workspace_roots"][0])
    tool, own, fields = TOOLS.get(path.stem, ("", "", {}))
    assert (event.tool, event.native_tool) == (tool, own)
    assert {name: event.input[name] for name in fields} == fields
    assert event.output == OUTPUTS.get(path.stem)
    assert event.call == sent.get("tool_use_id", "")
    for name in ("generation_id", "cursor_version", "prompt", "duration", "mcp_server_name", "content", "text"):
        assert event.data.get(name) == sent.get(name)


@pytest.mark.req("B-08")
def test_every_event_is_known_and_has_a_payload() -> None:
    assert {matrix.native_of(path) for path in RECORDED} == set(TYPES) == set(cursor.CAPABILITIES) == set(ANSWERS)
    assert {native: can.type for native, can in cursor.CAPABILITIES.items()} == TYPES
    asks = {native for native, can in cursor.CAPABILITIES.items() if can.ask}
    assert asks == {"beforeShellExecution", "beforeMCPExecution"}
    assert {native for native, can in cursor.CAPABILITIES.items() if can.elsewhere} | {"preToolUse"} == cursor.TOGETHER
    assert not cursor.TOGETHER & cursor.QUIET
    assert {"afterAgentThought", "beforeTabFileRead", "workspaceOpen"} < cursor.QUIET
    assert not cursor.NEVER


@pytest.mark.req("B-08")
@rows("native", ANSWERS)
@rows("said", matrix.VERDICTS)
def test_a_verdict_goes_back_in_these_bytes(native: str, said: str) -> None:
    expected = ANSWERS[native].get(said)
    matrix.same(
        DIALECT.render(native, matrix.VERDICTS[said], _event(native)), matrix.line(expected) if expected else SILENT
    )


@pytest.mark.req("B-08")
@pytest.mark.parametrize("name", ["documented-preToolUse-1", "schema-preToolUse-1"])
def test_an_ask_waits_for_the_event_that_can_ask(name: str) -> None:
    """A shell or MCP call comes again, as beforeShellExecution or beforeMCPExecution, where Cursor asks the person."""
    event = matrix.sample(DIALECT, "cursor", "preToolUse", name)
    assert DIALECT.render("preToolUse", matrix.VERDICTS["ask"], event) == SILENT
    assert DIALECT.render("preToolUse", matrix.VERDICTS["fallback ask"], event) == matrix.line(
        {"user_message": matrix.OPEN}
    )
    assert b'"permission":"deny"' in DIALECT.render("preToolUse", matrix.VERDICTS["deny"], event).stdout
    blind = DIALECT.render("preToolUse", matrix.VERDICTS["ask"])  # nobody knows which tool it is
    assert b'"permission":"deny"' in blind.stdout


@pytest.mark.req("B-08")
def test_a_stop_that_is_none_is_not_held_up() -> None:
    for name in ("schema-stop-2", "schema-stop-3"):
        answer = DIALECT.render("stop", matrix.VERDICTS["deny"], matrix.sample(DIALECT, "cursor", "stop", name))
        assert (answer.stdout, answer.lost) == (b"{}", ("a hook wanted to block, which stop cannot: Notes are frozen",))
    both = Verdict(decision="deny", reason="Go on", contexts=("Tests fail.",))
    assert json.loads(DIALECT.render("stop", both).stdout) == {"followup_message": "Go on. [fleethook]\n\nTests fail."}


@pytest.mark.req("B-08")
def test_what_it_cannot_be_told_is_named() -> None:
    assert DIALECT.render("beforeTabFileRead", matrix.VERDICTS["deny"]).lost == (
        "the reason was dropped: beforeTabFileRead takes none",
    )
    assert DIALECT.render("postToolUse", matrix.VERDICTS["deny"]).lost == (
        "a block became context: postToolUse cannot block",
    )
    assert DIALECT.render("beforeShellExecution", matrix.VERDICTS["rewrite"]).lost == ()
    assert DIALECT.render("sessionStart", matrix.VERDICTS["deny"]).lost != ()


@pytest.mark.req("B-08")
def test_a_call_that_is_delivered_twice_is_one_call() -> None:
    """preToolUse came twice with the same id (3.18.25); another id, or another event of the call, is another call."""
    raw = (matrix.HERE / "cursor" / "documented-preToolUse-1.json").read_bytes()
    keys = Keys("test")
    first, again = (call_key(DIALECT.read("preToolUse", raw, host=host), keys) for host in ("a", "b"))
    assert first == again != ""
    other = raw.replace(b"25c45009", b"35c45009")
    assert call_key(DIALECT.read("preToolUse", other), keys) != first
    shell = (matrix.HERE / "cursor" / "documented-beforeShellExecution-1.json").read_bytes()
    # Without an id a second try cannot be told from a second delivery, and a denied call may be right by then.
    assert call_key(DIALECT.read("beforeShellExecution", shell), keys) == ""


@pytest.mark.req("B-08", "X-01")
def test_mcp_tools_have_one_name_where_the_server_is_known() -> None:
    def tool(**sent: str) -> str:
        return DIALECT.read("beforeMCPExecution", json.dumps(sent).encode()).tool

    assert tool(tool_name="echo", mcp_server_name="lab") == "mcp__lab__echo"
    assert tool(tool_name="echo", server_name="lab") == "mcp__lab__echo"
    assert tool(tool_name="MCP:lab:echo") == "mcp__lab__echo"
    assert tool(tool_name="echo") == "MCP:echo"
    assert "command" not in matrix.sample(DIALECT, "cursor", "beforeMCPExecution").input  # that is the server's own


@pytest.mark.req("B-08")
@pytest.mark.parametrize("native", [name for name, can in cursor.CAPABILITIES.items() if can.block])
def test_odd_and_long_texts(native: str) -> None:
    said = json.loads(DIALECT.render(native, matrix.ODD).stdout)
    if native != "beforeTabFileRead":
        assert matrix.ODD_REASON in said.values()
    long = DIALECT.render(native, matrix.oversized(20_000)).stdout
    limits = [len(text.encode("utf-16-le")) // 2 for text in matrix.texts(json.loads(long))]
    assert max(limits) <= cursor.TEXT_LIMIT * (2 if "top" in native else 1) + 2


@pytest.mark.req("B-08")
def test_the_unknown_passes_and_the_unreadable_is_refused() -> None:
    later = DIALECT.read("eventOfTomorrow", b'{"conversation_id":"s","brand_new":{"x":1}}')
    assert (later.type, later.data) == ("cursor:eventOfTomorrow", {"brand_new": {"x": 1}})
    assert DIALECT.render("eventOfTomorrow", matrix.VERDICTS["deny"], later) == SILENT
    marked = b'\xef\xbb\xbf{"hook_event_name":"preToolUse","tool_name":"Shell","tool_input":{"command":"a \\ud83d"}}'
    assert DIALECT.read("", marked).input["command"] == "a \ud83d"
    odd = DIALECT.read("preToolUse", b'{"tool_name":7,"tool_input":"[1]","workspace_roots":"x","cwd":1}')
    assert (odd.tool, odd.input, odd.cwd, odd.data["tool_input"]) == ("", {}, "", "[1]")
    for wrong in (b"", b"[]", b"{}", b'{"hook_event_name":5}'):
        with pytest.raises(DecodeError):
            DIALECT.read("", wrong)
