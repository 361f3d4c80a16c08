"""Who reported an event: the sender's own word, and the version of the agent (X-15)."""

from __future__ import annotations

import pytest

from bus import __version__
from bus.agents import find
from bus.agents.reporter import Reporter, agent_version, read_reporter
from bus.shim import main

pytestmark = pytest.mark.req("X-15")


def test_the_hook_command_says_the_version_of_the_package() -> None:
    assert main.BY.decode() == f"hook-command/{__version__}"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("claude-code/2.1.330/harness", "2.1.330"),
        ("0.24.4", "0.24.4"),
        ("claude-code_2-1-330_agent", "2.1.330"),
        ("codex", ""),
    ],
)
def test_an_agents_version_is_the_number_in_what_it_says(said: str, version: str) -> None:
    assert read_reporter("hook-command/0.1.0", said) == Reporter("hook-command/0.1.0", version)


def test_what_nobody_of_us_writes_counts_as_unknown() -> None:
    assert read_reporter("x\ny" * 40, "9" * 200) == Reporter("", "")


def test_a_payload_can_say_the_version() -> None:
    event = find("cursor").read("sessionStart", b'{"conversation_id": "c", "cursor_version": "3.18.2"}')
    assert agent_version(event, Reporter("", "1.0")) == "3.18.2"
