"""A server that loses everything (FLUSHALL) while the workers run: right verdicts again within two seconds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bus.wire.connections import sync_client
from tests.support.fleet import Fleet, fleet
from tests.support.waiting import PATIENCE, at_most, wait_until

pytestmark = [pytest.mark.req("X-06", "X-09")]

HOOKS = """
hooks:
  - id: no-rm
    on: tool:pre_execute
    rule: {decision: deny, reason: No rm here, commands: [{program: [rm]}]}
  - id: slow
    on: tool:pre_execute
    when: event.input.command == "slow"
    timeout: 120
    command: |
      echo run >> "$FLEETHOOK_CWD/begun"
      until [ -e "$FLEETHOOK_CWD/go" ]; do sleep 0.02; done
      echo '{"decision": "deny", "reason": "slowly refused"}'
"""


def call(command: str, folder: object = "/") -> dict[str, Any]:
    names = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash"}
    return {**names, "cwd": str(folder), "tool_input": {"command": command}}


def flush(world: Fleet) -> None:
    with sync_client(world.url("admin")) as client:
        client.delete(*client.scan_iter(count=1000))


def test_after_a_flush_the_guards_are_there_again(tmp_path: Path) -> None:
    with fleet(tmp_path, "evaluator", "evaluator", "dispatcher", hooks=HOOKS) as world:
        agent = world.agent()
        payload = call("rm x")
        assert b"No rm here" in agent.hook("PreToolUse", payload).stdout
        with sync_client(world.url("admin")) as client:
            client.delete(*client.scan_iter(count=1000))
            assert not client.exists(world.keys("hookset", "current"))
        start = time.monotonic()
        wait_until(lambda: b"No rm here" in agent.hook("PreToolUse", payload).stdout, "it is denied again")
        took = time.monotonic() - start
        assert took < at_most(5), took
        for _ in range(8):
            assert b"No rm here" in agent.hook("PreToolUse", payload).stdout


@pytest.mark.usefixtures("each_shim")
@pytest.mark.parametrize("budget", [60.0, 1.0], ids=["before its deadline", "after its deadline"])
def test_a_hook_that_runs_meanwhile_still_gives_its_verdict(tmp_path: Path, budget: float) -> None:
    with fleet(tmp_path, "evaluator", "evaluator", hooks=HOOKS) as world:
        agent, began = world.agent(budget=budget), time.monotonic()
        with agent.start("PreToolUse") as asking:
            assert asking.stdin is not None
            asking.stdin.write(json.dumps(call("slow", tmp_path)).encode())
            asking.stdin.close()
            asking.stdin = None
            wait_until((tmp_path / "begun").exists, "the hook runs")
            if budget < PATIENCE:
                wait_until(lambda: time.monotonic() > began + 2 * budget, "the deadline is over")
            flush(world)
            (tmp_path / "go").touch()
            out, _ = asking.communicate(timeout=PATIENCE)
        assert b"slowly refused" in out
        assert (tmp_path / "begun").read_text() == "run\n"
        wait_until(world.events, "it is on record")
        (seen,) = world.events()
        assert not seen.fallback_reason
