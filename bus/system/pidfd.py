"""Descriptors by which a loop notices the end of a process (Linux)."""

from __future__ import annotations

import os
import sys
from typing import Final

_PIDFD_OPEN: Final = 434  # the system call's number on every architecture but Alpha


def open_pidfd(pid: int) -> int:
    """A descriptor that is readable when the process has ended; -1 where there is none, or the process has been waited for.

    Portable builds of Python (those that uv installs) are compiled on a system whose C library is too old to know of it.
    """
    if sys.platform != "linux":
        return -1
    try:
        if hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)
        import ctypes

        return int(ctypes.CDLL(None).syscall(_PIDFD_OPEN, pid, 0))
    except OSError:  # a kernel or sandbox without it, or the process has been reaped
        return -1
