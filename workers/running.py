"""Runs a hook of any kind: what the evaluator and the host's worker share."""

from __future__ import annotations

from bus.events import Event
from bus.hooks import Hook
from bus.inforce import Watcher
from bus.runners import Outcome, Runner
from bus.runners.command import CommandRunner
from bus.runners.http import HttpRunner
from bus.runners.rule import RuleRunner
from workers.posters import Posters


class Runners:
    """The runners of one process; http hooks go out under the address policy of the set in force."""

    def __init__(self, watcher: Watcher, posters: Posters) -> None:
        self._watcher, self._posters = watcher, posters
        self.rules: Runner = RuleRunner()
        self._commands: Runner = CommandRunner()

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """Run one hook by its kind."""
        if hook.kind == "rule":
            return await self.rules.run(hook, event, seconds)
        if hook.kind == "command":
            return await self._commands.run(hook, event, seconds)
        in_force = self._watcher.for_event(event)
        return await HttpRunner(self._posters.under(in_force.network, in_force.proxy)).run(hook, event, seconds)
