"""Scripts that trusted hooks name are pinned by content: a changed one is not run, until its new content is trusted."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from typing import Final

from bus.errors import FleethookError
from bus.hooks import Hook

_CHUNK: Final = 1024 * 1024
_MOST_KNOWN: Final = 4096

_State = tuple[int, int, int, int]
_known: OrderedDict[str, tuple[_State, str]] = OrderedDict()
"""Digests by path, with the state of the file; the time of its last change of state cannot be set by its owner."""


class ScriptChanged(FleethookError):
    """A script of a trusted hook is not the one that was trusted."""


def script_digest(path: str) -> str:
    """The SHA-256 (hex) of a regular file; empty where there is none, a word where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError:
        return "unreadable"
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return ""
        state = (found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino)
        known = _known.get(path)
        if known is not None and known[0] == state:
            return known[1]
        whole = hashlib.sha256()
        try:
            while chunk := stream.read(_CHUNK):
                whole.update(chunk)
        except OSError:
            return "unreadable"
    digest = whole.hexdigest()
    _known[path] = (state, digest)
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    return digest


def check_pins(hook: Hook) -> None:
    """Raise ScriptChanged where a script that the hook names is not as it was trusted."""
    for path, digest in hook.pins.items():
        now = script_digest(path)
        if now != digest:
            what = "is new" if not digest else "changed" if now else "is gone"
            raise ScriptChanged(
                f"{path} {what} since hook {hook.id!r} ({hook.origin}) was trusted, so it was not run; "
                "`fleethook hooks trust` shows it"
            )
