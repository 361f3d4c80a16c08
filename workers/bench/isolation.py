"""How much failing receivers delay deliveries to healthy ones, compared with a run without failing receivers."""

from __future__ import annotations

from typing import Final

from workers.bench.delivery_latency import ENDPOINTS, PaceResult, delivering, pace
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.sinks import KINDS, Kind, Sinks, open_sink

ADDED: Final = 25.0
"""The most milliseconds that failing receivers may add to the 99th percentile of the healthy ones."""

CASES: Final[dict[str, tuple[Kind, ...]]] = {
    "one of each kind": KINDS,
    f"1 of {ENDPOINTS} silent": ("silent",),
    **{f"9 of {ENDPOINTS} {kind}": (kind,) * 9 for kind in KINDS},
}
"""The failing receivers of each case. The first case has every kind, and is the only one in small sizes."""


async def isolation_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Compare the healthy endpoints beside failing ones with a run just before, in which all were healthy."""
    figures: list[Figure] = []
    async with open_sink() as sink:
        for what, ills in list(CASES.items())[: sizes.ills]:
            p99: tuple[list[float], list[float]] = ([], [])
            share: tuple[list[float], list[float]] = ([], [])
            for turn in range(max(1, rounds // 2)):
                before = await _run(url, sink, sizes.paced, (), f"bench-{turn}-before", named="no name" in ills)
                beside = await _run(url, sink, sizes.paced, ills, f"bench-{turn}-beside", named="no name" in ills)
                for side, paced in enumerate((beside, before)):
                    p99[side].append(paced.at(0.99) + (ADDED if side else 0.0))
                    share[side].append(paced.share)
            figures += [
                figure(f"healthy p99, {what}", f"all healthy, plus {ADDED:g} ms", "ms", *p99, bar=1.0),
                figure(
                    f"healthy deliveries in time, {what}", "all healthy", "share", *share, bar=0.95, sense="at least"
                ),
            ]
    return figures


async def _run(url: str, sink: Sinks, count: int, ills: tuple[Kind, ...], namespace: str, *, named: bool) -> PaceResult:
    """One run in a separate namespace, so that the next run gets no deliveries to failing receivers from this one.

    In a case with name look-ups, the healthy endpoints have names, too.
    """
    healthy = range(len(ills), ENDPOINTS)
    urls = [sink.url(ills[n] if n < len(ills) else "named" if named else "healthy", n) for n in range(ENDPOINTS)]
    async with delivering(url, sink, namespace, urls, healthy) as send:
        return await pace(sink, send, count, healthy)
