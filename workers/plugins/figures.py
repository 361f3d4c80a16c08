"""What is counted about one plugin in one worker, and what all workers tell others about it."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

import msgspec

State = Literal["starting", "running", "reloading", "waiting", "failed", "stopped"]
"""`waiting`: its process ended and is started again after a pause; `failed`: it could not be loaded."""

Breaker = Literal["closed", "open", "half-open"]

_KEPT: Final = 1000


class PluginState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One plugin in one worker."""

    name: str
    state: State
    worker: str = ""
    host: str = ""
    layer: str = ""
    version: str = ""
    description: str = ""
    path: str = ""
    pid: int = 0
    handlers: tuple[tuple[str, str, int], ...] = ()
    """Method, event and priority of each handler."""
    actions: tuple[str, ...] = ()
    schemas: tuple[tuple[str, str], ...] = ()
    """The actions whose arguments are checked, each with its JSON Schema as text."""
    conditions: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    calls: int = 0
    failures: int = 0
    restarts: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    breaker: Breaker = "closed"
    """`open`: calls fail at once until the process is started again; `half-open`: one call at a time is tried."""
    problem: str = ""
    """Why it is not running, or why the last reload was not put in force."""
    reloaded: int = 0
    """The number of the last order to reload that this worker has carried out."""


class PluginFigures:
    """The calls of one plugin in one worker."""

    def __init__(self) -> None:
        self.calls = self.failures = 0
        self._ms: deque[float] = deque(maxlen=_KEPT)

    def note(self, ms: float, *, failed: bool) -> None:
        """Count one call."""
        self.calls += 1
        self.failures += failed
        self._ms.append(ms)

    def percentile(self, part: float) -> float:
        """The time within which this part of the last thousand calls was answered, in milliseconds."""
        ordered = sorted(self._ms)
        return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3) if ordered else 0.0
