"""A waterfall as text: name, start, duration and bar of every part, on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from workers.cli.formatting import COLOURS
from workers.cli.output import Colour, Styler
from workers.cli.screens.columns import Cell, Column, fit, line, measure, sign

if TYPE_CHECKING:  # `--help` needs no trace
    from workers.records.waterfall import WaterfallBar

_COLUMNS: Final = (
    Column("TIME", 14, 34, rank=1),
    Column("  BEGINS", 8),
    Column("   TAKES", 8),
    Column("", 16, 32, rank=2),
    Column("", 11, rank=3),
    Column("", 24, rank=4),
)
"""Name, begin, length, bar, outcome, note. In a narrow terminal the note is dropped first."""

_BARS: Final = {"work": "█", "wait": "░", "unexplained": "▒"}
_WIDEST: Final = 160


def waterfall_lines(spans: Sequence[WaterfallBar], style: Styler, width: int) -> Iterator[str]:
    """The lines of a waterfall in `width` cells; empty if nothing is known."""
    if not spans:
        return
    width = min(width, _WIDEST)
    whole = max(span.end for span in spans)
    rows = [_row(span) for span in spans]
    natural = measure(_COLUMNS, rows)
    natural[3] = _COLUMNS[3].most
    layout = fit(_COLUMNS, natural, width)
    cells = dict(layout).get(3, 0)
    yield line([Cell(column.name, "bright_black") for column in _COLUMNS], layout, style)
    for span, row in zip(spans, rows, strict=True):
        row[3] = Cell(_bar(span, whole, cells), _colour(span))
        yield line(row, layout, style)
    yield style("█ work  ░ waiting  ▒ unexplained", "bright_black")


def _row(span: WaterfallBar) -> list[Cell]:
    name = "  " * span.depth + span.name
    return [
        Cell(name),
        Cell(f"{_ms(span.start):>8}"),
        Cell(f"{_ms(span.ms) if span.ms else '< 1 ms':>8}"),
        Cell(""),
        Cell(sign(span.decision) if span.decision else "", _colour(span)),
        Cell(span.note, "bright_black"),
    ]


def _bar(span: WaterfallBar, whole: float, cells: int) -> str:
    """The span's bar on an axis of so many cells; every bar has one cell at least."""
    scale = cells / whole if whole else 0.0
    first = min(cells - 1, int(span.start * scale))
    last = max(first + 1, min(cells, round(span.end * scale)))
    return " " * first + _BARS[span.kind] * (last - first)


def _colour(span: WaterfallBar) -> Colour:
    if span.kind == "unexplained":
        return "yellow"
    return "bright_black" if span.kind == "wait" else COLOURS.get(span.decision, "cyan")


def _ms(ms: float) -> str:
    """A time with its unit, in about four characters."""
    if ms >= 100_000:
        return f"{ms / 1000:,.0f} s"
    if ms >= 1_000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.1f} ms"
