"""Hook dialects: a system's own hook files into canonical hooks, and those run as their author meant.

`bus.dialects.<name>_hooks` holds one. What is the same for all (process group, caps, signals, the safe environment) is
`runners/command.py`; a dialect says what a command gets and what its ending means.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Protocol, cast, runtime_checkable

from bus.config.contents import HookFile
from bus.events import Event
from bus.hooks import HOOK_DIALECTS, NATIVE, Hook, Layer
from bus.processes import Finished
from bus.runners import Outcome
from bus.verdicts import Policy, Verdict

_MODULES: Final[Mapping[str, str]] = {NATIVE: "native_hooks", "ion": "claude_hooks"}
"""Where a dialect is not in the module of its own name; ion's plugins are Claude Code's."""


class HookDialect(Protocol):
    """How the commands of one system are run; it has no state."""

    name: str
    policy: Policy | None
    """The failure policy where neither the hook nor its layer has one (design, section 4); None leaves it to the bus."""

    one_stream: bool
    """A command's stdout and stderr are one text, in the order written; it is in `Finished.stdout`."""

    def read(self, path: Path, layer: Layer) -> HookFile:
        """What a file (or folder) of the system contributes, in order; ConfigError only where nothing can be read.

        Each hook has its `dialect`, `origin` (file:line), and in `own` what the methods below need. A bad entry stands
        among the `problems` with its place, the others load (F-11); what has no equivalent stands in `warnings`.
        """
        ...

    def applies(self, hook: Hook, event: Event) -> bool:
        """Whether the hook runs for an event that its patterns and `when:` fit: what else its author asked for."""
        ...

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:
        """The system's own environment variables, beside the safe list, the hook's `env` and FLEETHOOK_*."""
        ...

    def stdin(self, hook: Hook, event: Event) -> bytes:
        """What the command reads on stdin; TypeError or ValueError where the event cannot be written."""
        ...

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """What the command's ending means: a decision, context, a changed input, or a failure (never both)."""
        ...


@runtime_checkable
class HttpDialect(Protocol):
    """A hook dialect that also has its own form for what goes out over HTTP; hooks of any other get ours."""

    def http_body(self, event: Event, verdict: Verdict | None, hook: Hook | None = None) -> bytes:
        """What is posted, for a hook that is asked or for whoever is told; whoever tells redacts the event first.

        TypeError or ValueError where the event cannot be written.
        """
        ...

    def http_answer(self, raw: bytes, hook: Hook, event: Event) -> Outcome:
        """What a receiver's 2xx answer with a body means for a blocking hook; raises DecodeError, which says why."""
        ...


@runtime_checkable
class RootedDialect(Protocol):
    """A hook dialect whose commands run elsewhere than in the event's directory."""

    def directory(self, hook: Hook, event: Event) -> str:
        """Where the command runs; empty for the hook's own directory, else the event's."""
        ...


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
    return _dialect(_MODULES.get(name, f"{name}_hooks"), name)


@cache
def _dialect(module: str, name: str) -> HookDialect:
    return cast("HookDialect", importlib.import_module(f"bus.dialects.{module}").HOOKS[name])
