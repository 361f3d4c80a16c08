"""An exact call fits the same tool, input, folder, agent and machine, and nothing near it (X-03)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bus.events import Event
from bus.matching.exact_calls import ExactCall

pytestmark = pytest.mark.req("X-03")

CALL = ExactCall(tool="bash", input={"command": "make", "env": {"a": 1, "b": [1, 2]}}, cwd="/srv", source="claude")


def event(**changed: Any) -> Event:
    """The event of the call, with other values."""
    same = {
        "type": "tool:pre_execute",
        "tool": "bash",
        "source": "claude",
        "host": "h",
        "cwd": "/srv",
        "input": {"env": {"b": [1, 2], "a": 1}, "command": "make", "description": "Builds it"},
    }
    return Event(**{**same, **changed})


def test_the_order_of_fields_and_the_models_description_do_not_count() -> None:
    assert CALL.fits(event())
    assert CALL.fits(event(session="another", call="another", host="another"))


@pytest.mark.parametrize(
    "changed",
    [
        {"tool": "write"},
        {"source": "codex"},
        {"cwd": "/srv/"},
        {"cwd": ""},
        {"input": {"command": "make", "env": {"a": 1, "b": [2, 1]}}},
        {"input": {"command": "make", "env": {"a": True, "b": [1, 2]}}},
        {"input": {"command": "make", "env": {"a": 1.0, "b": [1, 2]}}},
        {"input": {"command": "make ", "env": {"a": 1, "b": [1, 2]}}},
        {"input": {"command": "make"}},
        {"input": {"command": "make", "env": {"a": 1, "b": [1, 2]}, "timeout": 5}},
        {"input": {}},
    ],
)
def test_another_call_does_not_fit(changed: dict[str, Any]) -> None:
    assert not CALL.fits(event(**changed))


def test_a_named_machine_counts() -> None:
    there = msgspec.structs.replace(CALL, host="h")
    assert there.fits(event())
    assert not there.fits(event(host="another"))


def test_a_description_is_words_only_in_bash() -> None:
    call = ExactCall(tool="task", input={"prompt": "x", "description": "a"}, cwd="/srv")
    assert not call.fits(event(tool="task", input={"prompt": "x", "description": "b"}))
