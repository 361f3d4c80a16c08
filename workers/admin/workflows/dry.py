"""Workflows for events that are only tried out: their states in memory, and what they would start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.chain import Run
from bus.events import Event
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.workflow_steps.memory import MemoryFlows
from bus.workflow_steps.state import FlowState, session_key


class DryWorkflows:
    """Workflows without effects; `would` has what they would start, by hook."""

    def __init__(self) -> None:
        self._flows = MemoryFlows()
        self.would: dict[str, tuple[str, ...]] = {}

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

    async def _run(self, hook: Hook, event: Event) -> Outcome:
        if not event.session:
            return Outcome(output="the event has no session, so no workflow sees it")
        done = await self._flows.handle(hook, event)
        if done is None:
            return Outcome(output=f"workflow {hook.id}: the session does not have it")
        record = done.record
        self.would[hook.id] = tuple(self._flows.would)
        return Outcome(
            decision=record.decision,
            reason=record.reason,
            contexts=record.contexts,
            note="; ".join(record.notes),
            output="; ".join((record.summary, *self._flows.would)),
        )
