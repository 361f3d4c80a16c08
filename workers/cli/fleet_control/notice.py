"""The line about stops in force that every screen of the fleet shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.cli.common import Context
    from workers.fleet_control.stops import ActiveStop


def read_stops_now(fleet: Context) -> list[ActiveStop]:
    """The stops in force; none while the server cannot be asked, which the screen itself says."""
    from bus.errors import FleethookError
    from workers.fleet_control.stops import stops_in_force

    try:
        return fleet.run(lambda connections: stops_in_force(connections, fleet.keys()))
    except FleethookError:
        return []


def stop_notice(stops: Sequence[ActiveStop]) -> str:
    """What is stopped, in one line; empty if nothing is."""
    from workers.cli.formatting import plain, when

    parts = [
        f"{f'agents where {stop.where}' if stop.where else 'all agents'} since {when(stop.at)} by {stop.by}"
        f"{f': {stop.reason}' if stop.reason else ''}"
        for stop in stops
    ]
    return plain(f"STOPPED: {'; '.join(parts)}. `fleethook resume` lifts it", 900) if parts else ""


def say_stops(fleet: Context) -> None:
    """Print the line on stderr if agents are stopped."""
    notice = "" if fleet.json else stop_notice(read_stops_now(fleet))
    if notice:
        fleet.say(fleet.style(notice, "red", err=True))
