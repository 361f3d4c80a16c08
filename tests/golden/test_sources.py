"""pigo, Forge, Gobby and ion as agents: what their programs send, as events; and what they are told, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import msgspec
import pytest

from bus.agents import claude, find, pigo
from bus.agents.event_facts import model, output_text, tokens, tool_failed, turn_number, user_message
from bus.agents.gobby import EVENTS
from bus.errors import DecodeError
from bus.events import Event, EventType
from bus.hookfiles import find_hooks
from bus.hooks import Hook
from bus.shim.answer import HookAnswer
from bus.verdicts import Part, Verdict, failed
from bus.wire.codec import encode_event, unpack
from tests.support.rows import rows

DENY = Verdict(decision="deny", event="e1", reason="no rm", parts=(Part(hook="guard", decision="deny"),))
ASK = Verdict(decision="ask", event="e1", reason="who says so")
CONTEXT = Verdict(event="e1", contexts=("CI is frozen.",))
REWRITE = Verdict(event="e1", updated_input={"command": "ls"})
REASON = "no rm. [fleethook: guard; fleethook trace e1]"


def read(source: str, payload: object, native: str = "") -> Event:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    event = find(source).read(native, raw, host="laptop")
    unpack(encode_event(event))  # it can travel
    return event


# --- pigo

PIGO = {
    "PIGO_EVENT": "tool_start",
    "PIGO_WORK_DIR": "/w",
    "PIGO_MODEL": "gpt-4o",
    "PIGO_USER_MESSAGE": "hello",
    "PIGO_ASSISTANT_MESSAGE": "hi",
    "PIGO_TOOL_NAME": "bash",
    "PIGO_TOOL_ARGS": '{"command":"rm -rf x"}',
    "PIGO_TOOL_INPUT": "rm -rf x",
}


@pytest.mark.req("P-04", "P-05", "P-06", "B-08")
def test_pigos_variables_are_an_event() -> None:
    event = read("pigo", PIGO)
    assert (event.type, event.source, event.native) == ("tool:pre_execute", "pigo", "tool_start")
    assert (event.cwd, event.tool, event.input) == ("/w", "bash", {"command": "rm -rf x"})
    assert (model(event), user_message(event), event.data["assistant_message"]) == ("gpt-4o", "hello", "hi")
    assert event.raw == PIGO
    plain = {name.removeprefix("PIGO_").lower(): value for name, value in PIGO.items()}
    assert read("pigo", {**plain, "tool_args": {"command": "rm -rf x"}}).input == event.input
    assert read("pigo", {"event": "tool_start", "tool_name": "bash", "tool_input": "ls"}).input == {"command": "ls"}
    assert read("pigo", {"tool_name": "write", "tool_args": {"path": "a", "content": ""}}, "tool_start").input == {
        "path": "a",
        "content": "",
    }


@pytest.mark.req("P-04", "P-07", "P-08")
def test_pigos_other_moments() -> None:
    ended = read("pigo", {**PIGO, "PIGO_EVENT": "tool_end", "PIGO_TOOL_OUTPUT": "x" * 9, "PIGO_TOOL_ERROR": "false"})
    assert (ended.type, output_text(ended), tool_failed(ended)) == ("tool:post_execute", "x" * 9, False)
    broken = read("pigo", {**PIGO, "PIGO_EVENT": "tool_end", "PIGO_TOOL_OUTPUT": "no", "PIGO_TOOL_ERROR": "true"})
    assert (broken.type, tool_failed(broken)) == ("tool:error", True)
    for name, kind in (("turn_start", "turn:start"), ("turn_end", "turn:end")):
        turn = read("pigo", {"PIGO_EVENT": name, "PIGO_TURN_NUMBER": "3"})
        assert (turn.type, turn_number(turn)) == (kind, "3")
    assert [read("pigo", {"event": name}).type for name in ("agent_start", "agent_end", "later")] == [
        "agent:start",
        "agent:end",
        "pigo:later",
    ]


@pytest.mark.req("P-05", "P-06")
def test_what_a_hook_of_pigo_has_in_its_environment_is_sent_without_the_rest() -> None:
    """pigo's hooks get nothing on stdin: the installed command sends their variables."""
    if shutil.which("awk") is None:
        pytest.skip("awk is not installed")
    odd = {**PIGO, "PIGO_USER_MESSAGE": 'two\nlines, "quotes" & %s é'}
    sent = subprocess.run(
        ["/bin/sh", "-c", pigo.SENDS],
        env={"PATH": os.environ["PATH"], "SECRET": "s", **odd},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert sent.stderr == b""
    event = read("pigo", sent.stdout)
    assert event.raw == odd
    assert (event.tool, event.input, event.data["user_message"]) == (
        "bash",
        {"command": "rm -rf x"},
        odd["PIGO_USER_MESSAGE"],
    )


@pytest.mark.req("P-04", "P-10")
def test_pigo_is_told_by_an_exit_code_and_output() -> None:
    event, answer = read("pigo", PIGO), find("pigo").render
    assert answer("tool_start", DENY, event) == HookAnswer(2, b"", f"{REASON}\n".encode())
    assert (
        answer("tool_start", Verdict(), event) == answer("tool_start", failed("allow", "away"), event) == HookAnswer()
    )
    assert answer("tool_start", failed("deny", "away"), event).exit_code == 2
    asked, changed = answer("tool_start", ASK, event), answer("tool_start", REWRITE, event)
    assert (asked.exit_code, asked.lost) == (2, ("ask became deny: tool_start cannot ask",))
    assert (changed.exit_code, changed.lost) == (2, ("a changed input became deny: tool_start carries none",))
    assert b'call the tool with {"command":"ls"}' in changed.stderr
    assert answer("tool_start", CONTEXT, event) == HookAnswer(lost=("context was dropped: tool_start takes none",))
    assert all(answer(name, DENY) == HookAnswer() for name in (*pigo.CAPABILITIES, "later") if name != "tool_start")


# --- Forge


def forge(kind: str, tool: str | None = None, **data: Any) -> dict[str, Any]:
    """What `HookEvent.to_json()` writes."""
    return {"type": kind, "timestamp": 1795311862.5, "data": data, "tool_name": tool, "session_id": "s1"}


@pytest.mark.req("F-01", "F-02", "F-07", "B-08")
def test_forges_events_are_canonical_by_name() -> None:
    own = [kind.value for kind in list(EventType)[:16]]
    assert list(find("forge").capabilities) == own
    for kind in own:
        event = read("forge", forge(kind))
        assert (event.type, event.native, event.session, event.data) == (kind, kind, "s1", {"timestamp": 1795311862.5})
    call = read("forge", forge("tool:post_execute", "bash", tool_args={"command": "ls"}, tool_result={"success": True}))
    assert (call.tool, call.input, call.output) == ("bash", {"command": "ls"}, {"success": True})
    cost = read("forge", forge("llm:post_response", llm_model="m", llm_tokens=15))
    assert (model(cost), tokens(cost)) == ("m", "15")
    prompt = read("forge", forge("user:prompt_submit", user_input="hi"))
    assert user_message(prompt) == "hi"
    level = read("forge", forge("permission:check", "write", perm_level="ask", perm_rule="r1", tool_args={"x": 1}))
    assert (level.data["perm_level"], level.data["perm_rule"], level.tool) == ("ask", "r1", "write")
    assert read("forge", forge("my:own")).type == "forge:my:own"


@pytest.mark.req("F-02", "F-07")
def test_a_hook_of_forge_reads_what_forge_sent() -> None:
    """There and back: the variables and the JSON that Forge itself would have given its hook."""
    sent = forge("tool:pre_execute", "bash", tool_args={"command": "ls"})
    event, hook = read("forge", sent), Hook(id="h", on=("*",), command="true", dialect="forge")
    variables = find_hooks("forge").variables(hook, event)
    assert (variables["FORGE_EVENT"], variables["FORGE_TOOL_NAME"], variables["FORGE_SESSION_ID"]) == (
        "tool:pre_execute",
        "bash",
        "s1",
    )
    assert json.loads(variables["FORGE_TOOL_ARGS"]) == {"command": "ls"}
    said = json.loads(find_hooks("forge").stdin(hook, event))
    assert {name: said[name] for name in ("type", "tool_name", "session_id")} == {
        "type": "tool:pre_execute",
        "tool_name": "bash",
        "session_id": "s1",
    }
    assert said["data"]["tool_args"] == {"command": "ls"}


@pytest.mark.req("F-10")
def test_forge_is_told_by_a_hooks_ending() -> None:
    event = read("forge", forge("tool:pre_execute", "Write", tool_args={"file_path": "/a", "content": "x"}))
    assert (event.tool, event.input["path"]) == ("write", "/a")
    answer = find("forge").render
    assert answer("tool:pre_execute", DENY, event) == HookAnswer(2, b"", f"{REASON}\n".encode())
    changed = answer("tool:pre_execute", Verdict(updated_input={"path": "/b"}), event)
    assert changed == HookAnswer(0, b'{"tool_args":{"file_path":"/b","content":"x"}}')
    assert answer("tool:pre_execute", Verdict(), event) == HookAnswer()
    for kind, code in (("llm:pre_request", 2), ("user:prompt_submit", 2), ("tool:post_execute", 0), ("session:end", 0)):
        assert answer(kind, DENY, read("forge", forge(kind))).exit_code == code
    assert answer("tool:pre_execute", ASK, event).lost == ("ask became deny: tool:pre_execute cannot ask",)


# --- Gobby


def gobby(kind: str, **more: Any) -> dict[str, Any]:
    """One of Gobby's unified events."""
    return {
        "event_type": kind,
        "session_id": "s1",
        "source": "claude",
        "timestamp": "2026-11-22T01:00:00+00:00",
        "data": {"tool_name": "Bash", "tool_input": {"command": "ls"}, **more.pop("data", {})},
        "machine_id": "m1",
        "cwd": "/w",
        "project_id": "p1",
        **more,
    }


@pytest.mark.req("G-01", "B-08", "X-01")
def test_gobbys_events_are_canonical() -> None:
    event = read("gobby", gobby("before_tool", data={"tool_use_id": "t1"}))
    assert (event.type, event.source, event.native) == ("tool:pre_execute", "gobby", "before_tool")
    assert (event.session, event.cwd, event.tool, event.native_tool, event.call) == ("s1", "/w", "bash", "Bash", "t1")
    assert (event.input, event.data["agent"], event.data["project_id"]) == ({"command": "ls"}, "claude", "p1")
    assert find("gobby").read("before_tool", json.dumps(gobby("x")).encode()).host == "m1"
    for name, types in EVENTS.items():
        assert read("gobby", gobby(name)).type == str(types[0])
    posted = {
        "hook_type": "pre-tool-use",
        "source": "gemini",
        "input_data": {
            "tool_name": "run_shell_command",
            "tool_input": {"command": "ls"},
            "session_id": "s2",
            "cwd": "/v",
        },
    }
    raw = read("gobby", posted)
    assert (raw.native, raw.tool, raw.session, raw.cwd) == ("before_tool", "bash", "s2", "/v")
    assert read("gobby", gobby("after_tool", data={"error": "boom"})).type == "tool:error"
    assert read("gobby", gobby("event_of_tomorrow")).type == "gobby:event_of_tomorrow"


@pytest.mark.req("G-01")
def test_gobby_is_told_by_a_response() -> None:
    event = read("gobby", gobby("before_tool"))

    def told(verdict: Verdict, native: str = "before_tool") -> Any:
        answer = find("gobby").render(native, verdict, event)
        assert (answer.exit_code, answer.stderr) == (0, b"")
        return json.loads(answer.stdout) if answer.stdout else None

    assert told(Verdict()) == {"decision": "allow"}
    denied = {
        "decision": "deny",
        "reason": REASON,
        "system_message": "fleethook: blocked by guard (fleethook trace e1)",
    }
    assert told(DENY) == told(DENY, "PreToolUse") == denied
    assert told(ASK)["decision"] == "ask"
    assert told(CONTEXT) == {"decision": "allow", "context": "CI is frozen."}
    assert told(REWRITE) == {"decision": "allow"}, "it is what the call says already"
    assert told(Verdict(updated_input={"command": "pwd"}))["modified_input"] == {"command": "pwd"}
    assert told(Verdict(decision="allow", event="e1"))["auto_approve"] is True
    assert told(failed("deny", "away", event="e1"), "stop") == {
        "decision": "allow",
        "system_message": "fleethook: no hook answered (away): nothing blocked (fleethook trace e1)",
    }
    assert told(DENY, "session_end") is None


# --- ion

ION = {
    "event": "PreToolUse",
    "session_id": "s1",
    "cwd": "/w",
    "tool_name": "bash",
    "tool_input": {"command": "ls"},
}


@pytest.mark.req("I-01", "I-02", "B-08")
def test_ions_events_are_claude_codes_with_its_own_names() -> None:
    event = read("ion", ION)
    assert (event.type, event.source, event.native, event.session, event.cwd) == (
        "tool:pre_execute",
        "ion",
        "PreToolUse",
        "s1",
        "/w",
    )
    assert (event.tool, event.input, event.data, event.raw) == ("bash", {"command": "ls"}, {}, ION)
    after = read("ion", {**ION, "event": "PostToolUse", "tool_output": "a b"})
    assert (after.type, after.output, after.data) == ("tool:post_execute", "a b", {})
    theirs = {**ION, "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    assert (read("ion", theirs).tool, read("ion", theirs).type) == ("bash", "tool:pre_execute")
    assert user_message(read("ion", {"event": "UserPromptSubmit", "prompt": "hi"})) == "hi"
    wanted = {
        "SessionStart",
        "SessionEnd",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "Stop",
        "Notification",
    }
    assert wanted <= set(find("ion").capabilities)
    assert {can.unit for can in find("ion").capabilities.values()} == {"ms"}


@pytest.mark.req("I-03")
@rows("native", ["PreToolUse", "UserPromptSubmit", "Stop", "PostToolUse", "SessionStart"])
@rows("verdict", [DENY, CONTEXT, Verdict(), failed("deny", "away")], ids=lambda one: one.decision)
def test_ion_is_told_as_claude_code_is_but_for_a_deny(native: str, verdict: Verdict) -> None:
    theirs = claude.DIALECT.render(
        native, verdict, find("claude").read(native, b'{"tool_name":"Bash","tool_input":{}}')
    )
    own = find("ion").render(native, verdict, read("ion", {"event": native, "tool_name": "Bash", "tool_input": {}}))
    if verdict.decision == "deny" and find("ion").capabilities[native].block and not own.stdout:
        assert own.exit_code == 2
        assert b"fleethook" in own.stderr
    else:
        assert own == theirs


@pytest.mark.req("I-03")
@pytest.mark.parametrize("native", ["PreToolUse", "UserPromptSubmit", "PreCompact", "Stop"])
def test_a_deny_to_ion_is_exit_2_with_the_reason_on_stderr(native: str) -> None:
    event = read("ion", {"event": native, "tool_name": "Bash", "tool_input": {}})
    verdict = msgspec.structs.replace(DENY, contexts=("CI is frozen.",))
    answer = find("ion").render(native, verdict, event)
    assert (answer.exit_code, answer.stdout) == (2, b"")
    assert answer.stderr.startswith(b"no rm.")
    if find("ion").capabilities[native].context:
        assert b"CI is frozen." in answer.stderr


@pytest.mark.req("B-08")
@rows("source", ["pigo", "forge", "gobby", "ion"])
@rows("payload", [b"", b"[1]", b"null", b"{}", b'{"a":NaN}', b'{"event":5,"type":1}', b"\xff", b"PIGO_"])
def test_what_is_no_payload_is_refused(source: str, payload: bytes) -> None:
    with pytest.raises(DecodeError):
        find(source).read("", payload)
