"""Forge's hook files: the global ones and a project's, read and written (F-13)."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bus.config.documents import load
from bus.config.edit_add import replace_file
from bus.errors import ConfigError
from bus.forge.registry import Hook
from bus.hookfiles.forge import read_entries
from bus.hookfiles.locations import forge_global_files, forge_project_files, forge_project_root

log = logging.getLogger("fleethook.forge")


class HookConfig:
    """The layers of hooks.json; the third one, the session's, is the registry itself."""

    @classmethod
    def load_global(cls) -> list[Hook]:
        """The hooks of `~/.config/src/forge/hooks.json` and `~/.config/forge/hooks.json`, in that order.

        Warns of a bad entry or file with its place; the others load (F-11).
        """
        return _load(forge_global_files())

    @classmethod
    def load_project(cls, project_root: str | os.PathLike[str] | None) -> list[Hook]:
        """The hooks of `.src/forge/hooks.json` and `.forge/hooks.json`, from this folder or the nearest above it."""
        return [] if project_root is None else _load(forge_project_files(forge_project_root(Path(project_root))))

    @classmethod
    def load_all(cls, project_root: str | os.PathLike[str] | None = None) -> list[Hook]:
        """The global hooks, then the project's."""
        return [*cls.load_global(), *cls.load_project(project_root)]

    @classmethod
    def save_global(cls, hooks: Sequence[Hook]) -> None:
        """Save these as the global hooks; raises OSError."""
        _save(forge_global_files(), hooks)

    @classmethod
    def save_project(cls, project_root: str | os.PathLike[str], hooks: Sequence[Hook]) -> None:
        """Save these as the hooks of a project, in the files that `load_project` reads; raises OSError."""
        found = forge_project_files(forge_project_root(Path(project_root)))
        there = any(path.is_file() for path in found)
        _save(found if there else forge_project_files(Path(project_root)), hooks)

    @classmethod
    def get_default_hooks(cls) -> list[Hook]:
        """The hooks without any hook file: none."""
        return []


def _load(paths: Sequence[Path]) -> list[Hook]:
    hooks: list[Hook] = []
    for path in paths:
        if not path.is_file():
            continue
        try:
            file, entries = read_entries(path, "user")
        except (ConfigError, OSError) as error:
            log.warning("no hook of %s is loaded: %s", path, error)
            continue
        for problem in file.problems:
            log.warning("a hook is skipped: %s", problem)
        for warning in file.warnings:
            log.warning("%s", warning)
        for raw, known in entries:
            if known is not None and isinstance(raw, dict):
                hooks.append(replace(Hook.from_dict(raw), file=str(path)))
    return hooks


def _save(paths: Sequence[Path], hooks: Sequence[Hook]) -> None:
    """Write each hook to the file that it came from, and a new hook to the file that Forge uses now.

    If there are several such files or none, that is the last one. If no two files can have the hooks in this order, all
    hooks go there.
    """
    there = [path for path in paths if path.is_file()]
    target = there[-1] if there else paths[-1]
    files = [*(path for path in there if path != target), target]
    places = [next((n for n, path in enumerate(files) if str(path) == hook.file), len(files) - 1) for hook in hooks]
    if places != sorted(places):
        places = [len(files) - 1] * len(hooks)
    for number, path in enumerate(files):
        _write(path, [hook for hook, place in zip(hooks, places, strict=True) if place == number])


def _write(path: Path, hooks: Sequence[Hook]) -> None:
    """Write a file in one step. Its mode, its other fields and its wrong entries stay as they were."""
    document, entries = _as_it_is(path)
    listed: list[Any] = [hook.to_dict() for hook in hooks]
    for number, (raw, known) in enumerate(entries):
        if known is None:
            listed.insert(number, raw)
    said = listed if isinstance(document, list) else {**document, "hooks": listed}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()  # a new file has this user's usual mode
    try:
        replace_file(path, json.dumps(said, indent=2, ensure_ascii=False) + "\n")
    except ConfigError as error:
        raise OSError(str(error)) from error


def _as_it_is(path: Path) -> tuple[dict[str, Any] | list[Any], Sequence[tuple[Any, object | None]]]:
    """A file's value, and its entries with their hooks; an empty value if it cannot be read."""
    if not path.is_file():
        return {}, ()
    try:
        document = load(path)
        value, entries = document.value, read_entries(path, "user")[1]
        listed = value.get("hooks") if isinstance(value, dict) else None
        if listed is not None and not isinstance(listed, list):
            raise document.error(("hooks",), "hooks has to be a list")
    except (ConfigError, OSError) as error:
        kept = path.with_name(f"{path.name}.unreadable")
        path.replace(kept)
        log.warning("%s could not be read (%s), so it is kept as %s", path, error, kept)
        return {}, ()
    return (value if isinstance(value, dict | list) else {}), entries
