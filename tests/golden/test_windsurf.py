"""Windsurf's documented payloads into events, and every kind of verdict as the exit code and the bytes it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find, windsurf
from bus.errors import DecodeError
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict
from tests.golden import matrix
from tests.support.rows import rows

DIALECT = find("cascade")
RECORDED = matrix.recorded("windsurf")

TYPES = {
    "pre_read_code": "tool:pre_execute",
    "post_read_code": "tool:post_execute",
    "pre_write_code": "tool:pre_execute",
    "post_write_code": "tool:post_execute",
    "pre_run_command": "tool:pre_execute",
    "post_run_command": "tool:post_execute",
    "pre_mcp_tool_use": "tool:pre_execute",
    "post_mcp_tool_use": "tool:post_execute",
    "pre_user_prompt": "user:prompt_submit",
    "post_cascade_response": "agent:stop",
    "post_cascade_response_with_transcript": "agent:stop",
    "post_setup_worktree": "windsurf:post_setup_worktree",
}
EDIT = {"path": "/home/dev/project/a.py", "edits": [{"old_string": "x", "new_string": "y"}]}
TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pre_read_code": ("read", "read_code", {"path": "/home/dev/project/.env"}),
    "post_read_code": ("read", "read_code", {"path": "/home/dev/project/a.py"}),
    "pre_write_code": ("edit", "write_code", EDIT),
    "post_write_code": ("edit", "write_code", EDIT),
    "pre_run_command": (
        "bash",
        "run_command",
        {"command": "npm install package-name", "cwd": "/Users/yourname/project"},
    ),
    "post_run_command": ("bash", "run_command", {"command": "make test"}),
    "pre_mcp_tool_use": ("mcp__github__create_issue", "create_issue", {"owner": "code-owner", "title": "Bug report"}),
    "post_mcp_tool_use": ("mcp__github__list_commits", "list_commits", {"perPage": 1}),
}
GATES = ("pre_read_code", "pre_write_code", "pre_run_command", "pre_mcp_tool_use", "pre_user_prompt")


def _block(reason: str) -> HookAnswer:
    return HookAnswer(2, b"", reason.encode() + b"\n")


def _show(message: str) -> HookAnswer:
    return HookAnswer(0, message.encode() + b"\n")


def _answers(native: str) -> dict[str, HookAnswer]:
    """What a gate says: an ask that it cannot ask, and an input that it cannot change, are denied before a tool."""
    asked = _block(matrix.unaskable("Windsurf", native))
    tool = native != "pre_user_prompt"
    dropped = _show(matrix.no_input(native))
    return {
        "deny": _block(matrix.DENIED),
        "ask": asked,
        "allow": HookAnswer(),
        "abstain": HookAnswer(),
        "context": _show(matrix.no_context(native)),
        "rewrite": _block(matrix.CALL_IT) if tool else dropped,
        "allow+rewrite": _block(matrix.CALL_IT) if tool else dropped,
        "ask+rewrite": _block(matrix.ASKED_CALL_IT) if tool else asked,
        "fallback open": _show(matrix.OPEN),
        "fallback closed": _block(matrix.NO_VERDICT),
        "fallback ask": _block(matrix.unaskable_fallback("Windsurf", native)),
    }


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), matrix.native_of(path)
    event, info = DIALECT.read(native, path.read_bytes(), host="laptop"), sent["tool_info"]
    matrix.check_kept(event, sent)
    assert DIALECT.read("", path.read_bytes()).native == native

    assert (event.type, event.source, event.native, event.host) == (TYPES[native], "windsurf", native, "laptop")
    assert (event.session, event.cwd) == (sent.get("trajectory_id", ""), info.get("cwd", ""))
    tool, own, fields = TOOLS.get(native, ("", "", {}))
    assert (event.tool, event.native_tool) == (tool, own)
    assert {name: event.input[name] for name in fields} == fields
    assert event.output == info.get("mcp_result")
    for name in ("execution_id", "timestamp", "model_name"):
        assert event.data.get(name) == sent.get(name)
    for name in ("user_prompt", "response", "worktree_path"):
        assert event.data.get(name) == info.get(name)


@pytest.mark.req("B-08")
def test_every_event_is_known_and_has_a_payload() -> None:
    assert {matrix.native_of(path) for path in RECORDED} == set(TYPES) == set(windsurf.CAPABILITIES)
    assert {native: can.type for native, can in windsurf.CAPABILITIES.items()} == TYPES
    assert {native for native, can in windsurf.CAPABILITIES.items() if can.waits} == set(GATES)
    assert {"post_cascade_response_with_transcript"} == windsurf.QUIET
    assert not windsurf.NEVER


@pytest.mark.req("B-08")
@rows("native", TYPES)
@rows("said", matrix.VERDICTS)
def test_a_verdict_goes_back_as_this_exit_code(native: str, said: str) -> None:
    expected = _answers(native)[said] if native in GATES else HookAnswer()
    answer = DIALECT.render(native, matrix.VERDICTS[said], matrix.sample(DIALECT, "windsurf", native))
    matrix.same(answer, expected)


@pytest.mark.req("B-08")
def test_what_it_cannot_be_told_is_named() -> None:
    def lost(said: str) -> tuple[str, ...]:
        return DIALECT.render("pre_run_command", matrix.VERDICTS[said]).lost

    assert lost("allow") == ("an allow became silence: pre_run_command has none, so Windsurf's own rules decide",)
    assert lost("ask") == ("ask became deny: pre_run_command cannot ask",)
    assert lost("rewrite") == ("a changed input became deny: pre_run_command carries none",)
    assert lost("context") == ("context was dropped: pre_run_command takes none",)
    assert lost("deny") == ()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("native", GATES)
def test_odd_and_long_texts(native: str) -> None:
    said = DIALECT.render(native, matrix.ODD)
    matrix.same(said, HookAnswer(2, b"", b"half \\ud83d end[31m\nnext. [fleethook: odd; fleethook trace e1]\n"))
    long = DIALECT.render(native, matrix.oversized(20_000))
    assert len(long.stderr.decode().encode("utf-16-le")) // 2 <= windsurf.TEXT_LIMIT + 1
    silent = DIALECT.render(native, Verdict(decision="deny"))
    assert silent.stderr == b"Fleethook gave no reason. [fleethook]\n"


@pytest.mark.req("B-08")
def test_the_unknown_passes_and_the_unreadable_is_refused() -> None:
    later = DIALECT.read("pre_tomorrow", b'{"trajectory_id":"s","brand_new":1,"tool_info":{"x":2}}')
    assert (later.type, later.session, later.data) == ("windsurf:pre_tomorrow", "s", {"brand_new": 1, "x": 2})
    assert DIALECT.render("pre_tomorrow", matrix.VERDICTS["deny"], later) == HookAnswer()
    odd = DIALECT.read("pre_mcp_tool_use", b'{"tool_info":{"mcp_tool_name":"t","mcp_tool_arguments":"{\\"a\\":1}"}}')
    assert (odd.tool, odd.input) == ("t", {"a": 1})
    assert DIALECT.read("pre_run_command", b'{"tool_info":7}').input == {}
    for wrong in (b"", b"[]", b"{}", b'{"agent_action_name":5}'):
        with pytest.raises(DecodeError):
            DIALECT.read("", wrong)
