"""A call that waits for a person also waits for a server that restarts: no fallback lets it pass (X-03, X-06)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fleet import fleet
from tests.support.held import HOOKS, Held
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03", "X-06")]


def test_a_held_call_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    with fleet(tmp_path, "evaluator", hooks=HOOKS, persistent=True) as world:
        held = Held(world)
        payload = {
            "hook_event_name": "PreToolUse",
            "session_id": "s",
            "tool_name": "Bash",
            "tool_use_id": "t",
            "cwd": "/srv",
        }
        hook = world.agent().start("PreToolUse")
        assert hook.stdin is not None
        hook.stdin.write(json.dumps({**payload, "tool_input": {"command": "deploy by the hook command"}}).encode())
        hook.stdin.close()
        by_hook = held.question("deploy by the hook command")
        calls = [held.call("deploy over a restart"), held.call("deploy and be denied")]
        asked = [held.question("deploy over a restart"), held.question("deploy and be denied")]
        world.server.kill()
        world.server.start()
        assert [held.answer(asked[0], "approve").word, held.answer(asked[1], "deny").word] == ["done", "done"]
        assert held.answer(by_hook, "deny").word == "done"
        assert [call.result(PATIENCE).decision for call in calls] == ["allow", "deny"]
        assert hook.stdout is not None
        with hook:
            assert json.loads(hook.stdout.read())["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert not any(call.result().fallback for call in calls)
