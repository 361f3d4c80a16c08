"""`fleethook stop` and `fleethook resume`: one stop for all agents, or for those that a condition names (X-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.parameters import CONDITION

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.fleet_control.stops import ActiveStop


@click.command()
@click.option(
    "--where",
    type=CONDITION,
    default="",
    metavar="CEL",
    help="Only events that fulfil this, such as event.host == 'build-7'.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for the model and the record.")
@click.option("--list", "listing", is_flag=True, help="Stop nothing; show the stops in force and the last changes.")
@common_options
@pass_fleet
def stop(fleet: Context, where: str, reason: str, listing: bool) -> None:
    """Stop all agents at once: deny their prompts, tool calls and permission questions until `fleethook resume`.

    The models are told the reason, and to wait. Sessions stay open, and agents may end their turns.
    """
    from workers.cli.fleet_control.caller import who_runs_this
    from workers.cli.fleet_control.texts import show_placed, show_stops
    from workers.fleet_control.reach import read_reached
    from workers.fleet_control.stops import place_stop, stop_history

    if listing:
        found = fleet.run(lambda connections: read_reached(connections, fleet.keys()))
        show_stops(fleet, found, fleet.run(lambda connections: stop_history(connections, fleet.keys())))
        return
    fleet.require_person("stop", published=True)

    async def work(connections: Connections) -> ActiveStop:
        by, via = await who_runs_this(connections, fleet.keys())
        return await place_stop(connections, fleet.keys(), by=by, via=via, where=where, reason=reason)

    placed = fleet.run(work)
    show_placed(fleet, placed, fleet.run(lambda connections: read_reached(connections, fleet.keys())))


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@common_options
@pass_fleet
def resume(fleet: Context, ids: tuple[str, ...], reason: str) -> None:
    """Let stopped agents go on: lift every stop, or those with these ids."""
    from workers.cli.fleet_control.caller import who_runs_this
    from workers.cli.fleet_control.texts import show_lifted
    from workers.fleet_control.reach import read_reached
    from workers.fleet_control.stops import lift_stops

    fleet.require_person("resume", published=True)

    async def work(connections: Connections) -> list[ActiveStop]:
        by, via = await who_runs_this(connections, fleet.keys())
        return await lift_stops(connections, fleet.keys(), ids, by=by, via=via, reason=reason)

    lifted = fleet.run(work)
    show_lifted(fleet, lifted, fleet.run(lambda connections: read_reached(connections, fleet.keys())))
