"""Finds the hooks of Claude Code and ion on a machine: settings, enabled plugins, folders of plugins (I-08)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bus.config.documents import load
from bus.errors import ConfigError
from bus.hooks import Layer

_SETTINGS: Final = Path(".claude", "settings.json")
_LOCAL: Final = Path(".claude", "settings.local.json")
_INSTALLED: Final = Path(".claude", "plugins", "installed_plugins.json")
_ION: Final = Path(".ion", "plugins")


class Location(NamedTuple):
    """A file or folder with hooks: its dialect and layer, and the plugin's id if it is an installed plugin."""

    dialect: str
    layer: Layer
    path: Path
    plugin: str = ""


def locations(
    project: Path | None = None, *, plugin_dirs: Iterable[Path] = (), environ: Mapping[str, str] | None = None
) -> tuple[Location, ...]:
    """The existing files and folders, from the user's to the project's and `--plugin-dir`; skips those that cannot be read."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    xdg = environ.get("XDG_CONFIG_HOME", "")
    config = Path(xdg) if os.path.isabs(xdg) else home / ".config"
    found = [Location("claude", "user", home / _SETTINGS)]
    found += [Location("ion", "user", config / "ion" / "plugins")]
    if project is not None and os.path.realpath(project) != os.path.realpath(home):
        found += [Location("claude", "project", project / name) for name in (_SETTINGS, _LOCAL)]
        found += [Location("ion", "project", project / _ION)]
    found += [Location("claude", "session", Path(folder)) for folder in plugin_dirs]
    return (*(location for location in found if location.path.exists()), *_installed(home, project))


def _installed(home: Path, project: Path | None) -> Iterator[Location]:
    """The installed plugins that the settings enable, for all projects or for this one."""
    listed = _object(home / _INSTALLED).get("plugins")
    if not isinstance(listed, dict):
        return
    enabled: dict[str, Any] = {}
    for path in (home / _SETTINGS, *((project / _SETTINGS, project / _LOCAL) if project is not None else ())):
        plugins = _object(path).get("enabledPlugins")
        enabled |= plugins if isinstance(plugins, dict) else {}
    for name, entries in listed.items():
        if enabled.get(name) is not True:
            continue
        for entry in entries if isinstance(entries, list) else [entries]:
            placed = _placed(entry, home, project)
            if placed is not None:
                yield Location("claude", *placed, name)


def _placed(entry: object, home: Path, project: Path | None) -> tuple[Layer, Path] | None:
    """The layer and folder of one installation; None if it is for another project, or missing."""
    if not isinstance(entry, dict) or not isinstance(entry.get("installPath"), str):
        return None
    path = (
        Path(entry["installPath"].replace("~", str(home), 1))
        if entry["installPath"].startswith("~/")
        else Path(entry["installPath"])
    )
    bound = entry.get("projectPath")
    if bound is not None and (project is None or os.path.realpath(str(bound)) != os.path.realpath(project)):
        return None
    return ("user", path) if path.is_dir() else None


def _object(path: Path) -> dict[str, Any]:
    """A file's JSON object; empty if it cannot be read (the reader of its hooks reports that)."""
    try:
        value = load(path).value if path.is_file() else None
    except ConfigError:
        return {}
    return value if isinstance(value, dict) else {}
