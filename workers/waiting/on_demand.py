"""Processes that run only while there is work: the dispatcher of their `fleethook up` says when one is needed.

Only an `up` with a server of its own does so. Its dispatcher prints a line, and the supervisor, which reads its output anyway,
forks the process within milliseconds. The process ends by itself when it had nothing to do for a while. For other processes
there is a key that says so while that dispatcher runs.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from bus.wire.connections import Command
from bus.wire.keys import EVALUATORS_MS, Keys

VARIABLE: Final = "FLEETHOOK_ON_DEMAND"
"""The kinds of processes that a supervisor starts on demand, in the environment of its children."""

KINDS: Final = ("carrier", "chores")
IDLE_SECONDS: Final = 20
"""How long such a process waits for work before it ends."""

_taken: list[str] = []


def take_on_demand() -> frozenset[str]:
    """The kinds that our supervisor starts on demand, taken out of the environment; they are remembered."""
    found = os.environ.pop(VARIABLE, "")
    if found:
        _taken[:] = found.split()
    return on_demand()


def on_demand() -> frozenset[str]:
    """The kinds that our supervisor starts on demand."""
    return frozenset(_taken)


def need(kind: str) -> None:
    """Print that a process of a kind is needed; the supervisor starts one, unless as many as are set run already."""
    print(_line(kind), file=sys.stderr, flush=True)  # noqa: T201 - the supervisor reads it


def needed(line: str) -> str:
    """The kind that a line of a dispatcher's output says is needed; empty for any other line."""
    return next((kind for kind in KINDS if line == _line(kind)), "")


def starts_key(keys: Keys, kind: str) -> str:
    """The key that exists while a dispatcher runs whose supervisor starts processes of this kind on demand."""
    return keys("alive", f"starts-{kind}")


def say_commands(keys: Keys, who: str) -> list[Command]:
    """The commands that write these keys for the dispatcher `who`."""
    return [("SET", starts_key(keys, kind), who, "PX", EVALUATORS_MS) for kind in sorted(on_demand())]


def _line(kind: str) -> str:
    return f"fleethook needs {kind}"
