"""Hook dialects: each reads a system's hook files as canonical hooks, and defines how their commands run.

`bus.hookfiles.<name>` has one dialect. It decides what a command gets and what its result means. `runners/command.py` does
what is the same for all: process group, caps on output, signals, the safe environment.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Final, cast

from bus.hookfiles.base import DirectoryDialect, HookDialect, HttpDialect
from bus.hooks import HOOK_DIALECTS, NATIVE

_MODULES: Final[Mapping[str, str]] = {NATIVE: "native", "ion": "claude"}
"""The modules of dialects whose module has another name; ion has the same plugins as Claude Code."""


@cache  # checking whether an object implements a protocol takes 7 us
def find_http(name: str) -> HttpDialect | None:
    """The dialect, if it has its own form for HTTP; else None."""
    dialect: object = find_hooks(name) if name != NATIVE else None
    return dialect if isinstance(dialect, HttpDialect) else None


@cache
def find_rooted(name: str) -> DirectoryDialect | None:
    """The dialect, if its commands run in another directory than the event's; else None."""
    dialect: object = find_hooks(name)
    return dialect if isinstance(dialect, DirectoryDialect) else None


def find_hooks(name: str) -> HookDialect:
    """The dialect that a hook names in `dialect`; raises KeyError if there is none."""
    if name not in HOOK_DIALECTS:
        raise KeyError(name)
    return _dialect(_MODULES.get(name, name), name)


@cache
def _dialect(module: str, name: str) -> HookDialect:
    return cast("HookDialect", importlib.import_module(f"bus.hookfiles.{module}").HOOKS[name])
