"""`fleethook hooks import`: hook files of other systems, shown as they were understood and read in place from then on."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, Findings, PartlyDone, common_options, pass_fleet
from workers.cli.hooklist import import_row, record
from workers.cli.hooksets import shown_diff

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.config.contents import Imported
    from bus.config.hookfile import HookFile

_DIALECTS: Final = ("fleethook", "pigo", "forge", "gobby", "claude", "ion")


@click.command("import")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--dialect", type=click.Choice(_DIALECTS), help="Whose hooks these are; default: told by name and content."
)
@click.option(
    "--dry-run", is_flag=True, help="Show how they are understood and what would be written, and change nothing."
)
@click.option(
    "--to", "target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The fleethook.yaml that imports them; default: the project's for what lies in it, else the user's.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def import_hooks(
    fleet: Context, path: Path | None, dialect: str | None, dry_run: bool, target: Path | None, yes: bool
) -> None:
    """Read hooks of another system in place: pigo, Forge, Gobby, Claude Code or ion; without PATH, list what is here.

    The files stay where they are and what they are: a fleethook.yaml names them, and a change of them is in force within
    a second. Every hook is shown as it was understood, and every line that was not.
    Where entries are left out: exit code 1, or 5 once the rest is imported.
    """
    from bus.config.hookfile import load_foreign

    if path is None:
        _list_found(fleet)
        return
    place = Path(os.path.abspath(path))
    into = target.absolute() if target is not None else _target(fleet, place)
    read, said = load_foreign(place, "user", dialect)
    entry, changes, text, more = _edit(place, into, said, dialect)
    read = dataclasses.replace(read, warnings=tuple(dict.fromkeys((*read.warnings, *more))))
    written = False
    if not fleet.json:
        _show(fleet, read, said)
        if not changes:
            fleet.say(f"{into} imports {said.path} already: nothing to change")
        else:
            fleet.data(shown_diff(fleet, changes))
    if changes and not dry_run:
        if fleet.confirm(f"Import {said.path} in {into}?", yes):
            _write(into, text)
            written = True
        else:
            fleet.say("nothing was changed")
    if fleet.json:
        from workers.cli.common import error_report

        fleet.data({
            "path": said.path, "dialect": said.dialect, "guessed": said.guessed,
            "hooks": [record(hook) for hook in read.hooks], "endpoints": [record(one) for one in read.endpoints],
            "kept": read.sections, "problems": [error_report(one) for one in read.problems],
            "warnings": list(read.warnings), "file": str(into), "entry": entry, "diff": changes, "written": written,
        })  # fmt: skip
    elif written:
        fleet.data(f"{into} imports them from now on; `fleethook hooks list` shows what is in force")
        _say_untrusted(fleet, into)
    if read.problems:
        raise (PartlyDone if written else Findings)(f"{len(read.problems)} of its entries left out")


def _show(fleet: Context, read: HookFile, said: Imported) -> None:
    """Every hook as it was understood, then every line that was not."""
    how = "as its name and content say" if said.guessed else "as you say"
    fleet.say(f"{said.path}: {said.dialect}, {how}")
    rows = [import_row(hook) for hook in read.hooks]
    rows += [import_row(endpoint) for endpoint in read.endpoints]
    if rows:
        fleet.table(("ID", "ON", "KIND", "WAITS", "TIMEOUT", "ON FAILURE", "FROM"), rows)
    else:
        fleet.say("no hook of it would run")
    for sections in read.sections.values():
        fleet.say(f"kept and not run: {', '.join(sections)}")
    for problem in read.problems:
        fleet.data(fleet.style(f"{problem} (left out)", "red"))
    for text in read.warnings:
        fleet.data(fleet.style(f"{text} (warning)", "yellow"))


def _target(fleet: Context, place: Path) -> Path:
    """The project's file for what lies in the project around us, else the user's."""
    from bus.config.trust import project_file
    from bus.directories import config_file

    config = fleet.directories().config
    project = project_file(Path.cwd(), user=config_file(config))
    if project is not None and place.is_relative_to(project.parent):
        return project
    return config_file(config) or config / "fleethook.yaml"


def _edit(place: Path, into: Path, said: Imported, dialect: str | None) -> tuple[Any, str, str, list[str]]:
    """The entry, the diff (empty where it stands there already), the new text of the file, and what it will warn of."""
    import difflib

    from bus.config.documents import read_file
    from bus.config.editing import with_entry
    from bus.config.hookfile import parse_hook_file

    written = _written(place, into.parent)
    entry: Any = written if dialect is None else {"path": written, "dialect": dialect}
    text = read_file(into) if into.exists() else ""
    known = parse_hook_file(text, "user", file=str(into)).imports if text.strip() else ()
    if any(os.path.realpath(one.path) in {os.path.realpath(said.path), os.path.realpath(place)} for one in known):
        return entry, "", text, []
    after = with_entry(text, str(into), "import", entry)
    checked = parse_hook_file(after, "user", file=str(into))
    broken = [one for one in checked.problems if written in str(one) and one.file == str(into)]
    if broken:
        raise broken[0]
    names = (str(into), "with the import")
    lines = difflib.unified_diff(text.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    return entry, "".join(lines), after, [text for text in checked.warnings if text.startswith(f"{said.path}:")]


def _written(place: Path, folder: Path) -> str:
    """How a file names another: from its own folder downward, else from home, else in full."""
    if place.is_relative_to(folder):
        return str(place.relative_to(folder))
    home = Path.home()
    return f"~/{place.relative_to(home)}" if place.is_relative_to(home) else str(place)


def _write(into: Path, text: str) -> None:
    from bus.config.editing import replace_file

    replace_file(into, text)


def _say_untrusted(fleet: Context, into: Path) -> None:
    from bus.config.trust import is_trusted, project_file
    from bus.directories import config_file

    if project_file(into.parent, user=config_file(fleet.directories().config)) == into and not is_trusted(
        into, fleet.directories().trust_file
    ):
        fleet.say("it is a project's file and not trusted as it is now: `fleethook hooks trust` shows and trusts it")


def _list_found(fleet: Context) -> None:
    """What lies in the usual places of the systems whose hooks we read."""
    from workers.finding import found_here

    found = found_here(Path.cwd(), _imports(fleet))
    if fleet.json:
        fleet.data([{"path": str(one.path), "dialect": one.dialect, "imported": one.imported} for one in found])
    elif found:
        rows: Sequence[Sequence[object]] = [(one.path, one.dialect, one.imported or "-") for one in found]
        fleet.table(("PATH", "DIALECT", "IMPORTED BY"), rows)
        fleet.say("`fleethook hooks import PATH --dry-run` shows the hooks of one")
    else:
        fleet.say("there are no hook files of pigo, Forge, Gobby, Claude Code or ion in their usual places")


def _imports(fleet: Context) -> list[Imported]:
    """What the user's file and the trusted project's import."""
    from bus.config.hookfile import load_hook_file
    from bus.config.trust import is_trusted, project_file
    from bus.directories import config_file
    from bus.errors import ConfigError

    places = fleet.directories()
    user = config_file(places.config)
    project = project_file(Path.cwd(), user=user)
    files = [user]
    files += [project] if project is not None and is_trusted(project, places.trust_file) else []
    found: list[Imported] = []
    for file in files:
        try:
            found += load_hook_file(file, "user").imports if file is not None else ()
        except ConfigError as error:
            fleet.say(str(error))
    return found
