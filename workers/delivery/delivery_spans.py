"""The span of one attempt of a delivery, which a job of RQ carries (docs/tracing.md)."""

from __future__ import annotations

from collections.abc import Sequence

from bus.events import Event
from bus.runners.hook_spans import event_attributes
from bus.tracing import spans
from bus.tracing.context import NO_CONTEXT, trace_of
from workers.delivery.results import AttemptResult, attempt_label


def delivery_span(kind: str, delivery: str, hook: str, attempt: int, events: Sequence[Event]) -> spans.Span:
    """The span of an attempt: `kind` is the kind of its target, `attempt` counts from 0, and a batch has several events.

    A batch has no parent. It begins a trace of its own, with a link to the trace of each event.
    """
    first = events[0]
    parent = trace_of(first) if len(events) == 1 else NO_CONTEXT
    if not spans.is_on():
        return spans.Span(parent)
    queue = "rq.webhooks" if kind == "webhook" else "rq.hooks"
    attributes: dict[str, spans.Value] = {
        "messaging.system": "rq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
        "messaging.message.id": delivery,
        "fleethook.handler.id": hook,
        "fleethook.delivery.attempt": attempt + 1,
    }
    if len(events) == 1:
        attributes |= event_attributes(first)
    else:
        attributes["messaging.batch.message_count"] = len(events)
    links = [trace_of(event) for event in events] if len(events) > 1 else []
    event = first.id if len(events) == 1 else delivery
    return spans.start(f"process {queue}", "consumer", parent, attributes, event=event, links=links)


def note_result(span: spans.Span, result: AttemptResult) -> None:
    """Add the result of an attempt to its span."""
    span.set({"fleethook.delivery.outcome": result.outcome})
    if result.outcome != "delivered":
        span.fail(attempt_label(result))
