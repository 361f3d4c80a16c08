"""Counts failures of targets, and decides when a circuit breaker opens.

Each process counts the failures that it sees. An open breaker is shared by the fleet (`breaker:<target>`): while it is
open, one probe an interval is sent, and all other deliveries of its target wait parked (take.lua, settle.lua).
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final, NamedTuple

CONSECUTIVE: Final = 5
"""This many failures in a row open a breaker."""

WINDOW: Final = 20
WINDOW_SECONDS: Final = 60.0
SHARE: Final = 0.5
"""It also opens if this share of the last `WINDOW` attempts failed, all of them within `WINDOW_SECONDS`."""

LEAST_FAILURES: Final = 10
"""An endpoint that only fails is disabled after at least this many failures, however long ago the first was."""


class BreakerLimits(NamedTuple):
    """When probes are sent and when endpoints are disabled, in seconds."""

    first_probe: float = 5.0
    """From the opening of a breaker to its first probe; each probe that fails doubles the interval."""
    most_probe: float = 300.0
    disable_after: float = 0.0
    """An endpoint that only fails for this long is disabled; 0 leaves it enabled."""

    @property
    def args(self) -> tuple[int, ...]:
        """The arguments of settle.lua: the times in milliseconds, and the least number of failures."""
        return (*(int(seconds * 1000) for seconds in self), LEAST_FAILURES)


class FailureCounts:
    """The last attempts of each failing target that this process made."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, bool]]] = {}

    def add_failure(self, target: str) -> bool:
        """Count a failure. Returns True if the target's breaker opens now; its count then restarts at zero."""
        seen = self._seen.setdefault(target, deque(maxlen=WINDOW))
        now = time.monotonic()
        seen.append((now, True))
        last = list(seen)[-CONSECUTIVE:]
        opens = len(last) == CONSECUTIVE and all(failed for _, failed in last)
        if not opens and len(seen) == WINDOW and now - seen[0][0] <= WINDOW_SECONDS:
            opens = sum(failed for _, failed in seen) >= WINDOW * SHARE
        if opens:
            del self._seen[target]
        return opens

    def add_answer(self, target: str) -> None:
        """Count an attempt that was answered."""
        seen = self._seen.get(target)
        if seen is not None:
            seen.append((time.monotonic(), False))
            if not any(failed for _, failed in seen):
                del self._seen[target]

    def forget(self, target: str) -> None:
        """Reset the count of a target whose breaker is open."""
        self._seen.pop(target, None)


def change_text(target: str, change: str, reason: str) -> str:
    """The log message for a change that settle.lua reports (opened, closed, disabled, failing:<percent>)."""
    if change == "closed":
        return f"{target} answers again: its breaker is closed, and its waiting deliveries are sent"
    if change == "opened":
        return f"{target} fails ({reason}): its breaker is open, and its deliveries wait until a probe is answered"
    if change == "disabled":
        return f"{target} is disabled ({reason}); `fleethook webhooks enable` enables it"
    return f"{target} has only failed for {change.partition(':')[2]} % of the time after which it is disabled"
