"""An evaluator's replies to a request: a verdict, a failure verdict, or a failure verdict with a dead letter."""

from __future__ import annotations

import logging

from bus.events import Event
from bus.requests import Request, answer_call, call_key, event_type, render
from bus.verdicts import POLICIES_BY_STRICTNESS, Policy, Verdict, bus_policy, failed
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall
from workers.delivery.dead_letters import poison_call
from workers.runtime.clock import ServerClock
from workers.runtime.counters import Counters

log = logging.getLogger("fleethook.evaluator")


class Replies:
    """Makes the Redis calls that answer requests of one group, and counts the verdicts."""

    def __init__(self, keys: Keys, group: str, policy: Policy, counters: Counters, clock: ServerClock) -> None:
        self._keys, self._group, self._policy, self._counters, self._clock = keys, group, policy, counters, clock

    def strictest_policy(self, request: Request) -> Policy:
        """The stricter of the request's failure policy and the evaluator's."""
        return max(request.policy, self._policy, key=POLICIES_BY_STRICTNESS.index)

    def failed(self, request: Request, event: Event | None, why: str) -> Verdict:
        """The verdict of the failure policy, with the reason `why`."""
        return failed(bus_policy(self.strictest_policy(request), event_type(request, event)), why, event=request.id)

    def answer(self, request: Request, event: Event | None, verdict: Verdict, *, owner: str = "") -> ScriptCall:
        """The call that answers a request with a verdict, in the agent's own form."""
        if verdict.fallback:
            log.warning(
                "request %s of %s: fallback %s: %s", request.id, request.source, verdict.decision, verdict.fallback
            )
        answer, verdict = render(request, verdict, event)
        self._counters.count_answer(verdict)
        name = "" if verdict.fallback else call_key(event, self._keys)  # a fallback is not kept for the same call
        return answer_call(request, self._keys, self._group, verdict, answer, name, owner, self._clock.now())

    def bury(self, request: Request, why: str) -> list[ScriptCall]:
        """The calls that make a dead letter and send the waiting agent a failure verdict."""
        log.warning("request %s of %s: %s; dead letter", request.id, request.source, why)
        letter = poison_call(self._keys, request.entry, why, acknowledge="")
        return [letter, self.answer(request, None, self.failed(request, None, why))]

    def broken(self, request: Request, event: Event, error: Exception) -> list[ScriptCall]:
        """The calls that answer a request after an unexpected error of the evaluator; logs the error."""
        log.error("request %s", request.id, exc_info=error)
        why = f"the evaluator failed on this request: {type(error).__name__}"
        try:
            return [self.answer(request, event, self.failed(request, event, why))]
        except Exception as second_error:  # the answer cannot be rendered with the event: answer without it
            log.error("request %s", request.id, exc_info=second_error)
            return self.bury(request, why)
