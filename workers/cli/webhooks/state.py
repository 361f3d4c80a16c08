"""`webhooks pause`, `resume`, `disable` and `enable`: stop sending to an endpoint, or send again."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import when
from workers.cli.guard_reports import report_losses
from workers.cli.hooks.sets import in_force
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.delivery.endpoint_controls import Enabled

_reason = click.option(
    "--reason", default="", metavar="TEXT", help="The reason; `webhooks show` and the dead letters show it."
)


@click.command()
@click.argument("name", metavar="ENDPOINT")
@_reason
@common_options
@pass_fleet
def pause(fleet: Context, name: str, reason: str) -> None:
    """Park an endpoint's deliveries from now on; `resume` sends them."""
    from workers.delivery.endpoint_controls import pause as halt

    target = _target(fleet, name)
    fleet.require_person("webhooks pause", published=True)
    changed = fleet.run(
        lambda connections: halt(connections, fleet.keys(), target, reason=reason, by=getpass.getuser())
    )
    _report(fleet, name, "paused", changed, "its deliveries wait; `fleethook webhooks resume` sends them")


@click.command()
@click.argument("name", metavar="ENDPOINT")
@common_options
@pass_fleet
def resume(fleet: Context, name: str) -> None:
    """Send the deliveries of a paused endpoint again."""
    from workers.delivery.endpoint_controls import resume as go_on

    target = _target(fleet, name)
    fleet.run(lambda connections: go_on(connections, fleet.keys(), target))
    _report(fleet, name, "active", True, "its waiting deliveries are being sent")


@click.command()
@click.argument("name", metavar="ENDPOINT")
@_reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def disable(fleet: Context, name: str, reason: str, yes: bool) -> None:
    """Stop sending to an endpoint, on every machine; the deliveries that wait for it become dead letters."""
    from workers.delivery.endpoint_controls import disable as halt

    target = _target(fleet, name)
    fleet.require_person("webhooks disable", published=True)
    if not fleet.confirm(f"Disable {name}? The deliveries that wait for it become dead letters.", yes):
        fleet.say("nothing was changed")
        return
    changed = fleet.run(
        lambda connections: halt(connections, fleet.keys(), target, reason=reason, by=getpass.getuser())
    )
    if changed:
        report_losses(fleet, "webhooks disable", target, [f"{name}\ndisabled"])
    _report(fleet, name, "disabled", changed, "`fleethook webhooks enable` enables it again")


@click.command()
@click.argument("name", metavar="ENDPOINT")
@click.option("--recover", is_flag=True, help="Also retry the dead letters of that time now.")
@common_options
@pass_fleet
def enable(fleet: Context, name: str, recover: bool) -> None:
    """Send to a disabled endpoint again: reset its failures, and show what it missed."""
    from workers.delivery.endpoint_controls import enable as begin

    target = _target(fleet, name)

    async def work(connections: Connections) -> Enabled:
        return await begin(connections, fleet.keys(), target, recover=recover)

    done = fleet.run(work)
    if fleet.json:
        fleet.data(
            {
                "id": name,
                "standing": "active",
                "since": done.since,
                "missed": done.missed,
                "dead": done.dead,
                "recovered": done.recovered,
            }
        )
        return
    fleet.data(f"{name} is enabled; it was disabled since {when(done.since)}")
    if done.recovered:
        fleet.data(f"  {done.recovered} of its dead letters are being tried again")
    elif done.dead:
        fleet.data(
            f"  {done.dead} dead letters of that time: `fleethook dead retry --target {target} --reason disabled`"
        )
    if done.missed:
        fleet.data(
            f"  {counted(done.missed, 'event was', 'events were')} not sent to it: "
            f"`fleethook replay --since {_moment(done.since)} --endpoint {name}`"
            " sends them"
        )


def _target(fleet: Context, name: str) -> str:
    """The target of an endpoint in force; an endpoint of the user's own file belongs to this machine only."""
    from bus.ids import host_name
    from workers.cli.webhooks import find_endpoint
    from workers.delivery.deliveries import endpoint_target

    return endpoint_target(find_endpoint(in_force(fleet), name), host_name())


def _report(fleet: Context, name: str, standing: str, changed: bool, note: str) -> None:
    if fleet.json:
        fleet.data({"id": name, "standing": standing, "changed": changed})
    else:
        fleet.data(f"{name} is {standing}" if changed else f"{name} was {standing} already")
        if changed:
            fleet.say(note)


def _moment(ms: int) -> str:
    """A time as `--since` takes it."""
    return when(ms).replace(" ", "T")
