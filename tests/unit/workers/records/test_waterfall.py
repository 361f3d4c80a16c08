"""Where an event's time went, on one axis (X-05; issue 11, `trace`)."""

from __future__ import annotations

import re

import msgspec
import pytest
from rich.cells import cell_len

from bus.events import Event
from bus.http.timings import Phases
from bus.verdicts import Approval, Part, Verdict
from workers.cli.output import styler
from workers.cli.screens.waterfall import waterfall_lines
from workers.delivery.deliveries import Attempt, Delivery
from workers.records.events import RecordedEvent
from workers.records.trace import Trace
from workers.records.waterfall import waterfall

BEGAN = 1_700_000_000_000
EVENT = Event(type="tool:pre_execute", source="claude", tool="bash", input={"command": "ls"})
VERDICT = Verdict(
    decision="deny",
    ms=10.0,
    parts=(Part(hook="slow", decision="deny", ms=7.0, layer="fleet", version="3"),),
    silent={"fleet@3": {"one": 500, "two": 500}},
)
SEEN = RecordedEvent(
    id=f"e{BEGAN:012x}{'0' * 20}", entry="1-0", ms=BEGAN + 20, event=EVENT, verdict=VERDICT, asked=BEGAN + 4
)
LOG = (
    Attempt(
        ms=BEGAN + 60, took=20.0, outcome="retry", status=503, phases=Phases(connect=5.0, first_byte=10.0, total=18.0)
    ),
    Attempt(ms=BEGAN + 260, took=10.0, outcome="delivered", status=200),
)
DELIVERY = Delivery(
    id="e1.log",
    event="e1",
    hook="log",
    kind="webhook",
    target="endpoint:log",
    state="delivered",
    layer="fleet",
    version="3",
    created=BEGAN + 25,
    updated=BEGAN + 260,
    attempts=2,
    log=LOG,
)


@pytest.mark.req("X-05")
def test_every_part_has_its_place_on_one_axis() -> None:
    """Also the waits, and what nobody can explain, have a name."""
    spans = waterfall(Trace(event=SEEN, deliveries=(DELIVERY,)))
    assert [(span.depth, span.name, span.start, round(span.ms, 3)) for span in spans] == [
        (0, "hook command", 0, 4),
        (0, "queue", 4, 6),
        (0, "verdict", 10, 10),
        (1, "2 silent rules", 10, 1),
        (1, "slow", 11, 7),
        (1, "unexplained", 18, 2),
        (0, "endpoint:log", 25, 235),
        (1, "dispatcher", 20, 5),
        (1, "carrier", 25, 15),
        (1, "attempt 1", 40, 20),
        (2, "unexplained", 40, 2),
        (2, "connect", 42, 5),
        (2, "first byte", 47, 10),
        (2, "body", 57, 3),
        (1, "back-off", 60, 190),
        (1, "attempt 2", 250, 10),
    ]
    assert {span.name for span in spans if span.kind == "wait"} == {"queue", "dispatcher", "carrier", "back-off"}


def test_the_reply_has_a_bar_of_its_own() -> None:
    """The queue ends where the hooks begin, and what is left until the record is the reply (issue 11, `trace`)."""
    seen = msgspec.structs.replace(SEEN, decided=BEGAN + 17)
    spans = [(span.name, span.start, span.ms) for span in waterfall(Trace(event=seen)) if not span.depth]
    assert spans == [("hook command", 0, 4), ("queue", 4, 3), ("verdict", 7, 10), ("reply", 17, 3)]
    late = msgspec.structs.replace(SEEN, decided=BEGAN + 20, verdict=msgspec.structs.replace(VERDICT, ms=30.0))
    assert [(span.name, span.start, span.ms) for span in waterfall(Trace(event=late)) if not span.depth] == [
        ("hook command", 0, 4),
        ("verdict", 4, 30),
        ("reply", 34, 0),
    ]


def test_fleethooks_own_events_come_from_no_hook_command() -> None:
    own = msgspec.structs.replace(SEEN.event, source="fleethook")
    seen = msgspec.structs.replace(SEEN, event=own, asked=0, verdict=None)
    assert [span.name for span in waterfall(Trace(event=seen))] == ["fleethook"]


def test_the_wait_for_a_person_is_no_queue() -> None:
    """A held call's time has its name: no evaluator was slow (issue 11, `trace`)."""
    approval = Approval(question=SEEN.id, state="approved", by="ana", asked=BEGAN + 16, answered=BEGAN + 90_000)
    verdict = msgspec.structs.replace(VERDICT, approval=approval)
    seen = msgspec.structs.replace(SEEN, ms=BEGAN + 90_003, decided=BEGAN + 90_001, verdict=verdict)
    assert [(span.name, span.start, span.ms) for span in waterfall(Trace(event=seen)) if not span.depth] == [
        ("hook command", 0, 4),
        ("queue", 4, 2),
        ("verdict", 6, 10),
        ("person", 16, 89_985),
        ("reply", 90_001, 2),
    ]
    ticket = msgspec.structs.replace(verdict, approval=msgspec.structs.replace(approval, ticket=True))
    passed = msgspec.structs.replace(SEEN, decided=BEGAN + 17, verdict=ticket)
    assert "person" not in {span.name for span in waterfall(Trace(event=passed))}


def test_hooks_that_ran_side_by_side_begin_together() -> None:
    parts = tuple(Part(hook=name, decision="abstain", ms=9.0) for name in ("one", "two"))
    seen = RecordedEvent(id="mine", entry="1-0", ms=20, event=EVENT, verdict=Verdict(ms=10.0, parts=parts))
    assert [(span.name, span.start) for span in waterfall(Trace(event=seen))] == [
        ("verdict", 0),
        ("one", 0),
        ("two", 0),
    ]


@pytest.mark.parametrize("width", [60, 80, 110, 170])
def test_a_waterfall_fits_its_terminal(width: int) -> None:
    """Bars of the same time stand below one another, and every span has one."""
    spans = waterfall(Trace(event=SEEN, deliveries=(DELIVERY,)))
    head, *lines, legend = waterfall_lines(spans, styler(False), width)
    assert all(cell_len(line) <= width for line in (head, *lines, legend))
    bars = [re.search("[█░▒]+", line) for line in lines]
    assert all(bars)
    starts = {span.name: bar.start() for span, bar in zip(spans, bars, strict=True) if bar}
    assert starts["hook command"] < starts["endpoint:log"] < starts["back-off"] < starts["attempt 2"]
    assert not list(waterfall_lines([], styler(False), width))
