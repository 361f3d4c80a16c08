"""`fleethook workflows trace`: what the workflows of a session, or all of them, did."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import COLOURS, clock, plain
from workers.cli.screens.columns import Cell, Column, session_colour, sign
from workers.cli.screens.rows import no_trunc_option, shown_ids

_MOST_SESSIONS = 100
_COLUMNS: tuple[Column, ...] = (
    Column("TIME", 12),
    Column("SESSION", 8, rank=4),
    Column("WORKFLOW", 10, rank=2),
    Column("STEP", 8, rank=1),
    Column("DECISION", 8, rank=1),
    Column("DID", 16, rank=3),
    Column("EVENT", 10, rank=5),
)


@click.command()
@click.argument("session", required=False)
@click.option("--workflow", "name", metavar="NAME", help="Only of this workflow.")
@no_trunc_option
@common_options
@pass_fleet
def trace(fleet: Context, session: str | None, name: str | None, whole: bool) -> None:
    """Show what the workflows of a session did, oldest first: transitions, denials and actions, each with its event.

    SESSION is the agent's id of the session, or the beginning of it; without it, the sessions that changed last are shown.
    `fleethook trace EVENT` shows everything else that an event caused.
    """
    from bus.errors import NotFound
    from bus.wire.connections import Connections
    from bus.workflow_steps.state import FlowRecord
    from workers.workflows.records import list_states, record_of, session_log

    async def work(connections: Connections) -> list[FlowRecord]:
        keys = fleet.keys()
        known = dict.fromkeys((state.source, state.session) for _, state in await list_states(connections, keys))
        wanted = [place for place in known if place[1].startswith(session or "")]
        found = []
        for source, each in wanted[:_MOST_SESSIONS]:
            found += await session_log(connections, keys, source, each)
        return sorted(found, key=lambda record: record.ms)

    records = [record for record in fleet.run(work) if name in {None, record.workflow}]
    if fleet.json:
        fleet.data([record_of(record) for record in records])
        return
    if not records and session:
        raise NotFound(f"no workflow has done anything in a session {session!r}")
    if not records:
        fleet.say("no workflow has done anything yet")
    ids = shown_ids([record.event for record in records], whole)
    rows = [
        [
            Cell(clock(record.ms), "bright_black"),
            Cell(plain(record.session), session_colour(record.session)),
            Cell(plain(record.workflow)),
            Cell(plain(f"{record.before or '-'} -> {record.after or '-'}" if record.moved else record.after or "-")),
            Cell(sign(record.decision.replace("abstain", "")), COLOURS.get(record.decision)),
            Cell(plain(record.reason or ", ".join(record.actions), 300) or "-"),
            Cell(name, "bright_black"),
        ]
        for record, name in zip(records, ids, strict=True)
    ]
    columns = _COLUMNS
    if session and not whole and len({record.session for record in records}) == 1:  # the one that was asked for
        columns, rows = (columns[0], *columns[2:]), [[row[0], *row[2:]] for row in rows]
    if rows:
        fleet.table(columns, rows, whole=whole)
