"""Cline's payloads, of its extension and of its command line, into events; every kind of verdict as the exact bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import cline, find
from bus.errors import DecodeError
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict
from tests.golden import matrix
from tests.support.rows import rows

DIALECT = find("cline")
RECORDED = matrix.recorded("cline")
SILENT = HookAnswer(0, b'{"cancel":false}')

TYPES = {
    "TaskStart": "session:start",
    "TaskResume": "session:start",
    "TaskCancel": "user:interrupt",
    "TaskComplete": "agent:stop",
    "UserPromptSubmit": "user:prompt_submit",
    "PreToolUse": "tool:pre_execute",
    "PostToolUse": "tool:post_execute",
    "PreCompact": "context:pre_compact",
    "Notification": "notification",
    "tool_call": "tool:pre_execute",
    "tool_result": "tool:post_execute",
    "agent_start": "session:start",
    "agent_resume": "session:start",
    "agent_abort": "user:interrupt",
    "agent_end": "agent:stop",
    "agent_error": "agent:error",
    "prompt_submit": "user:prompt_submit",
    "session_shutdown": "session:end",
}
FAILED = {"schema-PostToolUse-2", "schema-tool_result-2"}
# The command line's names, by the files that its hooks lie in.
FILES = {
    "tool_call": "PreToolUse",
    "tool_result": "PostToolUse",
    "agent_start": "TaskStart",
    "agent_resume": "TaskResume",
    "agent_abort": "TaskCancel",
    "agent_end": "TaskComplete",
    "agent_error": "TaskError",
    "prompt_submit": "UserPromptSubmit",
    "session_shutdown": "SessionShutdown",
}
TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "documented-PreToolUse-1": ("write", "write_to_file", {"path": "test.ts", "content": "test"}),
    "documented-tool_call-2": ("read", "read_files", {"path": "README.md", "paths": ["README.md"]}),
    "documented-tool_result-1": ("read", "read_files", {"path": "README.md"}),
    "schema-PreToolUse-1": ("bash", "execute_command", {"command": "rm -rf dist"}),
    "schema-PreToolUse-2": ("mcp__lab__echo", "use_mcp_tool", {"text": "hi"}),
    "schema-PostToolUse-1": ("write", "write_to_file", {"path": "a.txt", "content": "x"}),
    "schema-PostToolUse-2": ("bash", "execute_command", {"command": "false"}),
    "schema-tool_call-1": ("bash", "run_commands", {"command": "git status\nrm -rf dist"}),
    "schema-tool_result-2": ("bash", "run_commands", {"command": "false"}),
}
CALLS = {"documented-tool_call-2": "call_1", "documented-tool_result-1": "call_3"}
OUTPUTS = {
    "documented-tool_result-1": "ok",
    "schema-PostToolUse-1": "Saved",
    "schema-PostToolUse-2": "exit 1",
    "schema-tool_result-2": "exit 1",
}


def _cancel(reason: str) -> HookAnswer:
    return matrix.line({"cancel": True, "errorMessage": reason})


def _go(**more: object) -> HookAnswer:
    return matrix.line({"cancel": False, **more})


def _gate(native: str, *, tool: bool, gate: bool = True) -> dict[str, HookAnswer]:
    """What an event before something says: an ask that it cannot ask is denied, before a tool a changed input too."""
    asked = _cancel(matrix.unaskable("Cline", native))
    return {
        "deny": _cancel(matrix.DENIED),
        "ask": asked,
        "context": _go(contextModification=matrix.CONTEXT),
        "rewrite": _cancel(matrix.CALL_IT) if tool else SILENT,
        "allow+rewrite": _cancel(matrix.CALL_IT) if tool else SILENT,
        "ask+rewrite": _cancel(matrix.ASKED_CALL_IT) if tool else asked,
        "fallback closed": _cancel(matrix.NO_VERDICT) if gate else SILENT,
        "fallback ask": _cancel(matrix.unaskable_fallback("Cline", native)) if gate else SILENT,
    }


ANSWERS: dict[str, dict[str, HookAnswer]] = {
    "PreToolUse": _gate("PreToolUse", tool=True),
    "UserPromptSubmit": _gate("UserPromptSubmit", tool=False),
    "TaskStart": _gate("TaskStart", tool=False, gate=False),
    "TaskResume": _gate("TaskResume", tool=False, gate=False),
    "PostToolUse": {
        "deny": _go(contextModification=matrix.DENIED),
        "context": _go(contextModification=matrix.CONTEXT),
    },
    "tool_call": {
        **_gate("tool_call", tool=True),
        "context": _go(context=matrix.CONTEXT),
        "allow+rewrite": _go(overrideInput={"path": "a.txt", "old_text": "x", "new_text": "y", "content": "x"}),
    },
    "tool_result": {"deny": _go(context=matrix.DENIED), "context": _go(context=matrix.CONTEXT)},
}
EDITOR = {"id": "c", "name": "editor", "input": {"path": "a.txt", "old_text": "x", "new_text": "y"}}


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), matrix.native_of(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")
    matrix.check_kept(event, sent)
    assert DIALECT.read("", path.read_bytes()).native == native
    by_file = DIALECT.read(FILES.get(native, native), path.read_bytes(), host="laptop")
    assert (by_file.type, by_file.tool, by_file.input) == (event.type, event.tool, event.input)

    assert event.type == ("tool:error" if path.stem in FAILED else TYPES[native])
    assert (event.source, event.native, event.host) == ("cline", native, "laptop")
    assert event.session == sent.get("sessionContext", {}).get("rootSessionId", sent["taskId"])
    assert event.cwd == next(iter(sent.get("workspaceRoots", [])), "")
    tool, own, fields = TOOLS.get(path.stem, ("", "", {}))
    assert (event.tool, event.native_tool) == (tool, own)
    assert {name: event.input[name] for name in fields} == fields
    assert event.output == OUTPUTS.get(path.stem)
    assert event.call == CALLS.get(path.stem, "call-1" if path.stem.startswith("schema-tool_") else "")
    for name in ("clineVersion", "timestamp", "userId", "agent_id", "reason", "iteration"):
        assert event.data.get(name) == sent.get(name)


@pytest.mark.req("B-08")
def test_the_event_s_own_part_is_in_its_data() -> None:
    def data(native: str) -> dict[str, Any]:
        return matrix.sample(DIALECT, "cline", native).data

    assert (data("UserPromptSubmit")["prompt"], data("prompt_submit")["prompt"]) == ("Fix it", "Fix it")
    assert data("TaskStart")["taskMetadata"]["initialTask"] == "Fix it"
    assert data("Notification")["message"] == "Approve?"
    assert data("PostToolUse")["executionTimeMs"] == "12"


@pytest.mark.req("B-08")
def test_every_event_is_known_and_waited_for_where_cline_waits() -> None:
    assert {matrix.native_of(path) for path in RECORDED} == set(TYPES)
    assert {native: cline.CAPABILITIES[native].type for native in TYPES} == TYPES
    assert set(cline.CAPABILITIES) - set(TYPES) == {"TaskError", "SessionShutdown"}
    assert {native for native, can in cline.CAPABILITIES.items() if can.waits} == set(ANSWERS)
    assert set(FILES) == cline.NEVER == cline.QUIET
    assert set(FILES.values()) <= set(cline.CAPABILITIES)


@pytest.mark.req("B-08")
@rows("native", cline.CAPABILITIES)
@rows("said", matrix.VERDICTS)
def test_a_verdict_goes_back_in_these_bytes(native: str, said: str) -> None:
    event = matrix.sample(DIALECT, "cline", native)
    if native == "tool_call":
        event = DIALECT.read(native, json.dumps({"hookName": native, "tool_call": EDITOR}).encode())
    expected = ANSWERS.get(native, {}).get(said, SILENT)
    matrix.same(DIALECT.render(native, matrix.VERDICTS[said], event), expected)


@pytest.mark.req("B-08")
def test_the_command_line_s_calls_are_known_by_their_payload() -> None:
    """Its hook lies in the file PreToolUse, as the extension's does, and reads what the extension cannot."""
    event = matrix.sample(DIALECT, "cline", "tool_call", "schema-tool_call-1")
    by_file = DIALECT.read("PreToolUse", json.dumps(event.raw).encode())
    changed = Verdict(decision="allow", updated_input={"command": "git status"}, contexts=("Careful.",))
    assert by_file.native == "PreToolUse"
    assert DIALECT.render("PreToolUse", changed, by_file) == matrix.line(
        {"cancel": False, "overrideInput": {"commands": ["git status"]}, "context": "Careful."}
    )._replace(lost=("an allow became silence: PreToolUse has none, so Cline's own rules decide",))
    extension = matrix.sample(DIALECT, "cline", "PreToolUse", "schema-PreToolUse-1")
    said = json.loads(DIALECT.render("PreToolUse", changed, extension).stdout)
    assert said["cancel"] is True
    assert '{"command":"git status"}' in said["errorMessage"]


@pytest.mark.req("B-08", "X-01")
def test_inputs_that_are_no_objects() -> None:
    def shown(name: str, sent: object) -> dict[str, Any]:
        raw = json.dumps({"tool_call": {"id": "c", "name": name, "input": sent}}).encode()
        return DIALECT.read("tool_call", raw).input

    assert shown("run_commands", ["ls", {"command": "rm", "args": ["-rf", "a b"]}])["command"] == "ls\nrm -rf 'a b'"
    assert shown("run_commands", {"command": "rm", "args": ["-rf", "/"]})["command"] == "rm -rf /"
    assert shown("run_commands", "ls")["command"] == "ls"
    assert shown("read_files", [{"path": "/a", "start_line": 1}, "/b"])["paths"] == ["/a", "/b"]
    assert shown("fetch_web_content", {"requests": [{"url": "http://a", "prompt": "sum"}]})["url"] == "http://a"
    patch = "*** Begin Patch\n*** Update File: a.py\n*** End Patch"
    assert shown("apply_patch", patch)["path"] == "a.py"


@pytest.mark.req("B-08")
def test_what_it_cannot_be_told_is_named() -> None:
    assert DIALECT.render("PreToolUse", matrix.VERDICTS["rewrite"]).lost == (
        "a changed input became deny: PreToolUse carries none",
    )
    assert DIALECT.render("PostToolUse", matrix.VERDICTS["deny"]).lost == (
        "a block became context: PostToolUse cannot block",
    )
    assert DIALECT.render("PostToolUse", matrix.VERDICTS["ask"]).lost != ()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("native", [name for name, can in cline.CAPABILITIES.items() if can.block])
def test_odd_and_long_texts(native: str) -> None:
    assert json.loads(DIALECT.render(native, matrix.ODD).stdout) == {"cancel": True, "errorMessage": matrix.ODD_REASON}
    for verdict in (matrix.oversized(60_000), Verdict(contexts=("\u20ac" * 60_000,))):
        said = json.loads(DIALECT.render(native, verdict).stdout)
        assert max(len(text.encode()) for text in matrix.texts(said)) <= cline.TEXT_LIMIT


@pytest.mark.req("B-08")
def test_the_unknown_passes_and_the_unreadable_is_refused() -> None:
    later = DIALECT.read("EventOfTomorrow", b'{"taskId":"s","brand_new":{"x":1}}')
    assert (later.type, later.session, later.data) == ("cline:EventOfTomorrow", "s", {"brand_new": {"x": 1}})
    assert DIALECT.render("EventOfTomorrow", matrix.VERDICTS["deny"], later) == SILENT
    assert DIALECT.read("", b'{"preToolUse":{"toolName":"x"}}').native == "PreToolUse"
    odd = DIALECT.read("PreToolUse", b'{"preToolUse":7,"workspaceRoots":[null,3],"taskId":null}')
    assert (odd.tool, odd.input, odd.cwd, odd.session) == ("", {}, "", "")
    for wrong in (b"", b"[]", b"{}", b'{"hookName":5}'):
        with pytest.raises(DecodeError):
            DIALECT.read("", wrong)
