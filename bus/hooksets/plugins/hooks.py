"""The Python plugins that a hook file enables, and one hook for each of their handlers (G-11 to G-13)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.agents.gobby import handler_events
from bus.config.documents import Document, PathParts, Plain, Source, load, stamp
from bus.config.files import is_gone, read_as_known
from bus.config.hook_file_value import HookFile
from bus.config.plugin_entry import PluginEntry
from bus.config.validation import convert, is_extra, nearest
from bus.errors import ConfigError
from bus.hookfiles.gobby import CONFIGS
from bus.hookfiles.gobby_variables import variables_in
from bus.hooks import Hook, Layer, Plugin, PluginHandler
from bus.hooksets.plugins.classes import FoundHandler, FoundPlugin
from bus.hooksets.plugins.environment_reads import VariableRead, variables_read, warnings_of
from bus.hooksets.plugins.shared_modules import state_files
from bus.hooksets.plugins.sources import PluginSource, find_source, offered, plugin_folders, read_plugin
from bus.verdicts import Policy

OBSERVES: Final = 50
"""From this priority on, a handler sees the verdict and cannot change it (G-12)."""

_NAME: Final = re.compile(r"[^\x00-\x1f/\\]{1,100}\Z")
_GOBBY_KEYS: Final = ("enabled", "config", "env_pass", "timeout", "memory", "on_failure", "observe")
"""The keys of a plugin's entry in Gobby's configuration: Gobby's two, and those of `plugins:` that can be added there."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True)
class FoundPlugins:
    """The plugins of one hook file."""

    plugins: list[Plugin] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    """The files that were read, and the folders where a plugin may appear."""
    warnings: list[str] = field(default_factory=list)
    reads: dict[str, list[VariableRead]] = field(default_factory=dict)
    """By plugin: the variables of the environment that its source reads and that it does not get."""

    def without_doubles(
        self, document: Document, hooks: list[Hook], plugins: list[Plugin]
    ) -> tuple[list[Hook], list[Plugin]]:
        """The imported hooks and plugins without the plugins that are here too: each runs once, and a warning says so."""
        own = {plugin.name for plugin in self.plugins}
        for plugin in plugins:
            if plugin.name in own:
                text = (
                    f"the plugin {plugin.name!r} is also named at {plugin.origin}: it runs once, with the settings that "
                    "are here, and those there do not count"
                )
                self.warnings.append(str(document.error(("plugins", plugin.name), text, key=True)))
        return (
            [hook for hook in hooks if not hook.plugin or hook.handler is None or hook.plugin not in own],
            [plugin for plugin in plugins if plugin.name not in own],
        )


def read_plugins(
    document: Document,
    path: PathParts,
    entries: Mapping[str, Plain],
    layer: Layer,
    on_failure: Policy | None,
    folders: Sequence[str] = (),
    *,
    passes_read: bool = False,
) -> FoundPlugins:
    """Read the entries of `plugins:`; each is `true`, `false` or a mapping. `folders` replaces the usual folders.

    With `passes_read` a plugin gets the variables that its source names; without it, a warning names them.
    """
    found = FoundPlugins()
    searched = tuple(folders) or plugin_folders(layer, document.file)
    for name, raw in entries.items():
        if is_extra(name):
            continue
        place = (*path, name)
        if not isinstance(raw, bool | dict):
            message = f"the plugin {name[:64]!r} has to be true, false or a mapping (enabled, path, config)"
            found.problems.append(document.error(place, message))
            continue
        entry, problems = convert(document, place, {"enabled": raw} if isinstance(raw, bool) else raw, PluginEntry)
        found.problems.extend(problems)
        if entry is not None and entry.enabled:
            origin = f"{document.file}:{document.place(place, key=True)[0]}"
            try:
                _add(found, name, entry, layer, origin, searched, on_failure)
            except ConfigError as error:
                placed = error if error.file else document.error(place, error.message, hint=error.hint, key=True)
                found.problems.append(placed)
    if passes_read:
        found.plugins = [
            _with_names(plugin, [read.name for read in found.reads[plugin.name]]) for plugin in found.plugins
        ]
    else:
        found.warnings += [text for name, reads in found.reads.items() for text in warnings_of(name, reads)]
    wrong = {name: (message, hint) for name, message, hint in _unordered(found.plugins)}
    found.problems += [document.error((*path, name), text[0], hint=text[1], key=True) for name, text in wrong.items()]
    return _without(found, wrong)


def _add(
    found: FoundPlugins,
    name: str,
    entry: PluginEntry,
    layer: Layer,
    origin: str,
    folders: tuple[str, ...],
    on_failure: Policy | None,
) -> None:
    if not _NAME.match(name):
        raise ConfigError(f"{name[:64]!r} cannot be a plugin's name")
    source = _source(found, name, entry, origin, folders)
    real = os.path.abspath(source.path)
    classes = read_plugin(name, source)
    plugin = Plugin(
        name=name,
        path="" if layer == "fleet" else real,
        module=source.module,
        config=entry.config,
        requires=classes.requires,
        env_pass=tuple(entry.env_pass),
        memory=entry.memory,
        origin=origin,
        state_files=_state_files(layer, real, source.module),
    )
    found.plugins.append(plugin)
    found.reads[name] = [] if source.module or layer == "fleet" else variables_read(real, entry.env_pass)
    shared = {
        "plugin": name,
        "timeout": entry.timeout,
        "on_failure": entry.on_failure or on_failure,
        "observe": entry.observe,
        "layer": layer,
    }
    found.hooks += [
        Hook(**shared, **own, origin=f"{real}:{line}")  # type: ignore[arg-type]
        for line, own in _hooks(name, classes)
    ]


def _state_files(layer: Layer, path: str, module: str) -> tuple[str, ...]:
    if layer == "fleet":
        return ()  # every machine has its own files
    # A project's plugin imports nothing beside it, and an installed one comes from a package.
    return (path,) if layer == "project" or module else tuple(sorted(state_files(path)))


def _source(found: FoundPlugins, name: str, entry: PluginEntry, origin: str, folders: tuple[str, ...]) -> PluginSource:
    """Where the plugin is; what was looked at is among the sources, so that a change there is noticed."""
    if not entry.path:
        source = find_source(name, folders)
        if source is None:
            found.sources |= {folder: Source(folder, stamp(folder)) for folder in folders if os.path.isdir(folder)}
            raise _missing(name, folders)
    else:
        base = os.path.dirname(os.path.abspath(origin.rpartition(":")[0]))
        source = PluginSource(os.path.normpath(os.path.join(base, os.path.expanduser(entry.path))))
    found.sources.setdefault(source.path, Source(source.path, stamp(source.path)))
    if is_gone(source.path) and not read_as_known(source.path):
        raise ConfigError(f"the plugin {name!r} is not there: there is no file {source.path}")
    return source


def _missing(name: str, folders: tuple[str, ...]) -> ConfigError:
    near = nearest(name, [other for other, _ in offered(folders)])
    hint = (
        f'did you mean "{near}"?' if near else f"it is looked for in {', '.join(folders)}, and among installed packages"
    )
    return ConfigError(f'no plugin is called "{name[:64]}"', hint=hint)


def _hooks(name: str, classes: FoundPlugin) -> Iterator[tuple[int, dict[str, object]]]:
    """The fields of each handler's hook, with the handler's line; by priority, then by name (as in Gobby)."""
    handlers = sorted(classes.handlers, key=lambda handler: (handler.priority, handler.method))
    seen: dict[tuple[str, bool], set[str]] = {}
    numbers: Counter[str] = Counter()
    for handler in handlers:
        # An event that several names of one method fit, as a stop does, is one call of it.
        before = seen.setdefault((handler.method, handler.priority < OBSERVES), set())
        events = tuple(event for event in handler_events(handler.event) if event not in before)
        before |= {*events}
        if events:
            numbers[handler.method] += 1
            number = numbers[handler.method]
            yield handler.line, _fields(name, handler, events, f"_{number}" if number > 1 else "")
    if not classes.complete:
        for blocking in (True, False):
            fields: dict[str, object] = {"id": hook_id(name, "others" if blocking else "observers"), "on": ("*",)}
            priority = OBSERVES - 1 if blocking else OBSERVES
            yield classes.line, {**fields, "handler": PluginHandler(), "priority": priority, "blocking": blocking}


def _fields(name: str, handler: FoundHandler, events: tuple[str, ...], end: str) -> dict[str, object]:
    """The fields of a handler's hook; `end` tells the hooks of one method apart."""
    return {
        "id": f"{hook_id(name, handler.method)[: 64 - len(end)]}{end}",
        "on": events,
        "handler": PluginHandler(method=handler.method, event=handler.event),
        "priority": max(0, handler.priority),
        "blocking": handler.priority < OBSERVES,
    }


def hook_id(plugin: str, method: str) -> str:
    """The id of the hook that calls a plugin's handler."""
    return _UNFIT.sub("-", f"{plugin}_{method}")[:64]


def _unordered(plugins: list[Plugin]) -> Iterator[tuple[str, str, str]]:
    """For each plugin that requires itself, or one that is not enabled: its name, what is wrong, and what to do."""
    by_name = {plugin.name: plugin for plugin in plugins}
    for plugin in plugins:
        for wanted in plugin.requires:
            if wanted not in by_name:
                yield (
                    plugin.name,
                    f"it requires the plugin {wanted!r}, which is not enabled here",
                    "enable it in this file",
                )
        circle = _circle(plugin.name, by_name, ())
        if circle:
            yield plugin.name, f"it requires itself: {' -> '.join(circle)}", "remove one of these `requires`"


def _circle(name: str, plugins: Mapping[str, Plugin], above: tuple[str, ...]) -> tuple[str, ...]:
    """The circle of `requires` that leads from a plugin back to itself; empty if there is none."""
    if above and name == above[0]:
        return (*above, name)
    if name in above or name not in plugins:
        return ()
    return next(filter(None, (_circle(other, plugins, (*above, name)) for other in plugins[name].requires)), ())


def _without(found: FoundPlugins, bad: Collection[str]) -> FoundPlugins:
    """The plugins without those named, and without those that require them."""
    left_out = set(bad)
    while more := {p.name for p in found.plugins if p.name not in left_out and left_out.intersection(p.requires)}:
        left_out |= more
    plugins = [plugin for plugin in found.plugins if plugin.name not in left_out]
    hooks = [hook for hook in found.hooks if hook.plugin not in left_out]
    return FoundPlugins(plugins, hooks, found.problems, found.sources, found.warnings, found.reads)


def with_gobby_plugins(file: HookFile, path: Path, layer: Layer) -> HookFile:
    """Gobby's configuration with the plugins that it names, which are found in its `plugin_dirs`."""
    section = file.sections.get("plugins")
    if not isinstance(section, dict):
        return file
    config = next((path / name for name in CONFIGS if (path / name).is_file()), path)
    found = _gobby_plugins(load(config), section, layer)
    return replace(
        file,
        hooks=(*file.hooks, *with_position(found.hooks, len(file.hooks))),
        plugins=tuple(found.plugins),
        problems=(*file.problems, *found.problems),
        warnings=(*file.warnings, *found.warnings),
        sources=(*file.sources, *found.sources.values()),
    ).with_digest()


def _gobby_plugins(document: Document, section: Mapping[str, Any], layer: Layer) -> FoundPlugins:
    """The plugins of Gobby's `hook_extensions.plugins` that it names; those that it does not name stay off (G-20, G-23)."""
    if not section.get("enabled"):
        return FoundPlugins()
    base = os.path.dirname(os.path.abspath(document.file))
    base = os.path.dirname(base) if os.path.basename(base) == ".gobby" else base
    folders = [os.path.join(base, os.path.expanduser(str(folder))) for folder in section.get("plugin_dirs", ())]
    path: PathParts = ("hook_extensions", "plugins", "plugins")
    written = section.get("plugins") or {}
    entries = {
        str(name): {key: value[key] for key in _GOBBY_KEYS if key in value} if isinstance(value, dict) else value
        for name, value in written.items()
    }
    # In Gobby a plugin has the daemon's environment: one of the person's own configuration gets what its source names.
    found = read_plugins(document, path, entries, layer, None, folders, passes_read=layer == "user")
    if layer == "user":  # what a project's file names of the person's environment stays as it is written
        found.plugins = [_with_variables(plugin) for plugin in found.plugins]
    others = (
        sorted({name for name, _ in offered(folders)} - entries.keys()) if section.get("auto_discover", True) else []
    )
    if others:
        text = f"these plugins are not named, so they stay off: {', '.join(others)}"
        found.warnings.append(str(document.error(path[:-1], text, hint="name each under `plugins:` to run it")))
    return found


def _with_variables(plugin: Plugin) -> Plugin:
    """A plugin of the person's own configuration, which gets the variables that its config names."""
    names = [*variables_in(plugin.config)]
    return msgspec.structs.replace(_with_names(plugin, names), expands=True) if names else plugin


def _with_names(plugin: Plugin, names: Sequence[str]) -> Plugin:
    """A plugin that gets these variables too."""
    return msgspec.structs.replace(plugin, env_pass=tuple(dict.fromkeys((*plugin.env_pass, *names))))


def with_position(hooks: Sequence[Hook], first: int) -> list[Hook]:
    """The hooks with their positions, beginning at `first`."""
    return [msgspec.structs.replace(hook, position=number) for number, hook in enumerate(hooks, first)]
