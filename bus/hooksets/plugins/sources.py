"""Finds the source of a Python plugin by its name: in folders of plugins, and among installed packages (G-13)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final, NamedTuple

from bus.config.files import Stamp, read_file, stamp
from bus.errors import ConfigError
from bus.hooksets.plugins.classes import FoundPlugin, plugin_classes, texts_of_source
from bus.lazy.modules import lazy_module
from bus.system.directories import directories

metadata = lazy_module("importlib.metadata")  # it imports the standard library's reader of mail, which takes 8 ms
ENTRY_POINTS: Final = "fleethook.plugins"
"""The group of entry points by which an installed package offers plugins; each is a plugin's name and its class."""

USER_FOLDERS: Final = ("~/.gobby/plugins",)
PROJECT_FOLDERS: Final = (".fleethook/plugins", ".gobby/plugins")

_MOST_FILES: Final = 500
_NAMED: Final = "\0named"
_UNFIT: Final = re.compile(r"[^a-z0-9]+")


class PluginSource(NamedTuple):
    """Where a plugin is defined."""

    path: str
    """The absolute path of its file."""
    module: str = ""
    """The module of an installed package; empty for a file in a folder of plugins."""


def plugin_folders(layer: str, file: str) -> tuple[str, ...]:
    """The folders in which a hook file's plugins are looked for, the first one that has the plugin counts."""
    user = [str(directories(create=False).config / "plugins"), *map(os.path.expanduser, USER_FOLDERS)]
    beside = os.path.dirname(os.path.abspath(file))
    project = [os.path.join(beside, folder) for folder in PROJECT_FOLDERS] if layer == "project" else []
    return (*project, *user)


def find_source(name: str, folders: Sequence[str]) -> PluginSource | None:
    """The source of the plugin with this name; None if there is none.

    A class with that name counts first, then an installed package, and last a file that has the name as a text: there the
    plugin is made by a call, or its base class is in another file.
    """
    files = [path for folder in folders for path in plugin_files(folder)]
    for path in files:
        if name in _names(path, stamp(path)):
            return PluginSource(path)
    found = _installed(name)
    if found is not None:
        return found
    texts = {path: texts for path in files if name in (texts := _texts(path, stamp(path)))}
    # A file with named classes is the last choice: it may only require that plugin.
    return PluginSource(min(texts, key=lambda path: _NAMED in texts[path])) if texts else None


def plugin_files(folder: str) -> list[str]:
    """The files of a folder that may define plugins: its `*.py`, but for `_*` and tests (`test_*`), by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    files = [
        os.path.join(folder, name) for name in names if name.endswith(".py") and not name.startswith(("_", "test_"))
    ]
    return [path for path in files if os.path.isfile(path)][:_MOST_FILES]


def read_plugin(name: str, source: PluginSource) -> FoundPlugin:
    """What a source says about a plugin; raises ConfigError if it cannot be read.

    A plugin that the source only imports, or whose name it computes, has no known handlers.
    """
    for found in plugin_classes(read_file(Path(source.path)), source.path):
        if found.name == name:
            return found
    return FoundPlugin(name, (), (), complete=False, line=1)


def offered(folders: Sequence[str]) -> Iterator[tuple[str, PluginSource]]:
    """Every plugin that could be enabled: its name and its source."""
    for folder in folders:
        for path in plugin_files(folder):
            for name in _names(path, stamp(path)):
                yield name, PluginSource(path)
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        source = _installed(entry.name)
        if source is not None:
            yield entry.name, source


@lru_cache(2048)
def _names(path: str, _stamp: Stamp) -> tuple[str, ...]:
    """The names of the plugins that a file may define: those of its classes, else the file's own."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return ()
    own = os.path.basename(path).removesuffix(".py")
    spellings = (own, own.replace("_", "-"))
    try:
        names = tuple(found.name for found in plugin_classes(text, path))
    except ConfigError:  # it is not valid Python; enabling it reports that error
        return tuple(
            dict.fromkeys((*spellings, *re.findall(r"""\bname(?:\s*:\s*str)?\s*=\s*["']([^"'\n]+)["']""", text)))
        )
    return names or (spellings if "plugin" in text.lower() else ())


@lru_cache(512)
def _texts(path: str, _stamp: Stamp) -> frozenset[str]:
    """The texts in a file that may define plugins; with `_NAMED` if it has plugin classes with a name."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return frozenset()
    if "plugin" not in text.lower():
        return frozenset()
    try:
        named = bool(plugin_classes(text, path))
    except ConfigError:
        named = False
    return texts_of_source(text) | ({_NAMED} if named else set())


def _installed(name: str) -> PluginSource | None:
    """A plugin of an installed package. Its file is found without importing the package, which would run its code."""
    for entry in metadata.entry_points(group=ENTRY_POINTS, name=name):
        folders: list[str] | None = None
        parts = entry.module.split(".")
        for number in range(1, len(parts) + 1):
            spec = _spec(".".join(parts[:number]), folders)
            if spec is None:
                break
            if number == len(parts):
                return PluginSource(spec.origin, entry.module) if spec.origin else None
            folders = list(spec.submodule_search_locations or ())
    return None


def _spec(name: str, folders: list[str] | None) -> ModuleSpec | None:
    """Where a module is, asked of every finder: an editable install of a package may have one of its own."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, folders) if find is not None else None
        if spec is not None:
            return spec
    return None
