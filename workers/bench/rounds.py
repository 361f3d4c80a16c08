"""Measures figures: rounds of Fleethook and of the baseline in turn, their medians, and the ratio of the medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import msgspec

Measure = Callable[[], Awaitable[float]]
"""Runs one round of one side; returns its figure."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The amount of work in each round."""

    requests: int = 50
    """Requests in one slice of a latency round."""
    slices: int = 8
    many: int = 1_600
    """Requests in one throughput round."""
    hooks: int = 10_000
    """Hooks that do not match."""
    processes: int = 25
    published: int = 2_000
    delivered: int = 4_000
    carried: int = 4
    """Rounds of the carrier in each round: one is half a CPU-second; on a shared machine they differ by a factor of two."""
    plain: int = 50
    """Deliveries of one round of simple webhooks (`bench/simple_webhooks.py`)."""
    paced: int = 2_500
    """Events of one run at a steady pace (`bench/delivery_latency.py`)."""
    ills: int = 9
    """How many cases of failing receivers to run; the first has every kind."""
    starts: int = 3
    """The least number of starts of everything."""
    idle: float = 10.0
    """Seconds of idle time after each start."""
    warm_ups: int = 1
    """Rounds that do not count."""
    lines: int | None = None
    """How many lines of each corpus to read; None for all."""


FULL: Final = Sizes()
QUICK: Final = Sizes(
    requests=5,
    slices=1,
    many=64,
    hooks=50,
    processes=2,
    published=200,
    delivered=100,
    carried=1,
    plain=2,
    paced=100,
    ills=1,
    starts=1,
    idle=1.5,
    warm_ups=0,
    lines=200,
)
"""Sizes that only check, in seconds, whether every comparison runs; their figures mean nothing."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: Fleethook (`ours`) against its baseline (`theirs`)."""

    name: str
    baseline: str
    """The baseline, in words."""
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
        """Whether the bar is met; None without a bar."""
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
    """`rounds` figures of each side, measured in turn, after `warm_ups` rounds of each that do not count.

    A round's figure is the median of its `slices`, which are also measured in turn: a shared machine has fast and slow seconds.
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


def spawns(command: tuple[str, ...], payload: str, count: int) -> list[float]:
    """Milliseconds of each of so many processes, started without Python's own pipes and threads.

    It is here, and not beside its caller, since each process of its pool imports its module: this one imports little.
    """
    took = []
    files: list[tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, payload, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    for _ in range(count):
        start = time.perf_counter()
        child = os.posix_spawn(command[0], command, os.environ, file_actions=files)
        _, status = os.waitpid(child, 0)
        took.append((time.perf_counter() - start) * 1e3)
        if status:
            raise RuntimeError(f"the hook command ended with the status {status}")
    return took
