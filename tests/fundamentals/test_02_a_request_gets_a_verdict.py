"""A request is an event whose sender waits: may I? The answer is a verdict: deny, ask, allow, or nobody objected."""

from __future__ import annotations

import pytest

from bus import Event, SyncBus
from tests.support.fleet import Fleet

LS = Event(type="tool:pre_execute", source="claude", tool="bash", input={"command": "ls"})


@pytest.mark.req("B-02")
def test_where_no_hook_has_an_opinion_the_verdict_is_abstain(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks("hooks: []")

    verdict = bus.request(LS)

    assert verdict.decision == "abstain", "which is not `allow`: the agent still asks its user what it would ask"
    assert not verdict.blocks
    assert verdict.fallback == "", "an evaluator gave this answer; nothing failed"


@pytest.mark.req("B-02")
def test_a_request_is_an_event_too_and_is_recorded_with_its_verdict(fleet: Fleet, bus: SyncBus) -> None:
    verdict = bus.request(LS, budget=5.0)  # seconds, all in all

    seen = fleet.event(verdict.event)
    assert seen.event.input == {"command": "ls"}
    assert seen.decision == "abstain"
