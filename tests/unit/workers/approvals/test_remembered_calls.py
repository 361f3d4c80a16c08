"""The exact calls that a question keeps for an exception; none with a secret (X-03)."""

from __future__ import annotations

from typing import Any

import pytest

from bus.events import Event
from workers.approvals.remembered_calls import calls_text, has_secret

pytestmark = pytest.mark.req("X-03")


def event(**changed: Any) -> Event:
    """A call of bash, with other values."""
    same = {"type": "tool:pre_execute", "source": "claude", "host": "h", "tool": "bash", "cwd": "/srv"}
    return Event(**{**same, "input": {"command": "make", "description": "Builds"}, **changed})


def test_the_call_is_kept_without_its_description() -> None:
    wanted = '[{"tool":"bash","input":{"command":"make"},"cwd":"/srv","source":"claude","host":"h"}]'
    assert calls_text(event(), None) == wanted


def test_a_call_that_hooks_change_is_kept_as_both() -> None:
    text = calls_text(event(), {"command": "nice make"})
    assert text.count('"tool":"bash"') == 2
    assert '"nice make"' in text


@pytest.mark.parametrize(
    "changed",
    [
        {"input": {"command": "login --password hunter2hunter2"}},
        {"cwd": "/srv/token=ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
        {"tool": "", "type": "user:prompt_submit", "input": {}},
        {"input": {"command": "x" * 9_000}},
        {"input": {"command": "\ud800"}},
    ],
)
def test_nothing_is_kept_that_cannot_be_remembered(changed: dict[str, Any]) -> None:
    assert calls_text(event(**changed), None) == ""


def test_a_secret_of_the_changed_input_counts() -> None:
    assert not has_secret(event())
    assert calls_text(event(), {"command": "login --password hunter2hunter2"}) == ""
