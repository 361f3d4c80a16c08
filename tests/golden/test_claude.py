"""Claude Code's recorded payloads into events, and every kind of verdict back as the exact bytes that it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import claude, find, generic
from bus.errors import DecodeError
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Part, Verdict, failed
from bus.wire.codec import encode_event, unpack
from tests.support.rows import rows

HERE = Path(__file__).parent / "claude"
RECORDED = sorted(path for path in HERE.glob("*.json") if path.name != "answers.json")
ANSWERS: dict[str, dict[str, dict[str, Any]]] = json.loads((HERE / "answers.json").read_text())
DIALECT = find("claude-code")

TYPES = {
    "ConfigChange": "config:change",
    "CwdChanged": "claude:CwdChanged",
    "DirectoryAdded": "claude:DirectoryAdded",
    "Elicitation": "claude:Elicitation",
    "ElicitationResult": "claude:ElicitationResult",
    "FileChanged": "file:change",
    "InstructionsLoaded": "claude:InstructionsLoaded",
    "MessageDisplay": "llm:post_response",
    "Notification": "notification",
    "PermissionDenied": "permission:denied",
    "PermissionRequest": "permission:request",
    "PostCompact": "context:post_compact",
    "PostToolBatch": "tool:batch",
    "PostToolUse": "tool:post_execute",
    "PostToolUseFailure": "tool:error",
    "PreToolUse": "tool:pre_execute",
    "SessionEnd": "session:end",
    "SessionStart": "session:start",
    "Setup": "claude:Setup",
    "Stop": "agent:stop",
    "StopFailure": "agent:error",
    "SubagentStart": "subagent:start",
    "SubagentStop": "subagent:stop",
    "TaskCompleted": "task:completed",
    "TaskCreated": "task:created",
    "UserPromptExpansion": "user:prompt_expand",
    "UserPromptSubmit": "user:prompt_submit",
}
TOOLS = {"Bash": "bash", "Write": "write", "Read": "read", "Agent": "task"}

PARTS = (
    Part(hook="no-writes", decision="deny", origin="fleethook.yaml:12"),
    Part(hook="careful", decision="ask", origin="fleethook.yaml:20"),
    Part(hook="trusted", decision="allow", origin="fleethook.yaml:30"),
    Part(hook="quiet", decision="abstain"),
)
VERDICTS = {
    "deny": Verdict(decision="deny", event="e1", reason="Notes are frozen", instead="open an issue", parts=PARTS),
    "ask": Verdict(decision="ask", event="e1", reason="Notes are shared", parts=PARTS),
    "allow": Verdict(decision="allow", event="e1", reason="It is yours", parts=PARTS),
    "abstain": Verdict(event="e1", parts=PARTS),
    "context": Verdict(event="e1", contexts=("CI is frozen.", "", "It opens at 18:00."), parts=PARTS),
    "rewrite": Verdict(event="e1", updated_input={"content": "x"}, parts=PARTS),
    "allow+rewrite": Verdict(decision="allow", event="e1", reason="It is yours", updated_input={"content": "x"}),
    "fallback open": failed("allow", "timeout", event="e1"),
    "fallback closed": failed("deny", "timeout", event="e1"),
    "fallback ask": failed("ask", "timeout", event="e1"),
}


def _native(path: Path) -> str:
    return path.stem.removeprefix("captured-").removeprefix("documented-").removeprefix("http-").rpartition("-")[0]


def _event(native: str) -> Event:
    """A recorded event of this name; events of tools are all the one Write call, so that answers can be compared."""
    for path in RECORDED:
        if _native(path) == native and (native != "PreToolUse" or path.name == "captured-PreToolUse-2.json"):
            return DIALECT.read(native, path.read_bytes(), host="here")
    return DIALECT.read(native, b'{"session_id":"s","tool_name":"Write","tool_input":{"file_path":"a","content":"y"}}')


def test_every_recorded_event_is_there() -> None:
    assert {_native(path) for path in RECORDED} == set(TYPES)
    assert len(RECORDED) == 50


@pytest.mark.req("B-08", "I-01", "I-02", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_payload_becomes_an_event(path: Path) -> None:
    sent = json.loads(path.read_bytes())
    native = _native(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")

    assert (event.type, event.source, event.native) == (TYPES[native], "claude", native)
    assert (event.session, event.cwd, event.host) == (sent["session_id"], sent["cwd"], "laptop")
    assert event.raw == sent
    given = sent.get("tool_name", "")
    assert event.native_tool == given
    assert event.tool == (given if given.startswith("mcp__") else TOOLS.get(given, ""))
    assert event.call == sent.get("tool_use_id", "")
    assert event.output == sent.get("tool_response")
    assert {name: event.input[name] for name in sent.get("tool_input", {})} == sent.get("tool_input", {})
    own = {"session_id", "cwd", "hook_event_name", "tool_name", "tool_input", "tool_use_id", "tool_response"}
    assert event.data == {name: value for name, value in sent.items() if name not in own}
    unpack(encode_event(event))  # it can travel


@pytest.mark.req("B-08", "X-01")
def test_input_has_its_canonical_fields() -> None:
    assert _event("PreToolUse").input["path"] == "/home/dev/project/lab-note.txt"
    assert DIALECT.read("", (HERE / "captured-PreToolUse-1.json").read_bytes()).input["command"].startswith("echo")


@pytest.mark.req("B-08")
def test_the_named_event_outranks_the_payload_and_new_events_pass() -> None:
    payload = b'{"hook_event_name":"PreToolUse","brand_new":{"x":1}}'
    assert DIALECT.read("", payload).type == "tool:pre_execute"
    later = DIALECT.read("EventOfTomorrow", payload)
    assert (later.type, later.native, later.data) == (
        "claude:EventOfTomorrow",
        "EventOfTomorrow",
        {"brand_new": {"x": 1}},
    )
    assert DIALECT.render("EventOfTomorrow", VERDICTS["deny"], later) == HookAnswer()


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    "payload",
    [b"", b"[1]", b'"x"', b"null", b'{"a":"s', b"{}x", b'{"a":NaN}', b"{}", b'{"hook_event_name":5}', b"\xff\xfe"],
)
def test_what_is_no_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        DIALECT.read("", payload)


@pytest.mark.req("B-08")
def test_odd_text_survives() -> None:
    command = DIALECT.read("PreToolUse", rb'{"tool_name":"Bash","tool_input":{"command":"echo \ud83d end"}}')
    assert command.input["command"] == "echo \ud83d end"
    answer = DIALECT.render("PreToolUse", Verdict(decision="allow", updated_input={"timeout": 1}), command)
    assert rb'"updatedInput":{"command":"echo \ud83d end","timeout":1}' in answer.stdout
    broken = DIALECT.read("UserPromptSubmit", b'{"prompt":"caf\xe9"}')  # Latin-1, no newline at the end
    assert broken.data == {"prompt": "caf\ufffd"}
    odd = DIALECT.read("PreToolUse", b'{"tool_name":7,"tool_input":[1],"session_id":null,"cwd":{},"tool_use_id":"t"}')
    assert (odd.tool, odd.input, odd.session, odd.cwd, odd.call) == ("", {}, "", "", "")
    assert odd.data == {"tool_name": 7, "tool_input": [1], "tool_use_id": "t"}


@pytest.mark.req("B-08", "I-01")
@rows("native", ANSWERS)
@rows("said", VERDICTS)
def test_a_verdict_goes_back_in_these_bytes(native: str, said: str) -> None:
    expected = ANSWERS[native].get(said, {})
    answer = DIALECT.render(native, VERDICTS[said], _event(native))
    assert answer.exit_code == expected.get("exit", 0)
    assert answer.stdout.decode("ascii") == expected.get("stdout", "")
    assert answer.stderr.decode() == expected.get("stderr", "")
    if answer.stdout:
        assert json.loads(answer.stdout).get("hookSpecificOutput", {}).get("hookEventName", native) == native
        assert b"\n" not in answer.stdout


@pytest.mark.req("B-08")
def test_every_event_is_silent_without_an_opinion() -> None:
    for native, can in claude.CAPABILITIES.items():
        assert DIALECT.render(native, Verdict(parts=PARTS), _event(native)) == HookAnswer()
        loud = DIALECT.render(native, VERDICTS["fallback open"], _event(native))
        assert (b"systemMessage" in loud.stdout) == can.waits
        assert loud.exit_code == 0


@pytest.mark.req("B-08")
def test_only_gates_fail_closed() -> None:
    closed = {
        native for native in claude.CAPABILITIES if b"failure policy" in claude.fallback(native, "deny", "gone").stdout
    }
    assert closed == {"PreToolUse", "PermissionRequest", "UserPromptSubmit", "UserPromptExpansion"}
    assert all(claude.fallback(native, "deny", "gone").exit_code == 0 for native in claude.CAPABILITIES)


@pytest.mark.req("B-08")
def test_a_changed_input_is_always_the_whole_input_or_a_deny() -> None:
    event = _event("PreToolUse")
    same = DIALECT.render("PreToolUse", Verdict(updated_input={"path": event.input["path"]}), event)
    assert same == HookAnswer()
    blind = DIALECT.render("PreToolUse", Verdict(decision="allow", updated_input={"content": "x"}))
    said = json.loads(blind.stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert '{"content":"x"}' in said["permissionDecisionReason"]
    assert "updatedInput" not in said


@pytest.mark.req("B-08")
def test_long_text_is_cut_and_says_so() -> None:
    long = Verdict(
        decision="deny", event="e1", reason="\U0001f600" * 30_000, contexts=("a" * 9_000, "b" * 9_000), parts=PARTS
    )
    said = json.loads(DIALECT.render("PreToolUse", long, _event("PreToolUse")).stdout)
    inner = said["hookSpecificOutput"]
    for text in (inner["permissionDecisionReason"], inner["additionalContext"], said["systemMessage"]):
        assert len(text.encode("utf-16-le")) // 2 < 10_000
        assert "\ufffd" not in text
    assert inner["permissionDecisionReason"].endswith(" characters] [fleethook: no-writes; fleethook trace e1]")
    kept, _, rest = inner["additionalContext"].rpartition(" [fleethook cut ")
    cut = int(rest.removesuffix(" characters]"))
    assert len(kept) + cut == 18_002  # both texts and the blank line between them
    assert f"{cut} characters of context were cut" in said["systemMessage"]


@pytest.mark.req("B-08")
def test_what_a_hook_says_cannot_redraw_the_terminal() -> None:
    verdict = Verdict(
        decision="deny", reason="red \x1b[31m\x9b1m\x07 bell\nnext", notes=("a\x1b]0;title\x07",), parts=PARTS
    )
    said = json.loads(DIALECT.render("UserPromptSubmit", verdict).stdout)
    assert said["reason"] == "red [31m1m bell\nnext. [fleethook: no-writes]"
    assert said["systemMessage"] == "fleethook: blocked by no-writes (fleethook.yaml:12); a]0;title"


@pytest.mark.req("B-08")
def test_what_went_wrong_is_told() -> None:
    verdict = Verdict(
        repeated=True, notes=("hook 'lint' timed out; its failure policy is allow", "a rewrite was dropped")
    )
    said = json.loads(DIALECT.render("Stop", verdict).stdout)
    told = "hooks may have run twice; hook 'lint' timed out; its failure policy is allow; a rewrite was dropped"
    assert said == {"systemMessage": f"fleethook: {told}"}


@pytest.mark.req("B-08")
def test_canonical_json_goes_in_and_comes_out() -> None:
    body = (
        b'{"type":"tool:pre_execute","source":"Claude-Code","tool":"Write","input":{"file_path":"a"},'
        b'"extra":1,"data":{"y":2}}'
    )
    event = generic.DIALECT.read("", body, host="h")
    assert (event.source, event.tool, event.native_tool, event.host) == ("claude", "write", "Write", "h")
    assert event.input == {"file_path": "a", "path": "a"}
    assert event.data == {"extra": 1, "y": 2}
    assert generic.DIALECT.read("turn:end", rb'{"data":{"t":"\ud83d"}}').data == {"t": "\ud83d"}
    answer = generic.DIALECT.render("", VERDICTS["ask"], event)
    assert answer.exit_code == 0
    assert answer.stdout.endswith(b"}\n")
    assert json.loads(answer.stdout)["decision"] == "ask"
    silent = generic.DIALECT.render("", Verdict(), event)
    assert silent == HookAnswer(0, b'{"decision":"abstain","reason":"","event":""}\n', b"")
    assert find("somebody-else").name == "generic"
    for wrong in (b"[]", b"{}", b'{"type":1}', b'{"type":"x","input":[]}', b'{"type":" "}', b'{"type"'):
        with pytest.raises(DecodeError):
            generic.DIALECT.read("", wrong)
