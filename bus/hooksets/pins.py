"""Scripts of trusted hooks are pinned by content: a changed script does not run until it is trusted again."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections import OrderedDict
from typing import Final

from bus.errors import FleethookError
from bus.hooks import Hook
from bus.hooksets.named_files import MOST_BYTES, MOST_FILES, files_from, is_many, matched_files

_CHUNK: Final = 1024 * 1024
_MOST_KNOWN: Final = 4096

_State = tuple[int, int, int, int]
_known: OrderedDict[str, tuple[_State, str]] = OrderedDict()
"""Digests by path, valid for one state of the file. The state has the ctime, which the file's owner cannot set."""


class ScriptChanged(FleethookError):
    """A script of a trusted hook has changed since it was trusted."""


TOO_MANY: Final = "too many"


def script_digest(path: str) -> str:
    """The SHA-256 (hex) of a regular file; empty for a missing file, and a word for a file that cannot be read.

    For a pattern or a folder, it is over the names and contents of its files, or TOO_MANY.
    """
    return _digest_of_many(path) if is_many(path) else _digest_of_one(path)


def _digest_of_many(name: str) -> str:
    files = matched_files(name)
    if len(files) > MOST_FILES or sum(map(_size, files)) > MOST_BYTES:
        return TOO_MANY
    whole = hashlib.sha256()
    for file in files:
        whole.update(os.fsencode(file) + b"\0" + _digest_of_one(file).encode())
    return whole.hexdigest() if files else ""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _digest_of_one(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError:
        return "unreadable"
    try:  # no file object: one cannot be made of a folder's descriptor
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
    """Raise ScriptChanged if a script of the hook has changed, or is not the trusted one.

    `directory` is where the hook would run: there, a relative name may mean a file that was not trusted.
    """
    if not hook.pins:
        return
    file = hook.origin.rpartition(":")[0]
    accept = (
        f"fleethook hooks import {shlex.quote(file)} --to user" if hook.layer == "user" else "fleethook hooks trust"
    )
    if hook.layer == "user" and hook.own.get("root"):
        accept = f"fleethook plugins add {shlex.quote(hook.own['root'])}"
    for path, digest in hook.pins.items():
        now = script_digest(path)
        if now == TOO_MANY:
            raise ScriptChanged(
                f"{path} has more than {MOST_FILES} files or {MOST_BYTES // 2**20} MiB, too many to be pinned, so hook "
                f"{hook.id!r} ({hook.origin}) was not run; name the scripts that it runs, or move them to a folder of "
                "their own"
            )
        if now != digest:
            what = "is new" if not digest else "changed" if now else "is gone"
            raise ScriptChanged(
                f"{path} {what} since hook {hook.id!r} ({hook.origin}) was trusted, so it was not run; `{accept}` shows it"
            )
    pinned = {file for name in hook.pins if is_many(name) for file in matched_files(name)}
    for path in files_from(hook, os.path.realpath(directory)):
        if path not in hook.pins and path not in pinned:
            raise ScriptChanged(
                f"in this folder hook {hook.id!r} ({hook.origin}) means {path}, which was not trusted with it, so it was "
                "not run; name the script by its full path"
            )
