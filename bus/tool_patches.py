"""Finds patches in shell commands: Codex runs `apply_patch <<'EOF'` itself, as an edit of the files that the patch names."""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex

_CALL: Final = lazy_regex(r"(?:^|[\s;&|('\"])(?:[\w./-]*/)?(?:apply_?patch|apply-patch)(?=[\s'\"<)]|$)")
_CHANGED: Final = lazy_regex(r"^[ \t]*\*\*\* (?:Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)
_PATCH: Final = lazy_regex(r"\*\*\* Begin Patch.*?(?:\*\*\* End Patch|\Z)", re.DOTALL)
_DIRECTORY: Final = lazy_regex(r"\bcd\s+(?:--\s+)?(\"[^\"]+\"|'[^']+'|[^\s;&|]+)\s*(?:&&|;|\n)")


_DIFFED: Final = lazy_regex(r"^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+?)[ \t]*$", re.MULTILINE)


def patched_files(text: str) -> tuple[str, ...]:
    """The files that a patch changes: one of Codex, or a unified diff."""
    found = [*_CHANGED.findall(text), *_DIFFED.findall(text)] if "*** " in text or "+++ " in text else []
    return tuple(dict.fromkeys(path for path in found if path != "/dev/null"))


class ShellPatch(NamedTuple):
    """The patches of one command as one text, and the files that they change, relative to the call's directory."""

    text: str
    paths: tuple[str, ...]


def find_patch(command: str, cwd: str = "") -> ShellPatch | None:
    """The patches that a command applies; None if it does not call `apply_patch` with a patch in its text.

    `cwd` is the directory that the call names; empty if it names none.
    """
    if "patch" not in command or "*** " not in command:
        return None
    call = _CALL.search(command)
    if call is None:
        return None
    text = command if _CHANGED.search(command) else command.replace("\\n", "\n")
    base = cwd
    for directory in _DIRECTORY.findall(command[: call.start() + 1]):
        base = posixpath.join(base, directory.strip("'\""))
    paths = [
        posixpath.join(base, path) if base and not path.startswith("~") else path for path in _CHANGED.findall(text)
    ]
    if not paths:
        return None
    return ShellPatch("\n".join(_PATCH.findall(text)), tuple(dict.fromkeys(paths)))
