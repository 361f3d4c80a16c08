"""The time of one event on one axis from the start of its hook command: queue, hooks, reply, deliveries, attempts (X-05)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

from bus.events import OWN_SOURCE
from bus.requests import MOST_BUDGET_MS
from bus.verdicts import Verdict
from workers.delivery.deliveries import Attempt, Delivery
from workers.records.events import RecordedEvent
from workers.records.trace import Trace, trace_record
from workers.runtime.wording import counted

Kind = Literal["work", "wait", "unexplained"]

_ID_TIME: Final = re.compile(r"e([0-9a-f]{12})[0-9a-f]{20}")
_WORTH_NAMING: Final = 0.05
"""Unexplained time up to this many milliseconds gets no line."""


class WaterfallBar(NamedTuple):
    """One part of the time; `start` and `ms` are milliseconds from the beginning of the axis."""

    name: str
    start: float
    ms: float
    depth: int = 0
    kind: Kind = "work"
    note: str = ""
    decision: str = ""
    """The decision of a hook, or the outcome of an attempt."""

    @property
    def end(self) -> float:
        """Where it ends on the axis."""
        return self.start + self.ms


def waterfall(trace: Trace) -> list[WaterfallBar]:
    """The spans of an event's time, each before the spans within it; empty if the event is not recorded yet.

    Stream ids and attempts have whole milliseconds, hooks and phases have fractions: parts may overlap by a millisecond.
    """
    seen = trace.event
    if seen.pending or seen.of:
        return []
    began = _start_ms(seen)
    spans = [*_request_spans(seen, began)]
    recorded = float(seen.ms - began)
    for delivery in trace.deliveries:
        spans += _delivery_spans(delivery, began, recorded)
    return spans


def timed_trace_record(trace: Trace) -> dict[str, Any]:
    """A trace with its waterfall, as `--json` and the gateway give it."""
    return {**trace_record(trace), "waterfall": [span._asdict() for span in waterfall(trace)]}


def _start_ms(seen: RecordedEvent) -> int:
    """When its hook command started, by the time in its id; with a wrong clock, when it was requested or recorded."""
    match = _ID_TIME.fullmatch(seen.id)
    latest = seen.asked or seen.ms
    id_ms = int(match[1], 16) if match is not None else latest
    return id_ms if latest - MOST_BUDGET_MS < id_ms <= latest else latest


def _request_spans(seen: RecordedEvent, began: int) -> Iterator[WaterfallBar]:
    recorded = float(seen.ms - began)
    if seen.verdict is None or not seen.asked:
        if recorded:
            own = seen.event.source == OWN_SOURCE
            name, note = ("fleethook", "sending") if own else ("hook command", "start, reading, sending")
            yield WaterfallBar(name, 0.0, recorded, note=note)
        if seen.verdict is not None:
            yield from _evaluation_spans(seen.verdict, max(0.0, recorded - seen.verdict.ms))
        return
    asked = float(seen.asked - began)
    if asked:
        yield WaterfallBar("hook command", 0.0, asked, note="start, reading, sending")
    decided = max(asked, float(seen.decided - began)) if seen.decided else recorded
    held = _held_since(seen)
    evaluated = decided if held is None else min(decided, float(held - began))
    start = max(asked, evaluated - seen.verdict.ms)
    if start - asked >= _WORTH_NAMING:
        note = "until an evaluator has it" if seen.decided else "until an evaluator has it, and the time of the reply"
        yield WaterfallBar("queue", asked, start - asked, kind="wait", note=note)
    yield from _evaluation_spans(seen.verdict, start)
    if decided - evaluated >= _WORTH_NAMING:
        yield WaterfallBar(
            "person", evaluated, decided - evaluated, kind="wait", note="held until a person's answer or its end"
        )
    if seen.decided:
        replied = max(decided, start + seen.verdict.ms)
        yield WaterfallBar("reply", replied, max(0.0, recorded - replied), note="written for the agent, and recorded")


def _held_since(seen: RecordedEvent) -> int | None:
    """When its call began to wait for a person; None if it was not held, or a ticket of an earlier call let it pass."""
    approval = seen.verdict.approval if seen.verdict is not None else None
    if approval is None or approval.ticket or not seen.asked <= approval.asked:
        return None
    return approval.asked


def _evaluation_spans(verdict: Verdict, start: float) -> Iterator[WaterfallBar]:
    yield WaterfallBar("verdict", start, verdict.ms, decision=verdict.decision, note=verdict.version)
    groups = [
        (f"{len(rules)} silent rule{'s' if len(rules) > 1 else ''}", sum(rules.values()) / 1000, "", place)
        for place, rules in verdict.silent.items()
    ]
    groups += [(part.hook, part.ms, part.decision, part.place) for part in verdict.parts]
    known = sum(ms for _, ms, _, _ in groups)
    is_parallel = known > verdict.ms + 1  # hooks of the Claude format start at the same time
    at = start
    for name, ms, decision, place in groups:
        yield WaterfallBar(name, at, ms, 1, decision=decision, note=place)
        at = at if is_parallel else at + ms
    if groups and not is_parallel and verdict.ms - known >= _WORTH_NAMING:
        yield WaterfallBar("unexplained", at, verdict.ms - known, 1, "unexplained", "perhaps matching and conditions")


def _delivery_spans(delivery: Delivery, began: int, recorded: float) -> Iterator[WaterfallBar]:
    created = max(recorded, float(delivery.created - began))
    last = delivery.log[-1].ms if delivery.log else delivery.created
    end = max(created, float(last - began))
    yield WaterfallBar(
        delivery.target, created, end - created, decision=delivery.state, note=counted(len(delivery.log), "attempt")
    )
    if created - recorded >= 1:
        yield WaterfallBar(
            "dispatcher", recorded, created - recorded, 1, "wait", "from the event's record to its deliveries"
        )
    at = created
    first = max(1, delivery.attempts - len(delivery.log) + 1)
    for number, attempt in enumerate(delivery.log, first):
        start = max(at, attempt.ms - attempt.took - began)
        if start - at >= 1:
            name = "carrier" if number == first else "back-off"
            yield WaterfallBar(name, at, start - at, 1, "wait", "waits for a carrier" if name == "carrier" else "")
        yield from _attempt_spans(number, attempt, start)
        at = start + attempt.took


def _attempt_spans(number: int, attempt: Attempt, start: float) -> Iterator[WaterfallBar]:
    note = f"status {attempt.status}" if attempt.status else attempt.error
    yield WaterfallBar(f"attempt {number}", start, attempt.took, 1, decision=attempt.outcome, note=note)
    phases = attempt.phases
    if phases is None:
        return
    parts = [("dns", phases.dns), ("connect", phases.connect), ("tls", phases.tls), ("first byte", phases.first_byte)]
    body = phases.total - sum(ms for _, ms in parts)
    at = start + max(0.0, attempt.took - phases.total)
    if attempt.took - phases.total >= _WORTH_NAMING:
        yield WaterfallBar(
            "unexplained",
            start,
            attempt.took - phases.total,
            2,
            "unexplained",
            "perhaps signing, or waiting for its turn",
        )
    for name, ms in (*parts, ("body", body)):
        if ms >= _WORTH_NAMING:
            yield WaterfallBar(name, at, ms, 2)
        at += max(0.0, ms)
