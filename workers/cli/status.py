"""`fleethook status`: who is alive, and what waits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bus.errors import Unreachable
from workers.cli.common import Context, Findings, common_options, pass_fleet
from workers.cli.output import Colour
from workers.runtime.wording import counted

if TYPE_CHECKING:  # 60 ms that `status --help` does not need
    from bus.wire.connections import Connections
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.records.status import Status
    from workers.runtime.rejected_files import Rejection
    from workers.supervisor import State

WAIT_SECONDS = 30.0

_COLOURS: dict[str, Colour] = {"ok": "green", "missing": "red", "unknown": "yellow", "off": "bright_black"}


@click.command()
@click.option(
    "--wait",
    "wait",
    is_flag=False,
    flag_value=WAIT_SECONDS,
    type=click.FloatRange(0),
    metavar="[SECONDS]",
    help=f"Wait until everything runs, {WAIT_SECONDS:g} s if you do not say how long.",
)
@common_options
@pass_fleet
def status(fleet: Context, wait: float | None) -> None:
    """Show who is alive, what waits, and which endpoints are not well; exit code 1 where something does not run.

    An endpoint that fails, or that somebody paused, and content of a hook file that is not in force, are shown and are
    no reason for an exit code.
    """
    from workers.supervisor import running

    until = time.monotonic() + (wait or 0.0)
    found: Status | None = None
    away: Unreachable | None = None
    while True:
        found, away = _look(fleet)
        here = running(fleet.directories())
        done = found is not None and not found.problems and (here is None or here.ready)
        if done or time.monotonic() >= until:
            break
        time.sleep(0.1)
    from workers.runtime.rejected_files import rejections

    rejected = rejections(fleet.directories(), Path.cwd())
    _show(fleet, found, here, _endpoints(fleet) if found is not None else [], rejected)
    if away is not None:
        raise away
    if not done:
        raise Findings("")


def _look(fleet: Context) -> tuple[Status | None, Unreachable | None]:
    from bus.wire.connections import Connections
    from workers.records.status import status as read_status

    settings = fleet.settings()

    async def work(connections: Connections) -> Status:
        rq = Connections(settings.rq_url, connect=1.0) if settings.rq_url else connections
        try:
            return await read_status(connections, rq, fleet.keys(), settings, fleet.directories())
        finally:
            if rq is not connections:
                await rq.close()

    try:
        return fleet.run(work), None
    except Unreachable as error:
        return None, error


def _endpoints(fleet: Context) -> list[EndpointHealth]:
    """How the endpoints stand; none where the server has gone away meanwhile."""
    from bus.ids import host_name
    from workers.admin.dry_run import hooks_here
    from workers.delivery.deliveries import endpoint_target
    from workers.delivery.endpoint_health import list_health

    async def work(connections: Connections) -> list[EndpointHealth]:
        here = await hooks_here(connections, fleet.keys(), fleet.directories(), Path.cwd())
        known = [endpoint_target(one, host_name()) for one in here.endpoints.values()]
        return await list_health(connections, fleet.keys(), known)

    try:
        return fleet.run(work)
    except Unreachable as error:
        fleet.say(f"how the endpoints stand is not known: {error}")
        return []


def _show(
    fleet: Context,
    found: Status | None,
    here: State | None,
    endpoints: list[EndpointHealth],
    rejected: Sequence[Rejection],
) -> None:
    from workers.cli.formatting import plain, standing_text, when
    from workers.delivery.endpoint_health import health_record
    from workers.records.status import read_spools

    spools = found.spools if found is not None else read_spools(fleet.directories())
    if fleet.json:
        import msgspec

        report = (
            {"server": {"health": "missing"}, "spools": spools}
            if found is None
            else {**msgspec.to_builtins(found), "endpoints": [health_record(health) for health in endpoints]}
        )
        fleet.data(
            {
                **report,
                "rejected": msgspec.to_builtins(rejected),
                "up": None if here is None else msgspec.to_builtins(here),
            }
        )
        return
    if found is not None:
        _show_server(fleet, found)
    if here is not None:
        restarts = sum(child.restarts for child in here.children)
        state = "ready" if here.ready else "not ready"
        waits = ", ".join(child.name for child in here.children if not child.ready)
        text = f"process {here.pid}, {state}{': ' + waits if waits else ''}"
        fleet.data(f"up          {text}{', ' + counted(restarts, 'restart') if restarts else ''}")
    for one in endpoints:
        if not one.healthy:
            said = f"endpoint    {plain(one.endpoint)}  {standing_text(one)}"
            fleet.data(fleet.style(said, "red" if one.standing == "disabled" else "yellow"))
    for spool in spools:
        waiting = counted(spool.records, "event waits", "events wait")
        waiting = f"{waiting} on this disk ({counted(spool.bytes, 'byte')}), {spool.dropped} lost"
        fleet.data(fleet.style(f"spool       {spool.agent}: {waiting}", "yellow"))
    for repair in found.repairs if found is not None else ():
        fleet.data(fleet.style(f"repaired    {when(repair.ms)}: {repair.text}", "yellow"))
    for change in found.weakened if found is not None else ():
        fleet.data(fleet.style(f"guards      {when(change.ms)}: {plain(change.text)}", "yellow"))
    for use in found.missing_keys if found is not None else ():
        fleet.data(fleet.style(f"key         {plain(use.text, 600)}", "red"))
    if found is not None and found.unguarded:
        fleet.data(fleet.style(f"guards      {found.unguarded}", "yellow"))
    for host in found.hosts if found is not None else ():
        if not host.alive:
            fleet.data(fleet.style(f"host        {plain(host.text, 600)}", "yellow"))
    for kept in found.kept if found is not None else ():
        fleet.data(fleet.style(f"waiting     since {when(kept.ms)}: {plain(kept.text, 600)}", "yellow"))
    for refused in rejected:
        fleet.data(fleet.style(f"hooks       {plain(refused.text, 600)}", "red"))
    for problem in found.problems if found is not None else ():
        fleet.data(fleet.style(f"!!          {problem}", "red"))
    if found is not None and any(one.health == "missing" for one in found.roles) and here is None:
        fleet.say("Next: `fleethook up` starts everything on this machine.")


def _show_server(fleet: Context, found: Status) -> None:
    server = found.server
    fleet.data(f"server      {server.brand} {server.version} at {server.url}, {server.ms:.1f} ms")
    fleet.data(f"namespace   {found.namespace}, hook set version {found.version or 'none published'}")
    for role in found.roles:
        number = "" if role.alive is None else f"  {role.alive} alive"
        fleet.data(f"{role.role:<11} {fleet.style(role.health, _COLOURS[role.health])}{number}")
    fleet.table(
        ("stream", "entries", "unread", "under way"),
        [(one.name, one.length, "unknown" if one.lag is None else one.lag, one.pending) for one in found.streams],
    )
    parked = "unknown" if found.parked is None else found.parked
    fleet.data(f"deliveries  {found.due} due later, {parked} parked, {found.dead} dead letters")
    counted = {name: number for name, number in found.stats.items() if name != "fallbacks"}
    fleet.data(f"fallbacks   {found.stats.get('fallbacks', 0)}")
    if counted:
        fleet.data("counted     " + ", ".join(f"{name} {number}" for name, number in sorted(counted.items())))
