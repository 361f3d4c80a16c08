"""The past events that a command reads: the recorded ones, or those of exports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import Context

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.simulation.past_events import Past

EXPORTS: Final = click.option(
    "--from",
    "exports",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Events of this export (JSON lines, also .gz) instead of the recorded ones; repeatable.",
)
_PAGE: Final = 500


async def read_past(
    fleet: Context,
    connections: Connections | None,
    exports: Sequence[Path],
    times: tuple[int, int],
    add: Callable[[list[Past]], Awaitable[None]],
) -> None:
    """Call `add` with every page of the past events between two times (ms), oldest first; the exports' if there are any."""
    from workers.simulation.past_events import exported_events, recorded_events

    if connections is not None and not exports:
        async for page in recorded_events(connections, fleet.keys(), *times):
            await add(page)
    for path in exports:
        page = []
        for past in exported_events(path, *times):
            page.append(past)
            if len(page) == _PAGE:
                await add(page)
                page = []
        await add(page)
