"""`fleethook install` and `uninstall`: agents' own files and their answer files, shown, written, taken back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from bus.errors import ConfigError, FleethookError
from workers.cli.common import Context, PartlyDone, common_options, pass_fleet
from workers.cli.hosts import record_host
from workers.runtime.wording import counted

if TYPE_CHECKING:  # `install --help` needs none of them
    from bus.installs.base import Scope
    from bus.installs.manifest import InstallPlan
    from bus.shim.answer_file import AnswerFile

AGENTS: Final = ("claude", "codex", "gemini", "cursor", "opencode", "qwen", "copilot", "windsurf", "cline")
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local")

_agents = click.argument("agents", nargs=-1, type=click.Choice(AGENTS), metavar="[AGENT]...")
_dry = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


class _Job(NamedTuple):
    """One agent's install: what would be written, and what is said about it."""

    plan: InstallPlan
    answers: AnswerFile
    report: dict[str, Any]

    @property
    def needed(self) -> bool:
        return bool(self.plan.changes) or self.report["answer_file_state"] != "unchanged"


@click.command()
@_agents
@click.option("--scope", type=click.Choice(SCOPES), default="user", show_default=True, help="Whose settings.")
@click.option(
    "--events", metavar="NAME,...", help="The agent's own event names, or canonical types as tool:pre_execute."
)
@click.option("--fail-closed", is_flag=True, help="Without a verdict, tool calls and prompts are denied.")
@_dry
@_yes
@common_options
@pass_fleet
def install(
    fleet: Context,
    agents: tuple[str, ...],
    scope: Scope,
    events: str | None,
    fail_closed: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Connect agents: write their hook settings and what their hook commands have to know.

    Without a name, every agent that is found here: claude, codex, gemini, cursor, opencode, qwen, copilot, windsurf,
    cline. Shows the change, keeps a backup, changes nothing that is as it should be. A server of your own is reached by
    FLEETHOOK_SHIM_URL, with the rights of the role `shim` (see `fleethook acl`).
    """
    names = [name.strip() for name in events.split(",") if name.strip()] if events is not None else None
    jobs, troubles = _jobs(fleet, dict.fromkeys(agents), scope, names, fail_closed=fail_closed)
    if not fleet.json:
        for job in jobs:
            _show_install(fleet, job.report)
    needed = [job for job in jobs if job.needed]
    if needed and not dry_run:
        weaker = [job for job in needed if job.report["weakens"]]
        if weaker:
            names = [job.plan.agent for job in weaker]
            fleet.require_person(
                f"install {' '.join(names)}", *(one.path for job in weaker for one in job.plan.changes)
            )
        if not fleet.confirm("Write this?", yes):
            fleet.say("Nothing was changed.")
            return
        _write(fleet, needed)
        _report_weaker(fleet, weaker)
        record_host(fleet)
        _warn_of_missing_guard(fleet)
    for job in jobs if not fleet.json and not dry_run else ():
        if not job.needed:
            fleet.say(f"{job.plan.agent} is installed already; nothing was changed.")
    if fleet.json:
        fleet.data({"agents": [job.report for job in jobs]})
    elif needed and not dry_run:
        _next_steps(fleet, needed)
    if troubles:
        raise PartlyDone("; ".join(f"{agent} was left out: {error}" for agent, error in troubles.items()))


def _report_weaker(fleet: Context, jobs: list[_Job]) -> None:
    """Announce what these installs took from the guards that were there."""
    from bus.ids import host_name
    from workers.cli.guard_reports import report_losses

    for job in jobs:
        lost = [f"{job.plan.agent} {what}\n{how}" for what, how in job.report["weakens"].items()]
        report_losses(fleet, f"install {job.plan.agent}", host_name(), lost)


def _warn_of_missing_guard(fleet: Context) -> None:
    """Say that nothing would stop the agents that were connected; nothing where that cannot be seen."""
    from bus.hooksets.guarded import missing_guard

    shared = bool(fleet.settings().redis_url)
    with contextlib.suppress(FleethookError):
        text = fleet.run(
            lambda connections: missing_guard(connections, fleet.keys(), fleet.directories(), shared=shared)
        )
        if text:
            fleet.say(f"{fleet.style('warning:', 'yellow', err=True)} {text}")


def _jobs(
    fleet: Context, agents: dict[str, None], scope: Scope, events: list[str] | None, *, fail_closed: bool
) -> tuple[list[_Job], dict[str, FleethookError]]:
    """The installs of these agents, or of those that are found; one that fails leaves the others alone."""
    from bus.installs import find, present
    from workers.admin.agent_setup import where_is

    found = list(agents) or list(present(where_is()))
    if not found:
        raise click.UsageError(f"No coding agent was found here; name one: {', '.join(AGENTS)}")
    if not agents:
        fleet.say(f"Found: {', '.join(find(agent).label for agent in found)}")
    jobs: list[_Job] = []
    troubles: dict[str, FleethookError] = {}
    for agent in found:
        try:
            jobs.append(_job(fleet, agent, scope, events, fail_closed=fail_closed))
        except ConfigError as error:
            if len(found) == 1:
                raise
            troubles[agent] = error
    if not jobs:
        raise next(iter(troubles.values()))
    return jobs, troubles


def _job(fleet: Context, agent: str, scope: Scope, events: list[str] | None, *, fail_closed: bool) -> _Job:
    from bus.installs import evidence, find
    from bus.installs.plan import diff
    from bus.system.directories import directories
    from workers.admin import agent_setup

    settings, places = fleet.settings(), directories()
    closed = fail_closed or settings.on_failure == "deny"
    path = places.answer_file(agent)
    answers, warnings = agent_setup.answers_for(agent, settings, places, closed=closed)
    plan = agent_setup.plan(agent, scope, places, closed=closed, events=events, budget=settings.budget)
    answers = agent_setup.within_grants(answers, places, plan)
    server, found = answers.server, evidence(find(agent), agent_setup.where_is())
    if not found:
        warnings = (*warnings, f"{find(agent).label} was not found on this machine")
    report: dict[str, Any] = {
        "agent": agent,
        "found": found,
        "scope": scope,
        "files": [str(change.path) for change in plan.changes],
        "diff": diff(plan),
        "answer_file": str(path),
        "answer_file_state": agent_setup.state_of(path, answers),
        "fail_closed": closed,
        "server": f"{server.kind} {server.address}{f' {server.port}' if server.port else ''}",
        "user": server.user,
        "warnings": [*warnings, *plan.warnings],
        "steps": list(plan.steps),
        "applied": False,
        "backups": [],
        "weakens": agent_setup.losses(plan, answers, places),
    }
    return _Job(plan, answers, report)


def _write(fleet: Context, jobs: list[_Job]) -> None:
    from workers.admin.agent_setup import connect

    for job in jobs:
        backups = connect(job.plan, job.answers, fleet.directories())
        job.report["backups"], job.report["applied"] = [str(backup) for backup in backups], True
        for backup in backups if not fleet.json else ():
            fleet.say(f"backup: {backup}")


@click.command()
@_agents
@click.option(
    "--purge", is_flag=True, help="Remove everything of Fleethook on this machine: services, data and keys too."
)
@_dry
@_yes
@common_options
@pass_fleet
def uninstall(fleet: Context, agents: tuple[str, ...], purge: bool, dry_run: bool, yes: bool) -> None:
    """Take installs back, all of them without a name: a file that nobody has changed since gets its old bytes, from
    others only our entries go; the answer file goes too.
    """
    if purge:
        from workers.cli.uninstall_purge import purge as remove_everything

        if agents:
            raise click.UsageError("--purge removes everything, so it takes no agent")
        remove_everything(fleet, _connected(fleet), _uninstall, dry_run=dry_run, yes=yes)
        return
    chosen = list(dict.fromkeys(agents)) or _connected(fleet)
    reports, waiting = [], []
    for agent in chosen:
        report = _uninstall(fleet, agent, dry_run=dry_run, yes=yes)
        reports.append(report)
        if report["waiting"]:
            waiting.append(
                f"of {agent} {counted(report['waiting'], 'event still waits', 'events still wait')} in {report['spool']}"
            )
    if fleet.json:
        fleet.data({"agents": reports})
    elif not chosen:
        fleet.say("No agent is installed; nothing was changed.")
    if waiting:
        raise PartlyDone(
            f"{', '.join(waiting)}, since Redis is away; the workers of this machine, or the next `fleethook publish`, "
            "send them on when it is back"
        )


def _connected(fleet: Context) -> list[str]:
    """The agents of which something is installed here."""
    from bus.installs.manifest import records
    from workers.admin.agent_setup import installed

    places = fleet.directories()
    written = {record.agent for record in records(places.state).values()}
    return [agent for agent in AGENTS if agent in written or places.answer_file(agent).exists() or installed(agent)]


def _uninstall(fleet: Context, agent: str, *, dry_run: bool, yes: bool, quiet: bool = False) -> dict[str, Any]:
    """Take one agent's install back; `quiet` where its diff has been shown already."""
    from bus.installs import plan as install_plan
    from bus.installs.manifest import undo
    from workers.admin.agent_setup import empty_spool, spool_without_agent, where_is

    places = fleet.directories()
    plan = install_plan.plan_uninstall(agent, places.state, where=where_is())
    path = places.answer_file(agent)
    report: dict[str, Any] = {
        "agent": agent,
        "files": [str(change.path) for change in plan.changes],
        "diff": install_plan.diff(plan),
        "answer_file": str(path) if path.exists() else None,
        "warnings": list(plan.warnings),
        "applied": False,
        "copies": [],
        "waiting": 0,
        "spool": None,
    }
    if not (fleet.json or quiet):
        if report["diff"]:
            fleet.data(report["diff"].rstrip("\n"))
        for warning in plan.warnings:
            fleet.say(f"warning: {warning}")
        if path.exists():
            fleet.say(f"answer file: {path} goes")
    if not dry_run and (plan.changes or path.exists()):
        fleet.require_person(f"uninstall {agent}", *(change.path for change in plan.changes))
        if not fleet.confirm("Take it back?", yes):
            fleet.say("Nothing was changed.")
            return report
        from bus.ids import host_name
        from workers.cli.guard_reports import report_losses

        report_losses(fleet, f"uninstall {agent}", host_name(), [f"hooks of {agent}\nremoved"])
        report["copies"] = [str(copy) for copy in undo(plan, places.state)]
        report["waiting"] = empty_spool(path, places.spool(agent))
        if report["waiting"]:
            report["spool"] = str(spool_without_agent(agent, places))
        path.unlink(missing_ok=True)
        for folder in (path.parent, places.spool(agent).parent):
            with contextlib.suppress(OSError):  # another agent's file is in it, or it never was
                folder.rmdir()
        report["applied"] = True
    if report["applied"] and not (fleet.json or quiet):
        fleet.say(f"{agent}: uninstalled. Sessions that run keep their hooks until they end; these do nothing now.")
    elif not (dry_run or fleet.json or quiet):
        fleet.say(f"{agent} is not installed; nothing was changed.")
    return report


def _show_install(fleet: Context, report: dict[str, Any]) -> None:
    if report["diff"]:
        fleet.say(f"{fleet.style(report['agent'], 'green', err=True)}: {report['found'] or 'not found here'}")
        for line in report["diff"].rstrip("\n").splitlines():
            new, old = line.startswith("+"), line.startswith("-")
            fleet.data(fleet.style(line, "green") if new else fleet.style(line, "red") if old else line)
    policy = (
        "tool calls, prompts and permissions are denied; everything else goes on"
        if report["fail_closed"]
        else "allow, and say so in the record (--fail-closed denies)"
    )
    server = f"{report['server']} as {report['user'] or 'nobody in particular'}"
    fleet.say(f"answer file: {report['answer_file']} ({report['answer_file_state']}), server {server}")
    fleet.say(f"without a verdict: {policy}")
    weakens = [f"{what} {how}" for what, how in report["weakens"].items()]
    for warning in [*report["warnings"], *([f"this weakens a guard: {', '.join(weakens)}"] if weakens else [])]:
        fleet.say(f"{fleet.style('warning:', 'yellow', err=True)} {warning}")


def _next_steps(fleet: Context, jobs: list[_Job]) -> None:
    from workers.admin.agent_setup import agent_only_url
    from workers.supervisor import running

    settings, places = fleet.settings(), fleet.directories()
    steps = ["start a new session of the agent (one that runs has read its hooks already)"]
    if not settings.redis_url and not agent_only_url(settings, places) and running(places) is None:
        steps.insert(0, "`fleethook up --detach`")
    steps.append("`fleethook doctor --live` proves that a dangerous call is denied")
    fleet.say(f"{fleet.style('Installed.', 'green', err=True)} Next: {'; '.join(steps)}.")
    for step in (step for job in jobs if job.plan.changes for step in job.plan.steps):
        fleet.say(f"{fleet.style('only you can do this:', 'yellow', err=True)} {step}")
