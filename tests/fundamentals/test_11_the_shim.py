"""The shim is the hook command that an agent runs: it sends what stands on stdin, and prints the answer in the agent's
own words. `fleethook install claude` writes it into Claude Code's settings."""

from __future__ import annotations

import json
import uuid

import pytest

from bus.shim.answer import HookAnswer
from tests.support.fleet import Fleet

pytestmark = pytest.mark.usefixtures("each_shim")

HOOKS = """
hooks:
  - id: no-rm
    on: tool:pre_execute:bash
    rule: {decision: deny, reason: No rm here, instead: use trash, commands: [{program: [rm]}]}
"""


def calls_bash(command: str) -> dict[str, object]:
    """What Claude Code writes to its hooks' stdin before it runs a command."""
    return {
        "hook_event_name": "PreToolUse",
        "session_id": "s1",
        "cwd": "/src",
        "tool_name": "Bash",
        "tool_input": {"command": command},
    }


@pytest.mark.req("B-02", "B-08")
def test_a_hook_call_of_claude_code(fleet: Fleet) -> None:
    fleet.publish_hooks(HOOKS)
    agent = fleet.agent()  # what `fleethook install claude` does, in a home of its own

    answer = agent.hook("PreToolUse", calls_bash("rm notes.md"))

    assert answer.exit_code == 0
    said = json.loads(answer.stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert said["permissionDecisionReason"].startswith("No rm here (matched: `rm notes.md`). Instead: use trash.")

    assert agent.hook("PreToolUse", calls_bash("ls")) == HookAnswer(0, b"", b""), "no opinion is silence"


@pytest.mark.req("B-08")
def test_where_claude_code_would_not_listen_the_shim_does_not_wait(fleet: Fleet) -> None:
    agent = fleet.agent()
    session = f"notified-{uuid.uuid4().hex}"
    assert agent.hook("Notification", {"session_id": session, "message": "done"}) == HookAnswer(0, b"", b"")
    (seen,) = fleet.events(session=session)
    assert (seen.event.type, seen.event.source, seen.verdict) == ("notification", "claude", None)
