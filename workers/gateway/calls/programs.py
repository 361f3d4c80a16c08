"""`POST /v1/events` and `POST /v1/requests`: programs announce events, or ask for a verdict on one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.agents.generic import DIALECT
from bus.errors import FleethookError, Unanswered
from bus.event_folder import UNKNOWN_FOLDER, EventFolder, event_folder
from bus.events import Event
from bus.ids import event_id, host_name
from bus.requests import checked_context
from bus.tracing.context import NO_CONTEXT, at_trace
from bus.tracing.spans import Span
from bus.transport import Fields, Transport, event_entry
from bus.verdicts import POLICIES_BY_STRICTNESS, Policy, Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict, write_json
from bus.wire.outages import Outages, outage_seconds
from workers.fleet_control.enforcement import Enforcement
from workers.gateway.bodies import read_body
from workers.gateway.calls.event_formats import read_events
from workers.gateway.calls.policies import given_policies
from workers.gateway.calls.trace_headers import incoming_context, server_span
from workers.gateway.calls.verdict_wait import answer_headers, ask, or_hang_up, wait_seconds
from workers.gateway.problems import Problem

_KNOWN_ID = ("spooled", "1")
"""With this field the dispatcher looks for an earlier event with the same id, so an event that is sent twice counts once."""


class Programs:
    """The paths for programs."""

    def __init__(self, transport: Transport, stops: Enforcement, *, budget: float, policy: Policy) -> None:
        self._stops = stops
        self._transport, self._budget, self._policy = transport, budget, policy
        self._outages = Outages()

    async def publish(self, request: Request) -> Response:
        """Announce events. Answers 202 with their ids when Redis or the spool has them."""
        events, is_batch = read_events(request.headers, await read_body(request))
        placed_events = [_placed(event) for event in events]
        ids = [event.id for event in placed_events]
        with _span(request, "/v1/events", placed_events) as span:
            entries: list[Fields] = []
            for event, placed in zip(events, placed_events, strict=True):
                entry = _entry(_traced(placed, span, alone=len(events) == 1))
                entries.append((*entry, *_KNOWN_ID) if event.id else entry)
            await self._transport.publish(entries)
        return _json({"ids": ids} if is_batch else {"id": ids[0]}, 202)

    async def ask(self, request: Request) -> Response:
        """Ask for a verdict on one event. Answers 200 with the verdict; its `fallback` says why no hook decided."""
        began = time.monotonic()
        policy = max(self._policy, *given_policies(request.query_params), key=POLICIES_BY_STRICTNESS.index)
        events, _ = read_events(request.headers, await read_body(request))
        if len(events) != 1:
            raise Problem(400, "one-event", "a request is about one event; send a request for each event")
        event = _placed(events[0])
        with _span(request, "/v1/requests", [event]) as span:
            return _verdict(event, await self._ask(request, _traced(event, span), policy, began, span))

    async def _ask(self, request: Request, event: Event, policy: Policy, began: float, span: Span) -> Verdict:
        entry = event_entry(event, _folder(event), policy, by="gateway")
        try:
            budget = wait_seconds(request) or self._budget
            waiting = ask(self._transport, entry, began + budget, outage=self._outages.seconds(outage_seconds(budget)))
            raw = await or_hang_up(request, waiting)
            self._outages.note()
            return await self._stops.heard(decode_verdict(raw))
        except Problem:
            raise
        except FleethookError as error:
            self._outages.note(error)
            span.fail(type(error).__name__)
            about = ("source", event.source, "event", event.type, "host", event.host)
            await self._transport.report_fallback(entry, about, error)
            fallback = failed(bus_policy(policy, event.type), str(error), event=event.id)
            if isinstance(error, Unanswered):
                fallback = decode_verdict(error.answer)
            return self._stops.verdict(event, fallback) or fallback


def _span(request: Request, route: str, events: Sequence[Event]) -> AbstractContextManager[Span]:
    """The span of a call. The context of its only event comes before that of its headers, as CloudEvents have it."""
    alone = events[0] if len(events) == 1 else None
    own = checked_context(alone.traceparent, alone.tracestate) if alone is not None else NO_CONTEXT
    parent = own if own.traceparent else incoming_context(request)
    return server_span(request, route, parent, alone.id if alone is not None else "")


def _traced(event: Event, span: Span, *, alone: bool = True) -> Event:
    """The event below the gateway's span; one of several keeps its own context, if it has one."""
    own = checked_context(event.traceparent, event.tracestate)
    if own.traceparent and not alone:
        return event
    clean = msgspec.structs.replace(event, traceparent="", tracestate="")
    return at_trace(clean, span.context)


def _placed(event: Event) -> Event:
    return msgspec.structs.replace(event, id=event.id or event_id(), host=event.host or host_name())


def _folder(event: Event) -> EventFolder:
    return event_folder(event.cwd) if event.host == host_name() else UNKNOWN_FOLDER


def _entry(event: Event) -> Fields:
    return event_entry(event, _folder(event), by="gateway")


def _verdict(event: Event, verdict: Verdict) -> Response:
    answer = DIALECT.render(event.type, verdict, event)
    return Response(answer.stdout, 200, answer_headers(event.id, verdict.fallback), "application/json")


def _json(value: object, status: int = 200) -> Response:
    return Response(write_json(value) + b"\n", status, None, "application/json")
