"""Copilot CLI's documented payloads, in both spellings, into events; every kind of verdict as the exact bytes it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import copilot, find
from bus.errors import DecodeError
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict
from tests.golden import matrix
from tests.support.rows import rows

DIALECT = find("github-copilot")
RECORDED = matrix.recorded("copilot")

TYPES = {
    "sessionStart": "session:start",
    "sessionEnd": "session:end",
    "userPromptSubmitted": "user:prompt_submit",
    "userPromptTransformed": "llm:pre_request",
    "preToolUse": "tool:pre_execute",
    "postToolUse": "tool:post_execute",
    "postToolUseFailure": "tool:error",
    "permissionRequest": "permission:request",
    "agentStop": "agent:stop",
    "subagentStart": "subagent:start",
    "subagentStop": "subagent:stop",
    "errorOccurred": "agent:error",
    "preCompact": "context:pre_compact",
    "notification": "notification",
}
PASCAL = {
    "SessionStart": "sessionStart",
    "SessionEnd": "sessionEnd",
    "UserPromptSubmit": "userPromptSubmitted",
    "PreToolUse": "preToolUse",
    "PostToolUse": "postToolUse",
    "PostToolUseFailure": "postToolUseFailure",
    "PermissionRequest": "permissionRequest",
    "Stop": "agentStop",
    "SubagentStop": "subagentStop",
    "ErrorOccurred": "errorOccurred",
    "PreCompact": "preCompact",
}
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"
FILE = {"path": "/home/dev/project/a.txt", "content": "y"}
TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "documented-preToolUse-1": ("bash", "bash", {"command": "rm -rf dist", "description": "Clean build directory"}),
    "documented-postToolUse-2": ("ReadFile", "ReadFile", {"path": "/tmp/x.py"}),
    "schema-preToolUse-2": ("write", "create", FILE),
    "schema-preToolUse-3": ("edit", "apply_patch", {"input": PATCH, "patch": PATCH, "path": "a.txt"}),
    "schema-preToolUse-4": ("bash", "bash", {"command": "rm -rf dist"}),
    "schema-postToolUse-1": ("bash", "bash", {"command": "false"}),
    "schema-postToolUseFailure-1": ("bash", "bash", {"command": "false"}),
    "schema-permissionRequest-1": ("bash", "bash", {"requestSandboxBypass": True}),
    "schema-PreToolUse-1": ("bash", "Bash", {"command": "rm -rf dist"}),
    "schema-PreToolUse-2": ("write", "Write", FILE),
    "schema-PostToolUse-1": ("read", "Read", {"path": "/home/dev/project/a.txt"}),
    "schema-PostToolUseFailure-1": ("bash", "Bash", {"command": "false"}),
    "schema-PermissionRequest-1": ("bash", "Bash", {"command": "curl https://example.invalid"}),
}
WRITTEN = {"path": "/home/dev/project/a.txt", "file_text": "x"}


def _note(message: str) -> dict[str, Any]:
    """A message to the person, alone."""
    return {"type": "progress", "message": message}


def _decide(decision: str, reason: str, **more: object) -> dict[str, Any]:
    return {"permissionDecision": decision, "permissionDecisionReason": reason, **more}


def _deny(reason: str) -> dict[str, Any]:
    return {"behavior": "deny", "message": reason}


def _other(native: str, **own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What an event says that carries nothing but what is in `own`."""
    unasked = "a hook wanted a person's approval, which {0} cannot ask for: Notes are shared"
    both = f"a changed input was dropped: {{0}} carries none; {unasked}"
    return {
        "deny": _note(matrix.no_block(native)),
        "ask": _note(matrix.no_ask(native)),
        "context": _note(matrix.no_context(native)),
        "rewrite": _note(matrix.no_input(native)),
        "allow+rewrite": _note(matrix.no_input(native)),
        "ask+rewrite": _note(matrix.note(both.format(native))),
        "fallback open": _note(matrix.OPEN),
        "fallback closed": _note(matrix.OPEN),
        "fallback ask": _note(matrix.OPEN),
        **own,
    }


def _answers(native: str, like: str) -> dict[str, dict[str, Any]]:
    context = {"additionalContext": matrix.CONTEXT}
    if like == "preToolUse":
        return {
            "deny": _decide("deny", matrix.DENIED),
            "ask": _decide("ask", matrix.ASKED),
            "allow": _decide("allow", matrix.ALLOWED),
            "context": _note(matrix.no_context(native)),
            "rewrite": _decide("ask", matrix.CHANGED, modifiedArgs=WRITTEN),
            "allow+rewrite": _decide("allow", matrix.ALLOWED, modifiedArgs=WRITTEN),
            "ask+rewrite": _decide("ask", matrix.ASKED, modifiedArgs=WRITTEN),
            "fallback open": _note(matrix.OPEN),
            "fallback closed": _decide("deny", matrix.NO_VERDICT),
            "fallback ask": _decide("ask", matrix.NO_VERDICT_ASK),
        }
    if like == "permissionRequest":  # without an answer it asks the person, so an ask is silence
        return {
            "deny": _deny(matrix.DENIED),
            "allow": {"behavior": "allow"},
            "context": _note(matrix.no_context(native)),
            "rewrite": _deny(matrix.CALL_IT),
            "allow+rewrite": _deny(matrix.CALL_IT),
            "ask+rewrite": _deny(matrix.ASKED_CALL_IT),
            "fallback open": _note(matrix.OPEN),
            "fallback closed": _deny(matrix.NO_VERDICT),
            "fallback ask": _note(matrix.OPEN),
        }
    if like in ("agentStop", "subagentStop"):
        return _other(native, deny={"decision": "block", "reason": matrix.DENIED})
    if like in ("postToolUse", "postToolUseFailure"):
        return _other(native, deny={"additionalContext": matrix.DENIED}, context=context)
    if like in ("sessionStart", "subagentStart"):
        return _other(native, context=context)
    if like == "userPromptTransformed":
        return _other(native, context={"modifiedTransformedPrompt": f"<context/>\nFix it\n\n{matrix.CONTEXT}"})
    return {}  # it reads nothing here


NATIVES = {**{name: name for name in TYPES}, **PASCAL}


def _event(native: str) -> Event:
    return matrix.sample(DIALECT, "copilot", native, "2" if native.lower() == "pretooluse" else "")


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), matrix.native_of(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")
    matrix.check_kept(event, sent)

    failed = path.stem == "schema-postToolUse-1"  # older versions have no event of its own for this
    assert event.type == ("tool:error" if failed else TYPES[NATIVES[native]])
    assert (event.source, event.native, event.host, event.cwd) == ("copilot", native, "laptop", sent["cwd"])
    assert event.session == sent.get("sessionId", sent.get("session_id", ""))
    tool, own, fields = TOOLS.get(path.stem, ("", "", {}))
    assert (event.tool, event.native_tool) == (tool, own)
    assert {name: event.input[name] for name in fields} == fields
    assert event.output == sent.get("toolResult", sent.get("tool_result"))
    taken = {"sessionId", "session_id", "cwd", "hook_event_name", "toolResult", "tool_result"}
    if own:
        taken |= {"toolName", "tool_name", "toolArgs", "tool_input", "toolInput"}
    assert event.data == {name: value for name, value in sent.items() if name not in taken}


@pytest.mark.req("B-08")
def test_every_event_is_known_in_both_spellings_and_subscribed_in_one() -> None:
    assert set(NATIVES) == set(copilot.CAPABILITIES) == {matrix.native_of(path) for path in RECORDED}
    assert {native: can.type for native, can in copilot.CAPABILITIES.items()} == {
        native: TYPES[like] for native, like in NATIVES.items()
    }
    assert set(PASCAL) | {"userPromptTransformed"} == copilot.QUIET
    closed = {native for native, can in copilot.CAPABILITIES.items() if can.failure == "closed"}
    assert closed == {"preToolUse", "PreToolUse"}
    assert {can.timeout for can in copilot.CAPABILITIES.values()} == {30.0}
    assert not copilot.NEVER


@pytest.mark.req("B-08")
@rows("native", NATIVES)
@rows("said", matrix.VERDICTS)
def test_a_verdict_goes_back_in_these_bytes(native: str, said: str) -> None:
    expected = _answers(native, NATIVES[native]).get(said)
    matrix.same(
        DIALECT.render(native, matrix.VERDICTS[said], _event(native)),
        matrix.line(expected) if expected else HookAnswer(),
    )


@pytest.mark.req("B-08")
def test_a_changed_input_is_the_whole_input_or_a_deny() -> None:
    text = matrix.sample(DIALECT, "copilot", "preToolUse", "documented-preToolUse-1")  # its arguments came as a text
    changed = Verdict(decision="allow", updated_input={"command": "ls"})
    assert json.loads(DIALECT.render("preToolUse", changed, text).stdout)["modifiedArgs"] == {
        "command": "ls",
        "description": "Clean build directory",
    }
    patch = matrix.sample(DIALECT, "copilot", "preToolUse", "schema-preToolUse-3")
    for event in (patch, None):  # a bare text cannot be given back as an object
        answer = json.loads(DIALECT.render("preToolUse", changed, event).stdout)
        assert answer["permissionDecision"] == "deny"
        assert '{"command":"ls"}' in answer["permissionDecisionReason"]
    assert DIALECT.render("preToolUse", Verdict(updated_input={"command": "rm -rf dist"}), text) == HookAnswer()


@pytest.mark.req("B-08")
def test_what_it_cannot_be_told_is_named() -> None:
    assert DIALECT.render("postToolUse", matrix.VERDICTS["deny"]).lost == (
        "a block became context: postToolUse cannot block",
    )
    assert DIALECT.render("permissionRequest", matrix.VERDICTS["ask"]).lost == ()
    assert DIALECT.render("permissionRequest", matrix.VERDICTS["rewrite"]).lost == (
        "a changed input became deny: permissionRequest carries none",
    )
    assert DIALECT.render("userPromptTransformed", matrix.VERDICTS["context"]).lost == (
        "context was dropped: userPromptTransformed takes none",  # nobody knows the prompt that it would be put to
    )


@pytest.mark.req("B-08")
@pytest.mark.parametrize("native", [name for name, can in copilot.CAPABILITIES.items() if can.block])
def test_odd_and_long_texts(native: str) -> None:
    assert matrix.ODD_REASON in json.loads(DIALECT.render(native, matrix.ODD).stdout).values()
    long = json.loads(DIALECT.render(native, matrix.oversized(20_000)).stdout)
    assert max(len(text.encode()) for text in matrix.texts(long)) <= copilot.TEXT_LIMIT


@pytest.mark.req("B-08")
def test_long_context_is_cut_to_what_it_keeps() -> None:
    said = json.loads(DIALECT.render("postToolUse", matrix.oversized(20_000)).stdout)
    assert len(said["additionalContext"].encode()) <= copilot.TEXT_LIMIT
    assert said["additionalContext"].rpartition(" [fleethook cut ")[2].endswith(" characters]")


@pytest.mark.req("B-08")
def test_the_unknown_passes_and_the_unreadable_is_refused() -> None:
    later = DIALECT.read("eventOfTomorrow", b'{"sessionId":"s","brand_new":{"x":1}}')
    assert (later.type, later.session, later.data) == ("copilot:eventOfTomorrow", "s", {"brand_new": {"x": 1}})
    assert DIALECT.render("eventOfTomorrow", matrix.VERDICTS["deny"], later) == HookAnswer()
    assert DIALECT.read("", b'{"hook_event_name":"Stop"}').type == "agent:stop"
    surrogate = rb'{"toolName":"bash","toolArgs":"{\"command\":\"echo \\ud83d\"}"}'
    assert DIALECT.read("preToolUse", surrogate).input["command"] == "echo \ud83d"
    odd = DIALECT.read("preToolUse", b'{"toolName":7,"toolArgs":[1],"cwd":null}')
    assert (odd.tool, odd.input, odd.cwd, odd.data) == ("", {}, "", {"toolName": 7, "toolArgs": [1]})
    broken = DIALECT.read("preToolUse", b'{"toolName":"bash","toolArgs":"{\\"command"}')
    assert broken.input == {"input": '{"command'}
    for wrong in (b"", b"[]", b"{}", b'{"toolName":"bash"}'):
        with pytest.raises(DecodeError):
            DIALECT.read("", wrong)
