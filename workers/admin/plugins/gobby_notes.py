"""What a person of Gobby has to know after an import: plugins that are still off, and scripts that ask Gobby's daemon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bus.config.hook_file_value import HookFile, Imported
from bus.hookfiles import gobby
from bus.hooksets.plugins.sources import offered
from workers.admin.plugins.imports import python_plugins

SCRIPT: Final = "hook_dispatcher"
"""Part of the name of the scripts that Gobby puts into the settings of agents."""

_SCRIPT_FOLDERS: Final = (".gobby/hooks", ".claude/hooks", ".gemini/hooks", ".cursor/hooks", ".windsurf/hooks")


def gobby_notes(read: HookFile, imported: Imported, into: Path, *, project: bool, replaced: bool) -> list[str]:
    """Sentences about what an import leaves to do. `into` is the file that imports it, of a project or of the user.

    `replaced` says whether the gateway is told to replace Gobby's daemon whatever the files import.
    """
    notes: list[str] = []
    if imported.dialect == gobby.NAME and (home := gobby_folder(Path(imported.path))) is not None:
        names = sorted({name for name, source in offered([str(home / "plugins")]) if not source.module})
        named = python_plugins(into) | {plugin.name for plugin in read.plugins}
        off = [name for name in names if name not in named]
        if off:
            is_found = project or home == Path.home() / home.name
            how = "" if is_found else f" --path {home / 'plugins'}/FILE"
            notes.append(
                f"plugins in {home / 'plugins'} stay off until you enable each: {', '.join(off)} "
                f"(`fleethook plugins enable NAME{how}`)"
            )
        if project and not replaced and _scripts(home.parent):
            notes.append(
                f"Gobby's scripts in {home.parent} need the ports of Gobby's daemon, which a project's file does not "
                "open: `settings: {gobby: on}` in your own fleethook.yaml does, at the next start of a gateway"
            )
    if any(SCRIPT in hook.command for hook in read.hooks) and imported.dialect != gobby.NAME:
        notes.append(
            f"{imported.path} runs Gobby's {SCRIPT} script, which sends each event to Gobby's daemon; where a gateway "
            "replaces it, do not import this file: these calls would be judged and recorded twice"
        )
    return notes


def gobby_folder(path: Path) -> Path | None:
    """The folder `.gobby` that a path is or is in; None if it is in none."""
    return next((place for place in (path, *path.parents) if place.name == ".gobby"), None)


def _scripts(root: Path) -> bool:
    """Whether a project has Gobby's script in one of its usual folders."""
    for folder in _SCRIPT_FOLDERS:
        try:
            names = os.listdir(root / folder)
        except OSError:
            continue
        if any(name.startswith(SCRIPT) for name in names):
            return True
    return False
