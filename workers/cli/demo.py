"""`fleethook demo`: the scripted fleet."""

from __future__ import annotations

import asyncio

import click


@click.command()
def demo() -> None:
    """Play a scripted fleet through the real processes and a real server; exits 0 where everything held."""
    from workers.demo.play import play

    asyncio.run(play(click.echo))
