"""`guards enable` and `guards disable`: in your own hook file, in a project's, or in the published set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.edits import publish_change, user_file, write_change

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooksets.hookfile import HookFile
    from workers.admin.guard_switches import Chosen, Switch

_C = TypeVar("_C", bound=Callable[..., Any])
_Layer = Literal["user", "fleet", "project"]


def _options(function: _C) -> _C:
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--layer",
            type=click.Choice(["user", "fleet", "project"]),
            default="user",
            show_default=True,
            help="Your own file, the published set, or the file of the project here.",
        ),
        click.argument("name", metavar="PACK|RULE"),
    ):
        function = option(function)
    return function


@click.command()
@_options
@click.option(
    "--decision",
    type=click.Choice(["deny", "ask", "own"]),
    help="What it decides in this layer from now on; `own` is the decision of each rule.",
)
@common_options
@pass_fleet
def enable(fleet: Context, name: str, decision: Chosen | None, layer: _Layer, yes: bool, dry_run: bool) -> None:
    """Enable a guard pack, or one rule of an enabled pack; with --decision, also set what it decides.

    A decision can weaken a guard, so a person has to confirm one on a terminal if an agent runs this.
    """
    from workers.admin.guard_switches import find_switch

    switch = find_switch(name)
    if decision is not None and not dry_run:
        touched = () if layer == "fleet" else (_file(fleet, layer),)
        fleet.require_person("guards enable --decision", *touched, published=layer == "fleet")
    _switch(fleet, switch, True, layer, yes, dry_run, decision)


@click.command()
@_options
@common_options
@pass_fleet
def disable(fleet: Context, name: str, layer: _Layer, yes: bool, dry_run: bool) -> None:
    """Disable a guard pack, or one rule of it; if an agent runs this, a person has to confirm it on a terminal.

    This disables it in one layer: a pack that a higher layer enables stays enabled.
    """
    from workers.admin.guard_switches import find_switch

    switch = find_switch(name)
    if not dry_run:
        touched = () if layer == "fleet" else (_file(fleet, layer),)
        fleet.require_person("guards disable", *touched, published=layer == "fleet")
    _switch(fleet, switch, False, layer, yes, dry_run)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@common_options
@pass_fleet
def publish(fleet: Context, yes: bool, dry_run: bool) -> None:
    """Enable the default packs in the published set, for every machine; no lower layer can disable them.

    Guards that the published set already mentions stay as they are.
    """
    from functools import reduce

    from bus.hooksets.guards import DEFAULT_PACKS
    from workers.admin.guard_switches import Switch, is_on, set_switched

    def change(layer_file: HookFile) -> HookFile:
        missing = [Switch(pack) for pack in DEFAULT_PACKS if not is_on(layer_file.guards, Switch(pack))]
        return reduce(lambda file, switch: set_switched(file, switch, True), missing, layer_file)

    result = publish_change(fleet, change, "guards publish", yes, dry_run)
    if fleet.json:
        fleet.data({"packs": list(DEFAULT_PACKS), **result})
    elif result["written"]:
        fleet.data(f"{', '.join(DEFAULT_PACKS)}: on for the fleet by version {result['version']}")


def _switch(
    fleet: Context,
    switch: Switch,
    on: bool,
    layer: _Layer,
    yes: bool,
    dry_run: bool,
    decision: Chosen | None = None,
) -> None:
    from workers.admin.guard_switches import file_switched, set_switched

    word = "enable" if on else "disable"
    if layer == "fleet":
        message = f"guards {word} {switch.name}"
        result = publish_change(fleet, lambda file: set_switched(file, switch, on, decision), message, yes, dry_run)
    else:
        edited = file_switched(_file(fleet, layer), layer, switch, on, decision)
        result = write_change(fleet, edited, yes, dry_run)
    if fleet.json:
        chosen = {"decision": decision} if decision is not None else {}
        fleet.data({"id": switch.name, "on": on, **chosen, "layer": layer, **result})
    elif result["written"]:
        where = f"version {result['version']}" if "version" in result else result["file"]
        fleet.data(f"{switch.name} is {'on' if on else 'off'}: {where}, in force within a second where workers run")
    if result["written"] and layer == "project":
        fleet.say("a project's file that changed has to be trusted again: `fleethook hooks trust`")
    if not on:
        _print_other_layers(fleet, switch, layer)


def _print_other_layers(fleet: Context, switch: Switch, layer: _Layer) -> None:
    from workers.admin.guard_switches import is_on
    from workers.cli.hooks.sets import in_force

    others = [
        layer_file.layer
        for layer_file in in_force(fleet, needed=False).files
        if layer_file.layer != layer and is_on(layer_file.file.guards, switch)
    ]
    if others:
        fleet.say(f"{switch.name} stays on in another layer: {', '.join(others)} (--layer)")


def _file(fleet: Context, layer: _Layer) -> Path:
    from bus.hooksets.trust import project_file

    if layer == "user":
        return user_file(fleet)
    return project_file(Path.cwd(), user=user_file(fleet)) or Path.cwd() / "fleethook.yaml"
