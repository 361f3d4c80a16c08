"""Reads the hooks of Claude Code and ion from files, plugins and folders (I-09)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bus.config.documents import load
from bus.config.hook_file_value import HookFile
from bus.errors import ConfigError
from bus.hookfiles.claude.event_reader import ION, EventReader
from bus.hookfiles.claude.plugins import (
    HOOKS,
    MANIFEST,
    is_plugin,
    leads_out,
    plugin_contents,
    plugins_in,
)
from bus.hooks import Layer


def read(path: Path, layer: Layer, dialect: str) -> HookFile:
    """The hooks in a file or folder; raises ConfigError only if nothing can be read."""
    path = Path(os.path.abspath(os.path.expanduser(path)))
    return _numbered(_joined(_parts(path, layer, dialect))).with_digest()


def _joined(parts: Iterable[HookFile]) -> HookFile:
    """One value with the hooks, problems and warnings of all parts."""
    files = list(parts)
    return HookFile(
        tuple(hook for file in files for hook in file.hooks),
        problems=tuple(problem for file in files for problem in file.problems),
        warnings=tuple(text for file in files for text in file.warnings),
    )


def _numbered(found: HookFile) -> HookFile:
    """The hooks with their positions in the joined file and unique ids."""
    taken: set[str] = set()
    hooks = []
    for position, hook in enumerate(found.hooks):
        tries = (hook.id if count == 1 else f"{hook.id}-{count}" for count in range(1, len(taken) + 2))
        name = next(candidate for candidate in tries if candidate not in taken)
        taken.add(name)
        hooks.append(msgspec.structs.replace(hook, id=name, position=position))
    return HookFile(tuple(hooks), problems=found.problems, warnings=tuple(dict.fromkeys(found.warnings)))


def _parts(path: Path, layer: Layer, dialect: str) -> Iterator[HookFile]:
    """The contents of each hook file that a path leads to."""
    if not path.is_dir():
        yield _file(path, layer, dialect)
    elif is_plugin(path):
        yield from _plugin(path, layer, dialect)
    else:
        below = [path / name for name in ("settings.json", "settings.local.json") if (path / name).is_file()]
        for name in (".claude", "plugins") if dialect != ION else (".ion", "plugins"):
            if (path / name).is_dir() and not below:
                yield from _parts(path / name, layer, dialect)
                return
        if below:
            for settings in below:
                yield _file(settings, layer, dialect)
        else:
            yield from _plugins(path, layer, dialect)


def _plugins(path: Path, layer: Layer, dialect: str) -> Iterator[HookFile]:
    """The hooks of a folder's plugins, by name; skips everything else."""
    found = plugins_in(path)
    if not found:
        raise ConfigError(
            "holds neither a plugin nor settings of Claude Code",
            file=str(path),
            hint=f"a plugin has {MANIFEST} or {HOOKS}",
        )
    for folder in found:
        if layer == "project" and leads_out(folder, path):
            problem = ConfigError(
                "is a link that leads out of the project's plugins",
                file=str(folder),
                hint="copy the plugin into the folder",
            )
            yield HookFile(problems=(problem,))
        else:
            yield from _plugin(folder, layer, dialect)


def _plugin(path: Path, layer: Layer, dialect: str) -> Iterator[HookFile]:
    plugin = plugin_contents(path, hooks_only=True)
    yield HookFile(problems=plugin.problems, warnings=plugin.warnings)
    for source in plugin.hooks:
        yield EventReader(source.document, layer, dialect, plugin).read(source.at)


def _file(path: Path, layer: Layer, dialect: str) -> HookFile:
    """The hooks of one file: a plugin's manifest, a plugin's hooks.json, or else a settings file.

    A manifest gives all hooks of its plugin.
    """
    if path.parent.name == MANIFEST.parent.name and path.name == MANIFEST.name:
        return _joined(_plugin(path.parent.parent, layer, dialect))
    plugin = None
    if path.parent.name == HOOKS.parent.name and path.name == HOOKS.name:
        plugin = plugin_contents(path.parent.parent, hooks_only=True)
    return EventReader(load(path), layer, dialect, plugin).read(())
