"""The memory of rules over events that are given in order: the same counts as the record's."""

from __future__ import annotations

import asyncio

import pytest

from bus.events import Event
from bus.memory.replayed import ReplayedMemory
from bus.verdicts import Charge, Verdict


@pytest.mark.req("X-13")
def test_what_a_subagent_did_before_its_parent_was_known_counts_for_the_topmost_parent() -> None:
    memory, time = ReplayedMemory(), iter(range(1000, 9000))
    charge = Charge(hook="h", layer="fleet", counter="c", limit="9 per session", decision="deny", reason="r")

    def asked(session: str, parent: str = "") -> int:
        now = next(time)
        event = Event(
            type="tool:pre_execute",
            id=f"e{now}",
            time=now,
            source="claude",
            session=session,
            tool="bash",
            call=f"c{now}",
            input={"command": "ls"},
            data={"parent_session": parent} if parent else {},
        )
        before = asyncio.run(memory.recall(event, (), None))
        assert before.missing == ""
        memory.settle(event, Verdict(decision="abstain", charges=(charge,)))
        memory.note(event, denied=False)
        return len(memory._counted[max(memory._counted, key=lambda name: len(memory._counted[name]))])

    asked("grandchild", "child")
    asked("child")
    asked("child", "root")
    assert asked("root") == 4
    assert [asked("grandchild"), asked("child")] == [5, 6]
