"""`fleethook bench`: what Fleethook costs against bare libraries, ratios first."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet

PARTS = ("request", "command", "dialects", "shim", "publish", "deliveries", "isolation", "guards", "heavy", "start")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100), help="Rounds of each side.")
@click.option("--quick", is_flag=True, help="Small sizes: whether everything runs, in seconds; no figures to quote.")
@common_options
@pass_fleet
def bench(fleet: Context, parts: tuple[str, ...], rounds: int, quick: bool) -> None:
    """Compare with bare baselines in the same run; medians of alternating rounds.

    Figures are ratios of ours to the baseline. Exits 0 whether or not a bar is met: a shared machine decides nothing.
    """
    import msgspec

    from workers.bench.rounds import FULL, QUICK
    from workers.bench.run import run

    figures = run(parts, rounds, fleet.say, QUICK if quick else FULL)
    if fleet.json:
        fleet.data([{**msgspec.to_builtins(one), "met": one.met} for one in figures])
        return
    rows = [
        (
            f"{one.ratio:.2f}",
            f"{one.sense} {one.bar:.2f}" if one.bar else "-",
            {True: "met", False: "NOT MET", None: ""}[one.met],
            one.name,
            f"{one.ours:,.2f} against {one.theirs:,.2f} {one.unit}",
            one.baseline,
        )
        for one in figures
    ]
    fleet.table(("ratio", "bar", "", "what", "figures", "baseline"), rows)
