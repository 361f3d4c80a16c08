"""How often each hook and endpoint ran in the whole fleet, how that ended, and how long it took.

Read from the counters in Redis (`bus/wire/counts.py`). They count from the first start on a namespace, by id alone:
hooks of the same id on several hosts share their figures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from bus.wire.connections import Connections
from bus.wire.counts import BETWEEN, BUCKETS, SUM, expanded
from bus.wire.keys import Keys
from bus.wire.streams import flat
from workers.runtime.counters import CHECKS

SILENT: Final = "silent"
"""The outcome of a rule that was checked and did not fit."""

_FAILED: Final = "failed"


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one hook, or the attempts of one endpoint's webhooks; all 0 if there were none."""

    runs: int = 0
    """Runs of a hook, checks of a rule that did not fit included; attempts of webhooks."""
    failed: int = 0
    """Runs that failed; attempts without a status from 200 to 299."""
    outcomes: dict[str, int] = {}
    """How they ended. Of hooks: a decision, `delivered`, `failed`, or `silent` for a rule that did not fit; of webhooks:
    `2xx` to `5xx`, or a kind of failure."""
    mean_ms: float = 0.0
    p50_ms: float | None = None
    """The median, estimated from a histogram whose first bucket ends at 0.5 ms; null if there were no runs."""
    p99_ms: float | None = None


NO_RUNS: Final = RunFigures()


async def read_counts(connections: Connections, keys: Keys) -> dict[str, int]:
    """The counters by their fields."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HGETALL", keys("metrics"))])
    return counts(reply)


def counts(reply: Any) -> dict[str, int]:
    """The counters in a reply; none where the server's access rights are older than they are, which `fleethook doctor` says."""
    return expanded(raw_counts(reply))


def raw_counts(reply: Any) -> dict[str, int]:
    """The same as they are written."""
    if isinstance(reply, Exception):
        return {}
    return {name.decode("utf-8", "replace"): int(value) for name, value in flat(reply).items()}


def hook_figures(counted: Mapping[str, int]) -> dict[str, RunFigures]:
    """The figures of each hook that ran."""
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    buckets: defaultdict[str, Counter[int]] = defaultdict(Counter)
    micros: Counter[str] = Counter()
    for (hook, *rest), count in _named(counted, "handler_duration_seconds", 3):
        outcome, part = rest
        if part == SUM:
            micros[hook] += count
        elif part.isdigit():
            outcomes[hook][outcome] += count
            buckets[hook][int(part)] += count
    for (hook, part), count in _named(counted, CHECKS, 2):
        if part == SUM:
            micros[hook] += count
        elif part.isdigit():
            outcomes[hook][SILENT] += count
            buckets[hook][int(part)] += count
    return {hook: _figures(ended, ended[_FAILED], buckets[hook], micros[hook]) for hook, ended in outcomes.items()}


def endpoint_figures(counted: Mapping[str, int]) -> dict[str, RunFigures]:
    """The figures of the attempts of each endpoint's webhooks."""
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    buckets: defaultdict[str, Counter[int]] = defaultdict(Counter)
    micros: Counter[str] = Counter()
    for (endpoint, outcome), count in _named(counted, "webhook_attempts", 2):
        outcomes[endpoint][outcome] += count
    for (endpoint, part), count in _named(counted, "webhook_duration_seconds", 2):
        if part == SUM:
            micros[endpoint] += count
        elif part.isdigit():
            buckets[endpoint][int(part)] += count
    return {
        endpoint: _figures(ended, ended.total() - ended["2xx"], buckets[endpoint], micros[endpoint])
        for endpoint, ended in outcomes.items()
    }


def quantile_ms(buckets: Mapping[int, int], share: float) -> float | None:
    """The value at this share (0 to 1) of a histogram, as Prometheus estimates it: linear within a bucket.

    What is above the last bound counts as that bound; None for an empty histogram.
    """
    total = sum(buckets.values())
    wanted, below = share * total, 0
    for number, count in sorted(buckets.items()):
        if count and below + count >= wanted:
            low = BUCKETS[number - 1] if 0 < number <= len(BUCKETS) else 0.0
            if number >= len(BUCKETS):
                return BUCKETS[-1] * 1000
            return round((low + (BUCKETS[number] - low) * (wanted - below) / count) * 1000, 3)
        below += count
    return None


def _named(counted: Mapping[str, int], name: str, labels: int) -> Iterable[tuple[list[str], int]]:
    """The counters of one name with so many labels; another version may count with others."""
    for field, count in counted.items():
        first, *rest = field.split(BETWEEN)
        if first == name and len(rest) == labels:
            yield rest, count


def _figures(outcomes: Counter[str], failed: int, buckets: Mapping[int, int], micros: int) -> RunFigures:
    runs = outcomes.total()
    return RunFigures(
        runs=runs,
        failed=failed,
        outcomes=dict(sorted(outcomes.items())),
        mean_ms=round(micros / runs / 1000, 3) if runs else 0.0,
        p50_ms=quantile_ms(buckets, 0.5),
        p99_ms=quantile_ms(buckets, 0.99),
    )
