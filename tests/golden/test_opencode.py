"""What OpenCode's plugin API passed, as events; and every kind of verdict as the exact bytes that our plugin reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find, opencode
from bus.errors import DecodeError
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Part, Verdict, failed
from bus.wire.codec import encode_event, unpack
from tests.support.rows import rows

HERE = Path(__file__).parent / "opencode"
RECORDED = sorted(HERE.glob("*.json"))
DIALECT = find("open-code")

TYPES = {
    "chat.message": "user:prompt_submit",
    "chat.params": "llm:pre_request",
    "catalog.updated": "opencode:catalog.updated",
    "file.watcher.updated": "opencode:file.watcher.updated",
    "message.updated": "session:message",
    "permission.asked": "permission:request",
    "plugin.added": "opencode:plugin.added",
    "reference.updated": "opencode:reference.updated",
    "session.diff": "opencode:session.diff",
    "session.error": "agent:error",
    "session.idle": "agent:stop",
    "session.status": "opencode:session.status",
    "session.updated": "opencode:session.updated",
    "experimental.text.complete": "llm:post_response",
    "shell.env": "opencode:shell.env",
    "tool.execute.after": "tool:post_execute",
    "tool.execute.before": "tool:pre_execute",
    "session.created": "session:start",
    "message.part.updated": "tool:error",
    "permission.replied": "permission:denied",
}
WITH_TOOL = {"tool.execute.before", "tool.execute.after", "permission.asked", "message.part.updated"}

PARTS = (Part(hook="guard", decision="deny", origin="fleethook.yaml:12"),)
VERDICTS = {
    "deny": Verdict(decision="deny", event="e1", reason="Notes are frozen", instead="open an issue", parts=PARTS),
    "ask": Verdict(decision="ask", event="e1", reason="Notes are shared"),
    "allow": Verdict(decision="allow", event="e1", reason="It is yours"),
    "abstain": Verdict(event="e1"),
    "context": Verdict(event="e1", contexts=("CI is frozen.", "It opens at 18:00.")),
    "rewrite": Verdict(event="e1", updated_input={"content": "x"}),
    "fallback open": failed("allow", "timeout", event="e1"),
    "fallback closed": failed("deny", "timeout", event="e1"),
}
DENIED = "Notes are frozen. Instead: open an issue. [fleethook: guard; fleethook trace e1]"
BLOCKED = "fleethook: blocked by guard (fleethook.yaml:12) (fleethook trace e1)"
CONTEXT = {"context": "CI is frozen.\n\nIt opens at 18:00."}
OPEN = "fleethook: no hook answered (timeout): nothing blocked (fleethook trace e1)"
CLOSED = "fleethook could not get a verdict (timeout); its failure policy is deny. [fleethook trace e1]"
SHUT = "fleethook: no hook answered (timeout): denied by failure policy (fleethook trace e1)"
ASKED = "Notes are shared. A person has to approve it, and OpenCode cannot ask for that at {}. [fleethook trace e1]"

ANSWERS: dict[str, dict[str, dict[str, Any]]] = {
    "tool.execute.before": {
        "deny": {"deny": DENIED, "note": BLOCKED},
        "ask": {
            "deny": ASKED.format("tool.execute.before"),
            "note": "fleethook: blocked by a hook (fleethook trace e1)",
        },
        "context": CONTEXT,
        "rewrite": {
            "args": {"content": "x", "filePath": "/home/dev/project/lab-note.txt"},
            "note": "fleethook: the tool's input was changed (fleethook trace e1)",
        },
        "fallback open": {"note": OPEN},
        "fallback closed": {"deny": CLOSED, "note": SHUT},
    },
    "tool.execute.after": {"deny": {"deny": DENIED, "note": BLOCKED}, "context": CONTEXT},
    "chat.message": {
        "deny": {"deny": DENIED, "note": BLOCKED},
        "ask": {"deny": ASKED.format("chat.message"), "note": "fleethook: blocked by a hook (fleethook trace e1)"},
        "context": CONTEXT,
        "fallback closed": {"deny": CLOSED, "note": SHUT},
    },
    "permission.asked": {
        "deny": {"deny": DENIED, "note": BLOCKED},
        "ask": {},
        "allow": {"allow": True},
        "fallback closed": {"deny": CLOSED, "note": SHUT},
    },
    "session.idle": {"deny": {"deny": DENIED, "note": BLOCKED}, "fallback closed": {"note": OPEN}},
    "session.created": {"context": CONTEXT},
}


def _native(path: Path) -> str:
    stem = path.stem.removeprefix("captured-").removeprefix("plugin-").removeprefix("http-")
    return stem.removeprefix("event.").rpartition("-")[0]


def _event(native: str) -> Event:
    own = HERE / ("captured-tool.execute.before-2.json" if native == "tool.execute.before" else "")
    path = own if own.is_file() else next(path for path in RECORDED if _native(path) == native)
    return DIALECT.read(native, path.read_bytes(), host="here")


@pytest.mark.req("B-08", "X-01")
@rows("path", RECORDED, ids=lambda path: path.stem)
def test_what_was_recorded_becomes_an_event(path: Path) -> None:
    sent = json.loads(path.read_bytes())
    native = _native(path)
    event = DIALECT.read(native, path.read_bytes(), host="laptop")
    assert DIALECT.read("", path.read_bytes(), host="laptop") == event, "the payload names its event too"

    assert (event.type, event.source, event.native) == (TYPES[native], "opencode", native)
    assert (event.cwd, event.host, event.raw) == ("/home/dev/project", "laptop", sent)
    assert event.session.startswith("ses_") or "sessionID" not in path.read_text()
    if native in WITH_TOOL:
        assert event.native_tool in {"bash", "write", "read", "task"}
        assert event.call.startswith("call_")
        assert event.input.get("command") or event.input.get("path", "").startswith("/home") or event.input["prompt"]
    else:
        assert (event.tool, event.input) == ("", {})
    unpack(encode_event(event))  # it can travel


@pytest.mark.req("B-08")
def test_what_has_a_place_of_its_own() -> None:
    after = _event("tool.execute.after")
    assert (after.output, after.data["metadata"]["exit"], after.data["worktree"]) == (
        "hook-lab\n",
        0,
        "/home/dev/project",
    )
    assert _event("chat.message").data["prompt"] == '"Run the lab command once with your shell tool, then say done."'
    failed_call = _event("message.part.updated")
    assert (failed_call.tool, failed_call.call) == ("bash", "call_2")
    assert "rejected permission" in failed_call.output
    assert "apiKey" not in (HERE / "plugin-chat.params-1.json").read_text(), "our plugin leaves the provider's key out"


@pytest.mark.req("B-08", "X-01")
def test_subagents_permissions_and_servers_are_told_apart() -> None:
    def read(native: str, properties: dict[str, Any], **more: Any) -> Event:
        body = {"hook": "event", "input": {"event": {"type": native, "properties": properties}}, **more}
        return DIALECT.read("", json.dumps(body).encode())

    assert read("session.created", {"info": {"id": "ses_2", "parentID": "ses_1"}}).type == "subagent:start"
    assert read("session.idle", {"sessionID": "ses_2"}, parent="ses_1").type == "subagent:stop"
    assert read("permission.replied", {"reply": "once"}).type == "permission:granted"
    mcp = {"hook": "tool.execute.before", "input": {"tool": "my_lab_echo"}, "output": {"args": {"a": 1}}}
    assert DIALECT.read("", json.dumps({**mcp, "server": "my_lab"}).encode()).tool == "mcp__my_lab__echo"
    assert DIALECT.read("", json.dumps(mcp).encode()).tool == "my_lab_echo"


@pytest.mark.req("B-08")
@rows("native", ANSWERS)
@rows("said", VERDICTS)
def test_a_verdict_goes_back_in_these_bytes(native: str, said: str) -> None:
    answer = DIALECT.render(native, VERDICTS[said], _event(native))
    assert (answer.exit_code, answer.stderr) == (0, b"")
    found = json.loads(answer.stdout) if answer.stdout else {}
    expected = ANSWERS[native].get(said)
    if expected is not None:
        assert found == expected
    else:
        assert set(found) <= {"note"}, "nothing that the plugin would carry out"
    assert b"\n" not in answer.stdout
    assert answer.stdout.isascii()


@pytest.mark.req("B-08")
def test_losses_are_named() -> None:
    lost = DIALECT.render("chat.message", VERDICTS["rewrite"], _event("chat.message")).lost
    assert lost == ("a changed input was dropped: chat.message carries none",)
    assert DIALECT.render("tool.execute.before", VERDICTS["ask"], _event("tool.execute.before")).lost == (
        "ask became deny: tool.execute.before cannot ask",
    )
    assert DIALECT.render("file.edited", VERDICTS["deny"]) == HookAnswer()
    assert DIALECT.render("event.of.tomorrow", VERDICTS["deny"]) == HookAnswer()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("payload", [b"", b"[1]", b"null", b'{"a":NaN}', b"{}", b'{"hook":5}', b'{"hook":"event"}'])
def test_what_is_no_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        DIALECT.read("", payload)


@pytest.mark.req("B-08")
def test_odd_shapes_survive() -> None:
    odd = DIALECT.read("tool.execute.before", b'{"input":[1],"output":{"args":"x"},"directory":7}')
    assert (odd.tool, odd.input, odd.cwd, odd.session) == ("", {}, "", "")
    lone = DIALECT.read(
        "tool.execute.before", rb'{"input":{"tool":"bash"},"output":{"args":{"command":"echo \ud83d"}}}'
    )
    assert lone.input["command"] == "echo \ud83d"
    assert rb"\ud83d" in DIALECT.render("tool.execute.before", Verdict(updated_input={"workdir": "/x"}), lone).stdout


@pytest.mark.req("B-08")
def test_the_plugin_is_filled_in() -> None:
    text = opencode.plugin_text(
        "/py", "/home/o'b/a.answers", ["tool.execute.before", "session.idle", "todo.updated"], fail_closed=True
    )
    setup, _ = json.JSONDecoder().raw_decode(text.partition("const SETUP = ")[2])
    assert setup["events"] == {"tool.execute.before": "closed", "session.idle": "wait", "todo.updated": "send"}
    assert setup["command"][0] == "/py"
    assert setup["command"][-1].endswith("/bus/launcher.py")
    assert (setup["answers"], setup["timeout"]) == ("/home/o'b/a.answers", 600_000)
    opened = opencode.plugin_text("/py", "a", opencode.CAPABILITIES)
    assert '"closed"' not in opened.partition("const SETUP = ")[2].partition("\n\nconst")[0]
