"""What a person reads of events, verdicts, deliveries and traces: whole pages, line by line."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from bus.events import Event
from bus.http.timings import Phases
from bus.verdicts import Part, Verdict
from workers.cli.common import Context
from workers.cli.formatting import delivery_lines, event_subject, outcome, trace_lines, verdict_lines
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Attempt, Delivery
from workers.records.events import RecordedEvent
from workers.records.trace import FallbackReport, Relative, Trace

FLEET = Context(colour=False)

EVENT = Event(
    type="tool:pre_execute",
    source="claude",
    native="PreToolUse",
    host="h1",
    session="s1",
    cwd="/srv",
    tool="bash",
    input={"timeout": 5, "command": "rm -rf\n  /"},
)

VERDICT = Verdict(
    decision="deny",
    reason="no",
    instead="move it",
    ms=1.5,
    version="fleet@3",
    fallback="",
    contexts=("be\ncareful",),
    updated_input={"command": "ls"},
    notes=("cut \x1b[2J",),
    lost=("context was dropped: Stop takes none",),
    repeated=True,
    parts=(
        Part(hook="gone", decision="deny", layer="fleet", version="3", reason="no", ms=1.25, origin="f.yaml:3"),
        Part(hook="slow", decision="abstain", layer="user", fallback="timed out after 1 s", ms=0.1),
        Part(hook="loud", decision="abstain", exit_code=1, output="\n".join(str(n) for n in range(12))),
    ),
    silent={"fleet@3": {"guard:0": 10, "guard:1": 10, "guard:2": 10}, "user": {"mine": 10}},
)


def seen(**more: Any) -> RecordedEvent:
    """The event as it stands in the record."""
    return msgspec.structs.replace(RecordedEvent(id="e1", entry="1-0", ms=0, event=EVENT), **more)


def timeless(lines: Any) -> list[str]:
    """The lines, with the machine's own clock taken out."""
    return [re.sub(r"\b(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d+)?", "TIME", line) for line in lines]


def test_a_verdict_is_shown_with_all_that_took_part() -> None:
    """Hooks that had nothing to say are counted, the end of what a command printed is shown, nothing steers a terminal."""
    assert list(verdict_lines(FLEET, VERDICT)) == [
        "verdict  DENY  1.50 ms  fleet@3",
        "  reason: no",
        "  instead: move it",
        "  gone  deny  1.25 ms  fleet@3  f.yaml:3",
        "    reason: no",
        "  slow  abstain  0.10 ms  user",
        "    fallback: timed out after 1 s",
        "  loud  abstain  0.00 ms  exit 1",
        *(f"    | {n}" for n in range(2, 12)),
        "  4 rules had nothing to say  0.04 ms  (--json lists them)",
        "  context: be careful",
        '  changed input: {"command": "ls"}',
        "  lost: context was dropped: Stop takes none",
        "  note: cut \\x1b[2J",
        "  note: the evaluator that had it first died: its hooks may have run twice",
    ]
    few = msgspec.structs.replace(VERDICT, silent={"fleet@3": {"guard:0": 10}, "user": {"mine": 1200}})
    assert list(verdict_lines(FLEET, few))[-7:-5] == [
        "  guard:0  abstain  0.01 ms  fleet@3",
        "  mine  abstain  1.20 ms  user",
    ]
    changed = Verdict(updated_output={"stdout": "x"}, permissions=({"type": "setMode"},), interrupt=True, halt="enough")
    assert list(verdict_lines(FLEET, changed))[1:] == [
        '  changed output: {"stdout": "x"}',
        '  changed permissions: [{"type": "setMode"}]',
        "  interrupts the agent",
        "  ends the agent's work: enough",
    ]
    (none,) = verdict_lines(FLEET, Verdict())
    assert none == "verdict  ABSTAIN  0.00 ms  no hooks"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (seen(), ""),
        (seen(pending=True), "waiting for its verdict"),
        (seen(verdict=VERDICT), "deny · no"),
        (
            seen(verdict=Verdict(decision="abstain", fallback="no evaluator", reason="x")),
            "abstain · fallback: no evaluator",
        ),
        (seen(problem="not JSON"), "unreadable: not JSON"),
        (seen(of="e0", fallback="no answer in time"), "fallback for e0: no answer in time"),
    ],
)
def test_what_was_decided_on_one_line(one: RecordedEvent, said: str) -> None:
    assert outcome(one) == said


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Event(type="x", input={"path": "/p", "command": " "}), "/p"),
        (Event(type="x", data={"message": "m"}), "m"),
        (Event(type="x", data={"k": [1, "\u00fc"]}), '{"k": [1, "\u00fc"]}'),
        (Event(type="x", input={"command": 7}), '{"command": 7}'),
        (Event(type="x", input={"command": "x" * 99}), "x" * 79 + "…"),
        (Event(type="x"), ""),
    ],
)
def test_what_an_event_is_about(event: Event, said: str) -> None:
    assert event_subject(event) == said


def delivery(**more: Any) -> Delivery:
    """A delivery of that event."""
    made = Delivery(
        id="e1.hook",
        event="e1",
        hook="hook",
        kind="webhook",
        target="endpoint:hook",
        state="delivered",
        layer="fleet",
        version="3",
        created=0,
        updated=0,
    )
    return msgspec.structs.replace(made, **more)


def test_a_delivery_is_shown_with_the_attempts_that_are_kept() -> None:
    """Attempts have the numbers that they had, also where the oldest are not kept any more."""
    log = (
        Attempt(
            ms=0,
            took=5.25,
            outcome="retry",
            status=503,
            error="503 of the receiver",
            output="a\nb",
            next=1,
            head="503 Busy\nServer: x",
            phases=Phases(dns=1.25, first_byte=3.04, total=5),
        ),
        Attempt(ms=0, took=1.0, outcome="dead", error="refused"),
    )
    dead = delivery(state="dead", attempts=7, redrives=2, reason="given up after 7 attempts", log=log)
    assert timeless(delivery_lines(FLEET, dead)) == [
        "e1.hook  webhook  endpoint:hook  dead  fleet@3",
        "  redriven 2 times",
        "  attempt 6  TIME  retry  status 503  5.2 ms (dns 1.2, first byte 3.0)  next TIME",
        "    503 of the receiver",
        "    | a",
        "    | b",
        "  attempt 7  TIME  dead  1.0 ms",
        "    refused",
        "  given up: given up after 7 attempts",
    ]
    whole = timeless(delivery_lines(FLEET, dead, whole=True))
    assert whole[3:6] == ["    503 of the receiver", "    < 503 Busy", "    < Server: x"]
    assert timeless(delivery_lines(FLEET, delivery(state="due", reason="later")))[1:] == ["  next attempt TIME"]


def test_a_trace_shows_all_of_it_in_the_order_in_which_it_happened() -> None:
    above = Relative(id="e0", known=False)
    below = Relative(id="e2", source="generic", type="turn:end", depth=2, decision="")
    letter = DeadLetter(id="events-1-0", kind="entry", ms=0, reason="poison")
    found = Trace(
        event=seen(same=True, fallback="no answer in time", problem="cut"),
        parents=(above,),
        children=(below,),
        reports=(FallbackReport(id="e3", ms=0, why="no answer in time"),),
        deliveries=(delivery(),),
        dead=(letter,),
        stopped=1,
    )
    assert timeless(trace_lines(FLEET, found)) == [
        "parent   e0  (not kept any more)",
        "event    e1  tool:pre_execute  bash",
        "  TIME  claude (PreToolUse)  host h1  session s1",
        "  in /srv",
        "  rm -rf /",
        "  its body cannot be read: cut",
        "  answered by policy on the agent side: no answer in time",
        "  the same hook call was asked about before: same verdict, delivered once",
        "verdict  none: it was no request",
        "fallback TIME  the agent did not wait for that verdict: no answer in time",
        "deliveries  1",
        "  e1.hook  webhook  endpoint:hook  delivered  fleet@3",
        "dead     events-1-0  poison",
        "caused     e2  TIME  generic  turn:end",
        "events after TIME were not looked through",
    ]
    waiting = timeless(trace_lines(FLEET, Trace(event=seen(pending=True))))
    assert waiting[-2:] == ["verdict  none yet: it waits for an evaluator", "deliveries  none"]
    told = timeless(trace_lines(FLEET, Trace(event=seen(verdict=VERDICT))))
    assert told[4] == "verdict  DENY  1.50 ms  fleet@3"
