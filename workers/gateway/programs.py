"""`POST /v1/events` and `POST /v1/requests`: events of programs, announced or judged."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.agents.generic import DIALECT
from bus.errors import FleethookError
from bus.event_folder import UNKNOWN_FOLDER, EventFolder, event_folder
from bus.events import Event
from bus.ids import event_id, host_name
from bus.transport import Fields, Transport, event_entry
from bus.verdicts import Policy, Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict, write_json
from workers.gateway.bodies import read_body
from workers.gateway.event_formats import read_events
from workers.gateway.problems import Problem
from workers.gateway.waiting import answer_headers, or_hang_up, wait_seconds

_KNOWN_ID = ("spooled", "1")
"""The mark by which the dispatcher looks for an earlier event of the same id: a client that sends again counts once."""


class Programs:
    """The endpoints for programs of one gateway."""

    def __init__(self, transport: Transport, *, budget: float, policy: Policy) -> None:
        self._transport, self._budget, self._policy = transport, budget, policy

    async def publish(self, request: Request) -> Response:
        """Announce events and answer with their ids: 202, once Redis or the spool has them."""
        events, is_batch = read_events(request.headers, await read_body(request))
        entries: list[Fields] = []
        ids = []
        for event in events:
            placed = _placed(event)
            entries.append((*_entry(placed), *_KNOWN_ID) if event.id else _entry(placed))
            ids.append(placed.id)
        await self._transport.publish(entries)
        return _json({"ids": ids} if is_batch else {"id": ids[0]}, 202)

    async def ask(self, request: Request) -> Response:
        """Ask for a verdict on one event: 200 with the verdict, whose `fallback` says why no hook gave it."""
        began = time.monotonic()
        events, _ = read_events(request.headers, await read_body(request))
        if len(events) != 1:
            raise Problem(400, "one-event", "a request asks for the verdict on one event; send each by itself")
        event = _placed(events[0])
        entry = event_entry(event, _folder(event), self._policy)
        try:
            waiting = self._transport.ask(entry, began + (wait_seconds(request) or self._budget))
            verdict = decode_verdict(await or_hang_up(request, waiting))
        except Problem:
            raise
        except FleethookError as error:
            verdict = failed(bus_policy(self._policy, event.type), str(error), event=event.id)
            about = ("source", event.source, "event", event.type, "host", event.host)
            await self._transport.report_fallback(entry, about, str(error))
        return _verdict(event, verdict)


def _placed(event: Event) -> Event:
    return msgspec.structs.replace(event, id=event.id or event_id(), host=event.host or host_name())


def _folder(event: Event) -> EventFolder:
    return event_folder(event.cwd) if event.host == host_name() else UNKNOWN_FOLDER


def _entry(event: Event) -> Fields:
    return event_entry(event, _folder(event))


def _verdict(event: Event, verdict: Verdict) -> Response:
    answer = DIALECT.render(event.type, verdict, event)
    return Response(answer.stdout, 200, answer_headers(event.id, verdict.fallback), "application/json")


def _json(value: object, status: int = 200) -> Response:
    return Response(write_json(value) + b"\n", status, None, "application/json")
