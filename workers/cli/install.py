"""`fleethook install`: shows the hook settings for each agent, asks, and writes them with the answer file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from bus.errors import ConfigError, FleethookError
from workers.cli.common import Context, PartlyDone, common_options, pass_fleet
from workers.cli.hosts import record_host, warn_of_gateway

if TYPE_CHECKING:  # `install --help` needs none of them
    from bus.installs.base import Scope
    from bus.installs.manifest import InstallPlan
    from bus.shim.answer_file import AnswerFile
    from workers.admin.file_changes import FileSummary

AGENTS: Final = ("claude", "codex", "gemini", "cursor", "opencode", "qwen", "copilot", "windsurf", "cline")
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local")

agents_argument = click.argument("agents", nargs=-1, type=click.Choice(AGENTS), metavar="[AGENT]...")
diff_option = click.option("--diff", is_flag=True, help="Show each line that changes, too.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


class _Job(NamedTuple):
    """One agent's install: what would be written, and the warnings about it."""

    plan: InstallPlan
    files: tuple[FileSummary, ...]
    answers: AnswerFile
    report: dict[str, Any]

    @property
    def needed(self) -> bool:
        return bool(self.plan.changes) or self.report["answer_file_state"] != "unchanged"


@click.command()
@agents_argument
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="user",
    show_default=True,
    help="Which settings get the hooks: yours, the project's, or yours in this project.",
)
@click.option(
    "--events",
    metavar="NAME,...",
    help="The agent's own event names, canonical types as tool:pre_execute, `default`, or `all`; kept by later installs.",
)
@click.option(
    "--http",
    is_flag=True,
    help="Write hooks of type http, which ask the gateway without a process (claude, copilot, qwen).",
)
@click.option("--fail-closed", is_flag=True, help="Without a verdict, tool calls and prompts are denied.")
@diff_option
@dry_run_option
@yes_option
@common_options
@pass_fleet
def install(
    fleet: Context,
    agents: tuple[str, ...],
    scope: Scope,
    events: str | None,
    http: bool,
    fail_closed: bool,
    diff: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Connect agents: write their hook settings, and the answer files of their hook commands.

    Without a name, connects every agent that is found here: claude, codex, gemini, cursor, opencode, qwen, copilot,
    windsurf, cline. Shows which files change, keeps backups, and changes nothing that is already right. For a server of your
    own, set FLEETHOOK_SHIM_URL with the rights of the role `shim` (see `fleethook acl`); for a gateway, FLEETHOOK_URL.
    """
    from bus.installs.plan import accept_events
    from workers.admin.agent_setup import where_is

    names = [name.strip() for name in events.split(",") if name.strip()] if events is not None else None
    undo = click.get_current_context().with_resource(contextlib.ExitStack())
    jobs, troubles = _jobs(
        fleet, dict.fromkeys(agents), scope, names, _native(fleet, undo), http=http, fail_closed=fail_closed
    )
    needed = [job for job in jobs if job.needed]
    steps = _steps(fleet, needed)
    if not fleet.json:
        _show(fleet, jobs, troubles, steps, diff=diff)
    if needed and not dry_run:
        weaker = [job for job in needed if job.report["weakens"]]
        if weaker:
            fleet.require_person(
                f"install {' '.join(job.plan.agent for job in weaker)}",
                *(change.path for job in weaker for change in job.plan.changes),
            )
        if not fleet.confirm("Write this?", yes):
            fleet.say("Nothing was changed.")
            return
        _write(fleet, needed)
        undo.pop_all()
        _report_weaker(fleet, weaker)
        record_host(fleet)
        warn_of_gateway(fleet, [job.plan.agent for job in needed])
        _warn_of_missing_guard(fleet)
    for job in jobs if not dry_run else ():
        accept_events(job.plan.agent, scope, fleet.directories().state, where_is(), job.report["chosen"])
    if fleet.json:
        fleet.data({"agents": [job.report for job in jobs]})
    else:
        _report_done(fleet, jobs, steps, dry_run=dry_run)
    if troubles:
        raise PartlyDone("; ".join(f"{agent} was left out: {error}" for agent, error in troubles.items()))


def _report_weaker(fleet: Context, jobs: list[_Job]) -> None:
    """Report which guards these installs weakened."""
    from bus.ids import host_name
    from workers.cli.guard_reports import report_losses

    for job in jobs:
        lost = [f"{job.plan.agent} {what}\n{how}" for what, how in job.report["weakens"].items()]
        report_losses(fleet, f"install {job.plan.agent}", host_name(), lost)


def _warn_of_missing_guard(fleet: Context) -> None:
    """Warn if no guard would stop the connected agents; silent if that is unknown."""
    from bus.hooksets.guard_presence import missing_guard

    shared = bool(fleet.settings().redis_url)
    with contextlib.suppress(FleethookError):
        text = fleet.run(
            lambda connections: missing_guard(connections, fleet.keys(), fleet.directories(), shared=shared)
        )
        if text:
            fleet.say(f"{fleet.style('warning:', 'yellow', err=True)} {text}")


def _native(fleet: Context, undo: contextlib.ExitStack) -> str:
    """The path of the native hook command, which is built if it is missing and removed again by `undo`; empty without one."""
    from bus.shim import native

    if not fleet.settings().native_hook:
        return ""
    made = native.prepare(fleet.directories().data)
    undo.callback(native.forget, made)
    if made.why:
        fleet.say(f"The native hook command was not built ({made.why}), so hook commands run in Python.")
    return made.path


def _jobs(
    fleet: Context,
    agents: dict[str, None],
    scope: Scope,
    events: list[str] | None,
    native: str,
    *,
    http: bool,
    fail_closed: bool,
) -> tuple[list[_Job], dict[str, FleethookError]]:
    """The installs of these agents, or of those that are found; a failed one does not stop the others."""
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
            jobs.append(_job(fleet, agent, scope, events, native, http=http, fail_closed=fail_closed))
        except ConfigError as error:
            if len(found) == 1:
                raise
            troubles[agent] = error
    if not jobs:
        raise next(iter(troubles.values()))
    return jobs, troubles


def _job(
    fleet: Context,
    agent: str,
    scope: Scope,
    events: list[str] | None,
    native: str,
    *,
    http: bool,
    fail_closed: bool,
) -> _Job:
    from bus.installs import evidence, find
    from bus.installs.plan import DEFAULT, announced, chosen_before, diff, events_for, kept_events, reasons_of
    from bus.system.directories import directories
    from workers.admin import agent_setup
    from workers.admin.doctor.announced import announced_events, heard_here, sets_in_force
    from workers.admin.file_changes import event_names, install_changes
    from workers.admin.http_installs import hooks_of_settings

    settings, places = fleet.settings(), directories()
    closed = fail_closed or settings.on_failure == "deny"
    path = places.answer_file(agent)
    answers, warnings = agent_setup.answers_for(agent, settings, places, closed=closed)
    hooks = None
    if http:
        hooks, more = hooks_of_settings(settings, places)
        warnings = (*warnings, *more)
    sets = sets_in_force(settings, places, fleet.run)
    later, needed = announced_events(agent, scope, sets, settings, places)
    chosen = list(chosen_before(agent, scope, places.state, agent_setup.where_is())) if events is None else events
    chosen = [] if chosen == [DEFAULT] else chosen
    heard = heard_here(agent, scope, sets)
    kept = () if chosen or events is not None else kept_events(agent, scope, places.state, agent_setup.where_is())
    events = list(kept or events_for(agent, chosen or None, heard))
    plan = agent_setup.plan(
        agent,
        scope,
        places,
        closed=closed,
        events=events,
        budget=settings.budget,
        http=hooks,
        native=native,
        later=later,
    )
    answers = agent_setup.within_grants(answers, places, plan)
    files = install_changes(plan, scope, agent_setup.where_is())
    server, found = answers.server, evidence(find(agent), agent_setup.where_is())
    if not found:
        warnings = (*warnings, f"{find(agent).label} was not found on this machine")
    report: dict[str, Any] = {
        "agent": agent,
        "found": found,
        "scope": scope,
        "files": [str(change.path) for change in plan.changes],
        "events": event_names(files),
        "diff": diff(plan),
        "answer_file": str(path),
        "answer_file_state": agent_setup.state_of(path, answers),
        "fail_closed": closed,
        "server": f"{server.kind} {server.address}{f' {server.port}' if server.port else ''}",
        "gateway": bool(server.gateway),
        "http": hooks.base if hooks is not None else "",
        "chosen": chosen,
        "reasons": reasons_of(agent, events, chosen, heard),
        "announced": [] if http else sorted(announced(agent, events, later)),
        "needed": {} if http else needed,
        "user": server.user,
        "warnings": [*warnings, *plan.warnings],
        "steps": list(plan.steps),
        "applied": False,
        "backups": [],
        "weakens": agent_setup.losses(plan, answers, places),
    }
    return _Job(plan, files, answers, report)


def _write(fleet: Context, jobs: list[_Job]) -> None:
    from workers.admin.agent_setup import connect

    for job in jobs:
        backups = connect(job.plan, job.answers, fleet.directories())
        job.report["backups"], job.report["applied"] = [str(backup) for backup in backups], True
        for backup in backups if not fleet.json else ():
            fleet.say(f"backup: {backup}")


class _Step(NamedTuple):
    """A step that only the person can do."""

    text: str
    agent: str = ""
    """The agent that needs it; empty if it is about all of them."""


def _steps(fleet: Context, needed: list[_Job]) -> list[_Step]:
    """The steps that are left to the person after these installs, in their order."""
    from bus.installs import find
    from bus.installs.http_hooks import TOKEN
    from workers.admin.agent_setup import agent_only_url, where_is
    from workers.admin.http_installs import token_of
    from workers.supervisor import running

    settings, places = fleet.settings(), fleet.directories()
    steps = []
    if not settings.redis_url and not agent_only_url(settings, places) and running(places) is None:
        steps.append(_Step("Start the bus: `fleethook up --detach`"))
    steps += [_Step(text, job.plan.agent) for job in needed if job.plan.changes for text in job.plan.steps]
    for job in needed:
        if job.report["http"] and not token_of(program := find(job.plan.agent), where_is()):
            text = f"Make a token, `fleethook tokens create {program.name}`, and start {program.label} with {TOKEN} set to it"
            steps.append(_Step(text, program.name))
    agents = "the agent" if len(needed) == 1 else "each agent"
    steps.append(_Step(f"Start a new session of {agents} (one that runs has read its hooks already)"))
    steps.append(_Step("See that a dangerous call is denied: `fleethook doctor --live`"))
    return steps


def _show(
    fleet: Context, jobs: list[_Job], troubles: Mapping[str, FleethookError], steps: list[_Step], *, diff: bool
) -> None:
    """Show what would be written where, and the warnings."""
    from bus.installs import find
    from workers.cli.screens import changes

    rows = [
        changes.change_row(find(job.plan.agent).label, file, _numbers(steps, job.plan.agent))
        for job in jobs
        for file in job.files
    ]
    rows += [changes.left_out_row(find(agent).label, getattr(error, "file", "")) for agent, error in troubles.items()]
    changes.show_changes(fleet, rows)
    changes.show_facts(fleet, _facts(jobs, diff=diff))
    for job in jobs if diff else ():
        changes.show_diff(fleet, job.report["diff"])
    warnings: dict[str, list[str]] = {}
    for job in jobs:
        weakens = ", ".join(f"{what} {how}" for what, how in job.report["weakens"].items())
        for text in [*job.report["warnings"], *([f"this weakens a guard: {weakens}"] if weakens else [])]:
            warnings.setdefault(text, []).append(find(job.plan.agent).label)
    changes.show_warnings(fleet, warnings)


def _numbers(steps: list[_Step], agent: str) -> str:
    """Which of the steps an agent asks for."""
    found = [str(number) for number, step in enumerate(steps, 1) if step.agent == agent]
    return f"step{'s' if len(found) > 1 else ''} {', '.join(found)}" if found else ""


def _facts(jobs: list[_Job], *, diff: bool) -> Iterator[tuple[str, str]]:
    """Show the server and failure policy of the hook commands; once if they are the same for all agents."""
    from workers.cli.screens import changes

    reports = [job.report for job in jobs]
    yield changes.answer_files_fact({report["answer_file"]: report["answer_file_state"] for report in reports})
    facts = (
        ("hooks", _kind),
        ("server", _server),
        ("without a verdict", _policy),
        ("announces", changes.announces),
        ("events", changes.event_reasons),
    )
    for name, text_of in facts:
        agents: dict[str, list[str]] = {}
        for report in reports:
            agents.setdefault(text_of(report), []).append(report["agent"])
        for text, those in agents.items():
            if not text:
                continue
            yield name, text if len(agents) == 1 else f"{', '.join(those)}: {text}"
    if not diff and any(job.plan.changes for job in jobs):
        yield "lines", "`--diff` shows each line that changes"


def _kind(report: Mapping[str, Any]) -> str:
    return f"of type http, to the gateway at {report['http']}" if report["http"] else ""


def _server(report: Mapping[str, Any]) -> str:
    if report["gateway"]:
        return f"the gateway at {report['server']}"
    return f"{report['server']} as {report['user'] or 'a user without a name'}"


def _policy(report: Mapping[str, Any]) -> str:
    if report["fail_closed"]:
        return "tool calls, prompts and permissions are denied; everything else goes on"
    return "allow, and say so in the record (--fail-closed denies)"


def _report_done(fleet: Context, jobs: list[_Job], steps: list[_Step], *, dry_run: bool) -> None:
    """Show what was written and what existed already; then the steps that are left to the person."""
    from workers.cli.screens.changes import show_steps

    there = [job.plan.agent for job in jobs if not job.needed]
    if there and not dry_run:
        verb = "is" if len(there) == 1 else "are"
        fleet.say(f"{', '.join(there)} {verb} installed already; nothing was changed.")
    if len(there) < len(jobs):
        title = "After that, only you can do this:" if dry_run else "Installed. Only you can do the rest:"
        show_steps(fleet, title, [step.text for step in steps])
