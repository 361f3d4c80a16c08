"""Runs a hook of any kind: what the evaluator and the host's worker share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.in_force import HookSet, Watcher
from bus.http.client_pool import ClientPool
from bus.outcomes import Outcome
from bus.runners import Runner
from bus.runners.command import CommandRunner
from bus.runners.http import HttpRunner
from bus.runners.rule import RuleRunner

_WARMED: Final = 500
_SAMPLE: Final = Event(type="tool:pre_execute", tool="bash", input={"command": "true && ls -la", "path": "/"})


class Runners:
    """The runners of one process; http hooks go out under the address policy of the set in force."""

    def __init__(
        self, watcher: Watcher, clients: ClientPool, later: Callable[[Event, str], Awaitable[None]] | None = None
    ) -> None:
        self._watcher, self._clients = watcher, clients
        self.rules: Runner = RuleRunner()
        self._commands = CommandRunner(later)

    @property
    def background(self) -> set[asyncio.Task[None]]:
        """The hooks that still run although their agents have their answers."""
        return self._commands.background

    async def end_background(self) -> None:
        """End the hooks that still run in the background."""
        await self._commands.end_background()

    async def warm(self, in_force: HookSet) -> None:
        """Judge a sample event before an agent waits: loading the rules' libraries and patterns takes half a second once."""
        rules = [hook for hook in in_force.hooks.values() if hook.kind == "rule"]
        for hook in rules[:_WARMED]:
            await self.rules.run(hook, _SAMPLE, 1.0)
        if any(hook.kind == "http" for hook in in_force.hooks.values()):
            self._clients.get(in_force.network, in_force.proxy).open()

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """Run one hook by its kind."""
        if hook.kind == "rule":
            return await self.rules.run(hook, event, seconds)
        if hook.kind == "command":
            return await self._commands.run(hook, event, seconds)
        in_force = self._watcher.for_event(event)
        return await HttpRunner(self._clients.get(in_force.network, in_force.proxy)).run(hook, event, seconds)
