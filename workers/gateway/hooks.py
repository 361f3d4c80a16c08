"""`POST /v1/hooks/{agent}/{event}`: an agent's own payload in, the answer in the agent's own protocol out.

This is the hook command over HTTP: the raw payload goes to the same streams, and the answer comes from the same reply key.
Agents take an HTTP error for "go on", so wherever the failure policy decides something, a failure is a 2xx with that decision.
"""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from bus.agents import find
from bus.agents.base import AgentDialect, Capability
from bus.errors import FleethookError
from bus.events import source_name
from bus.ids import event_id, host_name
from bus.installs.command import deadline_ms, patience_ms, silence, timeout_of
from bus.shim.answer import HookAnswer, unpack_answer
from bus.transport import Fields, Transport
from bus.verdicts import POLICIES, POLICIES_BY_STRICTNESS, Policy, bus_policy, failed
from bus.wire.codec import encode_payload, write_json
from workers.gateway.access import LOCAL
from workers.gateway.bodies import read_body
from workers.gateway.problems import Problem
from workers.gateway.waiting import answer_headers, or_hang_up, wait_seconds

log = logging.getLogger("fleethook.gateway")

BY_HTTP: Final = frozenset({"claude", "copilot", "qwen"})
"""The agents with hooks of type `http`: they read JSON from a 2xx and no exit code."""

ANSWER_TYPE: Final = "application/vnd.fleethook.answer+json"
"""Asked for by `Accept`: the whole answer of a hook command as JSON, for programs that forward hooks."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OUTAGE_SECONDS: Final = 2.0
_OUTAGE_PART: Final = 0.2
"""How long a call tries to reach a server that is away: at most so many seconds, and this part of its deadline."""


class HookCall(NamedTuple):
    """One hook call: whose, which event, and how long and how strictly it is answered."""

    agent: str
    native: str
    dialect: AgentDialect
    can: Capability | None
    """None for an event that a dialect without a table of its own does not list."""
    policy: Policy
    budget: float
    """Seconds until the failure policy answers."""
    patience: float
    """Seconds that hooks may take which declare more than the budget; 0: no more than the budget."""
    id: str
    host: str
    parent: str

    def entry(self, payload: bytes) -> Fields:
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
        )
        return (*entry, "parent", self.parent) if self.parent else entry

    def fallback(self, why: str) -> HookAnswer:
        """The answer of the failure policy."""
        if self.can is None or not self.can.waits:
            return silence(self.agent)
        return self.dialect.render(self.native, failed(self.policy, why, event=self.id))


class Hooks:
    """The hook endpoint of one gateway."""

    def __init__(self, transport: Transport, *, budget: float, policy: Policy) -> None:
        self._transport, self._budget, self._policy = transport, budget, policy

    async def handle(self, request: Request) -> Response:
        """Answer one hook call; raises Problem for a request that is none."""
        began = time.monotonic()
        call = self._call(request)
        payload = await read_body(request)
        entry = call.entry(payload)
        if call.can is None or not call.can.waits:
            await self._transport.publish([entry])
            return _response(request, call, silence(call.agent))
        deadline = began + call.budget
        try:
            raw = await or_hang_up(
                request,
                self._transport.ask(
                    entry,
                    deadline,
                    longest=began + call.patience,
                    outage=min(_OUTAGE_SECONDS, call.budget * _OUTAGE_PART),
                ),
            )
            answer = unpack_answer(raw)
        except FleethookError as error:
            why = str(error)
            log.warning("hook call %s of %s: fallback %s: %s", call.id, call.agent, call.policy, why)
            about = ("source", call.agent, "event", call.native, "host", call.host)
            await self._transport.report_fallback(entry, about, why)
            return _response(request, call, call.fallback(why), why)
        return _response(request, call, answer)

    def refuse(self, request: Request, problem: Problem) -> Response:
        """The response to a call that is not handled: the failure policy's decision where it has one, else the error."""
        try:
            call = self._call(request)
        except FleethookError:
            return problem.response()
        if call.policy == "allow":
            return problem.response()
        return _response(request, call, call.fallback(f"gateway: {problem.detail}"), problem.detail)

    def _call(self, request: Request) -> HookCall:
        agent, native = request.path_params["agent"], request.path_params["event"]
        if not _NAME.fullmatch(agent):
            raise Problem(404, "agent-unknown", "the agent's name has letters, digits, '_', '.' and '-'")
        dialect = find(agent)
        can = dialect.capabilities.get(native)
        if can is None and dialect.name != "generic":
            raise Problem(404, "event-unknown", _unknown(dialect, native))
        headers, query = request.headers, request.query_params
        policy = max(self._policy, _policy(query.get("on_failure", "allow")), key=POLICIES_BY_STRICTNESS.index)
        budget, patience = self._times(dialect, can, request)
        return HookCall(
            agent=source_name(agent),
            native=native,
            dialect=dialect,
            can=can,
            policy=bus_policy(policy, can.type) if can is not None else "allow",
            budget=budget,
            patience=patience,
            id=_id(headers, "idempotency-key") or event_id(),
            host=headers.get("fleethook-host", "")[:255] or _caller_host(request),
            parent=_id(headers, "fleethook-parent"),
        )

    def _times(self, dialect: AgentDialect, can: Capability | None, request: Request) -> tuple[float, float]:
        """Budget and patience in seconds: as the hook command has them, or the budget that `?wait=` names."""
        if wait := wait_seconds(request):
            return wait, 0.0
        if can is None:
            return self._budget, 0.0
        budget = deadline_ms(timeout_of(can, self._budget), self._budget) / 1000
        return budget, patience_ms(dialect, can, self._budget) / 1000


def _response(request: Request, call: HookCall, answer: HookAnswer, why: str = "") -> Response:
    """The HTTP response to an answer; `why` says why it is a fallback."""
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
    """A block by exit code, for an agent that reads no exit code from an HTTP hook."""
    return write_json({"decision": "block", "reason": answer.stderr.decode("utf-8", "replace").strip()})


def _unknown(dialect: AgentDialect, native: str) -> str:
    near = difflib.get_close_matches(native, dialect.capabilities, 1, 0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(dialect.capabilities)}"
    return f"{dialect.name} has no event {native[:80]!r}; {hint}"


def _policy(text: str) -> Policy:
    if text not in POLICIES:
        raise Problem(400, "policy-invalid", f"on_failure is {text[:40]!r}; it is one of {', '.join(POLICIES)}")
    return text


def _id(headers: Mapping[str, str], name: str) -> str:
    text = headers.get(name, "")
    if text and not _ID.fullmatch(text):
        raise Problem(400, "id-invalid", f"the header {name} has 1 to 64 letters, digits, '_' and '-'")
    return text


def _caller_host(request: Request) -> str:
    """The machine of the caller: ours for a local call, else its address."""
    client = request.client
    if request.scope.get(LOCAL) or client is None or client.host in {"127.0.0.1", "::1"}:
        return host_name()
    return client.host
