"""The fleet's hooks are published as versions: every worker has a new one within a second, every verdict names its own."""

from __future__ import annotations

import time

import pytest

from bus import ConfigError, Event, SyncBus
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply, history, rollback
from tests.support.fleet import Fleet
from tests.support.waiting import at_most

LENIENT = 'hooks: [{id: writes, on: "tool:pre_execute:write", rule: {decision: ask, reason: really?}}]'
STRICT = 'hooks: [{id: writes, on: "tool:pre_execute:write", rule: {decision: deny, reason: never}}]'
WRITE = Event(type="tool:pre_execute", tool="write")


@pytest.mark.req("B-04", "X-08")
def test_a_new_version_reaches_every_worker_and_an_old_one_can_come_back(fleet: Fleet, bus: SyncBus) -> None:
    lenient = fleet.publish_hooks(LENIENT)
    assert bus.request(WRITE).decision == "ask"

    start = time.monotonic()
    strict = fleet.publish_hooks(STRICT)
    assert time.monotonic() - start < at_most(2), "no restart, and soon"
    assert strict == lenient + 1
    verdict = bus.request(WRITE)
    assert verdict.decision == "deny"
    assert verdict.version == f"fleet@{strict}"

    again = fleet.ask(lambda connections: rollback(connections, fleet.keys))  # `fleethook hooks rollback`
    fleet.in_force(again)
    assert again == strict + 1, "a rollback is a version like any other: history only grows"
    assert bus.request(WRITE).decision == "ask"

    newest, *_ = fleet.ask(lambda connections: history(connections, fleet.keys))
    assert (newest.version, newest.message) == (again, f"rollback to {lenient}")


@pytest.mark.req("B-04", "F-11")
def test_a_set_with_a_mistake_changes_nothing_and_says_where_it_is(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks(STRICT)
    wrong = parse_hook_file("hooks:\n  - {id: typo, on: tool:pre_execute, comand: 'true'}\n", "fleet")
    assert [(problem.line, "command" in str(problem)) for problem in wrong.problems] == [(2, True)], "what was meant"
    with pytest.raises(ConfigError, match="is not published"):
        fleet.ask(lambda connections: apply(connections, fleet.keys, wrong))
    assert bus.request(WRITE).decision == "deny"
