"""Scripts of trusted hooks are pinned by content: a changed script does not run until it is trusted again."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from typing import Final

from bus.errors import FleethookError
from bus.hooks import Hook
from bus.hooksets.named_files import files_from

_CHUNK: Final = 1024 * 1024
_MOST_KNOWN: Final = 4096

_State = tuple[int, int, int, int]
_known: OrderedDict[str, tuple[_State, str]] = OrderedDict()
"""Digests by path, with the state of the file. Its owner cannot set the time of the last change (ctime)."""


class ScriptChanged(FleethookError):
    """A script of a trusted hook has changed since it was trusted."""


def script_digest(path: str) -> str:
    """The SHA-256 (hex) of a regular file; empty for a missing file, a word for one that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError:
        return "unreadable"
    try:  # a folder has a descriptor and no stream
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return ""
        state = (found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino)
        known = _known.get(path)
        if known is not None and known[0] == state:
            return known[1]
        whole = hashlib.sha256()
        while chunk := os.read(descriptor, _CHUNK):
            whole.update(chunk)
    except OSError:
        return "unreadable"
    finally:
        os.close(descriptor)
    digest = whole.hexdigest()
    _known[path] = (state, digest)
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
    return digest


def check_pins(hook: Hook, directory: str) -> None:
    """Raise ScriptChanged where a script of the hook has changed; `directory` is where the hook would run.

    A relative name means another file in another folder: one that nobody has trusted is not run.
    """
    if not hook.pins:
        return
    file = hook.origin.rpartition(":")[0]
    accept = f"fleethook hooks import {file} --to user" if hook.layer == "user" else "fleethook hooks trust"
    for path, digest in hook.pins.items():
        now = script_digest(path)
        if now != digest:
            what = "is new" if not digest else "changed" if now else "is gone"
            raise ScriptChanged(
                f"{path} {what} since hook {hook.id!r} ({hook.origin}) was trusted, so it was not run; `{accept}` shows it"
            )
    for path in files_from(hook, os.path.realpath(directory)):
        if path not in hook.pins:
            raise ScriptChanged(
                f"in this folder hook {hook.id!r} ({hook.origin}) means {path}, which was not trusted with it, so it was "
                "not run; name the script by its full path"
            )
