"""Detects the dialect of a hook file or folder.

A file name that only one system uses decides; otherwise the content does. Claude Code and ion have the same format: the
fields in the file decide between them, and if these are unclear, the path does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from bus.config.documents import Plain, load
from bus.errors import ConfigError
from bus.hookfiles.gobby_workflows import FOLDER, is_workflow, workflow_files
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
    """The hook file or folder at a path, and its dialect; the dialect is empty if it is unclear.

    Raises ConfigError if the file cannot be read.
    """
    if os.path.isdir(path):
        return _in_folder(path)
    return path, _by_name(path) or _by_content(load(path).value, path)


def file_in(path: Path, dialect: str) -> Path:
    """The hook file of a dialect in a folder; the folder itself for a dialect that reads folders."""
    if not os.path.isdir(path):
        return path
    if dialect == "gobby" and _has_workflows(path):
        return path
    names = CONFIG_NAMES if dialect == NATIVE else _IN_FOLDER.get(dialect, ())
    return next((path / name for name in names if (path / name).is_file()), path)


def plugin_folders(path: Path) -> Iterator[Path]:
    """The plugins in a folder by name, or the folder itself if it is a plugin."""
    if (path / MANIFEST).is_file():
        yield path
        return
    try:
        below = sorted(entry.path for entry in os.scandir(path))
    except OSError:
        return
    # Not is_dir(), which raises for a link to itself; isfile() is false for a broken link.
    found = (Path(name) for name in below if os.path.isfile(os.path.join(name, MANIFEST)))
    yield from islice(found, _MOST_PLUGINS)


def _in_folder(path: Path) -> tuple[Path, str]:
    if next(plugin_folders(path), None) is not None:
        found = {owner(folder) or _by_path(folder) for folder in plugin_folders(path)}
        return path, found.pop() if len(found) == 1 else _by_path(path)  # imports.py may split them
    for name in CONFIG_NAMES:
        if (path / name).is_file():
            return path / name, NATIVE
    if _has_workflows(path):
        return path, "gobby"
    for dialect, names in _IN_FOLDER.items():
        for name in names:
            if (path / name).is_file() and (
                _by_name(path / name) or _by_content(load(path / name).value, path)
            ) == dialect:
                return path / name, dialect
    if (path / "settings.json").is_file() or (path / "hooks" / "hooks.json").is_file():
        files = [file for file in (path / "settings.json", path / "hooks" / "hooks.json") if file.is_file()]
        return path, _by_name(files[0]) or common_owner(files) or _by_path(path)
    return path, ""


def _has_workflows(path: Path) -> bool:
    """Whether a folder has workflows of Gobby: it is such a folder, or has one named `workflows`."""
    if path.name == ".gobby" or (path / FOLDER).is_dir():
        path = path / FOLDER
    return any(_is_workflow_file(file) for file in workflow_files(path))


def _is_workflow_file(path: Path) -> bool:
    try:
        return is_workflow(load(path).value)
    except ConfigError:
        return False


def _by_name(path: Path) -> str:
    """The dialect by the names of the file and its folder; empty if these are ambiguous."""
    folder = path.parent.name
    if path.name in CONFIG_NAMES:
        return NATIVE
    if path.name == "hooks.json" and folder in {"forge", ".forge"}:
        return "forge"
    if path.name == "config.json" and folder == ".pigo":
        return "pigo"
    if path.name == "plugin.json" and folder == MANIFEST.parent.name:
        return owner(path) or _by_path(path)
    if path.name in {"settings.json", "settings.local.json"} and folder == ".claude":
        return "claude"
    return ""


def _by_content(value: Plain, path: Path) -> str:
    if isinstance(value, list):
        return "forge" if any(isinstance(item, dict) and "event" in item for item in value) else ""
    if not isinstance(value, dict):
        return ""
    hooks = value.get("hooks")
    if "hook_extensions" in value or is_workflow(value):
        return "gobby"
    if isinstance(value.get("plugins"), list):
        return "pigo"
    if isinstance(hooks, dict):
        return owner(path) or _by_path(path)
    if isinstance(hooks, list) and any(isinstance(item, dict) and "event" in item for item in hooks):
        return "forge"
    return NATIVE if isinstance(hooks, list) or _OURS & set(value) else ""


def _by_path(path: Path) -> str:
    """`ion` where ion keeps its plugins (`.ion/plugins`, `~/.config/ion/plugins`), else `claude`."""
    return "ion" if {".ion", "ion"} & set(path.absolute().parts[-5:]) else "claude"
