"""The file changes that Codex's app server asks about, as the patch that its own hooks have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bus.agents.payloads import mapping, text

PATCH_TOOL: Final = "apply_patch"
_HEADS: Final = {"add": "Add", "create": "Add", "delete": "Delete", "remove": "Delete"}


def patch_of(changes: object) -> str:
    """A patch with each change; its files are the paths that rules see."""
    lines = ["*** Begin Patch"]
    for path, kind, diff in _changes(changes):
        head = _HEADS.get(kind, "Update")
        lines.append(f"*** {head} File: {path.replace(chr(10), ' ')}")
        if head == "Add":
            lines += [line if line.startswith("+") else f"+{line}" for line in diff.splitlines()]
        elif head == "Update":
            lines += [line if line[:1] in tuple("+-@ ") else f" {line}" for line in diff.splitlines()]
    return "\n".join([*lines, "*** End Patch", ""])


def _changes(changes: object) -> Iterator[tuple[str, str, str]]:
    """Path, kind and diff of each change: of a list of them, or of a table by their paths."""
    found: list[tuple[Any, Any]] = []
    if isinstance(changes, dict):
        found = [*changes.items()]
    elif isinstance(changes, list):
        found = [(text(each, "path", "file_path", "filePath"), each) for each in changes if isinstance(each, dict)]
    for path, change in found:
        fields = mapping(change)
        kind = fields.get("kind") or fields.get("type")
        kind = text(kind, "type") if isinstance(kind, dict) else kind
        inner = next((mapping(fields[name]) for name in ("add", "delete", "update") if name in fields), fields)
        named = kind if isinstance(kind, str) else next((name for name in ("add", "delete") if name in fields), "")
        if path:
            yield str(path), named.lower(), text(inner, "diff", "unified_diff", "content")
        moved = text(inner, "move_path", "movePath")
        if moved:
            yield moved, "add", ""
