"""Loads plugins in order: imports their modules, checks their config, and calls `on_load`."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from bus.errors import ConfigError
from bus.hookfiles.gobby_variables import expanded
from bus.hooks import Plugin
from bus.hooksets.plugins.sources import find_source, plugin_folders
from bus.lazy.conversions import converted
from bus.plugins.gobby_names import add_gobby_modules
from bus.plugins.messages import LoadedPlugin
from bus.plugins.plugin import HookPlugin, PluginAction
from bus.plugins.registry import PluginRegistry, str_of
from bus.plugins.schema import problems_of, schema_problems, with_defaults
from bus.secrets.redaction import redact_text

_MOST_SCHEMA: Final = 8 * 1024


def on_this_machine(plugin: Plugin) -> Plugin:
    """A plugin of a published set with its file here, which is looked for by name; without one if there is none."""
    if plugin.path:
        return plugin
    source = find_source(plugin.name, plugin_folders("user", ""))
    return plugin if source is None else msgspec.structs.replace(plugin, path=source.path, module=source.module)


def in_order(plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    """The plugins with each one after those that it requires, else in their own order; a circle stays as it is."""
    by_name = {plugin.name: plugin for plugin in plugins}
    ordered: dict[str, Plugin] = {}

    def add(plugin: Plugin, above: tuple[str, ...]) -> None:
        for name in plugin.requires:
            if name in by_name and name not in above and name not in ordered:
                add(by_name[name], (*above, plugin.name))
        ordered.setdefault(plugin.name, plugin)

    for plugin in by_name.values():
        add(plugin, ())
    return tuple(ordered.values())


async def load_all(plugins: Iterable[Plugin], registry: PluginRegistry, folder: str = "") -> tuple[LoadedPlugin, ...]:
    """Load plugins into a registry, and report on each. One that fails is left out, with those that require it.

    `folder` has the files of what their processes share.
    """
    add_gobby_modules()
    found = []
    for plugin in in_order(plugins):
        try:
            loaded = await load(plugin, registry, folder)
        except BaseException as error:
            if isinstance(error, MemoryError):
                raise
            found.append(LoadedPlugin(name=plugin.name, problem=redact_text(problem_text(error, plugin.path))))
            continue
        found.append(
            LoadedPlugin(
                name=plugin.name,
                version=str(loaded.version),
                description=str(loaded.description),
                handlers=tuple(
                    (handler.method.__name__, str_of(handler.event_type), handler.priority)
                    for handler in registry.handlers_of(plugin.name)
                ),
                actions=tuple(loaded._actions),  # noqa: SLF001 - Gobby's names
                schemas=_schemas(loaded),
                conditions=tuple(loaded._conditions),  # noqa: SLF001 - as above
            )
        )
    return tuple(found)


def _schemas(plugin: HookPlugin) -> tuple[tuple[str, str], ...]:
    """The schemas of a plugin's actions, as text."""
    found = []
    for name in plugin._actions:  # noqa: SLF001 - Gobby's name
        action = plugin.get_action(name)
        schema = action.schema if isinstance(action, PluginAction) else None
        if schema is not None:
            try:
                text = msgspec.json.encode(schema).decode()
            except (TypeError, ValueError, RecursionError):
                text = ""
            found.append((str(name), text if len(text) <= _MOST_SCHEMA else ""))
    return tuple(found)


async def load(plugin: Plugin, registry: PluginRegistry, folder: str = "") -> HookPlugin:
    """Load one plugin, whose requirements are loaded. Raises whatever its module raises, and ConfigError."""
    missing = [name for name in plugin.requires if registry.get_plugin(name) is None]
    if missing:
        raise ConfigError(f"it requires the plugin {missing[0]!r}, which is not loaded")
    kind = plugin_class(plugin, registry.modules)
    missing = [name for name in kind.requires if registry.get_plugin(name) is None]
    if missing:
        raise ConfigError(
            f"it requires the plugin {missing[0]!r}, which its source did not show",
            hint="write `requires` as a list of texts",
        )
    given = expanded(plugin.config, os.environ) if plugin.expands else plugin.config
    config = checked_config(kind, given)
    if folder:
        own = hashlib.sha256(f"{plugin.name}\0{plugin.path}".encode()).hexdigest()[:16]
        kind._shared_file = os.path.join(folder, f"{own}.sqlite")  # noqa: SLF001
    loaded = kind()
    if not hasattr(loaded, "_actions"):  # its __init__ does not call ours
        HookPlugin.__init__(loaded)
    loaded._loaded = {name: found for name in kind.requires if (found := registry.get_plugin(name)) is not None}  # noqa: SLF001
    result = loaded.on_load(config)
    if inspect.isawaitable(result):
        await result
    registry.register_plugin(loaded)
    return loaded


async def unload(plugin: HookPlugin) -> None:
    """Call `on_unload`; raises whatever it raises."""
    result = plugin.on_unload()
    if inspect.isawaitable(result):
        await asyncio.wait_for(result, None)


def plugin_class(plugin: Plugin, modules: dict[str, ModuleType]) -> type[HookPlugin]:
    """The class of a plugin, from its module, which is imported anew unless `modules` (by path) has it."""
    module = _module(plugin, modules)
    classes: list[type[HookPlugin]] = [value for value in vars(module).values() if _is_plugin(value)]
    named = [kind for kind in dict.fromkeys(classes) if kind.name == plugin.name]
    if named:
        return named[-1]
    others = ", ".join(sorted({kind.name for kind in classes if kind.name})) or "none"
    raise ConfigError(f"{module.__file__} has no plugin with the name {plugin.name!r} (it has: {others})")


def _is_plugin(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, HookPlugin) and value is not HookPlugin


def _module(plugin: Plugin, modules: dict[str, ModuleType]) -> ModuleType:
    path, module = plugin.path, plugin.module
    if not path:
        raise ConfigError(f"no plugin is called {plugin.name!r} on this machine")
    if module:
        if plugin.sha256 and hashlib.sha256(Path(path).read_bytes()).hexdigest() != plugin.sha256:
            raise _changed(path)
        return importlib.import_module(module)
    text = Path(path).read_bytes()
    if plugin.sha256 and hashlib.sha256(text).hexdigest() != plugin.sha256:
        raise _changed(path)
    if path in modules:
        return modules[path]  # one file with several plugins is imported once
    name = f"gobby_plugin_{Path(path).stem}"
    if name in {module.__name__ for module in modules.values()}:
        name = f"{name}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError("this is not a file of Python", file=path)
    found = importlib.util.module_from_spec(spec)
    if not plugin.sha256:  # of a project, only the file itself is what was trusted
        found.__package__, found.__path__ = name, [str(Path(path).parent)]  # `from .helpers import …`
    sys.modules[name] = modules[path] = found
    try:
        exec(compile(text, path, "exec"), found.__dict__)  # noqa: S102 - the bytes that were checked, not read again
    except BaseException:
        sys.modules.pop(name, None)
        modules.pop(path, None)
        raise
    return found


def _changed(path: str) -> ConfigError:
    return ConfigError(
        "it changed since you trusted it, so it is not loaded", file=path, hint="`fleethook hooks trust`"
    )


def checked_config(kind: type[HookPlugin], config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with defaults, if it fits the plugin's `config_schema`; raises ConfigError with everything wrong."""
    schema = kind.config_schema
    if schema is None:
        return dict(config)
    if isinstance(schema, Mapping):
        if odd := schema_problems(schema):
            raise ConfigError(f"its config_schema is no JSON Schema: {'; '.join(odd)}")
        filled = with_defaults(schema, config)
        wrong = problems_of(schema, filled)
        if wrong:
            raise ConfigError(f"its config does not fit: {'; '.join(wrong)}")
        return filled
    if isinstance(schema, type) and (issubclass(schema, msgspec.Struct) or dataclasses.is_dataclass(schema)):
        try:
            value = converted(dict(config), schema)
        except msgspec.ValidationError as error:
            raise ConfigError(f"its config does not fit: {error}") from error
        # msgspec leaves out the defaults of a dataclass (seen in 0.22).
        plain = msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else dataclasses.asdict(value)
        found: dict[str, Any] = plain
        unknown = sorted(set(config) - set(found))
        if unknown:
            raise ConfigError(f"its config does not fit: {', '.join(unknown)} not known (known: {', '.join(found)})")
        return found
    raise ConfigError("its config_schema is neither a dict, a dataclass nor a msgspec.Struct")


def problem_text(error: BaseException, path: str) -> str:
    """An error in one line, with the last line of the plugin's file that led to it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f" ({path}:{frames[-1].lineno})" if frames else ""
    if isinstance(error, ConfigError):
        return f"{error}{where}"
    return f"{type(error).__name__}: {error}{where}" if str(error) else f"{type(error).__name__}{where}"
