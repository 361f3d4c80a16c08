"""Gobby's `PluginLoader` and `run_plugin_handlers`, for tests and programs that load plugins in their own process (G-11, G-13).

Fleethook's workers do not use them: there, plugins are enabled by name and have a process of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from bus.plugins.events import HookEvent, HookResponse
from bus.plugins.gobby_config import PluginItemConfig, PluginsConfig
from bus.plugins.plugin import HookPlugin
from bus.plugins.registry import PluginRegistry

log = logging.getLogger("gobby.plugins")


class PluginLoader:
    """Finds, loads, unloads and reloads plugins; `registry` has those that are loaded."""

    def __init__(self, config: PluginsConfig) -> None:
        self.config, self.registry = config, PluginRegistry()
        self._paths: dict[str, Path] = {}
        """By plugin: the file from which it was loaded."""

    def discover_plugins(self, dirs: Iterable[str | Path] | None = None) -> list[type[HookPlugin]]:
        """The plugin classes in the folders (default: those of the config). A later folder wins over an earlier one.

        A file that cannot be imported is logged and left out.
        """
        found: dict[str, type[HookPlugin]] = {}
        for folder in self.config.plugin_dirs if dirs is None else dirs:
            place = Path(folder).expanduser().resolve()
            for path in sorted(place.glob("*.py")) if place.is_dir() else ():
                if not path.name.startswith("_"):
                    found |= {kind.name: kind for kind in self._classes(path)}
        return list(found.values())

    def load_plugin(self, plugin_class: type[HookPlugin], config: dict[str, Any] | None = None) -> HookPlugin:
        """Load a plugin. Its own settings in the config win; raises ValueError where they switch it off."""
        name = plugin_class.name
        entry = self.config.plugins.get(name)
        if entry is None:
            entry = PluginItemConfig(config=config or {})
        if not entry.enabled:
            raise ValueError(f"Plugin '{name}' is disabled in the config")
        plugin = plugin_class()
        _wait(plugin.on_load(entry.config))
        self.registry.register_plugin(plugin)
        return plugin

    def unload_plugin(self, name: str) -> None:
        """Call `on_unload`, whose errors are logged, and forget the plugin."""
        plugin = self.registry.get_plugin(name)
        if plugin is not None:
            try:
                _wait(plugin.on_unload())
            except Exception:
                log.exception("on_unload of the plugin %s", name)
        self.registry.unregister_plugin(name)

    def load_all(self) -> list[HookPlugin]:
        """Load everything that is found, if plugins are enabled; those that fail are logged and left out."""
        loaded = []
        for kind in self.discover_plugins() if self.config.enabled and self.config.auto_discover else ():
            entry = self.config.plugins.get(kind.name)
            if entry is not None and not entry.enabled:
                continue
            try:
                loaded.append(self.load_plugin(kind))
            except Exception:
                log.exception("the plugin %s is not loaded", kind.name)
        return loaded

    def unload_all(self) -> None:
        """Unload every plugin, the last one first."""
        for name in reversed(list(self.registry._plugins)):  # noqa: SLF001 - Gobby's name
            self.unload_plugin(name)

    def reload_plugin(self, name: str) -> HookPlugin | None:
        """Import a plugin's file anew and load it; None where that fails, and then it stays unloaded."""
        old = self.registry.get_plugin(name)
        if old is None:
            log.error("no plugin %r is loaded", name)
            return None
        path = self._paths.get(name) or Path(inspect.getfile(type(old)))
        self.unload_plugin(name)
        kind = next((kind for kind in self._classes(path) if kind.name == name), None)
        try:
            return self.load_plugin(kind) if kind is not None else None
        except Exception:
            log.exception("the plugin %s is not loaded again", name)
            return None

    def _classes(self, path: Path) -> Iterator[type[HookPlugin]]:
        try:
            module = _imported(path)
        except Exception:
            log.exception("%s cannot be imported", path)
            return
        for value in list(vars(module).values()) if module else ():
            if isinstance(value, type) and issubclass(value, HookPlugin) and value is not HookPlugin and value.name:
                self._paths[value.name] = path
                yield value


def run_plugin_handlers(
    registry: PluginRegistry, event: HookEvent, pre: bool = True, core_response: HookResponse | None = None
) -> HookResponse | None:
    """Call the handlers of an event: those under 50 (`pre`), which may answer, or those from 50 on, which only observe.

    The first refusal ends the chain. Without one, the strictest answer with the context of all; None where nobody objects
    and there is no context. A handler that raises is logged, and the next one is called.
    """
    contexts: list[str] = []
    asked: HookResponse | None = None
    for handler in registry.get_handlers(event.event_type, pre_only=pre, post_only=not pre):
        args = (event,) if not handler.takes_response else (event, None if pre else core_response)
        try:
            found = _wait(handler.method(*args))
        except Exception:
            log.exception("the handler %s", handler.id)
            continue
        if not pre or not isinstance(found, HookResponse):
            continue
        if found.decision in {"deny", "block"}:
            return found
        if found.context:
            contexts.append(found.context)
        if asked is None and found.decision in {"ask", "modify"}:
            asked = found
    context = "\n\n".join(contexts) or None
    if asked is not None:
        asked.context = context
        return asked
    return HookResponse(context=context) if context else None


def _imported(path: Path) -> ModuleType | None:
    """A file's module, imported anew."""
    name = f"gobby_plugin_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        name = f"{name}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # Not by its loader, which may take bytecode of a file that changed within the same second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - it is asked to run
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _wait(value: Any) -> Any:
    """The result of what a plugin returned, which may be awaitable; beside a running loop it is awaited in a thread."""
    if not inspect.isawaitable(value):
        return value

    async def result() -> Any:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(result())
    found: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(result()))
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
