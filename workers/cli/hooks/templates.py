"""`fleethook hooks templates`: lists ready hooks, endpoints and plugins, shows them, and adds them to a file (F-14)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.edits import user_file, write_change
from workers.cli.screens.columns import Column
from workers.cli.screens.rows import no_trunc_option

COMMANDS: Final = {
    "list": Lazy("workers.cli.hooks.templates:list_templates", "List the templates."),
    "show": Lazy("workers.cli.hooks.templates:show", "Show one as it would be written."),
    "install": Lazy("workers.cli.hooks.templates:install", "Put one into your fleethook.yaml."),
}


_COLUMNS: Final = (
    Column("TEMPLATE", 8),
    Column("ADDS TO", 9, rank=2),
    Column("IN YOUR FILE", 12, rank=3),
    Column("WHAT IT DOES", 16, rank=1),
)


@click.group(cls=LazyGroup, lazy=COMMANDS)
def templates() -> None:
    """Ready hooks, endpoints and plugins: list them, show them, put them into your file and change them there."""


@click.command("list")
@no_trunc_option
@common_options
@pass_fleet
def list_templates(fleet: Context, whole: bool) -> None:
    """List the templates, and which of them your file has."""
    from bus.hooksets import templates as ready
    from workers.admin.templates import is_installed

    own = user_file(fleet)
    found = [(ready.template(name), is_installed(ready.template(name), own)) for name in ready.names()]
    if fleet.json:
        fleet.data(
            [
                {"name": one.name, "section": one.section, "description": one.description, "installed": has}
                for one, has in found
            ]
        )
    else:
        rows = [(one.name, one.section, "installed" if has else "-", one.description) for one, has in found]
        fleet.table(_COLUMNS, rows, whole=whole)


@click.command()
@click.argument("name")
@common_options
@pass_fleet
def show(fleet: Context, name: str) -> None:
    """Show a template as it would be written into a fleethook.yaml."""
    from bus.hooksets.templates import template

    ready = template(name)
    if fleet.json:
        facts = {"name": ready.name, "section": ready.section, "description": ready.description}
        fleet.data({**facts, "entry": ready.entry, "file": ready.file, "text": ready.text})
    else:
        fleet.data(ready.text.rstrip("\n"))


@click.command()
@click.argument("name")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The fleethook.yaml that gets the entry. Default: the user's.",
)
@click.option("--url", default="", help="The URL of an endpoint's template. Default: it is asked for.")
@click.option(
    "--thin", is_flag=True, help="An endpoint gets ids and facts only: no reason, nothing of what agents did."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def install(fleet: Context, name: str, target: Path | None, url: str, thin: bool, yes: bool) -> None:
    """Put a template into your fleethook.yaml, with the files that it brings. There it is yours: change it, or take it out."""
    from bus.hooksets.templates import template
    from workers.admin.templates import copied_files, file_with_template, is_installed
    from workers.cli.hooks.sets import load_with_tests

    ready = template(name)
    if thin and "payload" not in ready.entry:
        raise click.UsageError(f"the template {ready.name!r} posts nothing, so it has no `--thin`")
    into = user_file(fleet, target)
    result: dict[str, object] = {"file": str(into), "diff": "", "written": False}
    if is_installed(ready, into):
        fleet.say(f"{into} has {ready.name!r} already: nothing to change")
    else:
        if "url" in ready.entry and not url:
            url = _ask_url(ready.name)
        with copied_files(ready, into) as copied:
            result = write_change(fleet, file_with_template(into, ready, url, thin=thin), yes, False)
            if not result["written"]:
                copied.clear()
            files = [str(path) for path in copied]
        if url and result["written"]:  # a receiver on this machine is reached only where the file allows it
            for warning in load_with_tests(fleet, into)[1].warnings:
                if "is not reached" in warning and url in warning:
                    fleet.warn(warning)
    if fleet.json:
        fleet.data({"name": name, **result})
    elif result["written"]:
        for path in files:
            fleet.data(f"wrote {path}")
        fleet.data(f"{name} is in {into}, and in force within a second where workers run")


def _ask_url(name: str) -> str:
    import sys

    if not sys.stdin.isatty():
        raise click.UsageError(f"the template {name!r} needs the URL to post to: `--url URL`")
    return str(click.prompt("URL to post to", hide_input=True, err=True))
