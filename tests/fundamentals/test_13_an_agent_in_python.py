"""An agent of your own: each step is a `with` block, a deny is an exception, and hooks may change what a tool gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bus import Denied, SyncBus
from bus.events import Event
from bus.hooksets.guards import load_pack
from bus.matching.patterns import Index
from bus.matching.rules import judge
from tests.support.fleet import Fleet
from tests.support.waiting import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "python_agent"


@pytest.mark.req("B-02", "B-08")
def test_a_tool_call_is_a_with_block(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks((EXAMPLE / "fleethook.yaml").read_text(encoding="utf-8"))

    with bus.session("mine"):
        with pytest.raises(Denied, match="nothing is removed here"), bus.tool("bash", {"command": "rm -rf /"}):
            raise AssertionError("a denied tool does not run")

        with bus.tool("bash", {"command": "cat notes.txt"}) as call:
            assert call.input == {"command": "cat -n notes.txt"}, "what hooks made of it"
            call.result = "     1\tone"

    kinds = [(seen.event.type, seen.decision) for seen in reversed(fleet.events(session="mine"))]
    assert ("tool:pre_execute", "deny") in kinds
    assert ("tool:post_execute", "") in kinds


@pytest.mark.req("B-02", "B-08")
def test_the_worked_example(fleet: Fleet) -> None:
    fleet.publish_hooks((EXAMPLE / "fleethook.yaml").read_text(encoding="utf-8"))
    env = {**fleet.environment, "FLEETHOOK_REDIS_URL": fleet.url("agent"), "PATH": os.environ["PATH"]}

    def agent(task: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, EXAMPLE / "agent.py", task],
            env=env,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return done.stdout.splitlines()

    wrote, blocked, read, second_line, failed, done = agent("tidy up")
    assert wrote.endswith("-> 8 characters")
    assert "blocked: nothing is removed here. Instead: move it to .trash." in blocked
    assert read.endswith("-> 1\tone"), "the hook's `cat -n`, not the model's `cat`"
    assert second_line == "     2\ttwo"
    assert "failed" in failed
    assert done == "done after 10 messages"
    (refused,) = agent("what is the password?")
    assert refused.startswith("not taken on: passwords have no place in a prompt.")


@pytest.mark.req("X-07")
def test_the_worked_example_harms_nothing_where_no_hook_is_in_force(tmp_path: Path) -> None:
    source = (EXAMPLE / "agent.py").read_text(encoding="utf-8")
    commands = re.findall(r'"bash", \{"command": "([^"]*)"\}', source)
    hooks = [hook for hook in load_pack("destructive-commands").rules if hook.rule is not None]
    assert len(commands) >= 3
    for command in commands:
        event = Event(type="tool:pre_execute", tool="bash", cwd=str(tmp_path), input={"command": command})
        asked = Index([(hook, hook.on) for hook in hooks]).find(event)
        assert [hook.id for hook in asked if hook.rule is not None and judge(hook.rule, event)] == []
