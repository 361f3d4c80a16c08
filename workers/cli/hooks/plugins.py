"""`fleethook plugins`: the plugins of the hook files in force, as pigo lists them (P-14, I-13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.hooks.sets import PLUGIN_DIR, PLUGIN_OWNER, in_force

COMMANDS: Final = {"list": Lazy("workers.cli.hooks.plugins:list_plugins", "List the plugins, and the hooks of each.")}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def plugins() -> None:
    """Plugins of pigo, Claude Code and ion that are imported here."""


@click.command("list")
@PLUGIN_DIR
@PLUGIN_OWNER
@common_options
@pass_fleet
def list_plugins(fleet: Context, plugin_dirs: Sequence[Path], owner: str | None) -> None:
    """List the plugins in force here: name, whether it is enabled, how many hooks, which commands and skills it has."""
    import msgspec

    from workers.admin.plugins import plugins as listed
    from workers.cli.formatting import plain
    from workers.cli.hooks.listing import short_origin

    found = listed(in_force(fleet, needed=False, plugin_dirs=plugin_dirs, owner=owner).files)
    if fleet.json:
        fleet.data([msgspec.to_builtins(plugin) for plugin in found])
        return
    rows = [
        (
            plain(plugin.name),
            "yes" if plugin.enabled else "no",
            plugin.hooks,
            plugin.dialect,
            plugin.layer,
            plugin.version or "-",
            plain(", ".join(plugin.commands)) or "-",
            plain(", ".join(plugin.skills)) or "-",
            short_origin(plugin.origin) or "-",
        )
        for plugin in found
    ]
    if rows:
        headers = ("PLUGIN", "ENABLED", "HOOKS", "DIALECT", "LAYER", "VERSION", "COMMANDS", "SKILLS", "FROM")
        fleet.table(headers, rows)
    else:
        fleet.say("no plugins are imported here; `fleethook hooks import` lists the plugins in the usual places")
    for plugin in found:
        if plugin.problem:
            fleet.say(f"{plain(plugin.name)}: {plugin.problem}")
