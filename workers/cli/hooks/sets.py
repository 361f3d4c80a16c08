"""`hooks apply`, `diff`, `history` and `rollback`: published hook sets (B-04, X-08)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import when
from workers.cli.guard_reports import set_change

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooksets.hook_tests import HookTest
    from bus.hooksets.hookfile import HookFile
    from bus.hooksets.in_force import HookSet
    from bus.hooksets.published import SetChange
    from bus.wire.connections import Connections

_TAKEN_UP: Final = "running workers have it in force within a second"


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("-m", "--message", default="", help="Why, for the history.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@common_options
@pass_fleet
def apply(fleet: Context, file: Path | None, message: str, yes: bool, dry_run: bool) -> None:
    """Publish a hook file to the whole fleet, as a new version; every worker has it within a second."""
    from bus.config.files import read_file
    from bus.hooksets.files_in_force import empty_file, is_blank
    from bus.hooksets.plugins.missing_files import not_published
    from bus.hooksets.published import apply as put
    from bus.hooksets.published import current_version, diff, load_version

    name, read = sound(fleet, file)
    lacking = list(not_published(read))
    for text in lacking:
        fleet.say(fleet.style(f"{text} (warning)", "yellow", err=True))

    async def compare(connections: Connections) -> tuple[int, HookFile]:
        version = await current_version(connections, fleet.keys())
        return version, await load_version(connections, fleet.keys(), version)

    version, before = fleet.run(compare)
    changes = diff(before, read, (f"version {version}", name))
    if changes and name != "stdin" and is_blank(read_file(Path(name))):
        raise empty_file(name)
    if not changes:
        fleet.say(f"version {version} is published and says the same: nothing to publish")
    elif not fleet.json:
        fleet.data(shown_diff(fleet, changes))
    go_on = bool(changes) and not dry_run
    if go_on:
        fleet.require_person("hooks apply", published=True)
    if go_on and not fleet.confirm(f"Publish {name} ({holds(read)}) to the fleet?", yes):
        fleet.say("nothing was published")
        go_on = False
    lost = set_change("hooks apply", before, read) if go_on else None
    now = (
        fleet.run(
            lambda connections: put(connections, fleet.keys(), read, message=message, expected=version, change=lost)
        )
        if go_on
        else version
    )
    if fleet.json:
        fleet.data(
            {
                "version": now,
                "before": version,
                "published": go_on,
                "hooks": len(read.hooks),
                "endpoints": len(read.endpoints),
                "diff": redacted(changes),
                "warnings": [*read.warnings, *lacking],
            }
        )
    elif go_on:
        fleet.data(f"version {now} is published, {_TAKEN_UP}; `fleethook hooks rollback` takes it back")


@click.command("diff")
@click.argument("first", required=False, metavar="[FILE|VERSION]")
@click.argument("second", required=False, metavar="[VERSION]")
@common_options
@pass_fleet
def diff_hooks(fleet: Context, first: str | None, second: str | None) -> None:
    """Show what a file, or the version in force, changes against a version.

    \b
    fleethook hooks diff              version in force -> the file here
    fleethook hooks diff FILE [N]     version in force (or N) -> FILE
    fleethook hooks diff N [M]        version N -> version in force (or M)
    """
    from bus.hooksets.published import current_version, diff, load_version

    numbered = first is not None and first.isdigit()
    if second is not None and not second.isdigit():
        raise click.UsageError(f"{second!r} is no version; see `fleethook hooks history`")
    name, read = ("", None) if numbered else sound(fleet, Path(first) if first else None)

    async def compare(connections: Connections) -> str:
        other = int(second) if second else await current_version(connections, fleet.keys())
        there = await load_version(connections, fleet.keys(), other)
        if read is not None:
            return diff(there, read, (f"version {other}", name))
        mine = int(first or 0)
        before = await load_version(connections, fleet.keys(), mine)
        return diff(before, there, (f"version {mine}", f"version {other}"))

    changes = fleet.run(compare)
    if fleet.json:
        fleet.data({"same": not changes, "diff": redacted(changes)})
    elif changes:
        fleet.data(shown_diff(fleet, changes))
    else:
        fleet.say("no difference")


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The most to show.")
@common_options
@pass_fleet
def history(fleet: Context, limit: int) -> None:
    """List the versions that were put in force: when, by whom, why; newest first."""
    import msgspec

    from bus.hooksets.published import history as log

    async def work(connections: Connections) -> list[SetChange]:
        return await log(connections, fleet.keys(), limit)

    changes = fleet.run(work)
    if fleet.json:
        fleet.data([msgspec.to_builtins(change) for change in changes])
    elif changes:
        rows = [
            (change.version, when(change.ms), change.by, change.hooks, change.endpoints, change.message)
            for change in changes
        ]
        fleet.table(("VERSION", "WHEN", "BY", "HOOKS", "ENDPOINTS", "MESSAGE"), rows)
    else:
        fleet.say("nothing was ever published; `fleethook hooks apply` publishes a file")


@click.command()
@click.argument("version", required=False, type=click.IntRange(1))
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def rollback(fleet: Context, version: int | None, yes: bool) -> None:
    """Put an earlier version in force again, as a new one; default: the one before the current."""
    from bus.errors import NotFound
    from bus.hooksets.published import current_version, diff, load_version
    from bus.hooksets.published import rollback as put_back

    async def compare(connections: Connections) -> tuple[int, int, list[HookFile]]:
        now = await current_version(connections, fleet.keys())
        target = now - 1 if version is None else version
        if target < 1:
            raise NotFound(f"there is no version before {now} to roll back to")
        sets = [await load_version(connections, fleet.keys(), version) for version in (now, target)]
        return now, target, sets

    now, target, sets = fleet.run(compare)
    changes = diff(sets[0], sets[1], (f"version {now}", f"version {target}"))
    if not fleet.json:
        fleet.data(shown_diff(fleet, changes) if changes else f"version {target} says the same as version {now}")
    fleet.require_person("hooks rollback", published=True)
    if not fleet.confirm(f"Put version {target} in force again?", yes):
        fleet.say("nothing was changed")
        return
    lost = set_change("hooks rollback", sets[0], sets[1])
    made = fleet.run(lambda connections: put_back(connections, fleet.keys(), target, expected=now, change=lost))
    if fleet.json:
        fleet.data({"version": made, "as": target, "before": now, "diff": redacted(changes)})
    else:
        fleet.data(f"version {made}, the same as version {target}, is published, {_TAKEN_UP}")


PLUGIN_DIR: Final = click.option(
    "--plugin-dir",
    "plugin_dirs",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, path_type=Path),
    help="A plugin of Claude Code or ion, or a folder of them, for this command alone.",
)
PLUGIN_OWNER: Final = click.option(
    "--as",
    "owner",
    type=click.Choice(("ion", "claude")),
    help="The system of the plugins in --plugin-dir. Default: it is recognised by their content, else by their place.",
)


def in_force(
    fleet: Context,
    cwd: Path | None = None,
    *,
    needed: bool = True,
    plugin_dirs: Sequence[Path] = (),
    owner: str | None = None,
    host: str = "",
) -> HookSet:
    """The hooks in force here, and those of plugins for this command only; `owner` is the system of the plugins.

    `host` is the machine of the event, if it is another one.

    If the server is away and not `needed`, it returns the hooks of this machine only.
    """
    import asyncio

    from bus.errors import Unreachable
    from workers.admin.dry_run import hooks_here, with_plugins

    async def work(connections: Connections | None) -> HookSet:
        return await hooks_here(connections, fleet.keys(), fleet.directories(), cwd or Path.cwd(), host)

    try:
        found = fleet.run(work)
    except Unreachable as error:
        if needed:
            raise
        fleet.say(f"without the fleet's hooks: {error}")
        found = asyncio.run(work(None))
    if owner and not plugin_dirs:
        raise click.UsageError("--as is about the plugins of --plugin-dir: add --plugin-dir")
    if plugin_dirs:
        found = with_plugins(found, plugin_dirs, owner)
        for problem in found.files[-1].file.problems:
            fleet.say(f"{problem}: this entry is left out")
    return found


def load(fleet: Context, file: Path | None) -> tuple[str, HookFile]:
    """The parsed hook file: the given one (`-` is stdin), else the project's, else the user's."""
    name, read, _ = load_with_tests(fleet, file)
    return name, read


def read_foreign(path: Path) -> HookFile | None:
    """A hook file or folder of another system, read as if it were imported; None for a file of Fleethook's own."""
    import json

    from bus.config.documents import loads
    from bus.errors import ConfigError
    from bus.hooks import NATIVE
    from bus.hooksets.detect import detect_dialect
    from bus.hooksets.hookfile import read_hook_document

    if str(path) == "-":
        return None
    try:
        dialect = detect_dialect(path)[1]
    except ConfigError:  # reading it as our own gives the same error
        return None
    if dialect in ("", NATIVE):
        return None
    return read_hook_document(loads(json.dumps({"import": [str(path.absolute())]}), file=str(path)), "fleet")


def load_with_tests(fleet: Context, file: Path | None) -> tuple[str, HookFile, list[HookTest]]:
    """As `load`, with the file's tests; errors in the tests are in the file's `problems` too."""
    from dataclasses import replace

    from bus.config.documents import loads
    from bus.errors import NotFound
    from bus.hooksets.files_in_force import empty_file, is_blank
    from bus.hooksets.hook_tests import load_hook_tests, read_hook_tests
    from bus.hooksets.hookfile import load_hook_file, read_hook_document
    from bus.system.directories import config_file

    if file is not None and str(file) == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
        if is_blank(text):
            raise empty_file("-")
        document = loads(text, file="-")
        read = read_hook_document(document, "fleet")
        tests, wrong = read_hook_tests(document, read, Path.cwd())
        return "stdin", replace(read, problems=(*read.problems, *wrong)), tests
    found = file or found_file(fleet)
    if found is None:
        raise NotFound("there is no fleethook.yaml here, in the project or in the user's configuration; name a file")
    read = load_hook_file(found, "fleet")
    user = config_file(fleet.directories().config)
    is_users = user is not None and found.exists() and found.samefile(user)
    tests, wrong = load_hook_tests(found, read, Path.home() if is_users else None)
    return str(found), replace(read, problems=(*read.problems, *wrong)), tests


def found_file(fleet: Context) -> Path | None:
    """The default hook file: this folder's, the project's, else the user's."""
    from bus.hooksets.trust import project_file
    from bus.system.directories import config_file

    # `./fleethook.yaml` counts in every folder: project_file() finds no project in a home directory.
    return config_file(Path.cwd()) or project_file(Path.cwd()) or config_file(fleet.directories().config)


def sound(fleet: Context, file: Path | None) -> tuple[str, HookFile]:
    """A hook file without problems; raises ConfigError with all of its problems."""
    name, read, _ = sound_with_tests(fleet, file)
    return name, read


def sound_with_tests(fleet: Context, file: Path | None) -> tuple[str, HookFile, list[HookTest]]:
    """As `sound`, with the file's tests."""
    from bus.errors import ConfigError

    name, read, tests = load_with_tests(fleet, file)
    if read.problems:
        for problem in read.problems[1:]:
            fleet.say(fleet.style(str(problem), "red", err=True))
        raise (
            read.problems[0]
            if len(read.problems) == 1
            else ConfigError(f"{read.problems[0]} (and {len(read.problems) - 1} more); nothing of the file is used")
        )
    for warning in read.warnings:
        fleet.say(fleet.style(f"{warning} (warning)", "yellow", err=True))
    return name, read, tests


def holds(read: HookFile) -> str:
    """The numbers of what a hook file has: `1 hook, 2 endpoints, 1 guard pack`."""
    counts = {"hook": len(read.hooks), "endpoint": len(read.endpoints), "guard pack": len(read.guards)}
    parts = [f"{count} {noun}{'s' * (count != 1)}" for noun, count in counts.items() if count or noun == "hook"]
    return ", ".join(parts)


def redacted(changes: str) -> str:
    """A diff without secrets; a reference such as `env:NAME` is shown."""
    from workers.admin.published_changes import redacted_diff

    return redacted_diff(changes)


def shown_diff(fleet: Context, changes: str) -> str:
    """A diff in colours, without secrets."""
    return "\n".join(_coloured(fleet, redacted(changes).splitlines()))


def _coloured(fleet: Context, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield fleet.style(line, "green" if line.startswith("+") else "red" if line.startswith("-") else "bright_black")
