"""`fleethook hooks`: which are in force, what they would say, and how sets of them are checked, published and trusted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import CheckFailed, Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.formatting import DURATION, about, plain, verdict_lines
from workers.cli.hooks.listing import record, short_origin
from workers.cli.hooks.sets import PLUGIN_DIR, PLUGIN_OWNER, holds, in_force, load, sound
from workers.runtime.wording import counted

if TYPE_CHECKING:  # most commands of the group need none
    from bus.events import Event

COMMANDS: Final = {
    "list": Lazy("workers.cli.hooks.listing:list_hooks", "List the hooks in force here, and when each ran last."),
    "test": Lazy("workers.cli.hooks:test", "Show what the hooks would say to an event; nothing is sent."),
    "check": Lazy("workers.cli.hooks:check", "Check a hook file and the tests of its guard packs."),
    "apply": Lazy("workers.cli.hooks.sets:apply", "Publish a hook file to the whole fleet, as a new version."),
    "diff": Lazy("workers.cli.hooks.sets:diff_hooks", "Show what a file or a version changes."),
    "history": Lazy("workers.cli.hooks.sets:history", "List the versions that were put in force."),
    "rollback": Lazy("workers.cli.hooks.sets:rollback", "Put an earlier version in force again."),
    "import": Lazy(
        "workers.cli.hooks.import_:import_hooks", "Read hooks of pigo, Forge, Gobby, Claude Code or ion in place."
    ),
    "templates": Lazy(
        "workers.cli.hooks.templates:templates", "Ready hooks by name: show them, and put them in your file."
    ),
    "agents": Lazy("workers.cli.hooks.agents:agents", "Show what each agent's events can be told."),
    "trust": Lazy("workers.cli.hooks.trust:trust", "Show a project's hooks, and let them run."),
    "untrust": Lazy("workers.cli.hooks.trust:untrust", "Take the trust in a project back."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def hooks() -> None:
    """List, test, check, import, apply, compare, roll back and trust hooks."""


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@common_options
@pass_fleet
def check(fleet: Context, file: Path | None) -> None:
    """Check a hook file, and the tests of the guard packs that it uses; exit 4 where something is wrong.

    Findings are warnings and no reason for an exit code: a program or script that is not there, fields in a `when:` that no
    event of its patterns has.
    """
    from bus.errors import ConfigError
    from bus.hooksets.guards import check_pack, load_pack
    from workers.admin.hook_findings import findings

    name, read = load(fleet, file)
    found = list(findings(read, _runs_in(fleet, name)))
    failures = {pack: [str(one) for one in check_pack(load_pack(pack))] for pack in read.guards}
    problems = [*map(str, read.problems), *(text for found in failures.values() for text in found)]
    if fleet.json:
        from workers.cli.common import error_report

        fleet.data(
            {
                "file": name,
                "ok": not problems,
                "problems": [error_report(problem) for problem in read.problems],
                "warnings": list(read.warnings),
                "findings": [error_report(one) for one in found],
                "guards": failures,
                "hooks": len(read.hooks),
                "endpoints": len(read.endpoints),
            }
        )
    else:
        for text in problems:
            fleet.data(fleet.style(text, "red"))
        for text in (*read.warnings, *map(str, found)):
            fleet.data(fleet.style(f"{text} (warning)", "yellow"))
    if problems:
        raise ConfigError(f"{len(problems)} problem{'s' * (len(problems) > 1)}; what is wrong is never in force")
    if not fleet.json:
        tests = sum(len(load_pack(pack).tests) for pack in read.guards)
        guards = f" ({counted(tests, 'test passes', 'tests pass')})" if read.guards else ""
        count = len(found)
        fine = f"valid, with {count} finding{'s' * (count > 1)}" if count else "all fine"
        fleet.data(f"{name}: {holds(read)}{guards}: {fine}")


def _runs_in(fleet: Context, name: str) -> str:
    """Where the commands of a file run, as far as that can be said: in its folder, for a project's."""
    from bus.hooksets.trust import project_file
    from bus.system.directories import config_file

    path = Path(name).absolute()
    project = project_file(path.parent, user=config_file(fleet.directories().config))
    return str(path.parent) if project == path else ""


@click.command()
@click.argument("kind", metavar="[EVENT_TYPE]", default="")
@click.option(
    "--event", "given", metavar="FILE|ID", help="This event: JSON in a file (- for stdin), or a stored one by its id."
)
@click.option("--tool", default="", metavar="TOOL", help="The tool, in our name or the agent's own.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="KEY=VALUE",
    help="A field, e.g. command='rm -rf /', prompt=hello or data.x=1.",
)
@click.option("--source", default="generic", metavar="AGENT", show_default=True, help="The agent.")
@click.option("--cwd", type=click.Path(file_okay=False, path_type=Path), help="Where it happens; default: here.")
@click.option(
    "--file", type=click.Path(path_type=Path, allow_dash=True), help="The hooks of this file, not those in force."
)
@PLUGIN_DIR
@PLUGIN_OWNER
@click.option("--run", "effects", is_flag=True, help="Run commands and ask http hooks, too.")
@click.option("--budget", type=DURATION, metavar="TIME", help="How long the verdict may take.")
@click.option("--exit-code", is_flag=True, help="Exit 1 where the verdict is deny.")
@common_options
@pass_fleet
def test(
    fleet: Context,
    kind: str,
    given: str | None,
    tool: str,
    values: Sequence[str],
    source: str,
    cwd: Path | None,
    file: Path | None,
    plugin_dirs: Sequence[Path],
    owner: str | None,
    effects: bool,
    budget: float | None,
    exit_code: bool,
) -> None:
    """Show which hooks an event would meet and what they would say; nothing is sent, no workers are needed.

    \b
    fleethook hooks test tool:pre_execute:bash --set command='git push --force'
    fleethook hooks test PreToolUse --source claude --tool Write --set file_path=/etc/passwd
    fleethook hooks test user:prompt_submit --set prompt='what is the password?'
    fleethook hooks test --event e01a2032eb55b106db3bd1e9c0449ccdf
    """
    import asyncio

    import msgspec

    from bus.hooks import NATIVE
    from workers.admin.dry_run import disabled_hooks, hooks_of, later, made_event, try_event

    here = (cwd or Path.cwd()).absolute()
    if given is not None:
        if values or tool:
            raise click.UsageError("--event brings its own fields: say --set and --tool without it")
        event = _given_event(fleet, given, source=source, kind=kind, cwd=here)
    elif kind:
        event = made_event(kind, source=source, tool=tool, values=values, cwd=here)
    else:
        raise click.UsageError("say EVENT_TYPE, or --event FILE|ID")
    # A field `cwd` that was set is where it happens, and so decides which project's hooks are meant.
    if file is not None and (plugin_dirs or owner):
        raise click.UsageError("--file is about one file alone: say --plugin-dir without it")
    tried = (
        hooks_of(sound(fleet, file)[1])
        if file is not None
        else in_force(fleet, Path(event.cwd), needed=False, plugin_dirs=plugin_dirs, owner=owner)
    )
    seconds = fleet.settings().budget if budget is None else budget
    fitting, verdict = asyncio.run(
        try_event(event, tried, effects=effects, seconds=seconds, policy=fleet.settings().on_failure)
    )
    background = later(event, tried, verdict)
    disabled = disabled_hooks(event, tried)
    if fleet.json:
        fleet.data(
            {
                "event": msgspec.to_builtins(event),
                "matched": [record(hook) for hook in fitting],
                "not_run": [hook.id for hook in fitting if hook.kind != "rule" and not effects],
                "disabled": [record(hook) for hook in disabled],
                "verdict": {"decision": verdict.decision, **msgspec.to_builtins(verdict)},
                "background": background,
            }
        )
    else:
        lines = [
            f"event    {plain(event.type)}  {plain(event.tool)}".rstrip(),
            f"  {fleet.style(about(event, 200), 'cyan')}",
        ]
        lines += [
            f"  meets {fleet.style(hook.dialect, 'cyan')} {plain(hook.id)} from {plain(short_origin(hook.origin))}"
            for hook in fitting
            if hook.dialect != NATIVE
        ]
        lines += verdict_lines(fleet, verdict)
        if not fitting:
            lines.append("  no blocking hook fits")
        lines += [
            f"  disabled  {plain(hook.id)} from {plain(short_origin(hook.origin))}: it would fit" for hook in disabled
        ]
        lines += [f"afterwards  {name}: {', '.join(ids)}" for name, ids in background.items() if ids]
        fleet.data("\n".join(lines))
    if exit_code and verdict.blocks:
        raise CheckFailed("")


def _given_event(fleet: Context, given: str, *, source: str, kind: str, cwd: Path) -> Event:
    """The event that `--event` names: a file's, stdin's, or a stored one."""
    from workers.admin.dry_run import read_event
    from workers.records.events import find_event

    if given != "-" and not Path(given).exists() and not given.endswith(".json") and "/" not in given:
        return fleet.run(lambda connections: find_event(connections, fleet.keys(), given)).event
    try:
        raw = sys.stdin.buffer.read() if given == "-" else Path(given).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--event {given}: {error.strerror}; name a file, - or an event's id") from error
    return read_event(raw, source=source, kind=kind, cwd=cwd)
