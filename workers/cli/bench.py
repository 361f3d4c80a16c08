"""`fleethook bench`: what Fleethook costs against bare libraries, ratios first."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.screens.columns import Cell, Column
from workers.cli.screens.progress import Progress, TimedPart

PARTS = (
    "request",
    "command",
    "dialects",
    "shim",
    "gateway",
    "approvals",
    "stop",
    "limits",
    "workflows",
    "publish",
    "deliveries",
    "isolation",
    "guards",
    "plugins",
    "backtest",
    "heavy",
    "start",
    "up",
)

LENGTHS = {
    "request": (2.0, 18.0, 2.0),
    "command": (1.0, 3.0, 1.0),
    "dialects": (2.0, 7.0, 2.0),
    "shim": (1.0, 7.0, 1.0),
    "gateway": (4.0, 22.0, 6.0),
    "approvals": (4.0, 4.0, 5.0),
    "stop": (4.0, 2.5, 5.0),
    "limits": (3.0, 8.0, 3.0),
    "workflows": (1.5, 5.0, 2.0),
    "publish": (0.5, 1.0, 0.5),
    "deliveries": (10.0, 50.0, 6.0),
    "isolation": (10.0, 40.0, 8.0),
    "guards": (5.0, 3.0, 5.0),
    "plugins": (20.0, 60.0, 25.0),
    "backtest": (4.0, 2.0, 4.0),
    "heavy": (2.0, 7.0, 4.0),
    "start": (90.0, 25.0, 12.0),
    "up": (45.0, 10.0, 10.0),
}
"""Seconds of each part on a machine of two cores, for the progress bar: the preparation, one round, and all with `--quick`."""

_COLUMNS = (
    Column("RATIO", 5),
    Column("BAR", 8, rank=1),
    Column("", 5, rank=2),
    Column("WHAT", 16),
    Column("FIGURES", 16, rank=3),
    Column("BASELINE", 16, rank=4),
)


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100), help="Rounds of each side.")
@click.option(
    "--quick", is_flag=True, help="Small sizes, to see in seconds whether everything runs; its figures mean nothing."
)
@common_options
@pass_fleet
def bench(fleet: Context, parts: tuple[str, ...], rounds: int, quick: bool) -> None:
    """Compare with bare baselines in the same run; medians of alternating rounds.

    Figures are ratios of ours to the baseline. Exits 0 even if a bar is not met, because a shared machine proves nothing.
    """
    import msgspec

    from workers.bench.rounds import FULL, QUICK
    from workers.bench.run import run

    lengths = [TimedPart(name, _seconds(name, rounds, quick)) for name in parts or PARTS]
    with Progress(fleet, "bench", at_once=True) as progress:
        figures = run(parts, rounds, lambda number: progress.update_part(lengths, number), QUICK if quick else FULL)
    if fleet.json:
        fleet.data([{**msgspec.to_builtins(compared), "met": compared.met} for compared in figures])
        return
    rows = [
        (
            f"{compared.ratio:.2f}",
            f"{compared.sense} {compared.bar:.2f}" if compared.bar else "-",
            {True: Cell("✓ met", "green"), False: Cell("✗ NOT MET", "red"), None: Cell("-")}[compared.met],
            compared.name,
            f"{compared.ours:,.2f} against {compared.theirs:,.2f} {compared.unit}",
            compared.baseline,
        )
        for compared in figures
    ]
    fleet.table(_COLUMNS, rows)


def _seconds(name: str, rounds: int, quick: bool) -> float:
    """About how long a part takes."""
    first, each, small = LENGTHS[name]
    return small if quick else first + each * rounds
