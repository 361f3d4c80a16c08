"""`fleethook status`: the live processes, the hooks in force, recent activity, and what waits."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bus.errors import Unreachable
from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.fleet_control.notice import read_stops_now, stop_notice
from workers.cli.screens.status import GuardPack, StatusReport, show_status

if TYPE_CHECKING:  # 60 ms that `status --help` does not need
    from bus.wire.connections import Connections
    from workers.admin.model_health import ModelHealth
    from workers.delivery.endpoint_health import EndpointHealth
    from workers.fleet_control.stops import ActiveStop
    from workers.plugins.figures import PluginState
    from workers.records.activity import Activity
    from workers.records.status import Status
    from workers.runtime.rejected_files import Rejection
    from workers.supervisor import State

WAIT_SECONDS = 30.0
WATCH_SECONDS = 2.0


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
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@common_options
@pass_fleet
def status(fleet: Context, wait: float | None, watch: bool) -> None:
    """Show live processes, hooks in force, recent activity and waiting work; exit code 1 if a process does not run.

    Also shows events that were lost, endpoints that fail or are paused, and hook files with rejected content. They do not
    change the exit code.
    """
    try:
        while watch:
            _look_and_show(fleet, None, clear=True)
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:  # the usual end of a watch is no failure
        return
    away, done = _look_and_show(fleet, wait)
    if away is not None:
        raise away
    if not done:
        raise CheckFailed("")


def _look_and_show(fleet: Context, wait: float | None, *, clear: bool = False) -> tuple[Unreachable | None, bool]:
    """Show the state; returns why it is unknown (empty if it is known), and whether everything runs."""
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
    from workers.runtime.rejected_files import idle_rules, rejections

    places, cwd = fleet.directories(), Path.cwd()
    rejected = (*rejections(places, cwd), *idle_rules(places, cwd))
    guards, endpoints, activity, model, unanswered = _facts(fleet) if found is not None else ([], [], None, None, [])
    stops = read_stops_now(fleet) if found is not None else []
    plugins = _plugins(fleet) if found is not None else []
    if clear and not fleet.json and sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J")
    if fleet.json:
        import msgspec

        more = {"plugins": msgspec.to_builtins(plugins), "model": msgspec.to_builtins(model), "unanswered": unanswered}
        fleet.data({**_record(fleet, found, here, endpoints, rejected, stops), **more})
    else:
        known = (tuple(guards), tuple(endpoints), activity, tuple(rejected))
        report = StatusReport(found, here, *known, stop_notice(stops), plugins, model, unanswered)
        show_status(fleet, report)
    return away, done


def _plugins(fleet: Context) -> list[PluginState]:
    """The Python plugins of every worker; empty if the server has gone away meanwhile."""
    from workers.plugins.records import list_plugins

    try:
        return fleet.run(lambda connections: list_plugins(connections, fleet.keys()))
    except Unreachable:
        return []


def _look(fleet: Context) -> tuple[Status | None, Unreachable | None]:
    from bus.wire.connections import PATIENT_CONNECT_SECONDS, Connections
    from workers.records.status import status as read_status

    settings = fleet.settings()

    async def work(connections: Connections) -> Status:
        rq = Connections(settings.rq_url, connect=PATIENT_CONNECT_SECONDS) if settings.rq_url else connections
        try:
            return await read_status(connections, rq, fleet.keys(), settings, fleet.directories())
        finally:
            if rq is not connections:
                await rq.close()

    try:
        return fleet.run(work), None
    except Unreachable as error:
        return None, error


_Facts = tuple[list[GuardPack], list["EndpointHealth"], "Activity | None", "ModelHealth | None", list[str]]


def _facts(fleet: Context) -> _Facts:
    """The guards, the health of the endpoints, the last hour, the model, and the answers that agents do not wait for.

    All are empty if the server has gone away meanwhile.
    """
    from bus.hooksets.guards import load_pack, packs
    from bus.ids import host_name
    from workers.admin.doctor.announced import sets_now, unanswered_text
    from workers.admin.dry_run import hooks_here
    from workers.admin.model_health import model_health
    from workers.cli.guards import rule_record
    from workers.coverage.waiting import unanswered
    from workers.delivery.deliveries import endpoint_target
    from workers.delivery.endpoint_health import list_health
    from workers.records.activity import recent_activity

    places = fleet.directories()

    async def work(connections: Connections) -> _Facts:
        here = await hooks_here(connections, fleet.keys(), places, Path.cwd())
        known = [endpoint_target(one, host_name()) for one in here.endpoints.values()]
        guards = []
        for name in packs():
            rules = [rule_record(rule, name, here) for rule in load_pack(name).rules]
            guards.append(GuardPack(name, sum(bool(rule["on"]) for rule in rules), len(rules)))
        return (
            guards,
            await list_health(connections, fleet.keys(), known),
            await recent_activity(connections, fleet.keys()),
            model_health(here),
            [
                unanswered_text(one)
                for one in unanswered(await sets_now(connections, fleet.keys(), places), places.state)
            ],
        )

    try:
        return fleet.run(work)
    except Unreachable as error:
        fleet.say(f"the health of the endpoints is unknown: {error}")
        return [], [], None, None, []


def _record(
    fleet: Context,
    found: Status | None,
    here: State | None,
    endpoints: Sequence[EndpointHealth],
    rejected: Sequence[Rejection],
    stops: Sequence[ActiveStop],
) -> dict[str, object]:
    """The state as `--json` gives it."""
    import msgspec

    from workers.delivery.endpoint_health import health_record
    from workers.records.status import read_spools

    report: dict[str, object] = (
        {"server": {"health": "missing"}, "spools": read_spools(fleet.directories())}
        if found is None
        else {**msgspec.to_builtins(found), "endpoints": [health_record(health) for health in endpoints]}
    )
    up = None if here is None else msgspec.to_builtins(here)
    return {**report, "stops": msgspec.to_builtins(stops), "rejected": msgspec.to_builtins(rejected), "up": up}
