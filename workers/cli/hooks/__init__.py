"""`fleethook hooks`: lists the hooks in force, tests them, and checks, publishes and trusts hook files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.hooks.sets import holds, load, read_foreign
from workers.runtime.wording import counted

COMMANDS: Final = {
    "list": Lazy("workers.cli.hooks.listing:list_hooks", "List the hooks in force here, and when each ran last."),
    "new": Lazy("workers.cli.hooks.new:new", "Write a hook with its tests into your fleethook.yaml."),
    "test": Lazy("workers.cli.hooks.test:test", "Run the tests of a hook file, or judge one event; nothing is sent."),
    "show-input": Lazy(
        "workers.cli.hooks.show_input:show_input", "Show the stdin and environment that a command got for an event."
    ),
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
    "agents": Lazy("workers.cli.hooks.agents:agents", "Show which answers each agent can read."),
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
    """Check a hook file, and the tests of the guard packs that it uses; exit 4 if something is wrong.

    A file or folder of pigo, Forge, Gobby, Claude Code or ion is checked as it would be imported.

    Warnings do not change the exit code: a program or script that is missing, or a field in a `when:` that no event of the
    hook's patterns has.
    """
    from bus.errors import ConfigError
    from bus.hooksets.guards import check_pack, load_pack
    from workers.admin.hook_findings import findings

    foreign = None if file is None else read_foreign(file)
    name, read = (str(file), foreign) if foreign is not None else load(fleet, file)
    found = list(findings(read, _runs_in(fleet, name)))
    failures = {pack: [str(problem) for problem in check_pack(load_pack(pack))] for pack in read.guards}
    problems = [*map(str, read.problems), *(text for found in failures.values() for text in found)]
    if fleet.json:
        from workers.cli.common import error_report

        fleet.data(
            {
                "file": name,
                "ok": not problems,
                "problems": [error_report(problem) for problem in read.problems],
                "warnings": list(read.warnings),
                "findings": [error_report(finding) for finding in found],
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
        raise ConfigError(f"{len(problems)} problem{'s' * (len(problems) > 1)}; a wrong entry is never in force")
    if not fleet.json:
        tests = sum(len(load_pack(pack).tests) for pack in read.guards)
        guards = f" ({counted(tests, 'test passes', 'tests pass')})" if read.guards else ""
        count = len(found)
        fine = f"valid, with {count} finding{'s' * (count > 1)}" if count else "all fine"
        fleet.data(f"{name}: {holds(read)}{guards}: {fine}")


def _runs_in(fleet: Context, name: str) -> str:
    """The folder in which the commands of a file run. For a project file it is the file's folder; empty if it is not known.

    For other files in a repository it is the repository's folder: such a file can only be imported into its project.
    """
    from bus.hooksets.pinned_imports import repository
    from bus.hooksets.trust import project_file
    from bus.system.directories import CONFIG_NAMES, config_file

    path = Path(name).absolute()
    project = project_file(path.parent, user=config_file(fleet.directories().config))
    if project == path:
        return str(path.parent)
    return "" if name == "stdin" or path.name in CONFIG_NAMES else repository(path)
