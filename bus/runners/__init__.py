"""One file per hook kind; each turns a hook and an event into an outcome."""

from __future__ import annotations

from typing import Protocol

from bus.events import Event
from bus.hooks import Hook
from bus.outcomes import Outcome


class Runner(Protocol):
    """Runs hooks of one kind. Never raises for a hook's failure: that is part of its Outcome."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """Run `hook` for `event` within `seconds` (its own timeout, cut to what is left of the budget)."""
        ...
