"""`fleethook demo`: the scripted fleet."""

from __future__ import annotations

import asyncio

import click

from workers.cli.common import Context, pass_fleet
from workers.cli.screens.progress import Progress, TimedPart


@click.command()
@pass_fleet
def demo(fleet: Context) -> None:
    """Play a scripted fleet through the real processes and a real server; exits 0 if every check passed."""
    from workers.cli.screens.columns import wrapped_lines
    from workers.demo.play import STEPS, play

    parts = [TimedPart(name, seconds) for name, seconds in STEPS]
    with Progress(fleet, "demo", at_once=True) as progress:

        def say(text: str) -> None:
            with progress.hidden():
                click.echo(wrapped_lines([text]))

        asyncio.run(play(say, lambda number: progress.update_part(parts, number)))
