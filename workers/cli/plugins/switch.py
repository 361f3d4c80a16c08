"""`fleethook plugins enable` and `disable`: in your own hook file, or in a project's (G-13)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from workers.cli.common import Context, PartlyDone, common_options, pass_fleet
from workers.cli.edits import user_file, write_change

if TYPE_CHECKING:
    from workers.plugins.figures import PluginState

_Layer = Literal["user", "project"]
_LAYER = click.option(
    "--layer",
    type=click.Choice(["user", "project"]),
    help="Your own file, or the file of the project here. Default: your own, unless only the project has this plugin.",
)
_YES = click.option("--yes", is_flag=True, help="Do not ask.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


@click.command()
@click.argument("name")
@click.option("--path", type=click.Path(path_type=Path), help="Its file; without it, the plugin is found by its name.")
@_LAYER
@_YES
@_DRY_RUN
@common_options
@pass_fleet
def enable(fleet: Context, name: str, path: Path | None, layer: _Layer | None, yes: bool, dry_run: bool) -> None:
    """Enable a plugin by its name. A Python plugin runs with the rights of the worker's user.

    If an agent runs this, a person has to confirm it on a terminal. Exit code 5 if no worker can load the plugin.
    """
    fleet.warn(
        f"the plugin {name!r} will run with the rights of the worker's user: it can read your files and use the network"
    )
    _switch(fleet, name, layer, True, path, yes, dry_run)


@click.command()
@click.argument("name")
@_LAYER
@_YES
@_DRY_RUN
@common_options
@pass_fleet
def disable(fleet: Context, name: str, layer: _Layer | None, yes: bool, dry_run: bool) -> None:
    """Disable a plugin; workers unload it within a second.

    If an agent runs this, a person has to confirm it on a terminal.
    """
    _switch(fleet, name, layer, False, None, yes, dry_run)


def _switch(
    fleet: Context, name: str, layer: _Layer | None, on: bool, path: Path | None, yes: bool, dry_run: bool
) -> None:
    from bus.hooksets.trust import project_file
    from workers.admin.plugins.imports import file_with_switch, is_imported
    from workers.cli.plugins.file_switch import file_switched

    own = user_file(fleet)
    project = project_file(Path.cwd(), user=own) or Path.cwd() / "fleethook.yaml"
    if layer is None:
        layer = "user" if path is not None else _layer_with(name, own, project, on)
    file = own if layer == "user" else project
    if not dry_run and on:
        fleet.require_person("plugins enable", file)
    elif not dry_run:
        fleet.require_person("plugins disable", file)
    claude = path is None and is_imported(file, name)
    edited = (
        file_with_switch(file, layer, name, on)
        if claude
        else file_switched(file, layer, name, on, str(path.absolute()) if path else "")
    )
    result: dict[str, Any] = write_change(fleet, edited, yes, dry_run)
    if fleet.json:
        fleet.data({"name": name, "on": on, "layer": layer, **result})
    elif result["written"]:
        fleet.data(f"{name} is {'on' if on else 'off'}: {result['file']}, in force within a second where workers run")
        if on and layer == "user" and not claude:
            _report_start(fleet, name)
    if result["written"] and layer == "project":
        fleet.say("a project's file that changed has to be trusted again: `fleethook hooks trust`")


def _layer_with(name: str, own: Path, project: Path, on: bool) -> _Layer:
    """The layer whose file has the plugin, or is to have it: the project's if only the project's folders offer it."""
    from bus.hooksets.plugins.sources import find_source, plugin_folders
    from workers.admin.plugins.imports import is_imported, python_plugins

    layers: tuple[tuple[_Layer, Path], ...] = (("user", own), ("project", project))
    for layer, file in layers:
        if name in python_plugins(file) or is_imported(file, name):
            return layer
    if not on or find_source(name, plugin_folders("user", str(own))) is not None:
        return "user"
    return "user" if find_source(name, plugin_folders("project", str(project))) is None else "project"


def _report_start(fleet: Context, name: str) -> None:
    """Wait for the workers to load the plugin, and say what came of it; nothing where no server runs.

    Raises PartlyDone if it runs in none of them.
    """
    from contextlib import suppress

    from bus.errors import FleethookError
    from workers.plugins.records import until_started

    states: list[PluginState] | None = None
    with suppress(FleethookError):
        states = fleet.run(lambda connections: until_started(connections, fleet.keys(), name))
    if states is None:
        return
    problems = dict.fromkeys(state.problem for state in states if state.problem)
    running = sum(state.state == "running" for state in states)
    if problems and not running:
        raise PartlyDone(f"{name} is on, and no worker can load it: {'; '.join(problems)}")
    if running:
        fleet.data(f"{name} runs in {running} worker{'s' if running > 1 else ''}")
    else:
        fleet.say(f"no worker has loaded {name} yet; `fleethook plugins list` shows it")
    for problem in problems:
        fleet.warn(f"{name}: {problem}")
