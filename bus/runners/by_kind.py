"""Runs a hook of any kind. The evaluator and the host worker share it."""

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
from bus.runners.model import ModelRunner
from bus.runners.rule import RuleRunner

_MOST_WARMED: Final = 500
"""How many rules judge the sample event."""
_SAMPLE: Final = Event(type="tool:pre_execute", tool="bash", input={"command": "true && ls -la", "path": "/"})


class Runners:
    """The runners of one process. The address policy of the set in force applies to http hooks.

    `run_plugin` runs the handlers of plugins, `run_workflow` workflows.
    `on_background_output` gets the output of a hook that ended in the background.
    """

    def __init__(
        self,
        watcher: Watcher,
        clients: ClientPool,
        on_background_output: Callable[[Event, str], Awaitable[None]] | None = None,
        run_plugin: Callable[[Hook, Event, float], Awaitable[Outcome]] | None = None,
        run_workflow: Callable[[Hook, Event, float], Awaitable[Outcome]] | None = None,
    ) -> None:
        self._watcher, self._clients, self._run_plugin = watcher, clients, run_plugin
        self._run_workflow = run_workflow
        self._warmed: HookSet | None = None
        self.rules: Runner = RuleRunner()
        self._commands, self._models = CommandRunner(on_background_output), ModelRunner()

    @property
    def background(self) -> set[asyncio.Task[None]]:
        """The hooks that still run although their agents have their answers."""
        return self._commands.background

    async def end_background(self) -> None:
        """End the hooks that still run in the background."""
        await self._commands.end_background()

    async def warm(self, in_force: HookSet) -> None:
        """Judge a sample event before an agent waits: loading the rules' libraries and patterns takes half a second once.

        Does nothing for the set that it has warmed last.
        """
        if in_force is self._warmed:
            return
        self._warmed = in_force
        rules = [hook for hook in in_force.hooks.values() if hook.kind == "rule"]
        for hook in rules[:_MOST_WARMED]:
            await self.rules.run(hook, _SAMPLE, 1.0)
            await asyncio.sleep(0)  # the process's heartbeat has its turn
        if any(hook.kind in {"http", "prompt", "agent"} for hook in in_force.hooks.values()):
            self._clients.get(in_force.network, in_force.proxy).open()

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """Run one hook by its kind."""
        if hook.kind == "rule":
            return await self.rules.run(hook, event, seconds)
        if hook.kind == "command":
            return await self._commands.run(hook, event, seconds)
        if hook.kind == "plugin":
            if self._run_plugin is None:
                return Outcome(failure=f"plugin {hook.plugin!r} does not run in this process")
            return await self._run_plugin(hook, event, seconds)
        if hook.kind == "workflow":
            if self._run_workflow is None:
                return Outcome(failure=f"workflow {hook.id!r} does not run in this process")
            return await self._run_workflow(hook, event, seconds)
        in_force = self._watcher.for_event(event)
        client = self._clients.get(in_force.network, in_force.proxy)
        if hook.kind == "http":
            return await HttpRunner(client).run(hook, event, seconds)
        return await self._models.run(hook, event, seconds, in_force.model, client)
