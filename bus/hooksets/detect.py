"""Detects the dialect of a hook file or folder.

A name that only one system has decides, else the content. Claude Code and ion have the same format: the fields in it decide
between them, and the path only if the fields do not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from bus.config.documents import Plain, load
from bus.hooks import NATIVE
from bus.hooksets.plugin_owner import common_owner, owner
from bus.system.directories import CONFIG_NAMES

MANIFEST: Final = Path(".claude-plugin/plugin.json")
"""The file that makes a folder a plugin, for Claude Code and for ion."""

_IN_FOLDER: Final[Mapping[str, tuple[str, ...]]] = {
    "pigo": ("config.json",),
    "forge": ("hooks.json",),
    "gobby": ("config.yaml", "config.yml"),
}
"""The hook file of a system, relative to its folder."""

_OURS: Final = frozenset({"endpoints", "guards", "network", "settings", "import", "version"})
_MOST_PLUGINS: Final = 200


def detect_dialect(path: Path) -> tuple[Path, str]:
    """The file or folder that a path means, and its dialect; an empty dialect if it is unclear.

    Raises ConfigError where the file cannot be read.
    """
    if os.path.isdir(path):
        return _folder(path)
    return path, _named(path) or _content(load(path).value, path)


def file_in(path: Path, dialect: str) -> Path:
    """The hook file of a dialect in a folder; the folder itself for a dialect that reads folders."""
    if not os.path.isdir(path):
        return path
    names = CONFIG_NAMES if dialect == NATIVE else _IN_FOLDER.get(dialect, ())
    return next((path / name for name in names if (path / name).is_file()), path)


def plugin_folders(path: Path) -> Iterator[Path]:
    """The plugins in a folder by name, or the folder itself where it is a plugin."""
    if (path / MANIFEST).is_file():
        yield path
        return
    try:
        below = sorted(entry.path for entry in os.scandir(path))
    except OSError:
        return
    # isfile() takes a link that leads nowhere, or back to itself, for no plugin, where is_dir() would raise.
    found = (Path(name) for name in below if os.path.isfile(os.path.join(name, MANIFEST)))
    yield from islice(found, _MOST_PLUGINS)


def _folder(path: Path) -> tuple[Path, str]:
    if next(plugin_folders(path), None) is not None:
        found = {owner(folder) or _by_place(folder) for folder in plugin_folders(path)}
        return path, found.pop() if len(found) == 1 else _by_place(path)  # each may be read as its own: importing.py
    for name in CONFIG_NAMES:
        if (path / name).is_file():
            return path / name, NATIVE
    for dialect, names in _IN_FOLDER.items():
        for name in names:
            if (path / name).is_file() and (_named(path / name) or _content(load(path / name).value, path)) == dialect:
                return path / name, dialect
    if (path / "settings.json").is_file() or (path / "hooks" / "hooks.json").is_file():
        files = [file for file in (path / "settings.json", path / "hooks" / "hooks.json") if file.is_file()]
        return path, _named(files[0]) or common_owner(files) or _by_place(path)
    return path, ""


def _named(path: Path) -> str:
    """The dialect by name and folder alone, where these are unambiguous."""
    folder = path.parent.name
    if path.name in CONFIG_NAMES:
        return NATIVE
    if path.name == "hooks.json" and folder in {"forge", ".forge"}:
        return "forge"
    if path.name == "config.json" and folder == ".pigo":
        return "pigo"
    if path.name == "plugin.json" and folder == MANIFEST.parent.name:
        return owner(path) or _by_place(path)
    if path.name in {"settings.json", "settings.local.json"} and folder == ".claude":
        return "claude"
    return ""


def _content(value: Plain, path: Path) -> str:
    if isinstance(value, list):
        return "forge" if any(isinstance(item, dict) and "event" in item for item in value) else ""
    if not isinstance(value, dict):
        return ""
    hooks = value.get("hooks")
    if "hook_extensions" in value:
        return "gobby"
    if isinstance(value.get("plugins"), list):
        return "pigo"
    if isinstance(hooks, dict):
        return owner(path) or _by_place(path)
    if isinstance(hooks, list) and any(isinstance(item, dict) and "event" in item for item in hooks):
        return "forge"
    return NATIVE if isinstance(hooks, list) or _OURS & set(value) else ""


def _by_place(path: Path) -> str:
    """`ion` where ion keeps its plugins (`.ion/plugins`, `~/.config/ion/plugins`), else `claude`."""
    return "ion" if {".ion", "ion"} & set(path.absolute().parts[-5:]) else "claude"
