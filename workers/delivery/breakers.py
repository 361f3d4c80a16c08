"""When a circuit breaker opens.

Each process counts the failures that it sees. The fleet shares the open breaker (`breaker:<target>`): as long as it is
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
"""This share of failures in the last `WINDOW` attempts opens it, too, if all of them were made within `WINDOW_SECONDS`."""

LEAST_FAILURES: Final = 10
"""An endpoint that only fails is disabled after at least this many failures, however long ago the first was."""


class BreakerLimits(NamedTuple):
    """When probes are sent and endpoints are disabled; in seconds."""

    first_probe: float = 5.0
    """From the opening of a breaker to its first probe; each probe that fails doubles the interval."""
    most_probe: float = 300.0
    disable_after: float = 0.0
    """An endpoint that only fails for this long is disabled; 0 leaves it enabled."""

    @property
    def args(self) -> tuple[int, ...]:
        """As settle.lua takes them: the times in milliseconds, and the least number of failures."""
        return (*(int(seconds * 1000) for seconds in self), LEAST_FAILURES)


class FailureCounts:
    """The last attempts of each target that fails, as one process has seen them."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, bool]]] = {}

    def add_failure(self, target: str) -> bool:
        """Count a failure; True if the target's breaker is to open now, and then the count starts again at zero."""
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
        """Count an answer."""
        seen = self._seen.get(target)
        if seen is not None:
            seen.append((time.monotonic(), False))
            if not any(failed for _, failed in seen):
                del self._seen[target]

    def forget(self, target: str) -> None:
        """Start the count of a target again at zero, since its breaker is open."""
        self._seen.pop(target, None)


def change_text(target: str, change: str, reason: str) -> str:
    """A change that settle.lua reports (opened, closed, disabled, failing:<percent>) as a person reads it in the log."""
    if change == "closed":
        return f"{target} answers again: its breaker is closed, and its waiting deliveries are sent"
    if change == "opened":
        return f"{target} fails ({reason}): its breaker is open, and its deliveries wait until a probe is answered"
    if change == "disabled":
        return f"{target} is disabled ({reason}); `fleethook webhooks enable` enables it"
    return f"{target} has only failed for {change.partition(':')[2]} % of the time after which it is disabled"
