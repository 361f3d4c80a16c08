"""Hook dialects: a system's own hook files into canonical hooks, and those run as their author meant.

`bus.hookfiles.<name>` holds one. What is the same for all (process group, caps, signals, the safe environment) is
`runners/command.py`; a dialect says what a command gets and what its ending means.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Final, cast

from bus.hookfiles.base import HookDialect, HttpDialect, RootedDialect
from bus.hooks import HOOK_DIALECTS, NATIVE

_MODULES: Final[Mapping[str, str]] = {NATIVE: "native", "ion": "claude"}
"""Where a dialect is not in the module of its own name; ion's plugins are Claude Code's."""


@cache  # asking whether an object keeps a protocol takes 7 us
def find_http(name: str) -> HttpDialect | None:
    """The dialect's form for HTTP; None where it has none of its own."""
    dialect: object = find_hooks(name) if name != NATIVE else None
    return dialect if isinstance(dialect, HttpDialect) else None


@cache
def find_rooted(name: str) -> RootedDialect | None:
    """The dialect, where its commands run elsewhere than in the event's directory; else None."""
    dialect: object = find_hooks(name)
    return dialect if isinstance(dialect, RootedDialect) else None


def find_hooks(name: str) -> HookDialect:
    """The dialect that a hook names in `dialect`; KeyError where there is none."""
    if name not in HOOK_DIALECTS:
        raise KeyError(name)
    return _dialect(_MODULES.get(name, name), name)


@cache
def _dialect(module: str, name: str) -> HookDialect:
    return cast("HookDialect", importlib.import_module(f"bus.hookfiles.{module}").HOOKS[name])
