"""`fleethook hooks import`: shows how hook files of other systems are understood, and imports them in place."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import CheckFailed, Context, PartlyDone, common_options, pass_fleet
from workers.cli.hooks.listing import import_row
from workers.cli.hooks.sets import shown_diff
from workers.cli.screens.columns import Column
from workers.records.hook_list import hook_record

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.config.hook_file_value import Imported
    from bus.hooksets.hookfile import HookFile

UNDERSTOOD_COLUMNS: Final = (
    Column("ID", 8, halved=True),
    Column("ON", 16, rank=1),
    Column("KIND", 8, rank=4),
    Column("WAITS", 10, rank=2),
    Column("TIMEOUT", 7, rank=5),
    Column("ON FAILURE", 10, rank=6),
    Column("FROM", 16, rank=3, keep_end=True),
)

_DIALECTS: Final = ("fleethook", "pigo", "forge", "gobby", "claude", "ion")


@click.command("import")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--dialect",
    "--as",
    "dialect",
    type=click.Choice(_DIALECTS),
    help="The system of the hooks. Default: it is recognised by the file's name and content.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show how the hooks are understood and what would be written; change nothing."
)
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="user|project|FILE",
    help="The fleethook.yaml that imports the hooks. Default: the project's for a path in a repository or in `.gobby`, "
    "else the user's.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def import_hooks(
    fleet: Context, path: Path | None, dialect: str | None, dry_run: bool, target: Path | None, yes: bool
) -> None:
    """Read hooks of another system in place: pigo, Forge, Gobby, Claude Code or ion; without PATH, list what is here.

    The files stay where they are: a fleethook.yaml refers to them, and their changes are in force within a second. Shows
    each hook as Fleethook understands it, and each line that it does not understand.
    Hooks in a repository are imported into that project's file, which needs your trust. With `--to user` they run in every
    folder, pinned by their content: after a change they are not in force until you import them again.
    Exit code 1 if entries are left out and nothing is imported, 5 if the other entries are imported.
    """
    from bus.hooksets.hookfile import load_foreign

    if path is None:
        _list_found(fleet)
        return
    place = Path(os.path.abspath(path))
    into = target_file(fleet, place, "" if target is None else str(target))
    place = _pinned_folder(place, into) or place
    read, imported = load_foreign(place, "user", dialect)
    pin = _pin(fleet, place, into, read)
    entry, changes, text, more = _edit(place, into, imported, dialect, pin)
    read = dataclasses.replace(read, warnings=tuple(dict.fromkeys((*read.warnings, *more))))
    written = False
    if not fleet.json:
        _show(fleet, read, imported)
        if not changes:
            fleet.say(f"{into} imports {imported.path} already: nothing to change")
        else:
            fleet.data(shown_diff(fleet, changes))
    if changes and not dry_run:
        if fleet.confirm(f"Import {imported.path} in {into}?", yes):
            _write(into, text)
            _accept(fleet, into)
            written = True
        else:
            fleet.say("nothing was changed")
    if fleet.json:
        from workers.cli.common import error_report

        fleet.data(
            {
                "path": imported.path,
                "dialect": imported.dialect,
                "guessed": imported.guessed,
                "hooks": [hook_record(hook) for hook in read.hooks],
                "endpoints": [hook_record(endpoint) for endpoint in read.endpoints],
                "kept": read.sections,
                "problems": [error_report(problem) for problem in read.problems],
                "warnings": list(read.warnings),
                "file": str(into),
                "entry": entry,
                "diff": changes,
                "written": written,
            }
        )
    elif written:
        _note_gobby(fleet, read, imported, into)
        when = "once you trust it" if _waits_for_trust(fleet, into) else "from now on"
        fleet.data(f"{into} imports them {when}; `fleethook hooks list` shows what is in force")
        _ask_for_trust(fleet, into, asked=not yes)
    if read.problems:
        raise (PartlyDone if written else CheckFailed)(f"{len(read.problems)} of its entries left out")


def _show(fleet: Context, read: HookFile, imported: Imported) -> None:
    """Print every hook as it was understood, then every line that was not understood."""
    how = "recognised by its name and content" if imported.guessed else "as you said"
    fleet.say(f"{imported.path}: {imported.dialect}, {how}")
    rows = [import_row(hook) for hook in read.hooks]
    rows += [import_row(endpoint) for endpoint in read.endpoints]
    if rows:
        fleet.table(UNDERSTOOD_COLUMNS, rows)
    else:
        fleet.say("no hook of it would run")
    for sections in read.sections.values():
        kept = [name for name in sections if name != "plugins" or not read.plugins]
        if kept:
            fleet.say(f"kept and not run: {', '.join(kept)}")
    for problem in read.problems:
        fleet.data(fleet.style(f"{problem} (left out)", "red"))
    for text in read.warnings:
        fleet.data(fleet.style(f"{text} (warning)", "yellow"))


def _note_gobby(fleet: Context, read: HookFile, imported: Imported, into: Path) -> None:
    """Say what an import of Gobby's files leaves to do."""
    from workers.admin.plugins.gobby_notes import gobby_notes
    from workers.cli.edits import user_file

    project = os.path.realpath(user_file(fleet)) != os.path.realpath(into)
    for note in gobby_notes(read, imported, into, project=project, replaced=fleet.settings().gobby == "on"):
        fleet.say(note)


def target_file(fleet: Context, place: Path, to: str) -> Path:
    """The file that gets the import: the project's for a path in a repository or a project, else the user's."""
    from bus.errors import ConfigError
    from bus.hooksets.pinned_imports import repository
    from bus.hooksets.trust import project_file
    from bus.system.directories import config_file
    from workers.admin.plugins.gobby_notes import gobby_folder

    config = fleet.directories().config
    user = config_file(config) or config / "fleethook.yaml"
    if to == "user":
        return user
    if to not in {"", "project"}:
        return Path(to).absolute()
    folder = place if place.is_dir() else place.parent
    root = repository(folder / "x")
    project = project_file(folder, user=user)
    gobby = gobby_folder(place)
    if project is None and root:
        project = Path(root) / "fleethook.yaml"
    elif project is None and gobby is not None and gobby.parent != Path.home():
        project = gobby.parent / "fleethook.yaml"  # a project of Gobby that is in no repository
    if project is None:
        if to:
            raise ConfigError("it is in no project", file=str(place), hint="say --to user, or --to FILE")
        return user
    if os.path.realpath(project) == os.path.realpath(place):
        raise ConfigError(
            "it is its project's own hook file", file=str(place), hint="`fleethook hooks trust` lets it run"
        )
    return project


def _pinned_folder(place: Path, into: Path) -> Path | None:
    """The imported and pinned folder that contains `place`, if there is one: it is trusted as a whole."""
    return next(
        (folder for folder in _pinned_places(into) if folder.is_dir() and place.is_relative_to(folder)),
        None,
    )


def _pinned_places(into: Path) -> list[Path]:
    """The files and folders whose imports are pinned in a file."""
    from bus.config.documents import loads, read_file
    from bus.hooksets.imports import import_path

    document = loads(read_file(into), file=str(into)).value if into.exists() else None
    entries = document.get("import") if isinstance(document, dict) else None
    pinned = [entry for entry in entries or () if isinstance(entry, dict) and entry.get("sha256")]
    return [import_path(str(entry.get("path", "")), str(into)) for entry in pinned]


def _pin(fleet: Context, place: Path, into: Path, read: HookFile) -> dict[str, str]:
    """The digests that pin a repository's file or folder in the user's own file; empty in other files."""
    from bus.hooksets.pinned_imports import content_digest, repository, scripts_digest
    from bus.hooksets.trust import project_file
    from bus.system.directories import config_file

    user = config_file(fleet.directories().config)
    is_project = project_file(into.parent, user=user) == into
    elsewhere = repository(place / "x") and repository(into) != repository(place)
    if is_project or not (elsewhere or place in _pinned_places(into)):
        return {}
    scripts = scripts_digest(read, place)
    return {
        "sha256": content_digest(place, [source.path for source in read.sources]),
        **({"scripts": scripts} if scripts else {}),
    }


def _accept(fleet: Context, into: Path) -> None:
    """Keep a copy of the user's file as it is in force now. Its pinned imports stay in force if the file is damaged later."""
    from bus.hooksets.files_in_force import file_in_force
    from bus.system.directories import config_file

    places = fleet.directories()
    user = config_file(places.config)
    if user is not None and os.path.realpath(user) == os.path.realpath(into):
        file_in_force(user, "user", places.last_good)


def _edit(
    place: Path, into: Path, imported: Imported, dialect: str | None, pin: dict[str, str]
) -> tuple[Any, str, str, list[str]]:
    """The import entry, the diff (empty if the file has the entry), the new text of the file, and the warnings about it."""
    import difflib

    from bus.config.documents import read_file
    from bus.config.edit_add import with_entry
    from bus.hooksets.hookfile import parse_hook_file

    written = _written(place, into.parent)
    named = {"path": written, **({} if dialect is None else {"dialect": dialect}), **pin}
    entry: Any = written if named == {"path": written} else named
    text = read_file(into) if into.exists() else ""
    known = parse_hook_file(text, "user", file=str(into)).imports if text.strip() else ()
    places = {os.path.realpath(imported.path), os.path.realpath(place)}
    if any(os.path.realpath(import_.path) in places for import_ in known):
        after = _with_pin(text, into, places, pin)
        if after == text:
            return entry, "", text, []
    else:
        after = with_entry(text, str(into), "import", entry)
    checked = parse_hook_file(after, "user", file=str(into))
    broken = [problem for problem in checked.problems if written in str(problem) and problem.file == str(into)]
    if broken:
        raise broken[0]
    names = (str(into), "with the import")
    lines = difflib.unified_diff(text.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    return entry, "".join(lines), after, [text for text in checked.warnings if text.startswith(f"{imported.path}:")]


def _with_pin(text: str, into: Path, places: set[str], pin: dict[str, str]) -> str:
    """The text with the digests of the new content in a pinned entry; the same text if the entry is not pinned."""
    from bus.config.documents import loads
    from bus.config.edit_change import with_values
    from bus.hooksets.imports import import_path

    entries = loads(text, file=str(into)).value.get("import") or []
    for number, raw in enumerate(entries):
        if (
            isinstance(raw, dict)
            and raw.get("sha256")
            and os.path.realpath(import_path(raw["path"], str(into))) in places
        ):
            others = {name: value for name, value in raw.items() if name not in {"sha256", "scripts", "servers"}}
            return with_values(text, str(into), ("import", number), {**others, **pin})
    return text


def _written(place: Path, folder: Path) -> str:
    """How a file names another file: from its own folder if that contains it, else from home, else as an absolute path."""
    if place.is_relative_to(folder):
        return str(place.relative_to(folder))
    home = Path.home()
    return f"~/{place.relative_to(home)}" if place.is_relative_to(home) else str(place)


def _write(into: Path, text: str) -> None:
    from bus.config.edit_add import replace_file

    replace_file(into, text)


def _waits_for_trust(fleet: Context, into: Path) -> bool:
    """Whether it is a project's file whose present content is not trusted."""
    from bus.hooksets.trust import is_trusted, project_file
    from bus.system.directories import config_file

    places = fleet.directories()
    project = project_file(into.parent, user=config_file(places.config))
    return project == into and not is_trusted(into, places.trust_file)


def _ask_for_trust(fleet: Context, into: Path, *, asked: bool) -> None:
    """Show the project's file that imports the hooks, and ask a person for trust if there is a terminal."""
    from workers.cli.hooks.trust import trust_file
    from workers.cli.output import interactive

    if not _waits_for_trust(fleet, into):
        return
    if asked and interactive():
        trust_file(fleet, into, yes=False)
    else:
        fleet.say("it is a project's file and not trusted as it is now: `fleethook hooks trust` shows and trusts it")


def _list_found(fleet: Context) -> None:
    """List the hook files of other systems that are in the usual places."""
    from workers.admin.import_candidates import found_here

    found = found_here(Path.cwd(), _imports(fleet))
    if fleet.json:
        fleet.data(
            [
                {"path": str(hook_file.path), "dialect": hook_file.dialect, "imported": hook_file.imported}
                for hook_file in found
            ]
        )
    elif found:
        rows: Sequence[Sequence[object]] = [
            (hook_file.path, hook_file.dialect, hook_file.imported or "-") for hook_file in found
        ]
        fleet.table(("PATH", "DIALECT", "IMPORTED BY"), rows)
        fleet.say("`fleethook hooks import PATH --dry-run` shows the hooks of one")
    else:
        fleet.say("there are no hook files of pigo, Forge, Gobby, Claude Code or ion in their usual places")


def _imports(fleet: Context) -> list[Imported]:
    """The imports of the user's file and of the trusted project's file."""
    from bus.errors import ConfigError
    from bus.hooksets.hookfile import load_hook_file
    from bus.hooksets.trust import is_trusted, project_file
    from bus.system.directories import config_file

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
