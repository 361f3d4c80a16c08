"""The base class of plugins, and the decorator of their handlers (G-11, G-12, G-16)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from bus.errors import ConfigError
from bus.plugins.schema import problems_of

if TYPE_CHECKING:  # it imports sqlite3, which few plugins need
    from bus.plugins.shared_state import SharedState

_F = TypeVar("_F", bound=Callable[..., Any])

OBSERVES: Final = 50
"""From this priority on, a handler sees the verdict and cannot change it (G-12)."""


def hook_handler(event_type: str, priority: int = OBSERVES) -> Callable[[_F], _F]:
    """Make a method the handler of an event: a `HookEventType`, its value in any spelling, or a pattern (`tool:*:write`).

    Handlers with a priority under 50 contribute to the verdict, lower ones first; the others see it. Several decorators on one
    method make it the handler of several events.
    """

    def decorate(method: _F) -> _F:
        function = getattr(method, "__func__", method)  # below it, there may be a static or class method
        events = ((event_type, priority), *vars(function).get("_hook_events", ()))
        vars(function).update(_hook_event_type=event_type, _hook_priority=priority, _hook_events=events)
        return method

    return decorate


@dataclass
class PluginAction:
    """An action that a plugin offers to workflows."""

    name: str
    handler: Callable[..., Any]
    schema: dict[str, Any] | None = None
    plugin_name: str = ""

    def validate_input(self, kwargs: Mapping[str, Any]) -> tuple[bool, str | None]:
        """Whether arguments fit the schema, and what is wrong with them."""
        if not self.schema:
            return True, None
        wrong = [f"Missing required field: {name}" for name in self.schema.get("required", ()) if name not in kwargs]
        wrong += problems_of({key: value for key, value in self.schema.items() if key != "required"}, kwargs)
        return (not wrong, "; ".join(wrong) or None)


class HookPlugin:
    """A plugin: give it a `name`, decorate methods with `hook_handler`. A subclass with `__init__` calls the one here first."""

    name: str = ""
    version: str = "1.0.0"
    description: str = ""
    requires: ClassVar[tuple[str, ...] | list[str]] = ()
    """Names of plugins that are loaded before this one, in the same process; `self.plugin(name)` returns them."""
    config_schema: ClassVar[Any] = None
    """What `config` has to fit: a JSON Schema as a dict, or a dataclass or msgspec.Struct with the fields."""

    _shared_file: ClassVar[str] = ""

    def __init__(self) -> None:
        self._actions: dict[str, PluginAction] = {}
        self._conditions: dict[str, Callable[..., Any]] = {}
        self._loaded: Mapping[str, HookPlugin] = {}
        self.logger = logging.getLogger(f"gobby.plugins.{self.name}")

    def on_load(self, config: dict[str, Any]) -> Any:
        """Called once before the first event; may be `async`."""

    def on_unload(self) -> Any:
        """Called when the plugin is reloaded or its worker ends, after its calls have ended; may be `async`."""

    def register_action(self, name: str, handler: Callable[..., Any]) -> None:
        """Offer an action to workflows; replaces one with the same name."""
        self._actions[name] = PluginAction(name, handler, None, self.name)

    def register_workflow_action(
        self, action_type: str, schema: dict[str, Any], executor_fn: Callable[..., Any]
    ) -> None:
        """Offer an action whose arguments are checked against a schema; raises ValueError where the name is taken."""
        if action_type in self._actions:
            raise ValueError(f"the plugin {self.name!r} has an action {action_type!r} already registered")
        self._actions[action_type] = PluginAction(action_type, executor_fn, schema, self.name)

    def get_action(self, name: str) -> PluginAction | None:
        """The action with this name."""
        return self._actions.get(name)

    def register_condition(self, name: str, evaluator: Callable[..., Any]) -> None:
        """Offer a condition to workflows; replaces one with the same name."""
        self._conditions[name] = evaluator

    @cached_property
    def shared(self) -> SharedState:
        """Values that all processes of this plugin on this machine have in common, and that outlive a reload."""
        from bus.plugins.shared_state import SharedState

        return SharedState(self._shared_file)

    def plugin(self, name: str) -> HookPlugin:
        """A loaded plugin that this one requires; raises ConfigError if it is not loaded in this process."""
        found = self._loaded.get(name)
        if found is None:
            raise ConfigError(
                f"the plugin {self.name!r} asks for {name!r}, which is not loaded", hint="add it to `requires`"
            )
        return found
