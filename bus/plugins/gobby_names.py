"""The modules under whose names plugins written for Gobby import ours (G-11)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from bus.plugins import events, gobby_config, gobby_loader, plugin, registry
from bus.plugins.gobby_actions import ActionContext, ActionExecutor, TemplateEngine, WorkflowState

ROOTS: Final = ("gobby", "src")
"""`src` is the package's first name in Gobby's plan."""


def add_gobby_modules() -> None:
    """Make the names importable, unless Gobby itself is installed and imported already."""
    for root in ROOTS:
        if root not in sys.modules and not (root == "src" and _is_package("src")):
            config = {kind.__name__: kind for kind in gobby_config.CLASSES}
            workflows = {kind.__name__: kind for kind in (ActionContext, ActionExecutor, WorkflowState)}
            hooks = {
                "hooks.events": events,
                "hooks.plugins": _plugins_module(f"{root}.hooks.plugins"),
                "workflows.actions": _module(f"{root}.workflows.actions", workflows),
                "workflows.definitions": _module(f"{root}.workflows.definitions", workflows),
                "workflows.templates": _module(f"{root}.workflows.templates", {"TemplateEngine": TemplateEngine}),
                "config.app": _module(f"{root}.config.app", config),
                "config.extensions": _module(f"{root}.config.extensions", config),
            }
            for name, module in hooks.items():
                _add(f"{root}.{name}", module)
            # Gobby's package offers the names of its two modules too: `from gobby.hooks import HookPlugin, HookEvent`.
            package = sys.modules[f"{root}.hooks"]
            package.__dict__.update(
                {key: value for key, value in vars(hooks["hooks.plugins"]).items() if key[0] != "_"}
            )


def _plugins_module(name: str) -> ModuleType:
    names = {
        key: getattr(module, key)
        for module, keys in (
            (plugin, ("HookPlugin", "PluginAction", "hook_handler")),
            (registry, ("PluginRegistry", "RegisteredHandler")),
            (gobby_loader, ("PluginLoader", "run_plugin_handlers")),
            (events, ("HookEvent", "HookEventType", "HookResponse", "SessionSource")),
        )
        for key in keys
    }
    # Gobby's own guide imports the base class as GobbyPlugin.
    return _module(name, {**names, "GobbyPlugin": plugin.HookPlugin})


def _module(name: str, content: dict[str, Any]) -> ModuleType:
    module = ModuleType(name, "Fleethook's names for plugins that were written for Gobby.")
    module.__dict__.update(content)
    return module


def _add(name: str, module: ModuleType) -> None:
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        if parent not in sys.modules:
            package = ModuleType(parent)
            package.__path__ = []
            _add(parent, package)
        setattr(sys.modules[parent], last, module)


def _is_package(name: str) -> bool:
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name) is not None
