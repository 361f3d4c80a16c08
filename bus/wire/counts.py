"""Counts that a script adds to the fleet's metrics in the same step as its change: lines of a number, a space and a field.

A field is a name and its labels with `|` between them; one that begins with a colon belongs to the key `stats`. A histogram
has a field for each bucket and one for its sum. All that an answer to a request is, one field counts: see `ANSWERS`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the histograms' buckets, in seconds."""

LONG_BUCKETS: Final = (0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
"""Those of waits that may take a day; `scripts/shared/counting.lua` has them too."""

SUM: Final = "sum"
"""Where a histogram has its sum, in microseconds; its buckets have their number from 0, the last one is above all bounds."""

BETWEEN: Final = "|"
"""Between the name and the labels of a count, which are one field of a hash."""

OTHER: Final = "other"
"""The label for what is not known by name: an agent's own name must not make ever more time series."""

ANSWERS: Final = "answers"
"""Answers by agent, event, decision, who decided, and the bucket of the time. Each answer raises this field instead of three:
a field takes a twentieth of the script's work (measured). `expanded` makes verdicts and buckets of it."""


@lru_cache(maxsize=4096)  # there are few labels, and each request counts some
@lru_cache(2048)
def field(name: str, *labels: str) -> str:
    """The field of one count: its name and its labels."""
    return BETWEEN.join((name, *(label.replace(BETWEEN, "_").replace("\n", "_") for label in labels)))


def observed(name: str, seconds: float) -> list[tuple[str, int]]:
    """The counts of one value of a histogram; `name` has its labels already."""
    return [(f"{name}{BETWEEN}{bucket_of(seconds)}", 1), (f"{name}{BETWEEN}{SUM}", micros(seconds))]


def bucket_of(seconds: float) -> str:
    """The bucket of a value."""
    return str(bisect_left(BUCKETS, seconds))


def micros(seconds: float) -> int:
    """A value as sums have it, in microseconds."""
    return max(0, round(seconds * 1e6))


def count_text(counts: Iterable[tuple[str, int]]) -> str:
    """Counts as an argument of a script."""
    return "\n".join(f"{number} {name}" for name, number in counts if number)


def expanded(counted: Mapping[str, int]) -> dict[str, int]:
    """The counts as metrics have them: answers become verdicts and the buckets of their times."""
    found = Counter({name: number for name, number in counted.items() if not name.startswith(ANSWERS + BETWEEN)})
    for name, number in counted.items():
        first, *labels = name.split(BETWEEN)
        if first == ANSWERS and len(labels) == 5:
            agent, event, decision, decider, bucket = labels
            found[field("verdicts", agent, event, decision, decider)] += number
            found[field("verdict_duration_seconds", agent, event, bucket)] += number
    return dict(found)


def decisions(counted: Mapping[str, int]) -> Counter[str]:
    """How many answers had each decision, of those that hooks gave and that were counted by one field."""
    found: Counter[str] = Counter()
    for name, number in counted.items():
        first, *labels = name.split(BETWEEN)
        if first == ANSWERS and len(labels) == 5:
            found[labels[2]] += number
    return found
