"""Codex CLI's recorded payloads into events, and every kind of verdict back, judged as Codex was seen to read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import codex, find
from bus.agents.degrade import stderr
from bus.events import GATES
from bus.shim.answer import HookAnswer
from bus.tools import canonical_tool, tool_names
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
from tests.golden.readers import codex as reads
from tests.support.rows import rows

HERE = Path(__file__).parent / "codex"
RECORDED = recorded(HERE)
DIALECT = find("codex-cli")
CALL = {"tool_name": "Bash", "tool_input": {"command": "echo"}, "tool_use_id": "call_1"}

TYPES = {
    "Interrupt": "user:interrupt",
    "PermissionRequest": "permission:request",
    "PostCompact": "context:post_compact",
    "PostToolUse": "tool:post_execute",
    "PreCompact": "context:pre_compact",
    "PreToolUse": "tool:pre_execute",
    "SessionEnd": "session:end",
    "SessionStart": "session:start",
    "Stop": "agent:stop",
    "SubagentStart": "subagent:start",
    "SubagentStop": "subagent:stop",
    "UserPromptSubmit": "user:prompt_submit",
}
TOOLS = {"Bash": "bash", "apply_patch": "edit", "spawn_agent": "task", "view_image": "read"}

SILENT = dict.fromkeys(VERDICTS, "silent")
NOTES = dict.fromkeys(VERDICTS, "note") | {"allow": "silent", "abstain": "silent"}
"""An event that can say nothing of it tells the person what is lost, and why no hook answered."""
_STOP = {"deny": "blocks", "deny+context": "blocks", "oversized": "blocks", "half a pair": "blocks"}
_HOLDS = {"fallback closed": "blocks", "fallback ask": "blocks", "ask": "blocks", "ask+rewrite": "blocks"}
_CONTEXT = {"context": "context", "deny+context": "context", "half a pair": "context"}
_BESIDE = {"context": "context", "deny+context": "blocks+context", "half a pair": "blocks+context"}

EXPECTED: dict[str, dict[str, str]] = {
    # ask is not there, so it denies; an allow alone would make the answer void, so it is silence; a rewrite applies.
    "PreToolUse": NOTES | _STOP | _HOLDS | _BESIDE | {"rewrite": "changes", "allow+rewrite": "changes"},
    # Silence asks the person; a changed input would make the answer void, so it denies and names it.
    "PermissionRequest": NOTES
    | _STOP
    | {
        "allow": "allows",
        "ask": "silent",
        "rewrite": "blocks",
        "allow+rewrite": "blocks",
        "ask+rewrite": "blocks",
        "fallback closed": "blocks",
        "fallback ask": "note",
    },
    "UserPromptSubmit": NOTES | _STOP | _HOLDS | _BESIDE,
    "PostToolUse": NOTES | _STOP | _BESIDE,
    "PreCompact": NOTES | _STOP | {"ask": "blocks", "ask+rewrite": "blocks"},
    "Stop": NOTES | _STOP,
    "SubagentStop": NOTES | _STOP,
    "SessionStart": NOTES | _CONTEXT,
    "SubagentStart": NOTES | _CONTEXT,
    "PostCompact": SILENT,
    "Interrupt": SILENT,
    "SessionEnd": SILENT,
}

_DENY = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"%s}%s}'
_WHY = ',"permissionDecisionReason":"denied: policy P-1"'
OBSERVED = {  # row of the observation: (exit code, stdout, stderr, whether the tool ran)
    "none": (0, "", "", True),
    "deny": (0, _DENY % (_WHY, ""), "", False),
    "deny-newline": (0, _DENY % (_WHY, "") + "\n", "", False),
    "deny-stderr": (0, _DENY % (_WHY, ""), "a log line", False),
    "deny-exit1": (1, _DENY % (_WHY, ""), "", True),
    "deny-noise": (0, "starting up\n" + _DENY % (_WHY, ""), "", True),
    "deny-extra": (0, _DENY % (_WHY, ',"extra":1'), "", True),
    "deny-extra-inner": (0, _DENY % (_WHY + ',"extra":1', ""), "", True),
    "deny-no-reason": (0, _DENY % ("", ""), "", True),
    "deny-no-event": (0, _DENY.replace('"hookEventName":"PreToolUse",', "") % (_WHY, ""), "", True),
    "deny with half a pair": (0, _DENY % (r',"permissionDecisionReason":"\ud83d"', ""), "", True),
    "deny with a message": (0, _DENY % (_WHY, ',"systemMessage":"note"'), "", False),
    "ask": (0, _DENY.replace("deny", "ask") % (_WHY, ""), "", True),
    "allow alone": (0, _DENY.replace("deny", "allow") % ("", ""), "", True),
    "block": (0, '{"decision":"block","reason":"denied: policy P-1"}', "", False),
    "stop": (0, '{"continue":false,"stopReason":"denied: policy P-1"}', "", True),
    "unknown-field": (0, '{"extra":1}', "", True),
    "empty-object": (0, "{}", "", True),
    "garbage": (0, "not json", "", True),
    "exit-1": (1, "", "denied: policy P-1", True),
    "exit-2": (2, "", "denied: policy P-1", False),
    "exit-2-silent": (2, "", "", True),
    "exit-2-stdout": (2, "denied: policy P-1", "", True),
    "allow-exit2": (2, _DENY.replace("deny", "allow") % (_WHY, ""), "denied: policy P-1", False),
    "exit-3": (3, "", "denied: policy P-1", True),
    "crash": (-11, "", "", True),
    "missing": (127, "", "not found", True),
}


def test_every_event_is_recorded() -> None:
    assert {native_of(path) for path in RECORDED} == set(TYPES) == set(codex.CAPABILITIES) == set(EXPECTED)
    assert len(RECORDED) == 22


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), native_of(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")

    assert (event.type, event.source, event.native) == (TYPES[native], "codex", native)
    assert (event.session, event.cwd, event.host) == (sent["session_id"], sent["cwd"], "laptop")
    assert event.raw == sent
    given = sent.get("tool_name", "")
    assert (event.native_tool, event.tool) == (given, TOOLS.get(given, given))
    assert event.call == sent.get("tool_use_id", "")
    assert event.output == sent.get("tool_response")
    assert {name: event.input[name] for name in sent.get("tool_input", {})} == sent.get("tool_input", {})
    own = {"session_id", "cwd", "hook_event_name", "tool_name", "tool_input", "tool_use_id", "tool_response"}
    assert event.data == {name: value for name, value in sent.items() if name not in own}
    unpack(encode_event(event))  # it can travel
    assert DIALECT.read("", path.read_bytes()).native == native


@pytest.mark.req("B-08", "X-01")
def test_inputs_have_their_canonical_fields() -> None:
    shell = DIALECT.read("", (HERE / "captured-PreToolUse-1.json").read_bytes())
    assert shell.input["command"] == "echo hook-lab | tee -a ran.txt"
    patch = DIALECT.read("", (HERE / "documented-PreToolUse-2.json").read_bytes())
    assert patch.input["path"].endswith("probe-note.txt")
    assert patch.input["patch"].startswith("*** Begin Patch")
    assert tool_names(patch.tool, patch.native_tool) == ("edit", "write", "apply_patch")
    agent = DIALECT.read("", (HERE / "captured-PreToolUse-2.json").read_bytes())
    assert agent.input["prompt"].startswith("LAB-SUBAGENT")
    for shells in ("shell", "shell_command", "local_shell", "exec_command", "container.exec", "write_stdin"):
        assert canonical_tool("codex", shells) == "bash"


@pytest.mark.req("B-08")
@rows("row", OBSERVED)
def test_the_reader_does_what_codex_was_seen_to_do(row: str) -> None:
    code, out, err, ran = OBSERVED[row]
    assert reads("PreToolUse", HookAnswer(code, out.encode(), err.encode())).blocked != ran


@pytest.mark.req("B-08")
@rows("native", EXPECTED)
@rows("said", VERDICTS)
def test_codex_does_what_the_verdict_says(native: str, said: str) -> None:
    event = one(DIALECT, native, CALL)
    answer = DIALECT.render(native, VERDICTS[said], event)
    assert well_formed(answer)
    if said not in NOT_PINNED:
        assert as_pinned(answer) == pinned(HERE).get(native, {}).get(said, {})
    seen = reads(native, answer)
    assert seen.word == EXPECTED[native][said]
    if seen.blocked:
        assert seen.told.strip()
        assert len(seen.told.encode()) <= codex.TEXT_LIMIT
    if seen.changed is not None:
        assert seen.changed == CHANGED
    if seen.word in ("silent", "note") and said not in ("allow", "abstain", "fallback open"):
        loud = bool(answer.lost) or "no hook answered" in seen.note or native == "PermissionRequest"
        assert loud or not codex.CAPABILITIES[native].waits


@pytest.mark.req("B-08")
def test_an_allow_is_silence_and_stands_in_the_record() -> None:
    answer = DIALECT.render("PreToolUse", VERDICTS["allow"], one(DIALECT, "PreToolUse", CALL))
    assert answer[:3] == (0, b"", b"")
    assert answer.lost == ("an allow became silence: PreToolUse has none, so Codex CLI's own rules decide",)


@pytest.mark.req("B-08")
def test_the_model_reads_why_and_what_instead() -> None:
    deny = reads("PreToolUse", DIALECT.render("PreToolUse", VERDICTS["deny"], one(DIALECT, "PreToolUse", CALL)))
    assert deny.told == "Not on Fridays. Instead: wait. [fleethook: no-writes; fleethook trace e1]"
    assert deny.note == "fleethook: blocked by no-writes (fleethook.yaml:12) (fleethook trace e1)"
    ask = reads("PreToolUse", DIALECT.render("PreToolUse", VERDICTS["ask"], one(DIALECT, "PreToolUse", CALL)))
    assert ask.told.startswith("It is shared. A person has to approve it, and Codex CLI cannot ask for that at PreTool")
    named = reads(
        "PermissionRequest",
        DIALECT.render("PermissionRequest", VERDICTS["allow+rewrite"], one(DIALECT, "PermissionRequest", CALL)),
    )
    assert named.told == 'A hook changed the input: call the tool with {"command":"echo better"}. [fleethook trace e1]'
    assert "trusted" not in named.note  # who allowed a changed input did not deny this one
    goes_on = reads("Stop", DIALECT.render("Stop", VERDICTS["deny"]))
    assert goes_on.told.startswith("Not on Fridays.")


@pytest.mark.req("B-08")
def test_texts_fit_in_codex_own_bytes_and_say_what_was_cut() -> None:
    long = Verdict(decision="deny", event="e1", reason="\u20ac" * 30_000, contexts=("\u20ac" * 4_000,), parts=PARTS)
    seen = reads("PreToolUse", DIALECT.render("PreToolUse", long, one(DIALECT, "PreToolUse", CALL)))
    for text in (seen.told, seen.context):
        assert codex.TEXT_LIMIT - 100 < len(text.encode()) <= codex.TEXT_LIMIT
        assert "\ufffd" not in text
    assert seen.told.endswith(" characters] [fleethook: no-writes; fleethook trace e1]")
    kept, _, rest = seen.context.rpartition(" [fleethook cut ")
    assert len(kept) + int(rest.removesuffix(" characters]")) == 4_000


@pytest.mark.req("B-08")
def test_half_a_pair_never_reaches_codex() -> None:
    """One escape like \\ud83d makes Codex drop the whole answer, and with it a deny."""
    event = one(DIALECT, "PreToolUse", CALL)
    for native in EXPECTED:
        assert rb"\ud" not in DIALECT.render(native, VERDICTS["half a pair"], event).stdout
    whole = DIALECT.render("PreToolUse", Verdict(decision="deny", reason="\ud83d\ude00", parts=PARTS), event)
    assert reads("PreToolUse", whole).told.startswith("\U0001f600.")
    changed = DIALECT.render("PreToolUse", Verdict(updated_input={"command": "echo \ud83d"}), event)
    seen = reads("PreToolUse", changed)
    assert seen.word == "blocks"
    assert r'{"command":"echo \ud83d"}' in seen.told


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("call", "updated", "word"),
    [
        (CALL, {"command": "echo"}, "silent"),  # nothing changes
        (CALL, {"cwd": "/elsewhere"}, "blocks"),  # Codex reads the command alone, and would drop the rest
        (CALL, {"command": "ls", "cwd": "/elsewhere"}, "blocks"),
        ({"tool_name": "apply_patch", "tool_input": {"command": "x"}}, {"patch": "y"}, "changes"),
        ({"tool_name": "apply_patch", "tool_input": {"command": "*** Add File: a"}}, {"path": "b"}, "blocks"),
        ({"tool_name": "mcp__lab__echo", "tool_input": {"text": "x"}}, {"loud": True}, "changes"),
        ({"tool_name": "spawn_agent", "tool_input": {"message": "x"}}, {"prompt": "y"}, "changes"),
    ],
)
def test_a_changed_input_is_whole_or_a_deny(call: dict[str, Any], updated: dict[str, Any], word: str) -> None:
    event = one(DIALECT, "PreToolUse", call)
    seen = reads("PreToolUse", DIALECT.render("PreToolUse", Verdict(updated_input=updated), event))
    assert seen.word == word
    if word == "changes":
        assert seen.changed is not None
        assert seen.changed.keys() >= call["tool_input"].keys()
        assert seen.changed != call["tool_input"]
    blind = DIALECT.render("PreToolUse", Verdict(decision="allow", updated_input=updated))
    assert reads("PreToolUse", blind).word == "blocks"


@pytest.mark.req("B-08")
def test_what_a_hook_command_says_by_its_exit_code() -> None:
    """A missing file of ours under --fail-closed exits 2 with text on stderr: that blocks at every gate."""
    gates = {native for native, can in codex.CAPABILITIES.items() if can.type in GATES}
    assert gates == {"PreToolUse", "PermissionRequest", "UserPromptSubmit"}
    for native in gates:
        assert reads(native, HookAnswer(2, b"", stderr("fleethook is gone"))).word == "blocks"


@pytest.mark.req("B-08")
def test_events_and_fields_of_tomorrow_pass() -> None:
    payload = b'{"session_id":"s","cwd":"/p","hook_event_name":"PreModelRequest","brand_new":{"x":[1]}}'
    later = DIALECT.read("", payload)
    assert (later.type, later.native, later.session) == ("codex:PreModelRequest", "PreModelRequest", "s")
    assert later.data == {"brand_new": {"x": [1]}}
    assert DIALECT.render("PreModelRequest", VERDICTS["deny"], later) == HookAnswer()
    odd = DIALECT.read("PreToolUse", b'{"tool_name":"js_repl","tool_input":"text","transcript_path":null}')
    assert (odd.tool, odd.input, odd.data) == ("js_repl", {}, {"tool_input": "text", "transcript_path": None})
