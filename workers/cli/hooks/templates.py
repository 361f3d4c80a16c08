"""`fleethook hooks templates`: lists ready hooks, shows them, and adds them to the user's file (F-14)."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.hooks.sets import shown_diff
from workers.cli.screens.columns import Column

COMMANDS: Final = {
    "list": Lazy("workers.cli.hooks.templates:list_templates", "List the templates."),
    "show": Lazy("workers.cli.hooks.templates:show", "Show one as it would be written."),
    "install": Lazy("workers.cli.hooks.templates:install", "Put one into your fleethook.yaml."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def templates() -> None:
    """Ready hooks: list them, show them, put them into your file and change them there."""


@click.command("list")
@common_options
@pass_fleet
def list_templates(fleet: Context) -> None:
    """List the templates, and which of them your file has."""
    from bus.hooksets import templates as ready

    found = [ready.template(name) for name in ready.names()]
    have = _ids(_file(fleet, None))
    if fleet.json:
        fleet.data(
            [
                {"name": ready.name, "description": ready.description, "installed": ready.hook["id"] in have}
                for ready in found
            ]
        )
    else:
        rows = [(ready.name, "installed" if ready.hook["id"] in have else "-", ready.description) for ready in found]
        fleet.table((Column("TEMPLATE", 8), Column("IN YOUR FILE", 9), Column("WHAT IT DOES", 16)), rows)


@click.command()
@click.argument("name")
@common_options
@pass_fleet
def show(fleet: Context, name: str) -> None:
    """Show a template as it would be written into a fleethook.yaml."""
    from bus.hooksets.templates import template

    ready = template(name)
    if fleet.json:
        fleet.data({"name": ready.name, "description": ready.description, "hook": ready.hook, "text": ready.text})
    else:
        fleet.data(ready.text.rstrip("\n"))


@click.command()
@click.argument("name")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The fleethook.yaml that gets the hook. Default: the user's.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def install(fleet: Context, name: str, target: Path | None, yes: bool) -> None:
    """Put a template into your fleethook.yaml, where it is a hook like any other: change it, or take it out, there."""
    from bus.config.documents import read_file
    from bus.config.edit_add import replace_file, with_entry
    from bus.hooksets.templates import template

    ready = template(name)
    into = _file(fleet, target)
    text = read_file(into) if into.exists() else ""
    changes, written = "", False
    if ready.hook["id"] in _ids(into):
        fleet.say(f"{into} has a hook {ready.hook['id']!r} already: nothing to change")
    else:
        after = with_entry(text, str(into), "hooks", ready.hook, ready.block)
        lines = difflib.unified_diff(text.splitlines(keepends=True), after.splitlines(keepends=True), str(into), name)
        changes = "".join(lines)
        if not fleet.json:
            fleet.data(shown_diff(fleet, changes))
        written = fleet.confirm(f"Put {name} into {into}?", yes)
        if written:
            replace_file(into, after)
        else:
            fleet.say("nothing was changed")
    if fleet.json:
        fleet.data({"name": name, "file": str(into), "diff": changes, "written": written})
    elif written:
        fleet.data(f"{name} is in {into}, and in force within a second where workers run")


def _file(fleet: Context, target: Path | None) -> Path:
    from bus.system.directories import config_file

    config = fleet.directories().config
    return target.absolute() if target is not None else config_file(config) or config / "fleethook.yaml"


def _ids(path: Path) -> frozenset[str]:
    """The ids of the hooks in the file itself, without its imports."""
    from bus.config.documents import load

    value = load(path).value if path.exists() else None
    hooks = value.get("hooks") if isinstance(value, dict) else None
    entries = hooks if isinstance(hooks, list) else []
    return frozenset(entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str))
