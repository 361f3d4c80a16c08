"""The progress of long work on stderr: a bar with rate and time left on a terminal, else a plain line from time to time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from workers.cli.common import Context
from workers.cli.output import colours

if TYPE_CHECKING:  # most commands end before a bar would be shown
    from rich.progress import Progress as RichProgress

QUICK_SECONDS: Final = 0.3
"""Shorter work shows no bar (seconds)."""

CALM_SECONDS: Final = 5.0
"""Seconds before the first plain line, and between two plain lines."""

_DRAW_SECONDS: Final = 0.1
_HOUR: Final = 3_600


class TimedPart(NamedTuple):
    """A part of work whose length is known from earlier runs."""

    name: str
    seconds: float


class Progress:
    """The progress of one piece of work, as a context manager; `update` says how far it is.

    `unit` is what is counted: `deliveries`. Work shorter than 0.3 s shows no bar, unless `at_once`. With `--json`
    nothing is shown.
    """

    def __init__(
        self,
        fleet: Context,
        what: str,
        total: int = 0,
        *,
        unit: str = "",
        at_once: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet, self._what, self._total, self._unit, self._clock = fleet, what, total, unit, clock
        self._quiet = 0.0 if at_once else QUICK_SECONDS
        self._began = self._drawn = self._said = clock()
        self._first: tuple[float, float] | None = None
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hide()

    def update(self, done: float, total: int | None = None, *, note: str = "") -> None:
        """Show that so much of it is done; a `note` replaces the rate and the time left."""
        now = self._clock()
        if total is not None:
            self._total = total
        self._first = self._first or (done, now)
        if self._fleet.json:
            return
        pace = note or pace_text(done, self._total, rate(self._first, (done, now)), self._unit)
        if not drawn_as_bar(self._fleet):
            if now - self._said >= CALM_SECONDS:
                self._said = now
                self._fleet.say(f"{self._what}: {pace}")
        elif now - self._began >= self._quiet and (now - self._drawn >= _DRAW_SECONDS or self._bar is None):
            self._drawn = now
            self._draw(done, pace)

    def update_part(self, parts: Sequence[TimedPart], index: int) -> None:
        """Show which of the parts begins now. The time left is that of the other parts, at the speed of the finished ones."""
        seconds = [part.seconds for part in parts]
        slower = (self._clock() - self._began) / sum(seconds[:index]) if index else 1.0
        left = f"about {time_text(slower * sum(seconds[index:]))} left"
        note = f"{index + 1} of {len(parts)}: {parts[index].name} · {left}"
        self.update(sum(seconds[:index]), max(1, round(sum(seconds))), note=note)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the bar while something else is printed; the next `update` draws it again."""
        self._hide()
        yield

    def _draw(self, done: float, pace: str) -> None:
        if self._bar is None:
            self._bar = _bar(len(self._what))
            self._bar.start()
            self._bar.add_task(self._what, total=None, pace=pace)
        (task,) = self._bar.task_ids
        self._bar.update(task, completed=done, total=self._total or None, pace=pace)
        self._bar.refresh()

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def drawn_as_bar(fleet: Context) -> bool:
    """Whether stderr is a terminal that takes colours and can overwrite a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and colours(sys.stderr, fleet.colour)


def rate(first: tuple[float, float], last: tuple[float, float]) -> float:
    """The rate per second between two moments, each with the amount done and the time; 0 if it is not known."""
    (done, began), (more, now) = first, last
    return (more - done) / (now - began) if now > began else 0.0


def pace_text(done: float, total: int, rate: float, unit: str = "") -> str:
    """`1,200 of 5,000 deliveries · 240/s · 16 s left`; unknown parts are left out."""
    parts = [f"{done:,.0f}{f' of {total:,}' if total else ''} {unit}".rstrip()]
    if rate > 0:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 0.1 else f"{rate * 60:.1f}/min")
        if total > done:
            parts.append(f"{time_text((total - done) / rate)} left")
    return " · ".join(parts)


def time_text(seconds: float) -> str:
    """A length of time in one or two units: `16 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    size, big, small = (60, "min", "s") if whole < _HOUR else (_HOUR, "h", "min")
    rest = whole % size // (size // 60)
    return f"{whole // size} {big}" + (f" {rest} {small}" if rest else "")


def _bar(name_width: int) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column as RichColumn

    return RichProgress(
        TextColumn("{task.description}", markup=False, table_column=RichColumn(no_wrap=True, min_width=name_width)),
        BarColumn(bar_width=24, complete_style="cyan", finished_style="green", pulse_style="bright_black"),
        TextColumn("{task.fields[pace]}", markup=False, table_column=RichColumn(no_wrap=True, overflow="ellipsis")),
        console=Console(file=sys.stderr, force_terminal=True, highlight=False),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
