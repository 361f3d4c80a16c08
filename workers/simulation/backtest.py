"""Recorded events judged by candidate hooks, beside the verdicts that they got (X-04).

Rules are judged again, and workflows go on from step to step, in memory and without effects. A command or request is never
run: its recorded answer counts if it is the same in force, and else it has no say. So the result is about the rules and
workflows, and says where a hook without an answer may change it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Final, Self

import msgspec

from bus.chain import Evaluation, evaluate
from bus.events import STOPS, Event
from bus.hooks import Hook
from bus.memory.replayed import ReplayedMemory, remembers
from bus.outcomes import Outcome
from bus.secrets.redaction import redact_text
from bus.verdicts import Decision, Part, Policy, Verdict, strictest
from workers.admin.workflows.dry import DryWorkflows
from workers.approvals.summary import shortened, summary
from workers.runtime.request_hooks import RequestHooks
from workers.runtime.rule_checks import RuleChecks
from workers.simulation.candidate import Candidate, decision_of
from workers.simulation.past_events import Past, PastEvent, Unreadable, redacted_fields

MOST_CHANGES: Final = 10_000
"""The most changes that are kept with their event; all are counted."""
_MOST_SUBJECT: Final = 400
_MOST_UNREADABLE: Final = 20


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the candidate decides in another way; its texts are redacted."""

    id: str
    ms: int
    before: Decision
    """What the hooks decided then; `abstain` if none objected."""
    after: Decision
    type: str = ""
    source: str = ""
    session: str = ""
    host: str = ""
    tool: str = ""
    what: str = ""
    """What the event is about, in one text."""
    hooks_before: tuple[str, ...] = ()
    """The hooks that decided then."""
    hooks_after: tuple[str, ...] = ()
    reason: str = ""
    """The reason of the stricter of the two decisions."""
    asked: bool = True
    """Whether its agent waited for a verdict then; if not, it would not wait for this one either."""
    approval: str = ""
    """How a person had answered a question about it: `approved`, `denied` …; empty if it was not held."""
    redacted: tuple[str, ...] = ()
    """The fields in which secrets were replaced, so that hooks saw another text then."""


class ChangeCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many events change in one way."""

    before: Decision
    after: Decision
    events: int


class HookCounts(msgspec.Struct, kw_only=True):
    """What one hook of the candidate said to the events."""

    hook: str
    origin: str = ""
    kind: str = "rule"
    deny: int = 0
    ask: int = 0
    allow: int = 0
    other: int = 0
    """It took part without a decision: it gave context, changed something, or failed."""
    failed: int = 0
    observed: dict[str, int] = msgspec.field(default_factory=dict)
    """By decision: how often it would have decided so if it did not only observe."""
    unknown: int = 0
    """How often it would have run, but has no recorded answer; of a workflow, how often it lacked an answer from outside."""
    steps: int = 0
    """Of a workflow: how often it went on to a step."""
    changes: int = 0
    """How many events changed by its decision."""

    @property
    def matched(self) -> int:
        """How often it had anything to say."""
        return self.deny + self.ask + self.allow + self.other + sum(self.observed.values())


class BacktestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What would change."""

    candidate: str
    layer: str
    version: str
    """The candidate's version."""
    beside: bool
    replaced: str
    events: int
    """The events that were judged."""
    announced: int
    """Those of them whose agents did not wait for a verdict."""
    elsewhere: int
    """Events that were left out, because this layer has no say in them."""
    unreadable: int
    unreadable_examples: tuple[str, ...]
    first: int
    """The time of the first judged event (ms); 0 if there is none."""
    last: int
    sessions: int
    hosts: int
    seconds: float
    """The time that judging took."""
    changes: tuple[ChangeCount, ...]
    """The most frequent first."""
    changed: tuple[Change, ...]
    hooks: tuple[HookCounts, ...]
    never_matched: tuple[str, ...]
    """Hooks of the candidate that had nothing to say to any event."""
    redacted: dict[str, int]
    """In how many judged events secrets are replaced, by field."""
    not_reached: int
    """Calls that were denied then and would not be: hooks of lower layers did not run then, and may deny them."""

    @property
    def changed_count(self) -> int:
        """How many events change, also those whose details were not kept."""
        return sum(change.events for change in self.changes)


class Backtest:
    """Judges past events by a candidate, and counts what changes. Use it as a context manager: heavy rules need processes."""

    def __init__(self, candidate: Candidate, *, seconds: float, policy: Policy) -> None:
        self._candidate, self._seconds, self._policy = candidate, seconds, policy
        self._checks, self._memory, self._flows = RuleChecks(), ReplayedMemory(), DryWorkflows()
        self._remembers = any(remembers(hook) for hook in candidate.hooks.hooks.values())
        self._hooks = {
            hook.id: HookCounts(hook=hook.id, origin=hook.origin, kind=hook.kind)
            for hook in candidate.hooks.hooks.values()
            if hook.blocking
        }
        self._changes: Counter[tuple[Decision, Decision]] = Counter()
        self._changed: list[Change] = []
        self._redacted: Counter[str] = Counter()
        self._unreadable: list[str] = []
        self._sessions: set[tuple[str, str]] = set()
        self._hosts: set[str] = set()
        self.judged = 0
        self._announced = self._elsewhere = self._bad = self._first = self._last = self._not_reached = 0
        self._took = 0.0

    async def __aenter__(self) -> Self:
        await self._checks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._checks.__aexit__(None, None, None)

    async def add(self, page: Iterable[Past]) -> None:
        """Judge some events."""
        begin = time.perf_counter()
        for past in page:
            if isinstance(past, Unreadable):
                self._bad += 1
                if len(self._unreadable) < _MOST_UNREADABLE:
                    self._unreadable.append(redact_text(f"{past.place}: {past.why}"))
            elif not self._candidate.concerns(past.event):
                self._elsewhere += 1
            else:
                await self._judge(past)
        self._took += time.perf_counter() - begin
        await asyncio.sleep(0)

    async def add_all(self, pages: AsyncIterator[list[Past]]) -> None:
        """Judge all pages."""
        async for page in pages:
            await self.add(page)

    async def _judge(self, past: PastEvent) -> None:
        self._note(past)
        verdict, unknown = await self._verdict(past)
        for part in verdict.parts:
            self._count(part, is_known=part.hook not in unknown)
        kept = self._candidate.kept_parts(past.verdict)
        before = _decision_before(past.verdict)
        after = strictest(decision_of(kept), verdict.decision)
        if self._remembers:
            self._memory.note(past.event, denied=before == "deny")
        if before != after:
            self._change(past, before, after, (*kept, *verdict.parts))

    async def _verdict(self, past: PastEvent) -> tuple[Verdict, frozenset[str]]:
        """The candidate's own verdict, and its hooks without an answer."""
        answers = _Answers(past, self._candidate)
        self._flows.begin(past.event)
        run = answers.run if self._candidate.denied_above(past.verdict) else self._flows.running(answers.run)
        request = RequestHooks(self._candidate.hooks, run, self._memory.recall)
        request.wait_for(self._checks, self._seconds)
        fitting = await request.fitting(past.event)
        verdict = await evaluate(
            Evaluation(
                event=past.event,
                hooks=fitting,
                run=request.run,
                seconds=self._seconds,
                policy=self._policy,
                hooks_for=request.fitting,
            )
        )
        denied = decision_of(self._candidate.kept_parts(past.verdict)) == "deny"
        settled = (
            self._memory.settle(past.event, verdict) if not denied else msgspec.structs.replace(verdict, charges=())
        )
        return settled, frozenset(answers.unknown)

    def _note(self, past: PastEvent) -> None:
        """Count the event."""
        self.judged += 1
        event = past.event
        self._announced += past.verdict is None
        self._sessions.add((event.source, event.session))
        self._hosts.add(event.host)
        if past.ms:
            self._first = min(self._first, past.ms) if self._first else past.ms
            self._last = max(self._last, past.ms)
        if past.is_redacted:
            self._redacted.update(redacted_fields(event))

    def _count(self, part: Part, *, is_known: bool) -> None:
        counts = self._hooks[part.hook]
        if counts.kind == "workflow":
            tried = self._flows.tried.get(part.hook)
            if tried is None or tried.record is None:
                return  # the session does not have it, it had nothing to do, or the call was denied before it
            counts.steps += tried.record.moved
            counts.unknown += tried.lacks_answers
        if not is_known:
            counts.unknown += 1
            return
        counts.failed += bool(part.fallback)
        if part.observed is not None:
            counts.observed[part.observed] = counts.observed.get(part.observed, 0) + 1
        elif part.decision == "deny":
            counts.deny += 1
        elif part.decision == "ask":
            counts.ask += 1
        elif part.decision == "allow":
            counts.allow += 1
        else:
            counts.other += 1

    def _change(self, past: PastEvent, before: Decision, after: Decision, parts: tuple[Part, ...]) -> None:
        event, verdict = past.event, past.verdict
        self._changes[before, after] += 1
        deciding = [part for part in parts if part.decision == after != "abstain"]
        for name in dict.fromkeys(part.hook for part in deciding):
            if name in self._hooks:
                self._hooks[name].changes += 1
        then = [part for part in verdict.parts if part.decision == before != "abstain"] if verdict is not None else []
        if before == "deny" and event.type not in STOPS:
            self._not_reached += any(part.layer == self._candidate.layer for part in then)
        if len(self._changed) >= MOST_CHANGES:
            return
        stricter = deciding if strictest(before, after) == after else then
        self._changed.append(
            Change(
                id=past.id,
                ms=past.ms,
                before=before,
                after=after,
                type=redact_text(event.type),
                source=event.source,
                session=redact_text(event.session),
                host=redact_text(event.host),
                tool=redact_text(event.tool),
                what=shortened(summary(event), _MOST_SUBJECT),
                hooks_before=tuple(dict.fromkeys(part.hook for part in then)),
                hooks_after=tuple(dict.fromkeys(part.hook for part in deciding)),
                reason=redact_text(next((part.reason for part in stricter if part.reason), "")),
                asked=verdict is not None,
                approval=verdict.approval.state if verdict is not None and verdict.approval is not None else "",
                redacted=tuple(redacted_fields(event)) if past.is_redacted else (),
            )
        )

    def result(self) -> BacktestResult:
        """What was found."""
        candidate = self._candidate
        hooks = sorted(self._hooks.values(), key=lambda counts: (-counts.changes, -counts.matched, counts.hook))
        return BacktestResult(
            candidate=candidate.name,
            layer=candidate.layer,
            version=candidate.hooks.version,
            beside=candidate.beside,
            replaced=candidate.replaced,
            events=self.judged,
            announced=self._announced,
            elsewhere=self._elsewhere,
            unreadable=self._bad,
            unreadable_examples=tuple(self._unreadable),
            first=self._first,
            last=self._last,
            sessions=len(self._sessions),
            hosts=len(self._hosts),
            seconds=self._took,
            changes=tuple(
                ChangeCount(before=before, after=after, events=count)
                for (before, after), count in self._changes.most_common()
            ),
            changed=tuple(self._changed),
            hooks=tuple(hooks),
            never_matched=tuple(counts.hook for counts in hooks if not counts.matched and not counts.unknown),
            redacted=dict(self._redacted.most_common()),
            not_reached=self._not_reached,
        )


class _Answers:
    """The recorded answers of an event's commands and requests."""

    def __init__(self, past: PastEvent, candidate: Candidate) -> None:
        self._candidate = candidate
        parts = past.verdict.parts if past.verdict is not None else ()
        self._parts = {part.hook: part for part in parts if part.layer == candidate.layer}
        self.unknown: list[str] = []

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:  # noqa: ARG002  (it never runs anything)
        """The recorded outcome of a hook that is no rule; without one it has nothing to say.

        A workflow comes here only for a call that was denied before workflows were asked.
        """
        if hook.kind == "workflow":
            return Outcome()
        part = self._parts.get(hook.id) if hook.id in self._candidate.same_programs else None
        if part is None:
            self.unknown.append(hook.id)
            return Outcome()
        if part.fallback:
            return Outcome(failure=part.fallback)
        return Outcome(decision=part.observed or part.decision, reason=part.reason)


def _decision_before(verdict: Verdict | None) -> Decision:
    """What the hooks decided then, whatever a person or a stop decided after them.

    If no hook could be asked, it is the decision of the failure policy.
    """
    if verdict is None:
        return "abstain"
    return decision_of(verdict.parts) if verdict.parts or verdict.stop or not verdict.fallback else verdict.decision
