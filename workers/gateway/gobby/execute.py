"""`POST /hooks/execute`: answers the hook calls of Gobby's scripts, in Gobby's format."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import FleethookError, Unanswered
from bus.event_folder import event_folder
from bus.events import Event
from bus.ids import host_name
from bus.tracing.context import at_trace
from bus.transport import Transport, event_entry
from bus.verdicts import Policy, Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict
from workers.fleet_control.enforcement import Enforcement
from workers.gateway.bodies import read_body
from workers.gateway.calls.trace_headers import incoming_context, server_span
from workers.gateway.calls.verdict_wait import answer_headers, ask, or_hang_up
from workers.gateway.gobby.answers import answer, skipped
from workers.gateway.gobby.events import BadCall, GobbyCall, read_call, read_event
from workers.gateway.gobby.replies import json_reply, refusal
from workers.gateway.gobby.tally import GobbyTally
from workers.gateway.problems import Problem

log = logging.getLogger("fleethook.gateway")

_PATIENCE: Final = 28.0
"""The longest wait in seconds. Gobby's scripts give up after 30 s or more, and then let the agent go on."""


class HookCalls:
    """The hook endpoint of Gobby's daemon. With `approves`, the answer is "approve" if no hook objects, as in Gobby."""

    def __init__(
        self,
        transport: Transport,
        stops: Enforcement,
        tally: GobbyTally,
        *,
        budget: float,
        policy: Policy,
        approves: bool,
    ) -> None:
        self._stops, self._tally = stops, tally
        self._transport, self._budget, self._policy, self._approves = transport, budget, policy, approves

    async def handle(self, request: Request) -> Response:
        """Answer one hook call. A body that is no hook call gets 400 with `{"detail"}`, as from Gobby."""
        began = time.monotonic()
        body = await read_body(request)
        try:
            call = read_call(body)
            if why := skipped(call):
                return json_reply({"status": "skipped", "message": why})
            event = read_event(call, host_name())
        except BadCall as error:
            return self._unread(error)
        with server_span(request, "/hooks/execute", incoming_context(request), event.id) as span:
            failed = True
            try:
                verdict = await self._verdict(request, at_trace(event, span.context), began)
                failed = bool(verdict.fallback)
            finally:
                self._tally.hook(failed=failed)
        return json_reply(self._answer(call, event, verdict), headers=answer_headers(event.id, verdict.fallback))

    def _unread(self, error: BadCall) -> Response:
        """The response to a body that is no hook call: what the failure policy says, if it says more than "go on"."""
        call = error.call
        policy = bus_policy(self._policy, call.can.type) if call is not None and call.can is not None else "allow"
        if call is None or call.can is None or policy == "allow":
            return refusal(400, str(error))
        self._tally.hook(failed=True)
        event = Event(type=call.can.type, source=call.agent, native=call.native)
        return json_reply(self._answer(call, event, failed(policy, str(error))), headers=answer_headers("", str(error)))

    async def _verdict(self, request: Request, event: Event, began: float) -> Verdict:
        entry = event_entry(event, event_folder(event.cwd), self._policy, by="gateway")
        waiting = ask(
            self._transport,
            entry,
            began + self._budget,
            longest=began + max(self._budget, _PATIENCE),
            outage=self._budget / 5,
        )
        try:
            return await self._stops.heard(decode_verdict(await or_hang_up(request, waiting)))
        except Problem:
            raise
        except FleethookError as error:
            why = str(error)
            log.warning("hook call %s of gobby: fallback %s: %s", event.id, self._policy, why)
            about = ("source", event.source, "event", event.type, "host", event.host)
            await self._transport.report_fallback(entry, about, error)
            fallback = failed(bus_policy(self._policy, event.type), why, event=event.id)
            if isinstance(error, Unanswered):
                fallback = decode_verdict(error.answer)
            return self._stops.verdict(event, fallback) or fallback

    def _answer(self, call: GobbyCall, event: Event, verdict: Verdict) -> dict[str, Any]:
        try:
            return answer(call, event, verdict, approves=self._approves)
        except Exception as error:
            log.exception("the answer to hook call %s of gobby", event.id)
            why = f"its answer could not be written: {type(error).__name__}"
            plain = failed(bus_policy(self._policy, event.type), why, event=event.id)
            return answer(call, msgspec.structs.replace(event, raw=None, input={}), plain, approves=self._approves)
