"""`fleethook install` and `uninstall`: an agent's own settings and its answer file, shown, written, taken back."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, PartlyDone, common_options, pass_fleet

if TYPE_CHECKING:  # `install --help` needs neither
    from bus.directories import Directories
    from bus.installing import Scope

AGENTS: Final = ("claude",)
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local")

_agents = click.argument("agents", nargs=-1, type=click.Choice(AGENTS), metavar="[AGENT]...")
_dry = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.command()
@_agents
@click.option("--scope", type=click.Choice(SCOPES), default="user", show_default=True, help="Whose settings file.")
@click.option("--events", metavar="NAME,...", help="The agent's own event names; without it, all that are of use.")
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
    """Connect an agent (claude): write its hook settings and what its hook command has to know.

    Shows the change, keeps a backup, changes nothing that is as it should be. A server of your own is reached by
    FLEETHOOK_SHIM_URL, with the rights of the role `shim` (see `fleethook acl`).
    """
    for agent in agents or AGENTS:
        _install(fleet, agent, scope, events, fail_closed=fail_closed, dry_run=dry_run, yes=yes)


def _install(
    fleet: Context, agent: str, scope: Scope, events: str | None, *, fail_closed: bool, dry_run: bool, yes: bool
) -> None:
    from bus.directories import directories
    from bus.installing import diff
    from workers import connecting

    settings, places = fleet.settings(), directories()
    closed = fail_closed or settings.on_failure == "deny"
    path = places.answer_file(agent)
    answers, warnings = connecting.answers_for(agent, settings, places, closed=closed)
    chosen = [name.strip() for name in events.split(",") if name.strip()] if events is not None else None
    plan = connecting.plan(agent, scope, places, closed=closed, events=chosen)
    state, server = connecting.state_of(path, answers), answers.server
    report: dict[str, Any] = {
        "agent": agent, "scope": scope, "files": [str(change.path) for change in plan.changes], "diff": diff(plan),
        "answer_file": str(path), "answer_file_state": state, "fail_closed": closed,
        "server": f"{server.kind} {server.address}{f' {server.port}' if server.port else ''}",
        "user": server.user, "warnings": [*warnings, *plan.warnings], "applied": False, "backups": [],
    }  # fmt: skip
    if not fleet.json:
        _show_install(fleet, report)
    if not dry_run and (plan.changes or state != "unchanged"):
        if not fleet.confirm("Write this?", yes):
            fleet.say("Nothing was changed.")
            return
        report["backups"] = [str(backup) for backup in connecting.connect(plan, answers, places)]
        report["applied"] = True
    if fleet.json:
        fleet.data(report)
    elif report["applied"]:
        for backup in report["backups"]:
            fleet.say(f"backup: {backup}")
        _next_steps(fleet, places)
    elif not dry_run:
        fleet.say(f"{agent} is installed already; nothing was changed.")


@click.command()
@_agents
@_dry
@_yes
@common_options
@pass_fleet
def uninstall(fleet: Context, agents: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Take an install back: a settings file that nobody has changed since gets its old bytes, from others only our
    entries go; the answer file goes too.
    """
    for agent in agents or AGENTS:
        _uninstall(fleet, agent, dry_run=dry_run, yes=yes)


def _uninstall(fleet: Context, agent: str, *, dry_run: bool, yes: bool) -> None:
    from bus import installing
    from workers.connecting import empty_spool

    places = fleet.directories()
    everywhere = [installing.settings_path(agent, scope, home=Path.home(), project=Path.cwd()) for scope in SCOPES]
    plan = installing.plan_uninstall(agent, places.state, paths=everywhere)
    path = places.answer_file(agent)
    report: dict[str, Any] = {
        "agent": agent, "files": [str(change.path) for change in plan.changes], "diff": installing.diff(plan),
        "answer_file": str(path) if path.exists() else None, "warnings": list(plan.warnings), "applied": False,
        "waiting": 0,
    }  # fmt: skip
    if not fleet.json:
        if report["diff"]:
            fleet.data(report["diff"].rstrip("\n"))
        for warning in plan.warnings:
            fleet.say(f"warning: {warning}")
        if path.exists():
            fleet.say(f"answer file: {path} goes")
    waiting = 0
    if not dry_run and (plan.changes or path.exists()):
        if not fleet.confirm("Take it back?", yes):
            fleet.say("Nothing was changed.")
            return
        installing.undo(plan, places.state)
        waiting = report["waiting"] = empty_spool(path, places.spool(agent))
        path.unlink(missing_ok=True)
        for folder in (path.parent, places.spool(agent).parent):
            with contextlib.suppress(OSError):  # another agent's file is in it, or it never was
                folder.rmdir()
        report["applied"] = True
    if fleet.json:
        fleet.data(report)
    elif report["applied"]:
        fleet.say(f"{agent}: uninstalled. Sessions that run keep their hooks until they end; these do nothing now.")
    elif not dry_run:
        fleet.say(f"{agent} is not installed; nothing was changed.")
    if waiting:
        raise PartlyDone(
            f"{waiting} events of {agent} still wait in {places.spool(agent)}, since Redis is away; "
            f"they are sent after the next `fleethook install {agent}`, or remove the file"
        )


def _show_install(fleet: Context, report: dict[str, Any]) -> None:
    if report["diff"]:
        for line in report["diff"].rstrip("\n").splitlines():
            new, old = line.startswith("+"), line.startswith("-")
            fleet.data(fleet.style(line, "green") if new else fleet.style(line, "red") if old else line)
    policy = (
        "tool calls, prompts and permissions are denied; everything else goes on"
        if report["fail_closed"] else "allow, and say so in the record (--fail-closed denies)"
    )  # fmt: skip
    server = f"{report['server']} as {report['user'] or 'nobody in particular'}"
    fleet.say(f"answer file: {report['answer_file']} ({report['answer_file_state']}), server {server}")
    fleet.say(f"without a verdict: {policy}")
    for warning in report["warnings"]:
        fleet.say(f"{fleet.style('warning:', 'yellow', err=True)} {warning}")


def _next_steps(fleet: Context, places: Directories) -> None:
    from workers.supervisor import running

    steps = ["start a new session of the agent (one that runs has read its hooks already)"]
    if not fleet.settings().redis_url and running(places) is None:
        steps.insert(0, "`fleethook up --detach`")
    steps.append("`fleethook doctor --live` proves that a dangerous call is denied")
    fleet.say(f"{fleet.style('Installed.', 'green', err=True)} Next: {'; '.join(steps)}.")
