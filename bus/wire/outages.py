"""How long a program's call tries to reach a server that is away, as the hook command does (`bus/shim/outage.py`)."""

from __future__ import annotations

import time
from typing import Final

from bus.errors import FleethookError, NoEvaluator, NoFleet, Unreachable

_OUTAGE_SECONDS: Final = 2.0
_OUTAGE_PART: Final = 0.2
"""A call tries at most so many seconds, and this part of its deadline."""
MARKED_SECONDS: Final = 0.25
"""How long it tries if the server was away at the last call: the server's first answer has to come in that time. Then it waits
for evaluators as after any outage."""
_EMPTY_SECONDS: Final = 0.2
"""How long it waits for evaluators if the server had no data of the fleet at the last call."""
_RETRY_SECONDS: Final = 10.0
"""How often a call gives a server that was away the full time: else one that is farther than MARKED_SECONDS would stay lost."""


class Outages:
    """What one sender knows of the server from its last call."""

    def __init__(self) -> None:
        self._error: FleethookError | None = None
        self._full_at = 0.0

    def seconds(self, full: float) -> float:
        """How long the next call tries to reach the server: `full`, or a moment if it was away at the last call."""
        now = time.monotonic()
        if self._error is not None and now - self._full_at < _RETRY_SECONDS:
            return min(full, _EMPTY_SECONDS if isinstance(self._error, NoFleet) else MARKED_SECONDS)
        self._full_at = now
        return full

    def note(self, error: FleethookError | None = None) -> None:
        """Note how a call ended."""
        self._error = error if isinstance(error, Unreachable) and not isinstance(error, NoEvaluator) else None


def outage_seconds(budget: float) -> float:
    """How long a call with this budget (seconds) tries to reach a server that is away."""
    return min(_OUTAGE_SECONDS, budget * _OUTAGE_PART)
