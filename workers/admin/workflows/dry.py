"""Workflows for events that are only tried out: their states in memory, and what they would start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bus.chain import Run
from bus.events import Event
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.workflow_steps.memory import MemoryFlows
from bus.workflow_steps.state import FlowRecord, FlowState, outcome_of, session_key

_LATER: Final = ("would announce", "would run afterwards", "would send afterwards")
"""What no event waits for."""


class Tried(NamedTuple):
    """What a workflow did at the last event, and what it would have started."""

    record: FlowRecord | None
    """None if the session does not have it, or it had nothing to do."""
    would: tuple[str, ...] = ()
    outcome: Outcome = Outcome()

    @property
    def lacks_answers(self) -> bool:
        """Whether it asked for something outside, which was not done: with an answer it may have gone another way."""
        return any(not text.startswith(_LATER) for text in self.would)


class DryWorkflows:
    """Workflows without effects. An event moves each at most once, however often it is asked about the event."""

    def __init__(self) -> None:
        self._flows = MemoryFlows()
        self._event: str | None = None
        self.tried: dict[str, Tried] = {}
        """By hook, for the last event."""

    @property
    def would(self) -> dict[str, tuple[str, ...]]:
        """What they would start, by hook."""
        return {hook: tried.would for hook, tried in self.tried.items() if tried.record is not None}

    def know(self, hook: str, event: Event, state: FlowState | None, shared: Mapping[str, Any]) -> None:
        """Begin with this state of the event's session."""
        if state is not None:
            self._flows.states[session_key(event), hook] = state
        self._flows.shared.setdefault(session_key(event), {}).update(shared)

    def running(self, run: Run) -> Run:
        """The function that runs hooks, with workflows run here."""

        async def runs(hook: Hook, event: Event, seconds: float) -> Outcome:
            return await self._run(hook, event) if hook.workflow is not None else await run(hook, event, seconds)

        return runs

    def begin(self, event: Event) -> None:
        """Forget what was tried at the event before."""
        self._event, self.tried = event.id, {}

    async def _run(self, hook: Hook, event: Event) -> Outcome:
        if not event.session:
            return Outcome(output="the event has no session, so no workflow sees it")
        if event.id != self._event:
            self.begin(event)
        known = self.tried.get(hook.id)
        if known is None or not event.id:
            known = self.tried[hook.id] = await self._try(hook, event)
        return known.outcome

    async def _try(self, hook: Hook, event: Event) -> Tried:
        done = await self._flows.handle(hook, event)
        if done is None:
            return Tried(None, (), Outcome(output=f"workflow {hook.id}: the session does not have it"))
        would = tuple(self._flows.would)
        outcome = msgspec.structs.replace(outcome_of(done.record), output="; ".join((done.record.summary, *would)))
        return Tried(None if done.is_silent and not would else done.record, would, outcome)
