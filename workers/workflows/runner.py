"""Runs a workflow's hook for an event: reads the state, lets the workflow advance, and writes what it did, once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from bus.errors import FleethookError
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.verdicts import Policy
from bus.workflow_steps.effects import Effects
from bus.workflow_steps.engine import advance
from bus.workflow_steps.state import FlowRecord, outcome_of
from bus.workflows.values import waits
from workers.delivery.deliveries import now_ms
from workers.workflows.store import FlowStore

log = logging.getLogger("fleethook.workflows")

_TRIES: Final = 20
"""How often a workflow begins again because another event of its session was faster."""

MakeEffects = Callable[[Hook, Event, float], Effects]
"""What a workflow may do outside for an event, within so many seconds."""


class WorkflowRunner:
    """Runs hooks of kind `workflow` in one worker."""

    def __init__(self, store: FlowStore, effects: MakeEffects) -> None:
        self._store, self._effects = store, effects

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The outcome of a workflow at an event; the same as before where it has handled the event already."""
        try:
            record = await self.handle(hook, event, seconds)
        except FleethookError as error:
            return Outcome(failure=f"workflow {hook.id!r} ({hook.origin}): {error}")
        return (
            Outcome() if record is None else outcome_of(record)
        )  # a part of the verdict, which says that it was asked

    async def handle(self, hook: Hook, event: Event, seconds: float) -> FlowRecord | None:
        """What a workflow did at an event; None if the session does not have it, or if it had nothing to do.

        Raises FleethookError if the state cannot be read or written.
        """
        workflow = hook.workflow
        if workflow is None or not event.session or (workflow.sources and event.source not in workflow.sources):
            return None
        until = time.monotonic() + seconds
        leased = seconds if waits(workflow) else 0.0
        policy: Policy = hook.on_failure or find_hooks(hook.dialect).policy or "allow"
        for _ in range(_TRIES):
            left = max(0.0, until - time.monotonic())
            found = await self._store.read(hook, event, leased_for=leased, wait=left)
            if found.record is not None:
                return found.record
            record = None
            try:
                effects = self._effects(hook, event, left)
                now = now_ms()
                done = await advance(workflow, found.state, found.shared, event, effects, now=now, policy=policy)
                if done is None or done.is_silent:
                    return None
                record = await self._store.write(hook, event, found, done)
                if record is not None:
                    return record
            finally:
                if found.token and record is None:
                    await self._store.release(hook, event, found)
            if time.monotonic() >= until:
                break
        raise FleethookError("other events of the session changed its state all the time")
