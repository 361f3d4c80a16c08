"""Bounds the time series of the metrics: names of hooks and endpoints come and go, and each makes up to a hundred fields."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from bus.wire.connections import Command, Connections
from bus.wire.counts import BETWEEN
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

MOST_FIELDS: Final = 20_000
"""The most fields of all counters. A hook that took part in verdicts has 20 to 60, an endpoint as many."""

_NAMED: Final = frozenset(
    {
        "rule_matches",
        "rule_checks",
        "handler_duration_seconds",
        "webhook_attempts",
        "webhook_duration_seconds",
        "webhook_delivery_age_seconds",
    }
)
"""The counters whose first label is the name of a hook or endpoint."""

_AT_ONCE: Final = 500


async def bound_series(connections: Connections, keys: Keys, most: int = MOST_FIELDS) -> int:
    """Remove the counters of the names that counted least, until half of the bound is left; returns how many fields."""
    key = keys("metrics")
    with connections.lease() as connection:
        (length,) = await connection.exchange([("HLEN", key)])
        if isinstance(length, Exception) or length <= most:
            return 0
        (reply,) = await connection.exchange([("HGETALL", key)])
        counts = flat(checked(reply, "reading the counters"))
        doomed = least_counted({name: int(number) for name, number in counts.items()}, len(counts) - most // 2)
        asked: list[Command] = [
            ("HDEL", key, *doomed[start : start + _AT_ONCE]) for start in range(0, len(doomed), _AT_ONCE)
        ]
        return sum(
            int(checked(removed, "removing counters"))
            for removed in (await connection.exchange(asked) if asked else ())
        )


def least_counted(counts: dict[bytes, int], number: int) -> list[bytes]:
    """At least so many fields if there are enough: those of the names that counted least, each name with all it has."""
    fields: defaultdict[bytes, list[bytes]] = defaultdict(list)
    totals: Counter[bytes] = Counter()
    for field, count in counts.items():
        name, _, labels = field.partition(BETWEEN.encode())
        if labels and name.decode("utf-8", "replace") in _NAMED:
            label, _, rest = labels.partition(BETWEEN.encode())
            fields[label].append(field)
            totals[label] += 0 if rest.endswith(b"sum") else count
    found: list[bytes] = []
    for label, _ in reversed(totals.most_common()):
        if len(found) >= number:
            break
        found += fields[label]
    return found
