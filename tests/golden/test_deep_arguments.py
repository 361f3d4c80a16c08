"""A changed input where the model nested another argument too deep: the tool never gets a text in its place."""

from __future__ import annotations

import json

import pytest

from bus.agents import find
from bus.verdicts import Verdict

CHANGED = Verdict(decision="allow", event="e1", updated_input={"command": "ls"})
CALLS = [
    ("claude", "PreToolUse", "Bash"),
    ("codex", "PreToolUse", "Bash"),
    ("gemini", "BeforeTool", "run_shell_command"),
]
CALLS += [("cursor", "preToolUse", "Shell")]


def answered(source: str, native: str, tool: str, levels: int) -> str:
    """What the agent is told where a hook changes the command of a call with an argument so many lists deep."""
    names = {"hook_event_name": native, "session_id": "s1", "cwd": "/work", "tool_name": tool}
    deep = json.loads("[" * levels + "1" + "]" * levels)
    payload = json.dumps({**names, "tool_input": {"command": "rm -r x", "deep": deep}}).encode()
    found = find(source)
    return found.render(native, CHANGED, found.read(native, payload, host="h1")).stdout.decode()


@pytest.mark.req("P-04")
@pytest.mark.parametrize(("source", "native", "tool"), CALLS)
def test_a_call_with_arguments_that_cannot_be_passed_on_is_denied_and_names_the_call_to_make(
    source: str, native: str, tool: str
) -> None:
    assert '"deep":' + "[" * 26 + "1" in answered(source, native, tool, 26), "what is read whole is passed on"
    for levels in (33, 200):
        told = answered(source, native, tool, levels)
        assert '"deep"' not in told
        assert 'call the tool with {\\"command\\":\\"ls\\"}' in told
        assert '"deny"' in told
