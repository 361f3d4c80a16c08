"""`fleethook hooks new`: writes a working hook with its test as a start."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.hooks.import_ import target_file
from workers.cli.hooks.listing import short_origin
from workers.cli.hooks.sets import shown_diff
from workers.cli.output import interactive

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.admin.new_hook import HookKind

KINDS: Final = ("rule", "command", "python", "http")
DEFAULT_EVENT: Final = "tool:pre_execute:bash"


@click.command()
@click.argument("name", required=False)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="A rule needs no process; command and python get a script, http asks a URL. Default: rule.",
)
@click.option("--on", metavar="EVENT_TYPE", help=f"The event that it runs at. Default: {DEFAULT_EVENT}.")
@click.option("--url", default="", help="The URL of an http hook.")
@click.option(
    "--to",
    "target",
    metavar="user|project|FILE",
    default="",
    help="The fleethook.yaml that gets the hook. Default: the project's in a repository, else the user's.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def new(fleet: Context, name: str | None, kind: str | None, on: str | None, url: str, target: str, yes: bool) -> None:
    """Write a hook with its tests into your fleethook.yaml; NAME becomes its id.

    The hook works at once and its tests pass; change it from there. Comments and order of the file stay, and nothing is
    overwritten. What is not given is asked on a terminal.

    \b
    fleethook hooks new no-force-push
    fleethook hooks new house-style --kind python --on tool:pre_execute:write
    fleethook hooks new policy --kind http --url https://policy.example/decide --to user
    """
    from bus.config.files import read_file
    from workers.admin.new_hook import check_name, names_of_tests, new_hook, refuse_existing, with_hook, write_hook

    asks = interactive() and not fleet.json and not yes
    if name is None:
        if not asks:
            raise click.UsageError("say NAME: the id of the hook, e.g. no-force-push")
        name = click.prompt("Name of the hook, e.g. no-force-push", err=True, type=str)
    check_name(name)
    if kind is None:
        kind = click.prompt("Kind", type=click.Choice(KINDS), default="rule", err=True) if asks else "rule"
    if on is None:
        on = click.prompt("Event", default=DEFAULT_EVENT, err=True) if asks else DEFAULT_EVENT
    if kind == "http" and not url:
        if not asks:
            raise click.UsageError("an http hook needs --url")
        url = click.prompt("URL", err=True)
    if url and kind != "http":
        raise click.UsageError("--url belongs to --kind http")
    into = target_file(fleet, Path.cwd(), target)
    hook = new_hook(name, cast("HookKind", kind), on, file=into, url=url)
    refuse_existing(into, hook)
    before = read_file(into) if into.exists() else ""
    after = with_hook(before, str(into), hook)
    warnings = _check(after, into)
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), str(into), name)
    changes = "".join(lines)
    if not fleet.json:
        fleet.data(shown_diff(fleet, changes))
    if not fleet.confirm(f"Write this into {short_origin(str(into))}?", yes):
        fleet.say("nothing was changed")
        return
    write_hook(into, after, hook)
    trust = _needs_trust(fleet, into)
    if fleet.json:
        fleet.data(
            {
                "id": name,
                "kind": kind,
                "file": str(into),
                "script": None if hook.script is None else str(hook.script),
                "tests": names_of_tests(hook),
                "diff": changes,
                "needs_trust": trust,
                "warnings": warnings,
            }
        )
        return
    for text in warnings:
        fleet.say(fleet.style(text, "yellow", err=True))
    if hook.script is not None:
        fleet.data(f"{short_origin(str(hook.script))}: the hook's script; change it there")
    where = "" if _is_found(fleet, into) else f" --file {short_origin(str(into))}"
    fleet.data(f"fleethook hooks test{where}  runs its tests")
    if trust:
        fleet.data("fleethook hooks trust  lets the project's hooks run on this machine")
    elif _is_users(fleet, into):
        fleet.data("the hook is in force within a second where workers run")


def _check(text: str, file: Path) -> list[str]:
    """The warnings about the new file. Raises ConfigError for its mistakes before anything is written."""
    from bus.config.documents import loads
    from bus.hooksets.hook_tests import read_hook_tests
    from bus.hooksets.hookfile import read_hook_document

    document = loads(text, file=str(file))
    read = read_hook_document(document, "user")
    problems = [*read.problems, *read_hook_tests(document, read, file.parent)[1]]
    if problems:
        raise problems[0]
    return list(read.warnings)


def _needs_trust(fleet: Context, file: Path) -> bool:
    """Whether the file is a project's file, which is in force only with its trusted content."""
    from bus.hooksets.trust import is_trusted, project_file
    from bus.system.directories import config_file

    places = fleet.directories()
    project = project_file(file.parent, user=config_file(places.config))
    return project is not None and project.samefile(file) and not is_trusted(file, places.trust_file)


def _is_users(fleet: Context, file: Path) -> bool:
    """Whether it is the user's own file, which needs no trust."""
    from bus.system.directories import config_file

    user = config_file(fleet.directories().config)
    return user is not None and user.samefile(file)


def _is_found(fleet: Context, file: Path) -> bool:
    """Whether `hooks test` finds the file without its name."""
    from workers.cli.hooks.sets import found_file

    found = found_file(fleet)
    return found is not None and found.samefile(file)
