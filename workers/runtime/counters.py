"""Counts of one evaluator, added to the fleet's figures once a second."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys

_SECONDS: Final = 1.0


class Counters:
    """Counts verdicts by decision, fallbacks, and parts of verdicts that an agent could not carry."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._counted: Counter[str] = Counter()
        self._sent = 0.0

    def count_verdict(self, verdict: Verdict) -> None:
        """Count a verdict that hooks gave."""
        self._counted[f"verdicts:{verdict.decision}"] += 1
        self._counted["fallbacks"] += sum(1 for part in verdict.parts if part.fallback)

    def count_answer(self, verdict: Verdict) -> None:
        """Count a verdict in the form that its agent gets."""
        self._counted["fallbacks"] += bool(verdict.fallback)
        self._counted["lost"] += len(verdict.lost)

    async def send(self) -> None:
        """Add the counts to the fleet's figures, at most once a second; raises Unreachable."""
        counted = +self._counted
        if not counted or time.monotonic() - self._sent < _SECONDS:
            return
        self._sent, self._counted = time.monotonic(), Counter()
        with self._connections.lease() as connection:
            await connection.exchange([("HINCRBY", self._keys("stats"), name, n) for name, n in counted.items()])
