"""A bus in the test's process: it reads the hook files that you name and needs no server.

Like the real bus, it checks the files, matches hooks, runs rules, commands and http hooks in order, and applies the failure
policy of a hook that fails. It does not run background hooks and webhooks: `recipients` names them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bus.chain import Evaluation, evaluate
from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.hookfile import HookFile, load_hook_file, parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.http.client_pool import ClientPool
from bus.ids import event_id, host_name
from bus.matching.checker_messages import answer_rule
from bus.matching.disk import full_disk
from bus.matching.findings import Findings, ask, checker
from bus.matching.rules import unread_notes
from bus.outcomes import Outcome
from bus.plugins.plugin import HookPlugin
from bus.runners.command import CommandRunner
from bus.runners.http import HttpRunner
from bus.runners.model import ModelRunner
from bus.runners.rule import rule_outcome
from bus.sdk.facade import DEFAULT_BUDGET, AgentFacade, SyncAgentFacade
from bus.testing.plugins_here import PluginsHere
from bus.verdicts import Policy, Verdict
from bus.workflow_steps.memory import MemoryFlows
from bus.workflow_steps.state import outcome_of


class Handled(NamedTuple):
    """One event that was published or requested."""

    event: Event
    verdict: Verdict | None
    """None for an event that was only published."""
    recipients: tuple[str, ...]
    """The ids of the background hooks that would run, then of the endpoints that would get the event."""


class MemoryBus(AgentFacade):
    """A bus for tests, with the calls of `bus.Bus`: publish, request, and the scopes of agents written in Python."""

    def __init__(self, *files: Path | str, text: str = "", on_failure: Policy = "allow") -> None:
        """Read hooks from `fleethook.yaml` files, or from the `text` of one. Raises ConfigError with every mistake."""
        self.on_failure: Policy = on_failure
        self.handled: list[Handled] = []
        """Everything that was published or requested, in order."""
        read = (_checked(load_hook_file(Path(path), "user")) for path in files)
        layers = [Layered("user", str(number), file) for number, file in enumerate(read, 1)]
        if text:
            layers.append(Layered("user", "text", _checked(parse_hook_file(text, "user"))))
        self._hooks = HookSet(layers)
        self._plugins = PluginsHere([plugin for layered in layers for plugin in layered.file.plugins])
        self._plugins.note_hooks(list(self._hooks.hooks.values()))
        self._checker = checker()
        self._clients, self._models = ClientPool(), ModelRunner()
        self._commands, self._flows = CommandRunner(), MemoryFlows()

    async def close(self) -> None:
        """End the process that checks heavy rules, the connections of http hooks, and background processes of hooks."""
        self._checker.close()
        await self._plugins.close()
        await self._commands.end_background()
        await self._clients.__aexit__(None, None, None)

    def sync(self) -> SyncMemoryBus:
        """The same bus for a program without an event loop."""
        return SyncMemoryBus(self)

    async def publish(self, event: Event) -> str:
        """Announce an event; returns its id."""
        event = self._prepared(event)
        self._keep(event, None)
        for hook in self._hooks.background(event, None):
            if hook.workflow is not None:
                await self._flow(hook, event)
        for hook in self._hooks.observers(event, None):
            await self._plugins.observe(hook, event, None)
        return event.id

    async def publish_many(self, events: Sequence[Event]) -> list[str]:
        """As `publish`, for several events."""
        return [await self.publish(event) for event in events]

    async def request(self, event: Event, *, budget: float = DEFAULT_BUDGET) -> Verdict:
        """The verdict of the blocking hooks on an event, within `budget` seconds.

        Raises ConfigError where a plugin that takes part cannot be loaded: a test must not pass without it.
        """
        event = self._prepared(event)
        hooks, findings = await self._fitting(event)
        if any(hook.kind == "plugin" for hook in hooks):
            await self._plugins.load()
        verdict = await evaluate(
            Evaluation(
                event=event,
                hooks=hooks,
                run=lambda hook, seen, seconds: self._run(hook, seen, seconds, findings),
                seconds=budget,
                policy=self.on_failure,
                version=self._hooks.version,
                layers=self._hooks.layers,
                hooks_for=self._hooks_for,
                notes=unread_notes([hook.rule for hook in hooks if hook.rule is not None], event),
            )
        )
        verdict = msgspec.structs.replace(verdict, event=event.id)
        self._keep(event, verdict)
        for hook in self._hooks.observers(event, verdict):
            await self._plugins.observe(hook, event, verdict)
        return verdict

    async def plugin(self, name: str) -> HookPlugin:
        """A Python plugin of the hook files, loaded in this process."""
        return await self._plugins.plugin(name)

    async def _fitting(self, event: Event) -> tuple[list[Hook], Findings | None]:
        question = self._hooks.question(event)
        findings = await asyncio.to_thread(ask, self._checker, question) if question is not None else None
        return self._hooks.blocking(event, findings, full_disk()), findings

    async def _hooks_for(self, event: Event) -> Sequence[Hook]:
        return (await self._fitting(event))[0]

    async def _run(self, hook: Hook, event: Event, seconds: float, findings: Findings | None) -> Outcome:
        if hook.rule is not None:
            known = findings.rules.get(hook.id) if findings is not None else None
            return rule_outcome(hook, event, known or answer_rule(hook.id, hook.rule, event, full_disk()))
        if hook.kind == "command":
            return await self._commands.run(hook, event, seconds)
        if hook.kind == "plugin":
            return await self._plugins.run(hook, event)
        if hook.kind == "workflow":
            return await self._flow(hook, event)
        client = self._clients.get(self._hooks.network, self._hooks.proxy)
        if hook.kind == "http":
            return await HttpRunner(client).run(hook, event, seconds)
        return await self._models.run(hook, event, seconds, self._hooks.model, client)

    async def _flow(self, hook: Hook, event: Event) -> Outcome:
        """What a workflow says; what it would start is named in the verdict's part, and not started."""
        done = await self._flows.handle(hook, event)
        if done is None:
            return Outcome()
        found = outcome_of(done.record)
        return msgspec.structs.replace(found, output="; ".join((found.output, *self._flows.would)))

    def _prepared(self, event: Event) -> Event:
        return msgspec.structs.replace(event, id=event.id or event_id(), host=event.host or host_name())

    def _keep(self, event: Event, verdict: Verdict | None) -> None:
        background = [hook.id for hook in self._hooks.background(event, verdict)]
        endpoints = [endpoint.id for endpoint in self._hooks.targets(event, verdict)]
        self.handled.append(Handled(event, verdict, (*background, *endpoints)))


class SyncMemoryBus(SyncAgentFacade[MemoryBus]):
    """A MemoryBus for synchronous tests."""

    def plugin(self, name: str) -> HookPlugin:
        """As MemoryBus.plugin."""
        return self._run(self._bus.plugin(name))

    @property
    def handled(self) -> list[Handled]:
        """As MemoryBus.handled."""
        return self._bus.handled


def _checked(file: HookFile) -> HookFile:
    """The file. Raises ConfigError with every problem: a test must not pass because a hook was left out."""
    if file.problems:
        raise ConfigError("\n".join(str(problem) for problem in file.problems))
    return file
