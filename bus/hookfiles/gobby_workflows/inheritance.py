"""A workflow of Gobby over the one that it extends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A workflow over its parent: mappings are merged, steps by their names, other lists replaced."""
    found = dict(base)
    for key, value in over.items():
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            found[key] = merged(known, value)
        elif key in {"steps", "phases"} and isinstance(known, list) and isinstance(value, list):
            found[key] = _merged_steps(known, value)
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
