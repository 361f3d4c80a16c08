"""Locks for processes of this machine: the kernel releases a lock when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Final

from bus.errors import ServerError

_TRIES: Final = 5
_PAUSE: Final = 0.01  # `owner` holds the lock for microseconds; a process that wants it tries again after this pause


class Held:
    """A lock that this process holds until `release` or its death; the file has the holder's pid."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def own(path: Path, what: str) -> Held:
    """Take the lock at `path` (mode 0600); raises ServerError if another process has it, which names `what`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for attempt in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt < _TRIES - 1:
                time.sleep(_PAUSE)
            continue
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        return Held(fd)
    pid = _pid(fd)
    os.close(fd)
    raise ServerError(f"{what} belongs to process {pid or '(unknown)'}, which runs; `fleethook down` stops it")


def owner(path: Path) -> int | None:
    """The pid of the process that holds the lock at `path` (0 while it is taking it); None if it is free."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(fd)
    else:
        return None
    finally:
        os.close(fd)


def listener(path: Path) -> int | None:
    """The pid of the process that listens on a unix socket, even if it hangs; None if no process does.

    The pid comes from the kernel. A pid from a file could belong to another process by now.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(1.0)
        try:
            link.connect(os.fspath(path))
            if sys.platform == "darwin":
                (pid,) = struct.unpack("i", link.getsockopt(0, 2, 4))  # SOL_LOCAL, LOCAL_PEERPID
            else:
                pid, _, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return None
    return int(pid)


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` (mode 0600) in one step: a reader sees the old file or the new one, never a part."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        part.unlink()
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)


def _pid(fd: int) -> int:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else 0
