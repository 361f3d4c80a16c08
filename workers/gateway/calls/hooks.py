"""`POST /v1/hooks/{agent}/{event}`: answers an agent's own payload in the agent's own protocol.

It does over HTTP what the hook command does: the raw payload goes to the same streams, and the answer comes from the same
reply key. To an agent an HTTP error means "go on". So if the failure policy denies or asks, the response to a failure is a
2xx with that decision.
"""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.agents import find
from bus.agents.base import AgentDialect, Capability
from bus.agents.reporter import reporter
from bus.errors import DecodeError, FleethookError, Unanswered
from bus.events import SOURCES, Event, source_name
from bus.ids import event_id, host_name
from bus.installs.hook_command import deadline_ms, patience_ms, silence, timeout_of
from bus.shim.answer import HookAnswer, unpack_answer
from bus.tracing.context import TraceContext
from bus.tracing.spans import Span
from bus.transport import Fields, Transport
from bus.verdicts import POLICIES_BY_STRICTNESS, Policy, Verdict, bus_policy, failed
from bus.wire.codec import encode_payload, write_json
from bus.wire.outages import Outages, outage_seconds
from workers.fleet_control.enforcement import Enforcement, stopped
from workers.gateway.access import CALLER, LOCAL
from workers.gateway.bodies import read_body
from workers.gateway.calls.event_formats import refuse_own_payload
from workers.gateway.calls.policies import given_policies, meant_policies
from workers.gateway.calls.trace_headers import incoming_context, server_span
from workers.gateway.calls.verdict_wait import answer_headers, ask, or_hang_up, refuse_secret, wait_seconds
from workers.gateway.problems import Problem

log = logging.getLogger("fleethook.gateway")

BY_HTTP: Final = frozenset({"claude", "copilot", "qwen"})
"""The agents that have hooks of type `http`. They read JSON from a 2xx, and there is no exit code."""

ROUTE: Final = "/v1/hooks/{agent}/{event}"

ANSWER_TYPE: Final = "application/vnd.fleethook.answer+json"
"""The value of `Accept` for the whole answer of a hook command as JSON, for programs that forward hooks."""

_STRANGERS: Final = (401, 403)
"""The statuses for callers that are not told of a stop."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class HookRequest(NamedTuple):
    """One hook call: the agent, its event, the failure policy and the times."""

    agent: str
    native: str
    dialect: AgentDialect
    can: Capability | None
    """None for an event of an agent without a capability table."""
    policy: Policy
    budget: float
    """Seconds until the failure policy answers."""
    patience: float
    """The most seconds for hooks that declare more than the budget; 0: the budget is the limit."""
    id: str
    host: str
    parent: str
    user: str
    """The name of the caller's token; empty for a local call."""

    def entry(self, payload: bytes, context: TraceContext) -> Fields:
        """The fields of its stream entry."""
        entry: Fields = (
            "id",
            self.id,
            "source",
            self.agent,
            "event",
            self.native,
            "policy",
            self.policy,
            "host",
            self.host,
            "body",
            encode_payload(payload),
            "by",
            reporter("gateway"),
            *(("user", self.user) if self.user else ()),
            *context.pairs(),
        )
        return (*entry, "parent", self.parent) if self.parent else entry

    def fallback(self, why: str) -> HookAnswer:
        """The answer of the failure policy."""
        if self.can is None or not self.can.waits:
            return silence(self.agent)
        return self.dialect.render(self.native, failed(self.policy, why, event=self.id))


class Hooks:
    """The path for agents' hooks."""

    def __init__(self, transport: Transport, stops: Enforcement, *, budget: float, policy: Policy) -> None:
        """`stops` are those that the gateway has read: they deny where no evaluator answers, too."""
        self._stops = stops
        self._transport, self._budget, self._policy = transport, budget, policy
        self._outages = Outages()

    async def handle(self, request: Request) -> Response:
        """Answer one hook call; raises Problem for a request that is not a hook call."""
        began = time.monotonic()
        call = self._call(request)
        payload = await read_body(request)
        refuse_own_payload(call.agent, call.native, payload)
        with server_span(request, ROUTE, incoming_context(request), call.id) as span:
            span.set({"fleethook.agent.kind": call.agent, "fleethook.hook.event": call.native})
            return await self._answer(request, call, payload, began, span)

    async def _answer(self, request: Request, call: HookRequest, payload: bytes, began: float, span: Span) -> Response:
        entry = call.entry(payload, span.context)
        if call.can is None or not call.can.waits:
            await self._transport.publish([entry])
            return _response(request, call, silence(call.agent))
        deadline = began + call.budget
        try:
            raw = await or_hang_up(
                request,
                ask(
                    self._transport,
                    entry,
                    deadline,
                    longest=began + call.patience,
                    outage=self._outages.seconds(outage_seconds(call.budget)),
                ),
            )
            answer = unpack_answer(raw)
            self._outages.note()
        except FleethookError as error:
            self._outages.note(error)
            why = str(error)
            span.fail(type(error).__name__)
            log.warning("hook call %s of %s: fallback %s: %s", call.id, call.agent, call.policy, why)
            about = ("source", call.agent, "event", call.native, "host", call.host)
            await self._transport.report_fallback(entry, about, error)
            held = unpack_answer(error.answer) if isinstance(error, Unanswered) else None
            return _response(request, call, self._stopped(call, payload) or held or call.fallback(why), why)
        return _response(request, call, answer)

    def refuse(self, request: Request, problem: Problem) -> Response:
        """The response to a call that was refused or failed: the failure policy's decision if it has one, else the error.

        A call with a mistake in its address or headers has a failure policy too; one that cannot be read is `deny`.
        """
        try:
            call = self._call(request, strict=False)
        except FleethookError:
            return problem.response()
        stopped = self._stopped(call, b"") if problem.status not in _STRANGERS else None
        if call.policy == "allow" and stopped is None:
            return problem.response()
        return _response(request, call, stopped or call.fallback(f"gateway: {problem.detail}"), problem.detail)

    def _stopped(self, call: HookRequest, payload: bytes) -> HookAnswer | None:
        """The answer of a stop to a call that no evaluator has answered; None without one."""
        if call.can is None or not call.can.waits:
            return None
        try:
            event = call.dialect.read(call.native, payload, host=call.host)
            stop = self._stops.stop_for(msgspec.structs.replace(event, source=call.agent, host=call.host))
        except DecodeError:
            stop = self._stops.stop_for_unread(Event(type=call.can.type, source=call.agent, host=call.host))
        return None if stop is None else call.dialect.render(call.native, stopped(Verdict(event=call.id), stop))

    def _call(self, request: Request, *, strict: bool = True) -> HookRequest:
        """The call that a request is; raises Problem. Not `strict`: mistakes in its query and headers are no problem."""
        agent, native = request.path_params["agent"], request.path_params["event"]
        if not _NAME.fullmatch(agent):
            raise Problem(404, "agent-unknown", "the agent's name has letters, digits, '_', '.' and '-'")
        dialect = find(agent)
        can = dialect.capabilities.get(native)
        if can is None and (dialect.name != "generic" or ":" not in native):
            raise _unknown(agent, dialect, native)
        headers, query = request.headers, request.query_params
        policies = given_policies(query) if strict else meant_policies(query)
        policy = max(self._policy, *policies, key=POLICIES_BY_STRICTNESS.index)
        budget, patience = self._times(dialect, can, request) if strict else (self._budget, 0.0)
        return HookRequest(
            agent=source_name(agent),
            native=native,
            dialect=dialect,
            can=can,
            policy=bus_policy(policy, can.type) if can is not None else "allow",
            budget=budget,
            patience=patience,
            id=(_id(headers, "idempotency-key") or event_id()) if strict else "",
            host=headers.get("fleethook-host", "")[:255] or _caller_host(request),
            user=request.scope.get(CALLER) or "",
            parent=_id(headers, "fleethook-parent") if strict else "",
        )

    def _times(self, dialect: AgentDialect, can: Capability | None, request: Request) -> tuple[float, float]:
        """Budget and patience in seconds: those of the hook command, or the budget in `?wait=`."""
        if wait := wait_seconds(request):
            return wait, 0.0
        if can is None:
            return self._budget, 0.0
        budget = deadline_ms(timeout_of(can, self._budget), self._budget) / 1000
        return budget, patience_ms(dialect, can, self._budget) / 1000


def _response(request: Request, call: HookRequest, answer: HookAnswer, why: str = "") -> Response:
    """The HTTP response with an answer; `why` is the reason of a fallback."""
    headers = {**answer_headers(call.id, why), "Fleethook-Exit-Code": str(answer.exit_code)}
    if ANSWER_TYPE in request.headers.get("accept", ""):
        out, err = (part.decode("utf-8", "replace") for part in (answer.stdout, answer.stderr))
        body = write_json({"exit_code": answer.exit_code, "stdout": out, "stderr": err})
        return Response(body, 200, headers, ANSWER_TYPE)
    body = answer.stdout
    if answer.exit_code:
        body = _by_json(answer) if call.agent in BY_HTTP else answer.stderr or answer.stdout
    kind = "application/json" if body[:1] == b"{" else "text/plain; charset=utf-8" if body else None
    return Response(body, 200, headers, kind)


def _by_json(answer: HookAnswer) -> bytes:
    """The JSON for a block by exit code, because an HTTP hook has no exit code."""
    return write_json({"decision": "block", "reason": answer.stderr.decode("utf-8", "replace").strip()})


def _unknown(agent: str, dialect: AgentDialect, native: str) -> Problem:
    """The problem of an unknown agent or event. An agent without a dialect has to send canonical types."""
    if dialect.name != "generic" or source_name(agent) == "generic":
        near = difflib.get_close_matches(native, dialect.capabilities, 1, 0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(dialect.capabilities)}"
        return Problem(404, "event-unknown", f"{dialect.name} has no event {native[:80]!r}; {hint}")
    near = difflib.get_close_matches(agent.lower(), SOURCES, 1, 0.6)
    hint = f"did you mean {near[0]!r}? " if near else f"it knows {', '.join(SOURCES)}. "
    text = (
        f"Fleethook does not know the agent {agent!r} and its event {native[:80]!r}; {hint}"
        f"A program of your own sends canonical types: POST /v1/hooks/{agent}/tool:pre_execute"
    )
    return Problem(404, "agent-unknown", text)


def _id(headers: Mapping[str, str], name: str) -> str:
    text = headers.get(name, "")
    if text and not _ID.fullmatch(text):
        raise Problem(400, "id-invalid", f"the header {name} has 1 to 64 letters, digits, '_' and '-'")
    if text:
        refuse_secret(text, f"the header {name}")
    return text


def _caller_host(request: Request) -> str:
    """The machine of the caller: ours for a local call, else its address."""
    client = request.client
    if request.scope.get(LOCAL) or client is None or client.host in {"127.0.0.1", "::1"}:
        return host_name()
    return client.host
