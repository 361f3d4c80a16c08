"""A command hook is any program: the event is on its stdin, its exit code is the answer. 0 goes on, 2 blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus import Event, SyncBus
from tests.support.fleet import Fleet

HOOKS = """
hooks:
  - id: office-hours
    on: tool:pre_execute
    tool: write|edit
    command: |
      cat > event.json
      if [ "$FLEETHOOK_SESSION" = night ]; then echo "Nobody is there to look at it" >&2; exit 2; fi
"""


def writes(session: str, cwd: Path) -> Event:
    return Event(type="tool:pre_execute", tool="write", session=session, cwd=str(cwd), input={"path": "notes.md"})


def test_exit_0_goes_on_and_exit_2_blocks_with_stderr_as_the_reason(fleet: Fleet, bus: SyncBus, tmp_path: Path) -> None:
    fleet.publish_hooks(HOOKS)

    assert bus.request(writes("day", tmp_path)).decision == "abstain"

    verdict = bus.request(writes("night", tmp_path))
    assert verdict.decision == "deny"
    assert verdict.reason == "Nobody is there to look at it"
    assert verdict.parts[0].exit_code == 2


def test_the_whole_event_is_on_stdin_and_the_hook_runs_where_it_happened(
    fleet: Fleet, bus: SyncBus, tmp_path: Path
) -> None:
    fleet.publish_hooks(HOOKS)
    bus.request(writes("day", tmp_path))
    event = json.loads((tmp_path / "event.json").read_text())
    assert (event["type"], event["tool"], event["input"]) == ("tool:pre_execute", "write", {"path": "notes.md"})


@pytest.mark.req("G-20")
def test_a_hook_that_fails_is_no_decision_of_it(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks("""
hooks:
  - {id: broken, on: "tool:pre_execute", command: exit 1}
  - {id: broken-guard, on: "session:start", command: no-such-program, on_failure: deny}
""")
    open_ = bus.request(Event(type="tool:pre_execute", tool="bash"))
    assert open_.decision == "abstain", "by default a failure stops nobody"
    assert "'broken'" in open_.parts[0].fallback, "and is never silent"
    closed = bus.request(Event(type="session:start"))
    assert closed.decision == "deny"
    assert "command not found" in closed.reason
