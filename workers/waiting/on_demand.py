"""Processes that run only while there is work: another process of their `fleethook up` says when one is needed.

Only an `up` with a server of its own does so. Its dispatcher prints a line, and the supervisor, which reads its output anyway,
forks the process within milliseconds. The process ends by itself when it had nothing to do for a while. For other processes
there is a key that says so while that dispatcher runs. One evaluator runs all the time; the first one, and the dispatcher,
say when more are needed.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Final

from bus.wire.connections import Command
from bus.wire.keys import EVALUATORS_MS, PLUGINS_MS, Keys

VARIABLE: Final = "FLEETHOOK_ON_DEMAND"
"""The kinds of processes that a supervisor starts on demand, in the environment of its children."""

KINDS: Final = ("carrier", "chores")
"""The kinds that run only while there is work."""
EVALUATOR: Final = "evaluator"
"""The kind that always has one process, and more while there is work."""
IDLE_SECONDS: Final = 20
"""How long a carrier or chores worker waits for work before it ends."""
EVALUATOR_IDLE_SECONDS: Final = 120.0
"""How long an evaluator that is not the first one waits for a request before it ends."""
PLUGIN_SECONDS: Final = 30.0
"""How long one runs at most while Python plugins are in force, so that these have one instance, in the first evaluator."""
LATE_MS: Final = 2_000
"""How late the heartbeat of every evaluator is when another one is started: they write it each second."""

_taken: list[str] = []


class RequestLoad:
    """What an evaluator has to do: when it got its last request, and whether it had several at once."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self._was_high = False

    def note(self, read: int, in_work: int) -> float:
        """Note that so many requests were read now while so many were in work; returns the moment."""
        now = time.monotonic()
        if read:
            self.last = now
            self._was_high = self._was_high or read + in_work > 1
        return now

    def take_was_high(self) -> bool:
        """Whether there were several requests at once since the last call."""
        was_high, self._was_high = self._was_high, False
        return was_high


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
    return next((kind for kind in (*KINDS, EVALUATOR) if line == _line(kind)), "")


def starts_key(keys: Keys, kind: str) -> str:
    """The key that exists while a dispatcher runs whose supervisor starts processes of this kind on demand."""
    return keys("alive", f"starts-{kind}")


def say_commands(keys: Keys, who: str) -> list[Command]:
    """The commands that write these keys for the dispatcher `who`."""
    kinds = sorted(on_demand().intersection(KINDS))
    return [("SET", starts_key(keys, kind), who, "PX", EVALUATORS_MS) for kind in kinds]


def evaluator_commands(keys: Keys) -> list[Command]:
    """The commands whose replies `needs_evaluator` reads."""
    since = time.time_ns() // 10**6 - PLUGINS_MS
    plugins: Command = ("ZCOUNT", keys("plugins"), since, "+inf")
    return [("XLEN", keys("requests")), ("PTTL", keys("alive", EVALUATOR)), plugins]


def lives(left_ms: object) -> bool:
    """Whether an evaluator writes its heartbeat, by the second reply to `evaluator_commands`."""
    return isinstance(left_ms, int) and left_ms > 0


def needs_evaluator(requests: object, left_ms: object, with_plugins: object) -> bool:
    """Whether another evaluator is needed: a request waits or is in work, or the heartbeat of all that run is late.

    While a worker has plugins, only the heartbeat counts: another evaluator would have other instances of them.
    """
    late = isinstance(left_ms, int) and left_ms < EVALUATORS_MS - LATE_MS
    alone = isinstance(with_plugins, int) and with_plugins > 0
    return late or (isinstance(requests, int) and requests > 0 and not alone)


def _line(kind: str) -> str:
    return f"fleethook needs {kind}"
