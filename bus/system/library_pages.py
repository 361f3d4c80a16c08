"""Gives back the pages of libraries that only their import needed (Linux).

A library's own start reads most of its file: it enters its functions and its types. Those pages then count as this process's
memory, though they are a copy of the file, which the kernel maps again within a microsecond when one is used.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_MAPPINGS: Final = Path("/proc/self/smaps")
_MAPPING: Final = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ [1-9]\d* +/.+\.so\b.*\n((?:[A-Z]\w+:.*\n)+)", re.MULTILINE
)
_UNCHANGED: Final = re.compile(r"^Anonymous: +0 kB\n(?:.*\n)*?Swap: +0 kB\n", re.MULTILINE)
_DONTNEED: Final = 4  # MADV_DONTNEED


def release_library_pages() -> None:
    """Give back each page of a library that is as it is in the file; only while no other thread runs.

    A library that another thread is loading looks, for a moment, as if the linker would write nothing into it.
    """
    with suppress(OSError):  # no Linux, or a `/proc` that is closed to us
        mappings = _MAPPINGS.read_text()
        madvise = ctypes.CDLL(None).madvise
        for start, end in unchanged(mappings):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED)


def unchanged(mappings: str) -> list[tuple[int, int]]:
    """The start and the end of each part of a library that is read only and into which this process wrote nothing."""
    parts = (found for found in _MAPPING.finditer(mappings) if _UNCHANGED.search(found[3]))
    return [(int(found[1], 16), int(found[2], 16)) for found in parts]
