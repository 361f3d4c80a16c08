"""An event is something that happened in an agent. Publishing announces it: one round trip, and nobody is waited for."""

from __future__ import annotations

import pytest

from bus import Event, SyncBus
from tests.support.fleet import Fleet


@pytest.mark.req("B-01")
def test_an_event_gets_an_id_and_stands_in_the_record(fleet: Fleet, bus: SyncBus) -> None:
    name = bus.publish(Event(type="turn:end", source="codex", session="morning", data={"turn": 3}))

    seen = fleet.event(name)  # what `fleethook events show ID` shows
    assert seen.event.type == "turn:end"
    assert seen.event.source == "codex"
    assert seen.event.data == {"turn": 3}
    assert seen.event.host == "test-host", "where it happened is filled in"
    assert seen.verdict is None, "nobody asked"


@pytest.mark.req("B-01")
def test_ids_sort_by_time(bus: SyncBus) -> None:
    first = bus.publish(Event(type="turn:start"))
    second = bus.publish(Event(type="turn:end"))
    assert first[:13] <= second[:13], "an `e` and twelve hex digits of milliseconds; the rest is random"


@pytest.mark.req("F-01")
def test_any_type_may_be_published_known_or_not(fleet: Fleet, bus: SyncBus) -> None:
    name = bus.publish(Event(type="myagent:coffee_break", source="myagent"))
    assert fleet.event(name).event.type == "myagent:coffee_break"
