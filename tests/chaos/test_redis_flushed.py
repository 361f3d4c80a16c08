"""A server that loses everything (FLUSHALL) while the workers run: right verdicts again within two seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bus.wire.connections import sync_client
from tests.support.fleet import fleet
from tests.support.waiting import at_most, wait_until

pytestmark = [pytest.mark.req("X-06", "X-09")]

HOOKS = """
hooks:
  - id: no-rm
    on: tool:pre_execute
    rule: {decision: deny, reason: No rm here, commands: [{program: [rm]}]}
"""


def test_after_a_flush_the_guards_are_there_again(tmp_path: Path) -> None:
    with fleet(tmp_path, "evaluator", "evaluator", "dispatcher", hooks=HOOKS) as world:
        agent = world.agent()
        payload = {
            "hook_event_name": "PreToolUse",
            "session_id": "s",
            "cwd": "/",
            "tool_name": "Bash",
            "tool_input": {"command": "rm x"},
        }
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
