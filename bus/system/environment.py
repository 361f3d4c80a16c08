"""The environment of a hook's process: an allow-list, and values that the operating system accepts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

ALLOWED: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR")
"""Variables that every command gets (and LC_*); other variables of the worker only with the hook's `env_pass`."""

_ALLOWED: Final = frozenset(ALLOWED)

VALUE_LIMIT: Final = 128 * 1024 - 1
"""The most bytes of one `NAME=value`: Linux's MAX_ARG_STRLEN less its closing NUL; it does not depend on the others."""

TOTAL_LIMIT: Final = 768 * 1024
"""The most bytes of all variables: macOS takes 1 MiB for arguments and environment together, Linux 2 MiB by default."""

_LONG = 1024


def base_env(extra_names: Sequence[str] = ()) -> dict[str, str]:
    """The variables of this process that a command gets: the allow-list, and those in `extra_names`.

    `FLEETHOOK_…` is never passed on, even if it is named, because it may have the server's credentials.
    """
    wanted = _ALLOWED.union(extra_names)
    # Each access to `os.environ` decodes again: one pass over the names alone takes half the time (measured).
    names = [name for name in os.environ if name in wanted or name.startswith("LC_")]
    found = {name: os.environ[name] for name in names if not name.startswith("FLEETHOOK_")}
    found.setdefault("PATH", os.defpath)
    return found


def fit_env(env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment with values that the OS accepts, and the names of the values that were cut or cleaned.

    A cut value ends in `[cut by fleethook: N bytes]`. NULs are dropped, lone surrogates become question marks.
    """
    fitted: dict[str, str] = {}
    touched: dict[str, None] = {}
    total = 0
    for name, value in env.items():
        clean = _clean(value)
        # A character has at most four bytes, so short values need not be encoded to be measured.
        if len(clean) * 4 + len(name) > VALUE_LIMIT:
            clean = _cut(clean, VALUE_LIMIT - 1 - len(os.fsencode(name)))
        if clean != value:
            touched[name] = None
        fitted[name] = clean
        total += len(name) + 2 + len(clean)
    if total * 4 > TOTAL_LIMIT:
        sizes = {name: len(os.fsencode(name)) + 2 + len(os.fsencode(value)) for name, value in fitted.items()}
        over = sum(sizes.values()) - TOTAL_LIMIT
        for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if over <= 0 or sizes[name] <= _LONG:
                break
            over -= sizes[name] - _LONG
            fitted[name] = _cut(fitted[name], _LONG)
            touched[name] = None
    return fitted, tuple(touched)


def was_cut(value: str) -> bool:
    """Whether `fit_env` has cut a value, not only cleaned it."""
    return value.endswith(" bytes]") and "[cut by fleethook: " in value[-60:]


def _clean(value: str) -> str:
    if value.isascii():
        return value.replace("\0", "") if "\0" in value else value
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        value = value.encode("utf-8", "replace").decode("utf-8")
    return value.replace("\0", "")


def _cut(value: str, limit: int) -> str:
    raw = os.fsencode(value)
    if len(raw) <= limit:
        return value
    marker = f"[cut by fleethook: {len(raw)} bytes]"
    return raw[: limit - len(marker)].decode("utf-8", "ignore") + marker
