"""How figures are taken: alternating rounds of ours and the baseline, medians, and the ratio between them."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import msgspec

Measure = Callable[[], Awaitable[float]]
"""One round of one side; returns its figure."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much work one round is."""

    requests: int = 50
    """Requests of one slice of a latency round."""
    slices: int = 8
    many: int = 1_600
    """Requests of one throughput round."""
    hooks: int = 10_000
    """Hooks that do not match."""
    processes: int = 25
    published: int = 2_000
    delivered: int = 4_000
    plain: int = 50
    """Deliveries the plain way."""
    paced: int = 2_500
    """Events of one run at a steady pace."""
    ills: int = 9
    """How many cases of ill receivers; the first has every kind."""
    starts: int = 3
    """The least number of times that everything is started."""
    idle: float = 10.0
    """Seconds that everything stands idle, each time."""
    warm_ups: int = 1
    """Rounds that do not count."""


FULL: Final = Sizes()
QUICK: Final = Sizes(
    requests=5,
    slices=1,
    many=64,
    hooks=50,
    processes=2,
    published=200,
    delivered=100,
    plain=2,
    paced=100,
    ills=1,
    starts=1,
    idle=1.5,
    warm_ups=0,
)
"""Whether every comparison runs, in seconds; no figure of it is one to quote."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: ours against its baseline."""

    name: str
    baseline: str
    """What it is compared with, in words."""
    unit: str
    ours: float
    theirs: float
    ratio: float
    """ours / theirs, of the medians."""
    bar: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    rounds: int = 0
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        if self.bar is None:
            return None
        return self.ratio <= self.bar if self.sense == "at most" else self.ratio >= self.bar


async def alternate(
    ours: Measure,
    theirs: Measure,
    rounds: int,
    *,
    slices: int = 1,
    warm_ups: int = 1,
) -> tuple[list[float], list[float]]:
    """`rounds` figures of each side, taken in turn, after `warm_ups` rounds of each that do not count.

    A round's figure is the median of so many `slices`, also taken in turn: a shared machine has fast and slow seconds.
    """
    one: list[float] = []
    other: list[float] = []
    for turn in range(warm_ups + rounds):
        sides = ((ours, one), (theirs, other)) if turn % 2 else ((theirs, other), (ours, one))
        taken = [[await measure() for measure, _ in sides] for _ in range(slices)]
        if turn >= warm_ups:
            for (_, figures), values in zip(sides, zip(*taken, strict=True), strict=True):
                figures.append(statistics.median(values))
    return one, other


def figure(
    name: str,
    baseline: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    bar: float | None = None,
    sense: Literal["at most", "at least"] = "at most",
    note: str = "",
) -> Figure:
    """The figure of two series of rounds."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    return Figure(
        name=name,
        baseline=baseline,
        unit=unit,
        ours=mine,
        theirs=other,
        ratio=mine / other if other else 0.0,
        bar=bar,
        sense=sense,
        rounds=len(ours),
        note=note,
    )
