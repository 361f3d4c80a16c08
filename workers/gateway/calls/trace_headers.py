"""The trace context of a call: its headers by the W3C's rules, and the gateway's own span for it (docs/tracing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from starlette.requests import Request

from bus.requests import checked_context
from bus.tracing import spans
from bus.tracing.context import NO_CONTEXT, TraceContext

TRACE_HEADERS: Final = (
    ("traceparent", "The W3C trace context of the call; a bad one is ignored."),
    ("tracestate", "The other part of the trace context."),
)


def incoming_context(request: Request) -> TraceContext:
    """The context in the headers `traceparent`, which may come only once, and `tracestate`."""
    parents = request.headers.getlist("traceparent")
    if len(parents) != 1:
        return NO_CONTEXT
    return checked_context(parents[0].strip(), ",".join(request.headers.getlist("tracestate")))


@contextmanager
def server_span(request: Request, route: str, parent: TraceContext, event: str = "") -> Iterator[spans.Span]:
    """The gateway's span for a call that sends events; `event` is the id of its only event."""
    if not spans.is_on():
        yield spans.Span(parent)
        return
    attributes: dict[str, spans.Value] = {
        "http.request.method": request.method,
        "http.route": route,
        "url.scheme": request.url.scheme,
        "url.path": request.url.path,
        "user_agent.original": request.headers.get("user-agent", ""),
        "messaging.system": "redis",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "fleethook.events",
        "messaging.message.id": event,
    }
    with spans.span(f"{request.method} {route}", "server", parent, attributes, event=event) as span:
        yield span
