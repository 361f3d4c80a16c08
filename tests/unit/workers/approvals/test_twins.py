"""The events by which Cursor announces one call have one hash, and other calls have others (X-03, B-08)."""

from __future__ import annotations

from typing import Any

import pytest

from bus.agents.cursor import DIALECT
from bus.event_folder import UNKNOWN_FOLDER
from bus.events import Event
from bus.wire.codec import write_json
from workers.approvals.tickets import twin_hash

pytestmark = pytest.mark.req("X-03", "B-08")

SHELL = {"tool_name": "Shell", "tool_input": {"command": "ls", "cwd": "", "timeout": 3}, "tool_use_id": "t"}


def hashed(native: str, **fields: Any) -> str:
    """The hash of an event with this payload."""
    same = {"conversation_id": "c", "generation_id": "g", "workspace_roots": ["/srv"]}
    return twin_hash(DIALECT.read(native, write_json({**same, **fields})), UNKNOWN_FOLDER)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SHELL, ("beforeShellExecution", {"command": "ls", "cwd": "/srv"})),
        (
            {"tool_name": "MCP:echo", "tool_input": {"text": "hi"}},
            ("beforeMCPExecution", {"tool_name": "echo", "tool_input": '{"text": "hi"}', "mcp_server_name": "lab"}),
        ),
        (
            {"tool_name": "Read", "tool_input": {"file_path": "/srv/a"}},
            ("beforeReadFile", {"file_path": "/srv/a", "content": "x"}),
        ),
    ],
)
def test_both_events_of_a_call(first: dict[str, Any], second: tuple[str, dict[str, Any]]) -> None:
    assert hashed("preToolUse", **first) == hashed(second[0], **second[1]) != ""


@pytest.mark.parametrize(
    "changed",
    [
        {"command": "ls -l"},
        {"cwd": "/srv/x"},
        {"conversation_id": "d"},
        {"generation_id": "h"},
    ],
)
def test_another_call(changed: dict[str, Any]) -> None:
    assert hashed("beforeShellExecution", **{"command": "ls", "cwd": "/srv", **changed}) != hashed(
        "preToolUse", **SHELL
    )


def test_other_events_and_agents_have_none() -> None:
    assert hashed("beforeSubmitPrompt", prompt="x") == ""
    event = Event(type="tool:pre_execute", source="claude", native="preToolUse", tool="bash", input={"command": "ls"})
    assert twin_hash(event, UNKNOWN_FOLDER) == ""
