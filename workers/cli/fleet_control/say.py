"""`fleethook say`: a message into running sessions (X-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.parameters import CONDITION

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.fleet_control.messages import Message


@click.command()
@click.argument("text", required=False, default="")
@click.option("--to", default="", metavar="SESSION", help="To one session, by its id or how it begins.")
@click.option(
    "--where",
    type=CONDITION,
    default="",
    metavar="CEL",
    help="To the sessions that fulfil this: event.host == 'build-7'.",
)
@click.option("--list", "listing", is_flag=True, help="Say nothing; show the last messages and who has got them.")
@common_options
@pass_fleet
def say(fleet: Context, text: str, to: str, where: str, listing: bool) -> None:
    """Send a message into running sessions: their models get it once, as context of the next event that can carry it.

    A condition reads event.session, event.source, event.host and event.cwd; --where true means every running session.
    """
    import msgspec

    from workers.cli.fleet_control.caller import who_runs_this
    from workers.cli.fleet_control.texts import message_lines
    from workers.fleet_control import messages

    if listing:
        found = fleet.run(lambda connections: messages.messages(connections, fleet.keys()))
        if fleet.json:
            fleet.data(msgspec.to_builtins(found))
        for message in () if fleet.json else found:
            fleet.data("\n".join(message_lines(message)))
        return
    if not text.strip() or bool(to) == bool(where):
        raise click.UsageError("say what, and to whom: `fleethook say --to SESSION TEXT`, or --where CEL")
    fleet.require_person("say", published=True)

    async def work(connections: Connections) -> Message:
        by, via = await who_runs_this(connections, fleet.keys())
        return await messages.say(connections, fleet.keys(), text, by=by, via=via, to=to, where=where)

    message = fleet.run(work)
    if fleet.json:
        fleet.data(msgspec.to_builtins(message))
    else:
        fleet.data("\n".join(message_lines(message)))
        fleet.say("`fleethook say --list` shows who has got it.")
