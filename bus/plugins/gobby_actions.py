"""What actions of plugins get and import in Gobby: their context, the state of a workflow, the executor, the templates."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bus.plugins.registry import PluginRegistry

log = logging.getLogger("gobby.plugins")


class WorkflowState:
    """The state of a workflow as actions get it: `state.variables["x"]`, `state.step`. Changed variables are kept."""

    def __init__(self, fields: Mapping[str, Any] | None = None, **named: Any) -> None:
        self.variables: dict[str, Any] = {}
        self.__dict__.update({**(fields or {}), **named})

    def get(self, name: str, default: Any = None) -> Any:
        """A field by its name."""
        return self.__dict__.get(name, default)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class TemplateEngine:
    """Renders Jinja templates, in a sandbox."""

    def __init__(self, template_dirs: list[str] | None = None) -> None:
        self.template_dirs = template_dirs or []

    def render(self, template_str: str, context: Mapping[str, Any]) -> str:
        """The template with the values of `context`; raises ConfigError where it fails."""
        from bus.workflows.templates import render  # its imports take time, and most plugins render nothing

        return render(str(template_str), context)


@dataclass
class ActionContext:
    """What an action of a workflow gets; fields that Fleethook has no value for are None."""

    session_id: str = ""
    state: Any = None
    db: Any = None
    session_manager: Any = None
    template_engine: Any = field(default_factory=TemplateEngine)
    llm_service: Any = None
    transcript_processor: Any = None
    config: Any = None
    memory_manager: Any = None
    event_data: dict[str, Any] = field(default_factory=dict)
    mcp_manager: Any = None
    skill_learner: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """A field by its name, else a key of the event's data."""
        value = getattr(self, name, None)
        return self.event_data.get(name, default) if value is None else value


class ActionExecutor:
    """Runs actions by their names, for tests and type hints; Fleethook's workflows do not use it."""

    def __init__(self, *services: Any, **named: Any) -> None:
        self.services, self._handlers = (services, named), dict[str, Callable[..., Any]]()

    def register(self, name: str, handler: Callable[..., Any]) -> None:
        """Add an action; replaces one with the same name."""
        self._handlers[name] = handler

    def register_plugin_actions(self, plugin_registry: PluginRegistry) -> None:
        """Add the actions of every loaded plugin as `plugin:NAME:ACTION`."""
        for name, plugin in plugin_registry._plugins.items():  # noqa: SLF001 - Gobby's name
            for action in plugin._actions.values():  # noqa: SLF001 - as above
                self.register(f"plugin:{name}:{action.name}", _checked(action))

    async def execute(self, action_type: str, context: ActionContext, **kwargs: Any) -> dict[str, Any] | None:
        """What an action returns; `{"error": …}` where it raises, and None for one that nobody registered."""
        handler = self._handlers.get(action_type)
        if handler is None:
            log.warning("there is no action %r", action_type)
            return None
        try:
            found = handler(context, **kwargs)
            result: dict[str, Any] | None = await found if inspect.isawaitable(found) else found
        except Exception as error:
            log.exception("the action %s", action_type)
            return {"error": str(error)}
        return result


def _checked(action: Any) -> Callable[..., Any]:
    def run(context: ActionContext, **kwargs: Any) -> Any:
        fits, why = action.validate_input(kwargs)
        return action.handler(context, **kwargs) if fits else {"error": f"Schema validation failed: {why}"}

    return run
