"""An evaluator's replies to a request: a verdict, a failure verdict, or a failure verdict with a dead letter."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from bus.errors import DecodeError
from bus.events import Event
from bus.memory.charges import limit_args
from bus.requests import Request, Ticket, answer_call, call_key, event_type, render
from bus.runners.evaluation_spans import with_fallback_span
from bus.verdicts import POLICIES_BY_STRICTNESS, Policy, Verdict, bus_policy, failed
from bus.wire.codec import encode_verdict
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall
from workers.delivery.dead_letters import poison_call
from workers.runtime.clock import ServerClock
from workers.runtime.counters import VerdictCounts

log = logging.getLogger("fleethook.evaluator")


class Replies:
    """Makes the Redis calls that answer requests of one group."""

    def __init__(
        self,
        keys: Keys,
        group: str,
        policy: Policy,
        clock: ServerClock,
        flag: Callable[[Request], bytes],
        observe: Callable[[Event, Verdict], None],
    ) -> None:
        """`flag` makes what the caller's hook command keeps while a stop is in force; `observe` sees each final verdict."""
        self._keys, self._group, self._policy, self._clock = keys, group, policy, clock
        self._flag, self._observe = flag, observe
        self.counts = VerdictCounts()
        """What the answers add to the metrics."""

    def strictest_policy(self, request: Request) -> Policy:
        """The stricter of the request's failure policy and the evaluator's."""
        return max(request.policy, self._policy, key=POLICIES_BY_STRICTNESS.index)

    def failed(self, request: Request, event: Event | None, why: str) -> Verdict:
        """The verdict of the failure policy, with the reason `why`."""
        return failed(bus_policy(self.strictest_policy(request), event_type(request, event)), why, event=request.id)

    def answer(
        self,
        request: Request,
        event: Event | None,
        verdict: Verdict,
        *,
        owner: str = "",
        ticket: Ticket | None = None,
        known: bool = False,
        ends_question: bool = False,
    ) -> ScriptCall:
        """The call that answers a request with a verdict, in the agent's own form.

        `known`: the verdict is that of the same hook call before. `ends_question`: it is also the answer to the call that
        waits for a person under this id; else this request waits for that person too.
        """
        if verdict.fallback:
            log.warning(
                "request %s of %s: fallback %s: %s", request.id, request.source, verdict.decision, verdict.fallback
            )
            request = with_fallback_span(request, event, self._group, self.strictest_policy(request), verdict)
        limits: tuple[str | int, ...] = ()
        if verdict.charges:  # the script may still refuse it: `observe` sees it after the answer
            if event is not None and verdict.decision != "deny" and not known:
                limits = limit_args(verdict.charges, event, request.user)
            verdict = msgspec.structs.replace(verdict, charges=())
        answer, verdict = render(request, verdict, event, self._flag(request))
        if event is not None and not known and not limits:
            self._observe(event, verdict)
        counts = self.counts.of_answer(verdict, request.source, event_type(request, event), known=known)
        # A fallback is not kept for the same call, nor is an answer that holds only until a person has said more.
        waits = bool(verdict.stop) or (verdict.approval is not None and verdict.approval.state == "waiting")
        name = "" if verdict.fallback or waits else call_key(event, self._keys)
        now = self._clock.now()
        return answer_call(
            request,
            self._keys,
            self._group,
            verdict,
            answer,
            name,
            owner,
            now,
            ticket,
            counts,
            ends_question=ends_question,
            limits=limits,
        )

    def observe(self, event: Event, verdict: Verdict) -> None:
        """Let plugins see a verdict that counted for a limit, now that the script has accepted it."""
        self._observe(event, msgspec.structs.replace(verdict, charges=()))

    def provisional(self, request: Request, event: Event, verdict: Verdict) -> bytes:
        """The answer in the agent's own form that its caller keeps while the call waits for a person."""
        answer, verdict = render(request, verdict, event, self._flag(request))
        return answer or encode_verdict(verdict)

    def bury(self, request: Request, why: str) -> list[ScriptCall]:
        """The calls that make a dead letter and send the waiting agent a failure verdict."""
        log.warning("request %s of %s: %s; dead letter", request.id, request.source, why)
        letter = poison_call(self._keys, request.entry, why, acknowledge="")
        return [letter, self.answer(request, None, self.failed(request, None, why))]

    def unreadable(self, request: Request, error: Exception) -> list[ScriptCall]:
        """The calls that answer a request whose payload could not be read."""
        if isinstance(error, DecodeError):
            return self.bury(request, f"payload could not be read: {error}")
        log.error("request %s", request.id, exc_info=error)
        return self.bury(request, f"payload could not be read: {type(error).__name__}")

    def broken(self, request: Request, event: Event, error: Exception) -> list[ScriptCall]:
        """The calls that answer a request after an unexpected error of the evaluator; logs the error."""
        log.error("request %s", request.id, exc_info=error)
        why = f"the evaluator failed on this request: {type(error).__name__}"
        try:
            return [self.answer(request, event, self.failed(request, event, why))]
        except Exception as second_error:  # the answer cannot be rendered with the event: answer without it
            log.error("request %s", request.id, exc_info=second_error)
            return self.bury(request, why)
