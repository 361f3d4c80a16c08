"""`fleethook inbox`: which sessions of all hosts wait for a person."""

from __future__ import annotations

from typing import Final

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.screens.rows import no_trunc_option

_KINDS: Final = {"question": "held call", "permission": "agent's prompt", "notification": "notification"}


@click.command()
@no_trunc_option
@common_options
@pass_fleet
def inbox(fleet: Context, whole: bool) -> None:
    """List what waits for a person, the oldest first: held calls, agents' own permission prompts, and notifications.

    Held calls are answered with `fleethook approvals`, the others where the agent runs.
    """
    import msgspec

    from workers.approvals.inbox_reader import inbox as read_inbox
    from workers.cli.fleet_control.notice import say_stops
    from workers.cli.formatting import plain, short
    from workers.cli.screens.columns import Cell, Column, session_colour
    from workers.cli.screens.rows import list_times, shown_ids

    say_stops(fleet)
    found = fleet.run(lambda connections: read_inbox(connections, fleet.keys())).items
    if fleet.json:
        fleet.data(msgspec.to_builtins(found))
    elif found:
        columns = (
            Column("SINCE", 8),
            Column("WAITS FOR", 12, 14),
            Column("AGENT", 8, 9, rank=3),
            Column("SESSION", 8, 8, rank=4),
            Column("HOST", 8, 16, rank=2),
            Column("TOOL", 6, 12, rank=5),
            Column("WHAT", 16, 60, rank=1),
            Column("ID", 10),
        )
        times = list_times([item.since for item in found])
        ids = shown_ids([item.event for item in found], whole)
        rows = [
            (
                Cell(since, "bright_black"),
                Cell(_KINDS[item.kind], "yellow" if item.kind == "question" else None),
                Cell(plain(item.source)),
                Cell(plain(item.session), session_colour(item.session)),
                Cell(plain(item.host)),
                Cell(plain(item.tool)),
                Cell(short(item.text)),
                Cell(name, "bright_black"),
            )
            for item, since, name in zip(found, times, ids, strict=True)
        ]
        fleet.table(columns, rows, whole=whole)
    else:
        fleet.say("no session waits for a person")
