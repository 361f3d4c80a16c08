"""The hooks of one request: which ones fit, and what the rules among them decide. Other processes check heavy rules."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from bus.chain import Run
from bus.errors import OverBudget, Unreachable
from bus.events import Event
from bus.hooks import DECIDING, Hook
from bus.hooksets.in_force import HookSet, Watcher
from bus.matching.checker_messages import MatchQuestion, answer_rule
from bus.matching.conditions import Condition, compile_condition
from bus.matching.disk import light_disk
from bus.matching.findings import Findings, Session
from bus.matching.rules import unread_notes
from bus.memory.facts import NOTHING, Memory, session_value, with_facts
from bus.outcomes import NOTHING as RULE_SILENT
from bus.outcomes import Outcome
from bus.requests import Request
from bus.runners.rule import rule_outcome
from bus.workflows.values import waits
from workers.runtime.placement import Placement
from workers.runtime.rule_checks import RuleChecks

_LATE = "its condition took too long to be checked"
_MISSING = "facts of the session may be missing"

RecallSession = Callable[[Event, Sequence[Condition], float | None], Awaitable[Memory]]
"""Looks up what the session of an event did, for at most so many seconds; raises OverBudget if it may not wait and has to."""


class RequestHooks:
    """Finds and runs the hooks in force for one request; `run` runs hooks that are not rules.

    Before `wait_for` is called, a heavy check raises OverBudget.
    """

    def __init__(self, hook_set: HookSet, run: Run, recall: RecallSession | None = None) -> None:
        """`recall` looks up what a session did; without it, nothing is known of any session."""
        self.hook_set, self._run, self._recall = hook_set, run, recall
        self._memory: Memory | None = None
        self._has_deeds = False
        """Whether the look-up asked for what the session did: the first conditions may have read other facts only."""
        self._session: Session = None
        self._checks: RuleChecks | None = None
        self._until = 0.0
        self._disk = light_disk()
        self._has_run = False
        """Whether a hook has run that is not a rule: it must not run again because a later look-up fails."""
        self._found: list[tuple[object, Findings]] = []
        """Findings with the tool input that was checked: a hook may change the input."""

    def wait_for(self, checks: RuleChecks, seconds: float) -> None:
        """Let other processes do heavy checks, for at most half of `seconds`; the rest is for hooks that are not rules."""
        self._checks, self._until = checks, time.monotonic() + seconds / 2

    async def fitting(self, event: Event) -> list[Hook]:
        """The blocking hooks that fit `event`, in order."""
        hook_set, session, findings = self.hook_set, None, None
        if hook_set.reads_sessions and (conditions := hook_set.session_conditions(event, self._disk)):
            session = await self._look_up(event, conditions)
        if (question := hook_set.question(event, session)) is not None:
            findings = await self._find(question)
        return hook_set.blocking(event, findings, self._disk, session)

    async def _look_up(self, event: Event, conditions: Sequence[Condition]) -> Session:
        """What the conditions read of the event's session.

        Its record is asked once for a request, and once more where a changed input fits conditions that read more.
        """
        reads_deeds = any(condition.facts for condition in conditions)
        if self._memory is None or (reads_deeds and not self._has_deeds):
            self._has_deeds = reads_deeds
            seconds = None if self._checks is None else max(0.0, self._until - time.monotonic())
            try:
                self._memory = NOTHING if self._recall is None else await self._recall(event, conditions, seconds)
            except Unreachable as error:
                if not self._has_run:
                    raise
                self._memory = Memory(missing=f"the record of sessions cannot be read: {error}")
        facts = dict.fromkeys(fact for condition in conditions for fact in condition.facts)
        self._session = session_value(self._memory, facts, event)
        return self._session

    async def fitting_here(self, event: Event) -> list[Hook]:
        """The fitting hooks that need not run on the event's machine."""
        return [hook for hook in await self.fitting(event) if not hook.on_host]

    async def fitting_there(self, event: Event) -> list[Hook]:
        """The fitting hooks that have to run on the event's machine."""
        return [hook for hook in await self.fitting(event) if hook.on_host]

    def notes(self, event: Event, hooks: Sequence[Hook]) -> tuple[str, ...]:
        """The verdict's notes on a command that could not be read as a whole, and on facts that may be missing."""
        findings = self._findings_for(event)
        if findings is not None and findings.rules:
            notes = findings.notes
        else:
            notes = unread_notes([hook.rule for hook in hooks if hook.rule is not None], event)
        if self._memory is None or not self._memory.missing:
            return notes
        return (*notes, f"{_MISSING}: {self._memory.missing}")

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The outcome of one hook. A condition that took too long counts as true for a rule, and as a failure for others."""
        outcome = await self._outcome(hook, event, seconds)
        if self._session is None or self._memory is None or not hook.when or outcome is RULE_SILENT:
            return outcome
        condition = compile_condition(hook.when)
        return with_facts(outcome, condition, self._session, self._memory) if condition.uses_session else outcome

    async def _outcome(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        findings = self._findings_for(event)
        late = findings is not None and hook.when in findings.exceeded
        if hook.rule is None:
            if late:
                return Outcome(failure=f"hook {hook.id!r}: {_LATE}")
            self._has_run = True
            return await self._run(hook, event, seconds)
        answer = findings.rules.get(hook.id) if findings is not None else None
        if answer is None:
            try:
                answer = answer_rule(hook.id, hook.rule, event, self._disk)
            except OverBudget:
                if self._checks is None:
                    raise
                rules = {
                    other.id: other.rule for other in self.hook_set.blocking(event, findings) if other.rule is not None
                }
                found = await self._find(MatchQuestion(event=event, rules=rules | {hook.id: hook.rule}))
                answer = found.rules[hook.id]
        outcome = rule_outcome(hook, event, answer)
        if late and outcome.decision != "abstain":
            return msgspec.structs.replace(outcome, reason=f"{outcome.reason.rstrip('.')} ({_LATE}; it counts as true)")
        return outcome

    async def _find(self, question: MatchQuestion) -> Findings:
        if self._checks is None:
            raise OverBudget("the check is too heavy for the reading loop")
        event, known = question.event, self._findings_for(question.event)
        agent, left = f"{event.host} {event.session or event.source}", self._until - time.monotonic()
        findings = await self._checks.find(question, agent, max(0.0, left))
        if known is not None:  # its conditions were checked before
            findings.conditions |= known.conditions
            findings.exceeded |= known.exceeded
        self._found.insert(0, (event.input, findings))
        return findings

    def _findings_for(self, event: Event) -> Findings | None:
        for checked_input, findings in self._found:
            if checked_input is event.input:
                return findings
        return None


HooksFor = Callable[[Event], RequestHooks]
"""Makes the hooks of a request, from those in force for its event."""


def request_hooks(watcher: Watcher, run: Run, recall: RecallSession, event: Event) -> RequestHooks:
    """The hooks in force for an event."""
    return RequestHooks(watcher.for_event(event), run, recall)


class HandledRequest(NamedTuple):
    """A request while an evaluator handles it: its event, the hooks in force, and those of them that fit the event."""

    request: Request
    event: Event
    in_force: RequestHooks
    hooks: Sequence[Hook] = ()

    async def with_fitting_hooks(self) -> HandledRequest:
        """The same request with the hooks that fit its event; raises OverBudget as RequestHooks does."""
        return HandledRequest(self.request, self.event, self.in_force, await self.in_force.fitting(self.event))

    @property
    def is_light(self) -> bool:
        """Whether its hooks start no process: rules, plugins, which have theirs already, questions to models, and workflows
        that wait for nothing outside."""
        return all(
            hook.kind in DECIDING or (hook.workflow is not None and not waits(hook.workflow)) for hook in self.hooks
        )

    async def needs_slot(self, placement: Placement) -> bool:
        """Whether it takes more than rules of this process; raises Unreachable."""
        for hook in self.hooks:
            if hook.kind != "rule":
                return True
        return await placement.needs_host(self.event, self.hooks, self.request.folder)
