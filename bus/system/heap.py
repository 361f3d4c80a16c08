"""Gives back memory that a process has freed and that its C library keeps (Linux with glibc)."""

from __future__ import annotations

import ctypes
import sys


def release_heap() -> None:
    """Give back each page of the C library's heap in which nothing is allocated any more.

    The library itself gives back the end of the heap alone. What a compiler frees is in its middle: 4 MB of an `up` that
    compiled its modules (measured).
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
