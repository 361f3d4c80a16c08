"""The locations of pigo's and Forge's hook files, and the root of a project in Forge (F-09, F-13)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FORGE_PROJECT: Final = (Path(".src/forge/hooks.json"), Path(".forge/hooks.json"))
"""Paths of hook files below a project's root, in the order in which Forge reads them."""

_GLOBAL: Final = (Path("src/forge/hooks.json"), Path("forge/hooks.json"))
_ROOT_MARKS: Final = (".forge", ".src", ".git")
_MOST_LEVELS: Final = 64


def pigo_file(environ: Mapping[str, str] | None = None) -> Path:
    """pigo's config: `config.json` in `$PIGO_HOME`, else in `~/.pigo`."""
    environ = os.environ if environ is None else environ
    home = environ.get("PIGO_HOME", "")
    return (Path(os.path.expanduser(home)) if home else _home(environ) / ".pigo") / "config.json"


def forge_global_files(environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Forge's global files in their order, existing or not: below `$XDG_CONFIG_HOME`, else `~/.config`."""
    environ = os.environ if environ is None else environ
    configured = environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if os.path.isabs(configured) else _home(environ) / ".config"
    return tuple(base / name for name in _GLOBAL)


def forge_project_files(root: Path) -> tuple[Path, ...]:
    """A project's own files in their order, existing or not."""
    return tuple(root / name for name in FORGE_PROJECT)


def forge_project_root(cwd: str | Path) -> Path:
    """The nearest folder upward with `.forge`, `.src` or `.git`, else the folder itself (F-09).

    The home directory and `/` are no project, and other file systems are not searched.
    """
    start = os.path.abspath(cwd)
    try:
        home, device = os.stat(os.path.expanduser("~")), os.stat(start).st_dev
        folder = start
        for _ in range(_MOST_LEVELS):
            here, above = os.stat(folder), os.path.dirname(folder)
            if folder == above or here.st_dev != device or os.path.samestat(here, home):
                break
            if any(os.path.lexists(f"{folder}/{mark}") for mark in _ROOT_MARKS):
                return Path(folder)
            folder = above
    except (OSError, ValueError):  # a folder that is gone or cannot be read; ValueError: a NUL in its name
        pass
    return Path(start)


def forge_files(cwd: str | Path, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The existing hook files of Forge for the directory `cwd`: global ones first, then the project's."""
    return existing((*forge_global_files(environ), *forge_project_files(forge_project_root(cwd))))


def existing(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths that exist."""
    return tuple(path for path in paths if path.is_file())


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))
