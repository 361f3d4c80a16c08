"""`fleethook workflows trace`: what the workflows of a session, or all of them, did."""

from __future__ import annotations

import click

from workers.cli.common import Context, common_options, pass_fleet

_MOST_SESSIONS = 100


@click.command()
@click.argument("session", required=False)
@click.option("--workflow", "name", metavar="NAME", help="Only of this workflow.")
@common_options
@pass_fleet
def trace(fleet: Context, session: str | None, name: str | None) -> None:
    """Show what the workflows of a session did, oldest first: transitions, denials and actions, each with its event.

    SESSION is the agent's id of the session, or the beginning of it; without it, the sessions that changed last are shown.
    `fleethook trace EVENT` shows everything else that an event caused.
    """
    from bus.errors import NotFound
    from bus.wire.connections import Connections
    from bus.workflow_steps.state import FlowRecord
    from workers.cli.formatting import clock, plain
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
    columns = ("TIME", "SESSION", "WORKFLOW", "STEP", "DECISION", "DID", "EVENT")
    rows = [
        (
            clock(record.ms),
            plain(record.session),
            plain(record.workflow),
            plain(f"{record.before or '-'} -> {record.after or '-'}" if record.moved else record.after or "-"),
            record.decision if record.decision != "abstain" else "-",
            plain(record.reason or ", ".join(record.actions), 120) or "-",
            record.event,
        )
        for record in records
    ]
    if rows:
        fleet.table(columns, rows)
