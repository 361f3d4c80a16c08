"""The evaluator's part after a decision: answers held requests by the state of their questions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from bus.chain import Evaluation, changed_event, evaluate
from bus.errors import DecodeError, FleethookError
from bus.events import Event
from bus.requests import Request, read_event, read_request
from bus.runners.evaluation_spans import with_held_span
from bus.verdicts import Approval, ApprovalState, Verdict
from bus.wire.codec import decode_verdict
from bus.wire.keys import Keys
from bus.wire.streams import MOST_DELIVERIES, ScriptCall, StreamEntry
from workers.approvals import held_values, held_verdicts
from workers.fleet_control.enforcement import Enforcement
from workers.runtime.placement import Placement
from workers.runtime.request_hooks import HooksFor
from workers.runtime.request_replies import Replies
from workers.runtime.rule_checks import RuleChecks

log = logging.getLogger("fleethook.approvals")

MakeAnswer = Callable[[Verdict], Awaitable[list[ScriptCall]]]
AnswerLimited = Callable[[Request, Event, Verdict, MakeAnswer], Awaitable[list[ScriptCall]]]
"""Makes the answer of a call that may count for limits; it is made again where one is reached."""

_MOST_HANDED: Final = 4 * MOST_DELIVERIES
"""How often a held request may be handed out: a dead letter would give the agent less than what a person decided."""
_RECHECK_SECONDS: Final = 5.0


class DecidedRequests:
    """Answers the held requests of one evaluator's group."""

    def __init__(
        self,
        keys: Keys,
        name: str,
        replies: Replies,
        stops: Enforcement,
        hooks_for: HooksFor,
        checks: RuleChecks,
        placement: Placement,
        answer: AnswerLimited,
    ) -> None:
        self._keys, self._name, self._replies, self._stops = keys, name, replies, stops
        self._hooks_for, self._checks, self._placement, self._answer = hooks_for, checks, placement, answer

    def read(self, entry: StreamEntry) -> tuple[Request, Event | None]:
        """The held request in an entry of the stream `decided`; no event where its payload cannot be read."""
        request = read_request(entry, self._keys)
        try:
            return request, read_event(request)
        except Exception:
            log.exception("the payload of held request %s", request.id)
            return request, None

    async def finish(self, request: Request, event: Event | None) -> list[ScriptCall]:
        """The calls that answer a held request by the state of its question; raises FleethookError if Redis goes away."""
        try:
            return await self._finish(request, event)
        except FleethookError:
            raise
        except Exception as error:
            log.exception("held request %s", request.id)
            return self._given_up(request, f"a held request could not be answered: {type(error).__name__}")

    def _given_up(self, request: Request, why: str) -> list[ScriptCall]:
        """The calls that deny a held request that cannot be answered by its question, and make a dead letter of it.

        The failure policy is for hooks that fail, and this call waited for a person, who may have said no.
        """
        return self._replies.bury(msgspec.structs.replace(request, policy="deny"), why)

    async def _finish(self, request: Request, event: Event | None) -> list[ScriptCall]:
        fields = request.entry.fields
        if request.handed > _MOST_HANDED:
            return self._given_up(request, f"handed out {request.handed} times: its evaluators die")
        try:
            verdict = decode_verdict(fields[b"verdict"])
        except (DecodeError, KeyError) as error:
            return self._given_up(request, f"the verdict of a held request cannot be read: {error}")
        if event is None:
            return self._given_up(request, "the payload of a held request cannot be read")
        state: ApprovalState = fields[b"state"].decode()  # type: ignore[assignment]  # decide.lua writes these words
        about = {name.decode().removeprefix("approval:"): value for name, value in fields.items() if b":" in name}
        approval = held_values.approval(request.id, state, about)
        final = await self._verdict(request, event, verdict, approval)
        final = await self._stops.over(event, final) or final
        request = with_held_span(request, event, "evaluators", final)

        async def answer(verdict: Verdict) -> list[ScriptCall]:
            return [self._replies.answer(request, event, verdict, owner=self._name)]

        return await self._answer(request, event, final, answer)

    async def _verdict(self, request: Request, event: Event, verdict: Verdict, approval: Approval) -> Verdict:
        if approval.state == "approved":
            # Evaluators may die of a rule; a person's answer must not.
            newer = await self._rules_by_now(request, event, verdict) if request.handed <= MOST_DELIVERIES else None
            if newer is not None and newer.decision == "deny":
                return held_verdicts.overtaken(verdict, approval, newer)
            return held_verdicts.approved(verdict, approval)
        if approval.state == "denied":
            return held_verdicts.denied(verdict, approval)
        if approval.state == "waiting":
            return held_verdicts.still_waiting(verdict, approval)
        if approval.state == "timed_out":
            return held_verdicts.unanswered(
                verdict, approval, f"Nobody answered within {held_values.waited(approval)}."
            )
        return held_verdicts.unanswered(verdict, approval, "The question was overtaken: its agent has gone on.")

    async def _rules_by_now(self, request: Request, event: Event, verdict: Verdict) -> Verdict | None:
        """What the rules say of an approved call now, which may be minutes after the question; those of its host too."""
        changed = changed_event(event, verdict.updated_input) if verdict.updated_input else event
        in_force = self._hooks_for(changed)
        hook_set = in_force.hook_set
        in_force.wait_for(self._checks, _RECHECK_SECONDS)
        policy = self._replies.strictest_policy(request)
        ask_host = await self._placement.host_rules(changed, policy) if self._placement.is_remote(changed) else None
        fitting = await (in_force.fitting_here(changed) if ask_host is not None else in_force.fitting(changed))
        rules = [hook for hook in fitting if hook.rule is not None]
        if not rules and ask_host is None:
            return None
        return await evaluate(
            Evaluation(
                event=changed,
                hooks=rules,
                run=in_force.run,
                seconds=_RECHECK_SECONDS,
                version=hook_set.version,
                layers=hook_set.layers,
                ask_host=ask_host,
            )
        )
