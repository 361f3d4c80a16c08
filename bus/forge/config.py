"""Forge's hook files: the global ones and a project's, read and written (F-13)."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bus.dialects.forge import NAME
from bus.dialects.hooking import find_hooks
from bus.dialects.locations import forge_global_files, forge_project_files, forge_project_root
from bus.errors import ConfigError
from bus.forge.registry import Hook

log = logging.getLogger("fleethook.forge")


class HookConfig:
    """The layers of hooks.json; the third one, the session's, is the registry itself."""

    @classmethod
    def load_global(cls) -> list[Hook]:
        """The hooks of `~/.config/src/forge/hooks.json` and `~/.config/forge/hooks.json`, in that order.

        A bad entry or file is warned of with its place, and the others load (F-11).
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
        """Make these the global hooks; raises OSError."""
        _save(forge_global_files(), hooks)

    @classmethod
    def save_project(cls, project_root: str | os.PathLike[str], hooks: Sequence[Hook]) -> None:
        """Make these the hooks of a project; raises OSError."""
        _save(forge_project_files(Path(project_root)), hooks)

    @classmethod
    def get_default_hooks(cls) -> list[Hook]:
        """The hooks that are there when nobody has asked for any: none."""
        return []


def _load(paths: Sequence[Path]) -> list[Hook]:
    hooks: list[Hook] = []
    for path in paths:
        if not path.is_file():
            continue
        try:
            file = find_hooks(NAME).read(path, "user")
        except (ConfigError, OSError) as error:
            log.warning("no hook of %s is loaded: %s", path, error)
            continue
        for problem in file.problems:
            log.warning("a hook is skipped: %s", problem)
        for warning in file.warnings:
            log.warning("%s", warning)
        hooks += (
            Hook(
                event_pattern=",".join(one.on), command=one.command, timeout=one.timeout,
                working_dir=one.working_dir or None, env=dict(one.env), enabled=one.enabled, description=one.description,
            )
            for one in file.hooks
        )  # fmt: skip
    return hooks


def _save(paths: Sequence[Path], hooks: Sequence[Hook]) -> None:
    """Write to the file that Forge has now, the last one where it has several or none; the first then holds none."""
    there = [path for path in paths if path.is_file()]
    target = there[-1] if there else paths[-1]
    for path in (*[path for path in there if path != target], target):
        kept = list(hooks) if path == target else []
        _write(path, {"hooks": [hook.to_dict() for hook in kept]})


def _write(path: Path, said: dict[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
