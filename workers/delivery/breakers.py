"""Circuit breakers: when one opens, and how those of the fleet stand.

Each process counts the failures that it sees; what the fleet shares is the open breaker (`breaker:<target>`): while it
is open, one probe an interval is let through, and everything else of its target waits parked (take.lua, settle.lua).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from bus.secrets.redaction import redact_text
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

CONSECUTIVE: Final = 5
"""So many failures one after the other open a breaker."""

WINDOW: Final = 20
WINDOW_SECONDS: Final = 60.0
SHARE: Final = 0.5
"""Or this share of the last `WINDOW` attempts, all of them within so many seconds."""

LEAST_FAILURES: Final = 10
"""An endpoint is disabled for its failures only after so many, however long ago the first was."""

_SCAN: Final = 1_000
_ROUNDS: Final = 200


class BreakerLimits(NamedTuple):
    """When probes are made and endpoints disabled; seconds."""

    first_probe: float = 5.0
    """From a breaker's opening to its first probe; the interval doubles with each probe that fails."""
    most_probe: float = 300.0
    disable_after: float = 0.0
    """An endpoint that does nothing but fail for so long is disabled; 0 leaves it enabled."""

    @property
    def args(self) -> tuple[int, ...]:
        """What settle.lua is told: milliseconds, and how many failures it takes."""
        return (*(int(seconds * 1000) for seconds in self), LEAST_FAILURES)


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """An open breaker; times in milliseconds since 1970 by the server's clock."""

    target: str
    since: int
    interval: int
    """Milliseconds between probes, by now."""
    next: int
    """When the next probe is due."""
    probe: str = ""
    """The delivery whose attempt is the probe under way."""
    reason: str = ""
    """Why the last attempt failed."""
    parked: int = 0
    """Deliveries that wait."""


class FailureCounts:
    """What one process has seen of the targets that fail; a target that does not costs one look-up."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, bool]]] = {}

    def add_failure(self, target: str) -> bool:
        """Note a failure; whether the target's breaker is to open now, with which the counting begins anew."""
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
        """Note that the target answered."""
        seen = self._seen.get(target)
        if seen is not None:
            seen.append((time.monotonic(), False))
            if not any(failed for _, failed in seen):
                del self._seen[target]

    def forget(self, target: str) -> None:
        """Begin anew with a target: its breaker is open, so what was counted before says no more."""
        self._seen.pop(target, None)


async def read_breakers(connections: Connections, keys: Keys, targets: Iterable[str] | None = None) -> list[Breaker]:
    """The open breakers, of `targets` or of all (then of as many as a bounded scan finds), by target."""
    names = sorted(set(targets)) if targets is not None else await _open(connections, keys)
    if not names:
        return []
    with connections.lease() as connection:
        rows = await connection.exchange([("HGETALL", keys("breaker", name)) for name in names])
        parked = await connection.exchange([("LLEN", keys("parked", name)) for name in names])
    found = []
    for name, row, waits in zip(names, rows, parked, strict=True):
        fields = {
            key.decode(): value.decode("utf-8", "replace")
            for key, value in flat(checked(row, "reading a breaker")).items()
        }
        if "next" in fields:
            found.append(
                Breaker(
                    target=name,
                    since=int(fields.get("since", 0)),
                    interval=int(fields.get("interval", 0)),
                    next=int(fields["next"]),
                    probe=fields.get("probe", ""),
                    reason=redact_text(fields.get("reason", "")),
                    parked=int(checked(waits, "counting the parked")),
                )
            )
    return found


async def _open(connections: Connections, keys: Keys) -> list[str]:
    prefix = keys("breaker", "")
    cursor: bytes = b"0"
    names: set[str] = set()
    with connections.lease() as connection:
        for _ in range(_ROUNDS):
            (reply,) = await connection.exchange([("SCAN", cursor, "MATCH", f"{_escaped(prefix)}*", "COUNT", _SCAN)])
            cursor, page = checked(reply, "looking for breakers")
            names.update(name.decode("utf-8", "replace").removeprefix(prefix) for name in page)
            if cursor == b"0":
                break
    return sorted(names)


def _escaped(prefix: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)


def change_text(target: str, change: str, reason: str) -> str:
    """What a person is told of a change that settle.lua names: opened, closed, disabled, failing:<percent>."""
    if change == "closed":
        return f"{target} answers again: its breaker is closed, and what waited goes on"
    if change == "opened":
        return f"{target} fails ({reason}): its breaker is open, its deliveries wait for a probe that is answered"
    if change == "disabled":
        return f"{target} is disabled ({reason}); `fleethook webhooks enable` enables it"
    return f"{target} has done nothing but fail for {change.partition(':')[2]} % of the time after which it is disabled"
