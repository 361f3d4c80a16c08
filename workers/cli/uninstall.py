"""`fleethook uninstall`: shows what is removed from the agents' settings, asks, and removes it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bus.errors import ConfigError
from workers.cli.common import Context, PartlyDone, common_options, pass_fleet
from workers.cli.install import AGENTS, agents_argument, diff_option, dry_run_option, yes_option
from workers.runtime.wording import counted

if TYPE_CHECKING:  # `uninstall --help` needs none of them
    from bus.installs.manifest import InstallPlan
    from bus.system.directories import Directories


class _Removal(NamedTuple):
    """One agent's uninstall: what would be changed, and the messages about it."""

    plan: InstallPlan
    report: dict[str, Any]

    @property
    def needed(self) -> bool:
        return bool(self.plan.changes) or self.report["answer_file"] is not None


@click.command()
@agents_argument
@click.option(
    "--purge", is_flag=True, help="Remove everything of Fleethook on this machine: services, data and keys too."
)
@diff_option
@dry_run_option
@yes_option
@common_options
@pass_fleet
def uninstall(fleet: Context, agents: tuple[str, ...], purge: bool, diff: bool, dry_run: bool, yes: bool) -> None:
    """Remove Fleethook's hooks from the agents' settings; without a name, those of every agent.

    A file that is unchanged since the install gets its old bytes back. From any other file only our entries are removed.
    """
    if purge:
        from workers.cli.uninstall_purge import purge as remove_everything

        if agents:
            raise click.UsageError("--purge removes everything, so it takes no agent")
        remove_everything(fleet, _connected(fleet), _uninstall, dry_run=dry_run, yes=yes)
        return
    removals, troubles = _plan_removals(fleet, list(dict.fromkeys(agents)) or _connected(fleet))
    needed = [removal for removal in removals if removal.needed]
    if not fleet.json:
        _show(fleet, removals, troubles, diff=diff)
    if needed and not dry_run and not _confirmed(fleet, needed, yes=yes):
        fleet.say("Nothing was changed.")
        return
    if needed and not dry_run:
        _remove(fleet, needed)
    if fleet.json:
        fleet.data({"agents": [removal.report for removal in removals]})
    elif not dry_run:
        _report_done(fleet, needed)
    left_out = [f"{agent} was left out: {error}" for agent, error in troubles.items()]
    if unfinished := [*left_out, *_waiting(needed)]:
        raise PartlyDone("; ".join(unfinished))


def _confirmed(fleet: Context, needed: list[_Removal], *, yes: bool) -> bool:
    _require_person(fleet, needed)
    return fleet.confirm("Remove these hooks?", yes)


def _require_person(fleet: Context, needed: list[_Removal]) -> None:
    names = " ".join(removal.plan.agent for removal in needed)
    fleet.require_person(f"uninstall {names}", *(change.path for removal in needed for change in removal.plan.changes))


def _connected(fleet: Context) -> list[str]:
    """The agents that Fleethook has installed something for on this machine."""
    from bus.installs.manifest import records
    from workers.admin.agent_setup import installed

    places = fleet.directories()
    written = {record.agent for record in records(places.state).values()}
    return [agent for agent in AGENTS if agent in written or places.answer_file(agent).exists() or installed(agent)]


def _uninstall(fleet: Context, agent: str, *, dry_run: bool) -> dict[str, Any]:
    """Uninstall one agent without output; with `dry_run`, only return what that would change."""
    removal = _plan_removal(fleet, agent)
    if removal.needed and not dry_run:
        _require_person(fleet, [removal])
        _remove(fleet, [removal])
    return removal.report


def _plan_removals(fleet: Context, agents: list[str]) -> tuple[list[_Removal], dict[str, ConfigError]]:
    """The uninstalls of these agents; a file that cannot be read does not stop the others."""
    removals: list[_Removal] = []
    troubles: dict[str, ConfigError] = {}
    for agent in agents:
        try:
            removals.append(_plan_removal(fleet, agent))
        except ConfigError as error:
            troubles[agent] = error
    if troubles and not removals:
        raise next(iter(troubles.values()))
    return removals, troubles


def _plan_removal(fleet: Context, agent: str) -> _Removal:
    from bus.installs import plan as install_plan
    from workers.admin.agent_setup import where_is
    from workers.admin.file_changes import event_names, uninstall_changes

    places = fleet.directories()
    plan = install_plan.plan_uninstall(agent, places.state, where=where_is())
    path = places.answer_file(agent)
    report: dict[str, Any] = {
        "agent": agent,
        "files": [str(change.path) for change in plan.changes],
        "events": event_names(uninstall_changes(plan)),
        "diff": install_plan.diff(plan),
        "answer_file": str(path) if path.exists() else None,
        "warnings": list(plan.warnings),
        "applied": False,
        "copies": [],
        "waiting": 0,
        "spool": None,
    }
    return _Removal(plan, report)


def _remove(fleet: Context, removals: list[_Removal]) -> None:
    from bus.ids import host_name
    from workers.cli.guard_reports import report_losses

    agents = [removal.plan.agent for removal in removals]
    report_losses(
        fleet, f"uninstall {' '.join(agents)}", host_name(), [f"hooks of {agent}\nremoved" for agent in agents]
    )
    for removal in removals:
        _remove_agent(removal, fleet.directories())


def _remove_agent(removal: _Removal, places: Directories) -> None:
    from bus.installs.manifest import undo
    from bus.shim.main import FLAG
    from workers.admin.agent_setup import empty_spool, spool_without_agent

    agent, report = removal.plan.agent, removal.report
    path = places.answer_file(agent)
    report["copies"] = [str(copy) for copy in undo(removal.plan, places.state)]
    report["waiting"] = empty_spool(path, places.spool(agent))
    if report["waiting"]:
        report["spool"] = str(spool_without_agent(agent, places))
    for file in (path, path.with_name(path.name + FLAG)):
        file.unlink(missing_ok=True)
    for folder in (path.parent, places.spool(agent).parent):
        with contextlib.suppress(OSError):  # another agent's file is in it, or it never was
            folder.rmdir()
    report["applied"] = True


def _show(fleet: Context, removals: list[_Removal], troubles: Mapping[str, ConfigError], *, diff: bool) -> None:
    """Show what is removed from which file, and which agents have no install."""
    from bus.installs import find
    from workers.admin.file_changes import uninstall_changes
    from workers.cli.screens.changes import (
        answer_files_fact,
        change_row,
        left_out_row,
        show_changes,
        show_diff,
        show_facts,
        show_warnings,
    )

    labels = {removal.plan.agent: find(removal.plan.agent).label for removal in removals}
    rows = [
        change_row(labels[removal.plan.agent], file) for removal in removals for file in uninstall_changes(removal.plan)
    ]
    rows += [left_out_row(find(agent).label, error.file) for agent, error in troubles.items()]
    show_changes(fleet, rows)
    answer_files = {removal.report["answer_file"]: "deleted" for removal in removals if removal.report["answer_file"]}
    show_facts(fleet, [answer_files_fact(answer_files)] if answer_files else [])
    for removal in removals if diff else ():
        show_diff(fleet, removal.report["diff"])
    show_warnings(fleet, {text: [] for removal in removals for text in removal.report["warnings"]})
    for removal in removals:
        if not removal.needed:
            fleet.say(f"{labels[removal.plan.agent]} is not installed; nothing was changed.")
    if not (removals or troubles):
        fleet.say("No agent is installed; nothing was changed.")


def _report_done(fleet: Context, needed: list[_Removal]) -> None:
    from bus.installs import find

    for copy in (copy for removal in needed for copy in removal.report["copies"]):
        fleet.say(f"copy: {copy}")
    if needed:
        labels = ", ".join(find(removal.plan.agent).label for removal in needed)
        done = fleet.style("Uninstalled:", "green", err=True)
        fleet.say(f"{done} {labels}. Sessions that run keep their hooks until they end; these do nothing now.")


def _waiting(needed: list[_Removal]) -> list[str]:
    """The messages about events that still wait on this disk."""
    reports = [removal.report for removal in needed if removal.report["waiting"]]
    stays = [report for report in reports if not Path(report["spool"]).name.startswith("program.")]
    waiting = [
        f"of {report['agent']} {counted(report['waiting'], 'event still waits', 'events still wait')} in {report['spool']}"
        for report in reports
    ]
    if stays:  # the gateway's token is gone with the answer file
        names = " ".join(report["agent"] for report in stays)
        sent = f"since the gateway is away; `fleethook install {names}` with its FLEETHOOK_URL sends them on"
    else:
        sent = "since Redis is away; the workers of this machine, or the next `fleethook publish`, send them on when it is back"
    return [f"{', '.join(waiting)}, {sent}"] if waiting else []
