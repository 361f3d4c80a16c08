"""Keeps the bytecode of what `fleethook up` imports where Python keeps none."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bus.errors import ConfigError
from bus.system.directories import make_private

_HEADER: Final = 16
_PACKAGES: Final = ("bus", "workers", "click")
"""The packages whose modules are looked at: ours, and one that was installed with us."""


@contextmanager
def kept_bytecode(folder: Path) -> Iterator[None]:
    """Read and write the bytecode of what is imported meanwhile in `folder`, if Python has none of what is loaded already.

    With PYTHONDONTWRITEBYTECODE, or in an installation that nobody compiled and this user cannot write to, each start would
    compile 1,000 modules: 1.3 s of CPU, and 7 MB that stay (measured). Call it while no other thread imports.
    """
    if _is_compiled():
        yield
        return
    try:
        make_private(folder, narrow=True)
    except ConfigError:  # it is compiled as before
        yield
        return
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = str(folder), False
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def _is_compiled() -> bool:
    """Whether all modules of ours that are loaded have bytecode that is as new as their source."""
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    return all(
        _is_current(spec.origin, spec.cached)
        for spec in specs
        if spec is not None and spec.cached and spec.origin and spec.name.partition(".")[0] in _PACKAGES
    )


def _is_current(source: str, cached: str) -> bool:
    """Whether Python would take `cached` for `source` (PEP 552)."""
    try:
        with open(cached, "rb") as file:
            header = file.read(_HEADER)
        state = os.stat(source)
    except OSError:
        return False
    if header[:4] != importlib.util.MAGIC_NUMBER or len(header) < _HEADER:
        return False
    stamp = (int(state.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (state.st_size & 0xFFFFFFFF).to_bytes(
        4, "little"
    )
    return header[4:8] != bytes(4) or header[8:] == stamp
