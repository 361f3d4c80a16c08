"""Gemini CLI's recorded payloads into events, and every kind of verdict back as the exact bytes that it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find, gemini
from bus.errors import DecodeError
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict
from tests.golden import matrix
from tests.support.rows import rows

DIALECT = find("gemini-cli")
RECORDED = matrix.recorded("gemini")

TYPES = {
    "SessionStart": "session:start",
    "SessionEnd": "session:end",
    "BeforeAgent": "user:prompt_submit",
    "AfterAgent": "agent:stop",
    "BeforeModel": "llm:pre_request",
    "AfterModel": "llm:post_response",
    "BeforeToolSelection": "tool:select",
    "BeforeTool": "tool:pre_execute",
    "AfterTool": "tool:post_execute",
    "PreCompress": "context:pre_compact",
    "Notification": "notification",
}
TOOLS = {
    "run_shell_command": "bash",
    "write_file": "write",
    "read_file": "read",
    "invoke_agent": "task",
    "mcp_lab_lab_echo": "mcp__lab__lab_echo",
}

WRITTEN = {"tool_input": {"file_path": "/home/dev/project/lab-note.txt", "content": "x"}}


def _deny(reason: str, message: str) -> dict[str, Any]:
    return {"decision": "deny", "reason": reason, "systemMessage": message}


def _own(native: str, **said: object) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": native, **said}}


def _after(native: str) -> dict[str, dict[str, Any]]:
    """What an event says that blocks what has happened: an ask is dropped and named, and no failure blocks."""
    return {
        "deny": _deny(matrix.DENIED, matrix.BLOCKED),
        "ask": {"systemMessage": matrix.no_ask(native)},
        "rewrite": {"systemMessage": matrix.no_input(native)},
        "allow+rewrite": {"systemMessage": matrix.no_input(native)},
        "ask+rewrite": {
            "systemMessage": matrix.no_input(native).replace(
                " (fleethook trace",
                "; " + matrix.no_ask(native).removeprefix("fleethook: ").rpartition(" (")[0] + " (fleethook trace",
            )
        },
        "fallback open": {"systemMessage": matrix.OPEN},
        "fallback closed": {"systemMessage": matrix.OPEN},
        "fallback ask": {"systemMessage": matrix.OPEN},
    }


def _before(native: str) -> dict[str, dict[str, Any]]:
    """What an event says that prevents what would happen: an ask that it cannot ask prevents it too."""
    unasked = _deny(matrix.unaskable("Gemini CLI", native), matrix.ASK_BLOCKED)
    dropped = f"blocked by careful (fleethook.yaml:20); a changed input was dropped: {native} carries none"
    return {
        **_after(native),
        "ask": unasked,
        "ask+rewrite": {**unasked, "systemMessage": matrix.note(dropped)},
        "fallback closed": _deny(matrix.NO_VERDICT, matrix.SHUT),
        "fallback ask": _deny(matrix.unaskable_fallback("Gemini CLI", native), matrix.SHUT),
    }


ANSWERS: dict[str, dict[str, dict[str, Any]]] = {
    "BeforeTool": {
        "deny": _deny(matrix.DENIED, matrix.BLOCKED),
        "ask": {
            "decision": "ask",
            "reason": matrix.ASKED,
            "systemMessage": matrix.note("asked for by careful (fleethook.yaml:20); Notes are shared."),
        },
        "context": {"systemMessage": matrix.no_context("BeforeTool")},
        "rewrite": {**_own("BeforeTool", **WRITTEN), "systemMessage": matrix.INPUT_CHANGED},
        "allow+rewrite": {**_own("BeforeTool", **WRITTEN), "systemMessage": matrix.INPUT_CHANGED},
        "ask+rewrite": {
            "decision": "ask",
            "reason": matrix.ASKED,
            **_own("BeforeTool", **WRITTEN),
            "systemMessage": matrix.note(
                "asked for by careful (fleethook.yaml:20); the tool's input was changed; Notes are shared."
            ),
        },
        "fallback open": {"systemMessage": matrix.OPEN},
        "fallback closed": _deny(matrix.NO_VERDICT, matrix.SHUT),
        "fallback ask": {
            "decision": "ask",
            "reason": matrix.NO_VERDICT_ASK,
            "systemMessage": matrix.note(
                "no hook answered (timeout): asking by failure policy; "
                "fleethook could not get a verdict (timeout); its failure policy is ask."
            ),
        },
    },
    "AfterTool": {**_after("AfterTool"), "context": _own("AfterTool", additionalContext=matrix.CONTEXT)},
    "BeforeAgent": {
        **_before("BeforeAgent"),
        "context": _own("BeforeAgent", additionalContext=matrix.CONTEXT),
        # Of a denied prompt the person sees the message alone (observed).
        "deny": _deny(matrix.DENIED, matrix.note("blocked by no-writes (fleethook.yaml:12); Notes are frozen")),
        "ask": _deny(
            matrix.unaskable("Gemini CLI", "BeforeAgent"),
            matrix.note("blocked by careful (fleethook.yaml:20); Notes are shared"),
        ),
        "ask+rewrite": _deny(
            matrix.unaskable("Gemini CLI", "BeforeAgent"),
            matrix.note(
                "blocked by careful (fleethook.yaml:20); a changed input was dropped: BeforeAgent carries none"
                "; Notes are shared"
            ),
        ),
    },
    "AfterAgent": {**_after("AfterAgent"), "context": {"systemMessage": matrix.no_context("AfterAgent")}},
    "BeforeModel": {
        **_before("BeforeModel"),
        "context": {"systemMessage": matrix.no_context("BeforeModel")},
        "fallback closed": {"systemMessage": matrix.OPEN},  # no gate: a failure never ends a turn
        "fallback ask": {"systemMessage": matrix.OPEN},
    },
    "AfterModel": {**_after("AfterModel"), "context": {"systemMessage": matrix.no_context("AfterModel")}},
    "SessionStart": {
        **_after("SessionStart"),
        "deny": {"systemMessage": matrix.no_block("SessionStart")},
        "context": _own("SessionStart", additionalContext=matrix.CONTEXT),
    },
    "SessionEnd": {},
    "BeforeToolSelection": {},
    "PreCompress": {},
    "Notification": {},
}


def _event(native: str) -> Event:
    return matrix.sample(DIALECT, "gemini", native, "captured-BeforeTool-2" if native == "BeforeTool" else "")


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_payload_becomes_an_event(path: Path) -> None:
    sent, native = json.loads(path.read_bytes()), matrix.native_of(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")
    matrix.check_kept(event, sent)

    failed = "error" in sent.get("tool_response", {})
    assert event.type == ("tool:error" if failed else TYPES[native])
    assert (event.source, event.native, event.host) == ("gemini", native, "laptop")
    assert (event.session, event.cwd) == (sent["session_id"], sent.get("cwd", ""))
    assert (event.tool, event.native_tool) == (TOOLS.get(sent.get("tool_name", ""), ""), sent.get("tool_name", ""))
    assert {name: event.input[name] for name in sent.get("tool_input", {})} == sent.get("tool_input", {})
    assert event.output == sent.get("tool_response")
    assert event.call == ""  # it has no id for a call
    own = {"session_id", "cwd", "hook_event_name", "tool_name", "tool_input", "tool_response"}
    assert event.data == {name: value for name, value in sent.items() if name not in own}


@pytest.mark.req("B-08")
def test_every_event_is_known_and_was_read() -> None:
    assert {matrix.native_of(path) for path in RECORDED} == set(TYPES) == set(gemini.CAPABILITIES)
    assert {native: can.type for native, can in gemini.CAPABILITIES.items()} == TYPES
    assert {can.unit for can in gemini.CAPABILITIES.values()} == {"ms"}
    assert {can.timeout for can in gemini.CAPABILITIES.values()} == {60.0}
    assert {"AfterModel", "BeforeModel", "PreCompress"} < gemini.QUIET
    assert not gemini.NEVER


@pytest.mark.req("B-08", "X-01")
def test_canonical_fields() -> None:
    assert _event("BeforeTool").input["path"] == "/home/dev/project/lab-note.txt"
    shell = matrix.sample(DIALECT, "gemini", "BeforeTool", "captured-BeforeTool-1")
    assert shell.input["command"] == "echo hook-lab | tee -a ran.txt"
    fetch = b'{"tool_name":"web_fetch","tool_input":{"prompt":"Read http://10.0.0.1/ and sum up"}}'
    assert DIALECT.read("BeforeTool", fetch).input["url"] == "Read http://10.0.0.1/ and sum up"


@pytest.mark.req("B-08")
@rows("native", ANSWERS)
@rows("said", matrix.VERDICTS)
def test_a_verdict_goes_back_in_these_bytes(native: str, said: str) -> None:
    expected = ANSWERS[native].get(said)
    matrix.same(
        DIALECT.render(native, matrix.VERDICTS[said], _event(native)),
        matrix.line(expected) if expected else HookAnswer(),
    )


@pytest.mark.req("B-08")
def test_a_changed_input_is_always_the_whole_input() -> None:
    """Gemini 0.61 runs what the hook gives and nothing beside it (AfterTool-2 was captured after such a change)."""
    shell = matrix.sample(DIALECT, "gemini", "BeforeTool", "captured-BeforeTool-1")
    answer = DIALECT.render("BeforeTool", Verdict(updated_input={"command": "ls"}), shell)
    assert json.loads(answer.stdout)["hookSpecificOutput"]["tool_input"] == {
        "command": "ls",
        "description": "Print a marker for the hook lab",
        "is_background": False,
    }
    blind = json.loads(DIALECT.render("BeforeTool", Verdict(updated_input={"command": "ls"})).stdout)
    assert blind["decision"] == "deny"
    assert '{"command":"ls"}' in blind["reason"]


@pytest.mark.req("B-08")
def test_what_it_cannot_be_told_is_named() -> None:
    event = _event("BeforeTool")
    assert DIALECT.render("BeforeTool", matrix.VERDICTS["allow"], event).lost == (
        "an allow became silence: BeforeTool has none, so Gemini CLI's own rules decide",
    )
    assert DIALECT.render("BeforeAgent", matrix.VERDICTS["ask"]).lost == ("ask became deny: BeforeAgent cannot ask",)
    assert DIALECT.render("AfterTool", matrix.VERDICTS["ask"]).lost[0].startswith("a hook wanted a person's approval")
    assert DIALECT.render("BeforeTool", matrix.VERDICTS["deny"], event).lost == ()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("native", [name for name, can in gemini.CAPABILITIES.items() if can.block])
def test_odd_and_long_texts(native: str) -> None:
    said = json.loads(DIALECT.render(native, matrix.ODD).stdout)
    assert (said["decision"], said["reason"]) == ("deny", matrix.ODD_REASON)
    long = json.loads(DIALECT.render(native, matrix.oversized(30_000)).stdout)
    assert all(len(text.encode("utf-16-le")) // 2 <= gemini.TEXT_LIMIT for text in matrix.texts(long))
    assert long["reason"].endswith(" characters] [fleethook: " + "h" * 500 + "; fleethook trace e1]")


@pytest.mark.req("B-08")
def test_the_unknown_passes_and_the_unreadable_is_refused() -> None:
    later = DIALECT.read("EventOfTomorrow", b'{"session_id":"s","brand_new":{"x":1}}')
    assert (later.type, later.data) == ("gemini:EventOfTomorrow", {"brand_new": {"x": 1}})
    assert DIALECT.render("EventOfTomorrow", matrix.VERDICTS["deny"], later) == HookAnswer()
    surrogate = rb'{"tool_name":"run_shell_command","tool_input":{"command":"echo \ud83d"}}'
    assert DIALECT.read("BeforeTool", surrogate).input["command"] == "echo \ud83d"
    odd = DIALECT.read("BeforeTool", b'{"tool_name":7,"tool_input":[1],"session_id":null,"mcp_context":3}')
    assert (odd.tool, odd.input, odd.session) == ("", {}, "")
    for wrong in (b"", b"[]", b"{}", b'{"hook_event_name":""}', b'{"a":NaN}'):
        with pytest.raises(DecodeError):
            DIALECT.read("", wrong)
