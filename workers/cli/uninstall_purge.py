"""`fleethook uninstall --purge`: shows everything of Fleethook on this machine, asks, and removes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import Context, PartlyDone
from workers.cli.screens.columns import ENDLESS, Column, home_as_tilde, terminal_width

if TYPE_CHECKING:  # what the command needs it imports itself, so that `--help` stays fast
    from bus.system.directories import Directories
    from workers.admin.installed_files import InstalledFile
    from workers.admin.services import ServiceManager, ServicePlan

Uninstall = Callable[..., dict[str, Any]]
"""Uninstalls one agent; with `dry_run`, returns what that would change."""


def purge(fleet: Context, agents: list[str], uninstall: Uninstall, *, dry_run: bool, yes: bool) -> None:
    """Remove the hooks of `agents`, the services, the running processes, and every file of Fleethook's.

    Raises PersonNeeded below an agent, and PartlyDone if something could not be removed.
    """
    from bus.ids import host_name
    from workers.admin.installed_files import installed_files, remaining_files
    from workers.cli.up import STARTER

    places = fleet.directories()
    services = _services(fleet)
    going = installed_files(places, STARTER)
    others = (*_shared_key(places), *_services_of_the_machine(places))
    stays = [str(path) for path in (*remaining_files(places, going), *others)]
    report: dict[str, Any] = {
        "agents": agents,
        "services": [str(file.path) for _, plan in services for file in plan.files],
        "files": [str(file.path) for file in going],
        "stays": stays,
        "purged": False,
    }
    hooks = {agent: uninstall(fleet, agent, dry_run=True)["files"] for agent in agents}
    _show(fleet, report, hooks, going)
    if dry_run or not (agents or services or going):
        if fleet.json:
            fleet.data(report)
        elif not dry_run:
            fleet.say("Nothing of fleethook is installed here.")
        return
    touched = [file.path for _, plan in services for file in plan.files]
    fleet.require_person("uninstall --purge", *touched)
    if not _confirmed(fleet, host_name(), yes=yes):
        fleet.say("Nothing was changed.")
        return
    failures = _purge(fleet, places, agents, uninstall, services)
    report["purged"] = True
    report["stays"] = [str(path) for path in (*remaining_files(places, ()), *others)]
    if fleet.json:
        fleet.data({**report, "failures": failures})
    else:
        fleet.say("Fleethook is gone from this machine, but for the package itself: `pip uninstall fleethook`.")
        if fleet.settings().redis_url:
            fleet.say(
                f"The fleet goes on. `fleethook hosts forget {host_name()}` on another machine drops this one's hooks."
            )
    if failures:
        raise PartlyDone("; ".join(failures))


def _purge(
    fleet: Context,
    places: Directories,
    agents: list[str],
    uninstall: Uninstall,
    services: list[tuple[ServiceManager, ServicePlan]],
) -> list[str]:
    """Remove everything, in an order in which no removed file is written again; returns a message for each failed service."""
    from bus.ids import host_name
    from workers import supervisor
    from workers.admin import services as units
    from workers.admin.installed_files import installed_files, remove_files
    from workers.cli.guard_reports import report_losses
    from workers.cli.up import STARTER

    report_losses(fleet, "uninstall --purge", host_name(), ["everything of this machine\nremoved"])
    for agent in agents:  # first, while a server may still take the events in its spool
        uninstall(fleet, agent, dry_run=False)
    failures = []
    for _, plan in services:
        failures += units.run(plan.before)
        units.write(plan)
        failures += units.run(plan.after)
    supervisor.down(places)
    remove_files(places, installed_files(places, STARTER))
    return failures


def _shared_key(places: Directories) -> list[Path]:
    """The key file of FLEETHOOK_SECRET_KEY_FILE, if it is outside our folders: other users may share it, so it stays."""
    from bus.secrets.sealing import VARIABLE

    named = os.environ.get(VARIABLE, "")
    path = Path(named) if named else None
    return [path] if path is not None and path.exists() and path.parent != places.data else []


def _services_of_the_machine(places: Directories) -> list[Path]:
    """The units that only root can remove, if we are not root."""
    from workers.admin.services import installed_services, service_manager

    if os.geteuid() == 0 or sys.platform == "darwin":
        return []
    manager = service_manager(places, machine_wide=True)
    return [manager.file(process) for process in installed_services(manager)]


def _services(fleet: Context) -> list[tuple[ServiceManager, ServicePlan]]:
    """The services of Fleethook that the managers of this user and of this machine have."""
    from workers.admin.services import plan_removal, service_manager

    found = []
    for machine_wide in (False, True) if os.geteuid() == 0 and sys.platform != "darwin" else (False,):
        manager = service_manager(fleet.directories(), machine_wide=machine_wide)
        plan = plan_removal(manager)
        if plan.files:
            found.append((manager, plan))
    return found


def _show(fleet: Context, report: dict[str, Any], hooks: dict[str, list[str]], going: list[InstalledFile]) -> None:
    """Show what is removed and what stays; `hooks` are the settings files by agent, from which our entries are removed."""
    from workers.admin.installed_files import size_of
    from workers.supervisor import running

    if fleet.json:
        return
    rows = [(f"our hooks of {agent}", path, "") for agent, paths in hooks.items() for path in paths]
    rows += [("service", path, "") for path in report["services"]]
    state = running(fleet.directories())
    if state is not None:
        rows.append(("what runs here", f"process {state.pid} and its children", ""))
    rows += [
        (file.what, str(file.path), f"{size_of(file.path):,}")
        for file in going
        if str(file.path) not in report["services"]
    ]
    if rows:
        columns = (Column("WHERE", 16), Column("WHAT IS REMOVED", 16, rank=1), Column("BYTES", 12, rank=2))
        shown = [(home_as_tilde(where), what, size) for what, where, size in rows]
        fleet.table(
            columns, shown if terminal_width() < ENDLESS else [(where, what, size) for what, where, size in rows]
        )
    for path in report["stays"]:
        fleet.say(f"stays: {path}")
    if fleet.settings().redis_url:
        fleet.say("stays: everything on the fleet's server")


def _confirmed(fleet: Context, name: str, *, yes: bool) -> bool:
    from workers.cli.output import interactive

    if yes:
        return True
    if fleet.json or not interactive():
        raise click.UsageError("There is no terminal to ask on: say --yes")
    return bool(click.prompt(f"Type the name of this machine ({name}) to remove all of this", err=True) == name)
