"""The hash of a ticket is the same for the same call, and differs in everything that is another call (X-03)."""

from __future__ import annotations

from typing import Any

import pytest

from bus.event_folder import UNKNOWN_FOLDER
from bus.events import Event
from workers.approvals.tickets import call_hash

pytestmark = pytest.mark.req("X-03")

CALL = {
    "type": "tool:pre_execute",
    "source": "claude",
    "host": "h",
    "session": "s",
    "tool": "bash",
    "cwd": "/srv",
    "input": {"command": "make", "more": {"x": 1, "y": 2}, "description": "Builds"},
}


def hashed(changes: dict[str, Any] | None = None, **changed: Any) -> str:
    """The hash of the call with other values."""
    return call_hash(Event(**{**CALL, **changed}), UNKNOWN_FOLDER, changes)


def test_the_same_call_has_the_same_hash() -> None:
    said_otherwise = {"description": "Compiles", "more": {"y": 2, "x": 1}, "command": "make"}
    assert hashed() == hashed(input=said_otherwise, call="another", id="another")


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "permission:request"},
        {"source": "codex"},
        {"host": "i"},
        {"session": "t"},
        {"tool": "write"},
        {"cwd": "/srv/x"},
        {"input": {"command": "make all", "more": {"x": 1, "y": 2}}},
        {"changes": {"command": "make safe"}},
    ],
)
def test_another_call_has_another_hash(changed: dict[str, Any]) -> None:
    assert hashed(**changed) != hashed()


def test_a_prompt_counts_where_there_is_no_tool() -> None:
    prompt: dict[str, Any] = {"type": "user:prompt_submit", "tool": "", "input": {}}
    assert hashed(**prompt, data={"prompt": "a"}) != hashed(**prompt, data={"prompt": "b"})
