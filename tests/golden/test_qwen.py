"""Qwen Code's recorded payloads into events, and every kind of verdict back, judged as Qwen Code was seen to read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.agents import find, qwen
from bus.agents.degrade import stderr
from bus.events import GATES
from bus.shim.answer import HookAnswer
from bus.tools import canonical_tool, tool_for
from bus.verdicts import Verdict
from bus.wire.codec import encode_event, unpack
from tests.golden.family import (
    CHANGED,
    NOT_PINNED,
    PARTS,
    VERDICTS,
    as_pinned,
    native_of,
    one,
    pinned,
    recorded,
    well_formed,
)
from tests.golden.readers import qwen as reads
from tests.support.rows import rows

HERE = Path(__file__).parent / "qwen"
RECORDED = recorded(HERE)
DIALECT = find("qwen-code")
INPUT = {"command": "echo", "description": "lab", "is_background": False}
CALL = {"tool_name": "run_shell_command", "tool_input": INPUT, "tool_use_id": "toolu_1", "tool_call_id": "call_1"}

TYPES = {
    "InstructionsLoaded": "qwen:InstructionsLoaded",
    "MessageDisplay": "llm:post_response",
    "Notification": "notification",
    "PermissionRequest": "permission:request",
    "PostToolBatch": "tool:batch",
    "PostToolUse": "tool:post_execute",
    "PostToolUseFailure": "tool:error",
    "PreToolUse": "tool:pre_execute",
    "SessionStart": "session:start",
    "Stop": "agent:stop",
    "SubagentStart": "subagent:start",
    "SubagentStop": "subagent:stop",
    "TodoCompleted": "task:completed",
    "TodoCreated": "task:created",
    "UserPromptSubmit": "user:prompt_submit",
}
UNSEEN = {
    "PermissionDenied": "permission:denied",
    "PostCompact": "context:post_compact",
    "PreCompact": "context:pre_compact",
    "SessionDelete": "qwen:SessionDelete",
    "SessionEnd": "session:end",
    "StopFailure": "agent:error",
    "UserPromptExpansion": "user:prompt_expand",
}
"""Events that no run of ours brought about; their names are its documents'."""
TOOLS = {
    "run_shell_command": "bash",
    "write_file": "write",
    "read_file": "read",
    "edit": "edit",
    "agent": "task",
    "todo_write": "todo",
}

SILENT = dict.fromkeys(VERDICTS, "silent")
NOTES = dict.fromkeys(VERDICTS, "note") | {"allow": "silent", "abstain": "silent"}
"""An event that can say nothing of it tells the person what is lost, and why no hook answered."""
_STOP = {"deny": "blocks", "deny+context": "blocks", "oversized": "blocks", "half a pair": "blocks"}
_HOLDS = {"fallback closed": "blocks", "fallback ask": "blocks", "ask": "blocks", "ask+rewrite": "blocks"}
_CONTEXT = {"context": "context", "deny+context": "context", "half a pair": "context"}
_BESIDE = {"context": "context", "deny+context": "blocks+context", "half a pair": "blocks+context"}

EXPECTED: dict[str, dict[str, str]] = {
    # It asks by itself (and denies where nobody is there); a changed input is not applied, so it denies and names it.
    "PreToolUse": NOTES
    | _STOP
    | {
        "ask": "asks",
        "fallback ask": "asks",
        "allow": "allows",
        "fallback closed": "blocks",
        "rewrite": "blocks",
        "allow+rewrite": "blocks",
        "ask+rewrite": "blocks",
    },
    "PermissionRequest": NOTES
    | _STOP
    | {
        "allow": "allows",
        "ask": "silent",
        "allow+rewrite": "changes",
        "rewrite": "blocks",
        "ask+rewrite": "blocks",
        "fallback closed": "blocks",
        "fallback ask": "note",
    },
    "UserPromptSubmit": NOTES | _STOP | _HOLDS | _BESIDE,
    "UserPromptExpansion": NOTES | _STOP | _HOLDS | _BESIDE,
    "PostToolUse": NOTES | _STOP | {"context": "context"},
    "PostToolUseFailure": NOTES | _CONTEXT,
    "PostToolBatch": NOTES | _STOP | _BESIDE,
    "SessionStart": NOTES | _CONTEXT,
    "PreCompact": NOTES | _CONTEXT,
    "Stop": NOTES | _STOP,
    "SubagentStop": NOTES | _STOP,
    "TodoCreated": NOTES | _STOP | {"ask": "blocks", "ask+rewrite": "blocks"},
    "TodoCompleted": NOTES | _STOP,
} | dict.fromkeys(
    (
        "InstructionsLoaded",
        "MessageDisplay",
        "Notification",
        "SubagentStart",
        "PermissionDenied",
        "PostCompact",
        "SessionDelete",
        "SessionEnd",
        "StopFailure",
    ),
    SILENT,
)

_DENY = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"%s}%s}'
_WHY = ',"permissionDecisionReason":"denied: policy P-1"'
OBSERVED = {  # row of the observation: (exit code, stdout, stderr, whether the tool ran)
    "none": (0, "", "", True),
    "allow": (0, _DENY.replace("deny", "allow") % (_WHY, ""), "", True),
    "deny": (0, _DENY % (_WHY, ""), "", False),
    "ask": (0, _DENY.replace("deny", "ask") % (_WHY, ""), "", False),
    "block": (0, '{"decision":"block","reason":"denied: policy P-1"}', "", False),
    "exit-1": (1, "", "denied: policy P-1", True),
    "exit-2": (2, "", "denied: policy P-1", False),
    "exit-3": (3, "", "denied: policy P-1", True),
    "exit-2-silent": (2, "", "", True),
    "exit-2-stdout": (2, "denied: policy P-1", "", True),
    "garbage": (0, "not json", "", True),
    "empty-object": (0, "{}", "", True),
    "unknown-field": (0, '{"extra":1}', "", True),
    "deny-exit1": (1, _DENY % (_WHY, ""), "", False),
    "deny-noise": (0, "starting up\n" + _DENY % (_WHY, ""), "", True),
    "deny-extra": (0, _DENY % (_WHY, ',"extra":1'), "", False),
    "deny-extra-inner": (0, _DENY % (_WHY + ',"extra":1', ""), "", False),
    "deny-no-reason": (0, _DENY % ("", ""), "", False),
    "deny-no-event": (0, _DENY.replace('"hookEventName":"PreToolUse",', "") % (_WHY, ""), "", False),
    "deny-newline": (0, _DENY % (_WHY, "") + "\n", "", False),
    "deny-stderr": (0, _DENY % (_WHY, ""), "a log line", False),
    "stop": (0, '{"continue":false,"stopReason":"denied: policy P-1"}', "", False),
    "context": (0, '{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"x"}}', "", True),
    "rewrite": (0, _DENY.replace("deny", "allow") % (_WHY + ',"updatedInput":{"command":"ls"}', ""), "", True),
    "allow-exit2": (2, _DENY.replace("deny", "allow") % (_WHY, ""), "denied: policy P-1", False),
    "crash": (-11, "", "", True),
    "missing": (127, "", "not found", True),
}


def test_every_event_is_known_and_most_are_recorded() -> None:
    assert {native_of(path) for path in RECORDED} == set(TYPES)
    assert {native: can.type for native, can in qwen.CAPABILITIES.items()} == TYPES | UNSEEN
    assert set(EXPECTED) == set(qwen.CAPABILITIES)
    assert len(RECORDED) == 25


@pytest.mark.req("B-08")
def test_an_empty_prompt_of_a_tool_round_is_no_new_prompt() -> None:
    types = {
        path.name: DIALECT.read("UserPromptSubmit", path.read_bytes()).type
        for path in RECORDED
        if native_of(path) == "UserPromptSubmit"
    }
    assert sorted(types.values()) == ["turn:start", "user:prompt_submit"]
    assert DIALECT.read("UserPromptSubmit", b'{"prompt": "", "submitted_prompt": "go"}').type == "user:prompt_submit"


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), native_of(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")

    kind = "turn:start" if sent.get("prompt") == "" else TYPES[native]
    assert (event.type, event.source, event.native) == (kind, "qwen", native)
    assert (event.session, event.cwd, event.host) == (sent.get("session_id", ""), sent.get("cwd", ""), "laptop")
    assert event.raw == sent
    given = sent.get("tool_name", "")
    assert (event.native_tool, event.tool) == (given, TOOLS.get(given, given))
    assert event.call == sent.get("tool_use_id", "")
    assert event.output == sent.get("tool_response")
    assert {name: event.input[name] for name in sent.get("tool_input", {})} == sent.get("tool_input", {})
    own = {"session_id", "cwd", "hook_event_name", "tool_name", "tool_input", "tool_use_id", "tool_response"}
    assert event.data == {name: value for name, value in sent.items() if name not in own}
    unpack(encode_event(event))  # it can travel


@pytest.mark.req("B-08", "X-01")
def test_inputs_have_their_canonical_fields() -> None:
    write = DIALECT.read("", (HERE / "captured-PreToolUse-2.json").read_bytes())
    assert (write.input["path"], write.input["content"]) == ("/home/dev/project/lab-note.txt", "hook-lab\n")
    edit = DIALECT.read("", (HERE / "captured-PreToolUse-5.json").read_bytes())
    assert (edit.input["path"], edit.input["old"], edit.input["new"]) == ("/nope", "a", "b")
    agent = DIALECT.read("", (HERE / "captured-PreToolUse-4.json").read_bytes())
    assert agent.input["agent"] == "general-purpose"
    assert canonical_tool("qwen", "monitor") == "bash"
    assert canonical_tool("qwen", "mcp__lab__lab_echo") == "mcp__lab__lab_echo"
    assert [tool_for("qwen", tool) for tool in ("bash", "edit", "read", "todo")] == [
        "run_shell_command",
        "edit",
        "read_file",
        "todo_write",
    ]


@pytest.mark.req("B-08")
def test_a_call_has_the_id_that_no_other_call_has() -> None:
    """Providers repeat tool_call_id from turn to turn; the same verdict must not be given to another call."""
    both = one(DIALECT, "PreToolUse", CALL)
    assert (both.call, both.data["tool_call_id"]) == ("toolu_1", "call_1")
    assert one(DIALECT, "PreToolUse", {**CALL, "tool_use_id": ""}).call == "call_1"


@pytest.mark.req("B-08")
@rows("row", OBSERVED)
def test_the_reader_does_what_qwen_was_seen_to_do(row: str) -> None:
    code, out, err, ran = OBSERVED[row]
    seen = reads("PreToolUse", HookAnswer(code, out.encode(), err.encode()))
    assert (seen.blocked or seen.asked) != ran
    assert seen.changed is None
    assert not seen.context


@pytest.mark.req("B-08")
@rows("native", EXPECTED)
@rows("said", VERDICTS)
def test_qwen_does_what_the_verdict_says(native: str, said: str) -> None:
    answer = DIALECT.render(native, VERDICTS[said], one(DIALECT, native, CALL))
    assert well_formed(answer)
    if said not in NOT_PINNED:
        assert as_pinned(answer) == pinned(HERE).get(native, {}).get(said, {})
    seen = reads(native, answer)
    assert seen.word == EXPECTED[native][said]
    if seen.blocked:
        assert seen.told.strip()
        assert len(seen.told.encode("utf-16-le", "surrogatepass")) // 2 <= qwen.TEXT_LIMIT + 20
    if seen.changed is not None:
        assert seen.changed == {**INPUT, **CHANGED}
    if seen.word in ("silent", "note") and said not in ("allow", "abstain", "fallback open"):
        loud = bool(answer.lost) or "no hook answered" in seen.note or native == "PermissionRequest"
        assert loud or not qwen.CAPABILITIES[native].waits


@pytest.mark.req("B-08")
def test_a_changed_input_is_named_where_it_would_be_dropped() -> None:
    for said in ("rewrite", "allow+rewrite"):
        answer = DIALECT.render("PreToolUse", VERDICTS[said], one(DIALECT, "PreToolUse", CALL))
        told = reads("PreToolUse", answer).told
        assert told == 'A hook changed the input: call the tool with {"command":"echo better"}. [fleethook trace e1]'
        assert answer.lost == ("a changed input became deny: PreToolUse carries none",)
    same = DIALECT.render("PreToolUse", Verdict(updated_input={"command": "echo"}), one(DIALECT, "PreToolUse", CALL))
    assert same == HookAnswer()


@pytest.mark.req("B-08")
def test_a_result_that_is_replaced_takes_the_context_along() -> None:
    seen = reads("PostToolUse", DIALECT.render("PostToolUse", VERDICTS["deny+context"]))
    assert seen.told == "Not on Fridays. [fleethook: no-writes; fleethook trace e1]\n\nBe calm."


@pytest.mark.req("B-08")
def test_texts_fit_and_say_what_was_cut() -> None:
    long = Verdict(decision="deny", event="e1", reason="\U0001f600" * 30_000, contexts=("a" * 9_000,), parts=PARTS)
    told = reads("PreToolUse", DIALECT.render("PreToolUse", long, one(DIALECT, "PreToolUse", CALL))).told
    assert qwen.TEXT_LIMIT - 60 < len(told.encode("utf-16-le")) // 2 <= qwen.TEXT_LIMIT
    assert told.endswith(" characters] [fleethook: no-writes; fleethook trace e1]")
    seen = reads("PreCompact", DIALECT.render("PreCompact", long))
    assert len(seen.context) <= qwen.COMPACT_LIMIT  # it cuts this one earlier, without a word
    kept, _, rest = seen.context.rpartition(" [fleethook cut ")
    assert len(kept) + int(rest.removesuffix(" characters]")) == 9_000
    assert "characters of context were cut" in seen.note


@pytest.mark.req("B-08")
def test_silence_has_no_word_on_stderr() -> None:
    """Qwen Code reads stderr where stdout is empty, and takes any text for an explicit allow."""
    assert reads("PreToolUse", HookAnswer(0, b"", b"fleethook: all quiet")).allowed
    for native in qwen.CAPABILITIES:
        assert DIALECT.render(native, VERDICTS["abstain"], one(DIALECT, native, CALL)) == HookAnswer()


@pytest.mark.req("B-08")
def test_what_a_hook_command_says_by_its_exit_code() -> None:
    """A missing file of ours under --fail-closed exits 2 with text on stderr: that blocks at every gate but one."""
    gates = {native for native, can in qwen.CAPABILITIES.items() if can.type in GATES}
    assert gates == {"PreToolUse", "PermissionRequest", "UserPromptSubmit", "UserPromptExpansion"}
    for native in gates - {"PermissionRequest"}:
        assert reads(native, HookAnswer(2, b"", stderr("fleethook is gone"))).word.startswith("blocks")


@pytest.mark.req("B-08")
def test_events_and_fields_of_tomorrow_pass() -> None:
    payload = b'{"session_id":"s","cwd":"/p","hook_event_name":"QueryEnd","brand_new":{"x":[1]}}'
    later = DIALECT.read("", payload)
    assert (later.type, later.native, later.session) == ("qwen:QueryEnd", "QueryEnd", "s")
    assert later.data == {"brand_new": {"x": [1]}}
    assert DIALECT.render("QueryEnd", VERDICTS["deny"], later) == HookAnswer()
