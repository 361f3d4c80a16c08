"""Hook dialects: each reads a system's hook files as canonical hooks, and runs these as their author meant.

`bus.hookfiles.<name>` has one dialect. `runners/command.py` does what is the same for all: process group, caps, signals,
the safe environment. A dialect decides what a command gets and what its result means.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Final, cast

from bus.hookfiles.base import DirectoryDialect, HookDialect, HttpDialect
from bus.hooks import HOOK_DIALECTS, NATIVE

_MODULES: Final[Mapping[str, str]] = {NATIVE: "native", "ion": "claude"}
"""The modules of dialects that are not in a module of their own name; ion's plugins are Claude Code's."""


@cache  # checking whether an object implements a protocol takes 7 us
def find_http(name: str) -> HttpDialect | None:
    """The dialect's form for HTTP; None if it has none of its own."""
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
