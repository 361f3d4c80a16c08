"""With `blocking: false` nobody waits: the event becomes a delivery, and an RQ worker carries it, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus import Event, SyncBus
from tests.support.fleet import Fleet


@pytest.mark.req("B-03")
def test_it_runs_behind_the_agents_back(fleet: Fleet, bus: SyncBus, tmp_path: Path) -> None:
    fleet.publish_hooks("""
hooks:
  - id: audit
    on: tool:post_execute
    blocking: false
    command: sleep 0.2; echo "$FLEETHOOK_TOOL" >> audit.log; echo noted
""")
    name = bus.publish(Event(type="tool:post_execute", tool="write", cwd=str(tmp_path)))
    assert not (tmp_path / "audit.log").exists(), "publishing did not wait for it"

    (delivery,) = fleet.delivered(name)

    assert (tmp_path / "audit.log").read_text() == "write\n"
    assert delivery.id == f"{name}.audit", "named after its event and its hook, so a repeat is known as one"
    (attempt,) = delivery.log
    assert (attempt.outcome, attempt.output.strip()) == ("delivered", "noted")


@pytest.mark.req("B-03")
def test_one_that_fails_is_tried_again_and_in_the_end_is_a_dead_letter(
    fleet: Fleet, bus: SyncBus, tmp_path: Path
) -> None:
    fleet.publish_hooks("""
hooks:
  - id: second-time-lucky
    on: turn:start
    blocking: false
    retry: [0.05, 0.05]
    command: test -e been-here || { touch been-here; exit 1; }
  - id: never
    on: turn:end
    blocking: false
    retry: [0.05]
    command: echo "no such luck" >&2; exit 1
""")
    lucky = bus.publish(Event(type="turn:start", cwd=str(tmp_path)))
    (delivery,) = fleet.delivered(lucky)
    assert [attempt.outcome for attempt in delivery.log] == ["retry", "delivered"]

    never = bus.publish(Event(type="turn:end", cwd=str(tmp_path)))
    letter = fleet.dead_letter(f"{never}.never")
    assert "no such luck" in letter.reason
    assert letter.attempts == 2, "kept with its reason; `fleethook dead retry` tries it again"
