"""Finds the hook files of other systems on this machine: those that could be imported, and those that are already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bus.config.hook_file_value import Imported
from bus.hookfiles.claude.locations import locations
from bus.hookfiles.locations import existing, forge_files, forge_project_root, pigo_file

_GOBBY: Final = ("config.yaml", "config.yml")


class ImportCandidate(NamedTuple):
    """One file or folder with hooks, and the system that it belongs to."""

    dialect: str
    path: Path
    imported: str = ""
    """`file:line` of the import that reads it or a folder above it; empty if there is none."""


def found_here(cwd: Path, imports: Iterable[Imported] = ()) -> tuple[ImportCandidate, ...]:
    """The hook files at the usual paths of this user and of the project around `cwd`; their content is not read."""
    known = {os.path.realpath(known_file.path): known_file.origin for known_file in imports if known_file.enabled}
    return tuple(
        ImportCandidate(dialect, path, _importer(path, known)) for dialect, path in dict.fromkeys(_places(cwd))
    )


def _places(cwd: Path) -> Iterator[tuple[str, Path]]:
    yield from (("pigo", path) for path in existing([pigo_file()]))
    yield from (("forge", path) for path in forge_files(cwd))
    gobby = Path.home() / ".gobby"
    yield from (("gobby", path) for path in existing(gobby / name for name in _GOBBY))
    folders = (gobby / "workflows", forge_project_root(cwd) / ".gobby" / "workflows")
    yield from (("gobby", path) for path in folders if path.is_dir())
    yield from ((known_file.dialect, known_file.path) for known_file in locations(forge_project_root(cwd)))


def _importer(path: Path, known: dict[str, str]) -> str:
    real = Path(os.path.realpath(path))
    return next((known[str(known_file)] for known_file in (real, *real.parents) if str(known_file) in known), "")
