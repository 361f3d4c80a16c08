"""What hooks have said to recorded events, and what became of the calls that they asked about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from bus.events import Event, EventType
from bus.matching.exact_calls import ExactCall, call_input, input_text
from bus.verdicts import Part, Verdict
from workers.simulation.past_events import Past, PastEvent

MOST_CALLS: Final = 50_000
"""The most different calls that are remembered; asks about further ones are only counted."""
_MOST_IDS: Final = 20
_RAN: Final = frozenset({EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value})
_REFUSED: Final = EventType.PERMISSION_DENIED.value
_ANSWERED: Final = "approval:answered"

Answer = Literal["approved", "denied"]


class HookHistory(msgspec.Struct, kw_only=True):
    """What one hook said, over all events that were read."""

    hook: str
    layer: str = ""
    denied: int = 0
    asked: int = 0
    approved: int = 0
    """How many of its asks a person has approved, or the agent ran after its own prompt."""
    refused: int = 0
    """How many of its asks a person has denied."""
    allowed: int = 0
    other: int = 0
    failed: int = 0
    observed: dict[str, int] = msgspec.field(default_factory=dict)
    """By decision: how often it would have decided so if it did not only observe."""
    sessions: int = 0
    """In how many sessions it had anything to say."""
    last: int = 0
    """When it last had anything to say (ms)."""
    events: list[str] = msgspec.field(default_factory=list)
    """The newest events to which it had anything to say."""


class AskedCall(msgspec.Struct, kw_only=True):
    """One exact call that hooks have asked about."""

    call: ExactCall
    event: Event
    """One of its events, as its agent sent it."""
    parts: tuple[Part, ...]
    """The parts of the hooks that asked."""
    asked: int = 0
    approved: int = 0
    denied: int = 0
    last: int = 0
    events: list[str] = msgspec.field(default_factory=list)
    questions: list[str] = msgspec.field(default_factory=list)
    """The events whose questions a person approved: `approvals remember` takes them."""

    @property
    def open(self) -> int:
        """How many of its asks nobody has answered, as far as is recorded."""
        return self.asked - self.approved - self.denied


class History:
    """Reads past events, oldest first."""

    def __init__(self) -> None:
        self.events = self.first = self.last = 0
        self.calls: dict[tuple[Any, ...], AskedCall] = {}
        self._hooks: dict[tuple[str, str], HookHistory] = {}
        self._sessions: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._prompted: dict[tuple[str, ...], AskedCall] = {}
        """Asks that the agents' own prompts got, by what identifies the call."""
        self._waiting: dict[str, AskedCall] = {}
        """Questions that were not answered while their agents waited, by id."""

    def add(self, page: Iterable[Past]) -> None:
        """Read some events; those that cannot be read are left out."""
        for past in page:
            if isinstance(past, PastEvent):
                self._add(past)

    def hooks(self) -> list[HookHistory]:
        """Every hook that had anything to say, the one that said most first."""
        for key, sessions in self._sessions.items():
            self._hooks[key].sessions = len(sessions)
        return sorted(self._hooks.values(), key=lambda hook: (-hook.denied - hook.asked, hook.layer, hook.hook))

    def _add(self, past: PastEvent) -> None:
        self.events += 1
        if past.ms:
            self.first = self.first or past.ms
            self.last = max(self.last, past.ms)
        if past.event.type in _RAN:
            self._answer(self._prompted.pop(_identity(past.event), None), "approved")
        elif past.event.type == _REFUSED:
            self._answer(self._prompted.pop(_identity(past.event), None), "denied")
        elif past.event.type == _ANSWERED:
            self._late_answer(past.event)
        if past.verdict is not None:
            for part in past.verdict.parts:
                self._count(past, part)
            self._ask(past, past.verdict)

    def _count(self, past: PastEvent, part: Part) -> None:
        key = (part.hook, part.layer)
        hook = self._hooks.setdefault(key, HookHistory(hook=part.hook, layer=part.layer))
        if part.observed is not None:
            hook.observed[part.observed] = hook.observed.get(part.observed, 0) + 1
        hook.denied += part.decision == "deny"
        hook.asked += part.decision == "ask"
        hook.allowed += part.decision == "allow"
        hook.other += part.decision == "abstain" and part.observed is None
        hook.failed += bool(part.fallback)
        hook.last = past.ms
        hook.events = [past.id, *hook.events][:_MOST_IDS]
        self._sessions.setdefault(key, set()).add((past.event.source, past.event.session))

    def _ask(self, past: PastEvent, verdict: Verdict) -> None:
        """Remember a call that hooks asked about and that none denied."""
        event, parts = past.event, tuple(part for part in verdict.parts if part.decision == "ask")
        passed_by_ticket = verdict.approval is not None and verdict.approval.ticket
        if not parts or not event.tool or passed_by_ticket or any(part.decision == "deny" for part in verdict.parts):
            return
        asking = tuple(sorted({(part.layer, part.hook) for part in parts}))
        text = input_text(event.tool, event.input)
        key = (asking, event.tool, text, event.cwd, event.source, event.host)
        known = self.calls.get(key)
        if known is None:
            if len(self.calls) >= MOST_CALLS:
                return
            call = ExactCall(
                tool=event.tool,
                input=call_input(event.tool, event.input),
                cwd=event.cwd,
                source=event.source,
                host=event.host,
            )
            known = self.calls[key] = AskedCall(call=call, event=event, parts=parts)
        known.asked += 1
        known.last, known.parts = past.ms, parts
        known.events = [past.id, *known.events][:_MOST_IDS]
        approval = verdict.approval
        if approval is None:
            self._prompted[_identity(event)] = known
        elif approval.state == "waiting":
            self._waiting[approval.question] = known
        elif approval.state in ("approved", "denied"):
            self._answer(known, approval.state, approval.question)

    def _late_answer(self, event: Event) -> None:
        question, state = event.data.get("question"), event.data.get("state")
        if isinstance(question, str) and state in ("approved", "denied"):
            self._answer(self._waiting.pop(question, None), state, question)

    def _answer(self, call: AskedCall | None, answer: Answer, question: str = "") -> None:
        if call is None:
            return
        if answer == "approved":
            call.approved += 1
            call.questions += [question] if question else []
        else:
            call.denied += 1
        for part in call.parts:
            hook = self._hooks[part.hook, part.layer]
            hook.approved += answer == "approved"
            hook.refused += answer == "denied"


def _identity(event: Event) -> tuple[str, ...]:
    """What a call's events have in common: its id, or without one its tool and input."""
    about = event.call or f"{event.tool}\0{input_text(event.tool, event.input)}"
    return (event.source, event.host, event.session, about)
