"""Python plugins in the process of a test: loaded and called as their own process would, without it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Hook, Plugin
from bus.outcomes import NOTHING, Outcome
from bus.plugins.conversion import answer, arguments, joined, outcome, seen_verdict
from bus.plugins.loader import load_all, on_this_machine, problem_text, unload
from bus.plugins.messages import Answer
from bus.plugins.plugin import HookPlugin
from bus.plugins.registry import PluginRegistry, RegisteredHandler, is_same_event, str_of
from bus.verdicts import Verdict


class PluginsHere:
    """The plugins of a bus for tests."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = tuple(on_this_machine(plugin) for plugin in plugins)
        self._registry: PluginRegistry | None = None
        self._known: dict[str, set[str]] = {}

    async def load(self) -> None:
        """Load the plugins, if they are not loaded; raises ConfigError where one cannot be."""
        await self._loaded()

    async def plugin(self, name: str) -> HookPlugin:
        """The loaded plugin with this name; raises ConfigError where there is none."""
        found = (await self._loaded()).get_plugin(name)
        if found is None:
            raise ConfigError(f"no plugin is called {name!r} here")
        return found

    async def run(self, hook: Hook, event: Event) -> Outcome:
        """The outcome of one handler; without a time limit."""
        answers = [await self._call(handler, event, None) for handler in await self._handlers(hook, event)]
        if not answers:
            return NOTHING
        found = answers[0] if len(answers) == 1 else joined(0, answers)
        return Outcome(failure=f"plugin {hook.plugin!r} {found.failure}") if found.failure else outcome(hook, found)

    async def observe(self, hook: Hook, event: Event, verdict: Verdict | None) -> None:
        """Show an event with its verdict to a handler; raises AssertionError where it fails, which a worker would only log."""
        for handler in await self._handlers(hook, event):
            found = await self._call(handler, event, verdict)
            if found.failure and not found.failure.startswith("returned"):
                raise AssertionError(f"plugin {hook.plugin!r}: {handler.id} {found.failure}")

    async def close(self) -> None:
        """Unload the plugins; raises what their `on_unload` raises."""
        registry, self._registry = self._registry, None
        for plugin in reversed(self._plugins):
            if registry is not None and (loaded := registry.get_plugin(plugin.name)) is not None:
                await unload(loaded)

    async def _loaded(self) -> PluginRegistry:
        if self._registry is None:
            registry = PluginRegistry()
            for loaded in await load_all(self._plugins, registry):
                if loaded.problem:
                    raise ConfigError(f"the plugin {loaded.name!r} is not loaded: {loaded.problem}")
            self._registry = registry
        return self._registry

    async def _handlers(self, hook: Hook, event: Event) -> list[RegisteredHandler]:
        """The handlers for which a hook stands."""
        registry, method = await self._loaded(), hook.handler.method if hook.handler is not None else ""
        handlers = registry.handlers_of(hook.plugin)
        if method:
            named = [handler for handler in handlers if handler.method.__name__ == method]
            event_name = hook.handler.event if hook.handler is not None else ""
            return [handler for handler in named if is_same_event(str_of(handler.event_type), event_name)] or named[:1]
        known = self._known.get(hook.plugin, set())
        fitting = [handler for handler in registry.find(event.type, event.tool) if handler in handlers]
        wanted = [h for h in fitting if h.observes is not hook.blocking and h.method.__name__ not in known]
        return list({handler.method.__name__: handler for handler in reversed(wanted)}.values())[::-1]  # each once

    async def _call(self, handler: RegisteredHandler, event: Event, verdict: Verdict | None) -> Answer:
        try:
            returned = handler.method(*arguments(handler, event, seen_verdict(verdict) if verdict else None))
            return answer(0, await returned if inspect.isawaitable(returned) else returned)
        except Exception as error:  # noqa: BLE001 - a failure of the handler, as in a worker
            return Answer(0, failure=f"raised {problem_text(error, '')}")

    def note_hooks(self, hooks: Sequence[Hook]) -> None:
        """Note the handlers that have hooks of their own."""
        for hook in hooks:
            if hook.handler is not None and hook.handler.method:
                self._known.setdefault(hook.plugin, set()).add(hook.handler.method)
