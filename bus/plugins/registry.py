"""The loaded plugins of one process with their handlers, actions and conditions, under Gobby's names."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from bus.agents.gobby import handler_events
from bus.events import Event
from bus.matching.patterns import Index
from bus.plugins.events import HookEventType
from bus.plugins.plugin import OBSERVES, HookPlugin, PluginAction

log = logging.getLogger("gobby.plugins")


@dataclass
class RegisteredHandler:
    """One handler of a loaded plugin."""

    plugin: HookPlugin
    method: Callable[..., Any]
    event_type: HookEventType | str
    priority: int
    tool: str = ""
    """Any tool: a handler's pattern may name one (`tool:*:write`)."""

    @property
    def id(self) -> str:
        """Plugin and method, for messages."""
        return f"{self.plugin.name}.{self.method.__name__}"

    @property
    def observes(self) -> bool:
        """Whether it sees the verdict and cannot change it."""
        return self.priority >= OBSERVES

    @cached_property
    def takes_response(self) -> bool:
        """Whether it is called with a second argument: the verdict, which a handler under 50 gets as None.

        One under 50 whose second argument has a default of its own keeps that default.
        """
        try:
            parameters = inspect.signature(self.method).parameters.values()
        except (TypeError, ValueError):  # a method without `self`: the call itself says what is wrong
            return False
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        second = positional[1:2]
        if second and not self.observes and second[0].default is not inspect.Parameter.empty:
            return False
        return bool(second) or any(p.kind is p.VAR_POSITIONAL for p in parameters)


class PluginRegistry:
    """Plugins by name, and their handlers by event."""

    def __init__(self) -> None:
        self._plugins: dict[str, HookPlugin] = {}
        self._handlers: list[RegisteredHandler] = []
        self.modules: dict[str, ModuleType] = {}
        """The modules that were imported for the plugins, by path."""
        self._index: Index[RegisteredHandler] | None = None

    def register_plugin(self, plugin: HookPlugin) -> None:
        """Add a plugin with its handlers; raises ValueError where its name is taken."""
        if plugin.name in self._plugins:
            raise ValueError(f"a plugin with the name {plugin.name!r} is already registered")
        found = []
        for name in sorted(dir(type(plugin))):
            function = inspect.getattr_static(type(plugin), name)
            function = getattr(function, "__func__", function)  # a static or class method
            if callable(function) and hasattr(function, "_hook_event_type"):
                only = ((function._hook_event_type, function._hook_priority),)  # noqa: SLF001 - Gobby's names
                for event, priority in getattr(function, "_hook_events", only):
                    found.append(RegisteredHandler(plugin, getattr(plugin, name), _event(event), int(priority)))
        self._plugins[plugin.name] = plugin
        self._handlers += found
        self._handlers.sort(
            key=lambda handler: handler.priority
        )  # stable: by name in a plugin, then by order of loading
        self._index = None

    def unregister_plugin(self, name: str) -> None:
        """Remove a plugin; an unknown name is only logged."""
        if self._plugins.pop(name, None) is None:
            log.warning("no plugin %r is loaded", name)
        self._handlers = [handler for handler in self._handlers if handler.plugin.name != name]
        self._index = None

    def get_handlers(
        self, event_type: HookEventType | str, pre_only: bool = False, post_only: bool = False
    ) -> list[RegisteredHandler]:
        """The handlers of an event, by priority."""
        return [
            handler
            for handler in self._handlers
            if handler.event_type == event_type
            and not (pre_only and handler.observes)
            and not (post_only and not handler.observes)
        ]

    def find(self, canonical_type: str, tool: str) -> list[RegisteredHandler]:
        """The handlers that fit an event of Fleethook, by priority."""
        if self._index is None:
            self._index = Index([(handler, handler_events(str_of(handler.event_type))) for handler in self._handlers])
        return list(self._index.find(Event(type=canonical_type, tool=tool)))

    def get_plugin(self, name: str) -> HookPlugin | None:
        """The plugin with this name."""
        return self._plugins.get(name)

    def get_plugin_action(self, plugin_name: str, action_name: str) -> PluginAction | None:
        """A plugin's action."""
        plugin = self._plugins.get(plugin_name)
        return plugin.get_action(action_name) if plugin is not None else None

    def handlers_of(self, name: str) -> list[RegisteredHandler]:
        """The handlers of one plugin, by priority."""
        return [handler for handler in self._handlers if handler.plugin.name == name]

    def list_plugins(self) -> list[dict[str, Any]]:
        """Each plugin in plain data, as Gobby's tools show it."""
        return [
            {
                "name": plugin.name,
                "version": plugin.version,
                "description": plugin.description,
                "handlers": [
                    {"event": str_of(handler.event_type), "priority": handler.priority}
                    for handler in self.handlers_of(plugin.name)
                ],
                "actions": [
                    {"name": action.name, "has_schema": action.schema is not None, "schema": action.schema}
                    for action in plugin._actions.values()  # noqa: SLF001 - Gobby's name
                ],
                "conditions": list(plugin._conditions),  # noqa: SLF001 - as above
            }
            for plugin in self._plugins.values()
        ]


def str_of(event: HookEventType | str) -> str:
    """The text of an event's name."""
    return event.value if isinstance(event, HookEventType) else event


def is_same_event(one: str, other: str) -> bool:
    """Whether two names, in any spelling, are of the same event."""
    return one == other or str_of(_event(one)) == str_of(_event(other))


def _event(event: object) -> HookEventType | str:
    text = str(getattr(event, "value", event))
    if ":" in text or "*" in text or not text:
        return text
    return HookEventType(text)
