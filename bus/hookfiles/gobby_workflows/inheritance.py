"""What a workflow of Gobby takes from other files: the one that it extends, and the rules that it imports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bus.config.documents import load
from bus.errors import ConfigError

_MOST_FILES: Final = 200
_STEPS: Final = ("steps", "phases")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow over its parent: mappings are merged, steps by their names, other lists replaced."""
    found = dict(base)
    for key, value in over.items():
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            found[key] = merged(known, value)
        elif key in _STEPS and isinstance(value, list):  # a newer form may extend an older one
            above: list[Any] = next((found.pop(name) for name in _STEPS if isinstance(found.get(name), list)), [])
            found[key] = _merged_steps(above, value)
        else:
            found[key] = value
    return found


def _merged_steps(base: list[Any], over: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for number, step in enumerate((*base, *over)):
        name = step.get("name") if isinstance(step, dict) else number
        known = found.get(name)
        found[name] = merged(known, step) if isinstance(known, dict) and isinstance(step, dict) else step
    return list(found.values())


def named_file(name: str, folders: Sequence[Path], but: Path) -> Path | None:
    """The file of the workflow with this `name`, where no file is called so."""
    for folder in folders:
        for path in sorted(folder.glob("*.yaml"))[:_MOST_FILES]:
            try:
                value = load(path).value if path != but else None
            except ConfigError:
                continue  # its own reading reports what is wrong with it
            if isinstance(value, dict) and value.get("name") == name:
                return path
    return None


def rule_folders(file: Path) -> list[Path]:
    """Where the files of rules are that a workflow imports: `rules` beside the workflows, then the user's."""
    beside = [folder / "rules" for folder in (file.parent, file.parent.parent, file.parent.parent.parent)]
    own = [folder for folder in beside if folder.parent.name == ".gobby"]
    return [*own, *(folder for folder in beside if folder not in own), Path(os.path.expanduser("~/.gobby/rules"))]


def rule_file(file: Path, name: str) -> Path | None:
    """The file of rules with this name; None if there is none."""
    if not name or name != os.path.basename(name):
        return None
    places = (folder / f"{name.removesuffix('.yaml')}.yaml" for folder in rule_folders(file))
    return next((path for path in places if path.is_file()), None)
