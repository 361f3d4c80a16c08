"""When Redis is away, agents go on: a failure policy answers, loudly and at once, and what happened is kept on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from bus import Event, Unreachable
from bus.shim.spool import spool_status
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as started
from tests.support.waiting import at_most, wait_until

pytestmark = pytest.mark.usefixtures("each_shim")

HOOKS = 'hooks: [{id: no-writes, on: "tool:pre_execute:write", rule: {decision: deny, reason: frozen}}]'
WRITE = {"session_id": "outage", "cwd": "/", "tool_name": "Write", "tool_input": {"file_path": "a", "content": "b"}}


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One of its own: the others still need theirs."""
    with started(tmp_path_factory.mktemp("fleet"), "evaluator", hooks=HOOKS, persistent=True) as one:
        yield one


@pytest.mark.req("G-20", "X-06")
def test_an_outage_from_its_beginning_to_its_end(fleet: Fleet) -> None:
    agent, careful = fleet.agent(), fleet.agent("careful", closed=True)  # `fleethook install claude --fail-closed`
    assert b"frozen" in agent.hook("PreToolUse", WRITE).stdout
    fleet.server.kill()

    # A program gets its failure policy, and is told when nothing could be announced.
    with fleet.bus(on_failure="deny").sync() as bus:
        start = time.monotonic()
        verdict = bus.request(Event(type="tool:pre_execute", tool="write"))
        assert time.monotonic() - start < at_most(2), "it did not wait for its budget"
        assert verdict.decision == "deny"
        assert "redis cannot be reached" in verdict.fallback
        with pytest.raises(Unreachable):
            bus.publish(Event(type="turn:end"))

    # An agent too, as it was installed; and whatever it wanted to say is kept.
    told = json.loads(agent.hook("PreToolUse", WRITE).stdout)
    assert told.keys() == {"systemMessage"}, "the user is told, and nothing is decided"
    assert "nothing blocked" in told["systemMessage"]
    denied = json.loads(careful.hook("PreToolUse", WRITE).stdout)["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    agent.hook("Notification", {"session_id": "outage", "message": "later"})
    assert spool_status(agent.places.spool("claude")).records == 2

    # Redis is back: the evaluator finds it again, the next hook call empties the spool.
    fleet.server.start()
    wait_until(lambda: b"frozen" in agent.hook("PreToolUse", {**WRITE, "session_id": "after"}).stdout, "all is well")
    wait_until(lambda: len(fleet.events(session="outage")) == 3, "what was kept has arrived")
    arrived = sorted(fleet.events(session="outage"), key=lambda seen: seen.id)  # ids sort by time
    assert [seen.event.native for seen in arrived] == ["PreToolUse", "PreToolUse", "Notification"]
    assert [bool(seen.fallback_reason) for seen in arrived] == [False, True, False]
    wait_until(lambda: spool_status(agent.places.spool("claude")).records == 0, "and the spool is empty")
