"""`fleethook plugins`: Python plugins with their state in the fleet, and plugins of imported files (P-14, I-13, G-17)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.hooks.sets import PLUGIN_DIR, PLUGIN_OWNER, in_force
from workers.cli.plugins.imported_plugins import IMPORTED_COLUMNS, imported_rows

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooksets.in_force import HookSet
    from workers.plugins.figures import PluginState
    from workers.plugins.listing import PluginSummary

COMMANDS: Final = {
    "list": Lazy("workers.cli.plugins:list_plugins", "List the plugins, their handlers, calls and times."),
    "show": Lazy("workers.cli.plugins:show", "Show a plugin: what it consists of, and how it runs."),
    "add": Lazy("workers.cli.plugins.add:add", "Add a plugin of Claude Code or ion, or one of a marketplace."),
    "remove": Lazy("workers.cli.plugins.add:remove", "Remove a plugin."),
    "validate": Lazy("workers.cli.plugins.add:validate", "Check a plugin of Claude Code or ion, or a marketplace."),
    "new": Lazy("workers.cli.plugins.new:new", "Write a Python plugin with its test."),
    "enable": Lazy("workers.cli.plugins.switch:enable", "Enable a Python plugin."),
    "disable": Lazy("workers.cli.plugins.switch:disable", "Disable a Python plugin."),
    "reload": Lazy("workers.cli.plugins.reload:reload", "Load Python plugins anew in every worker."),
}
_COLUMNS: Final = (
    "PLUGIN",
    "STATE",
    "VERSION",
    "HANDLERS",
    "CALLS",
    "FAILED",
    "P50",
    "P99",
    "WORKERS",
    "LAYER",
    "FROM",
)


@click.group(cls=LazyGroup, lazy=COMMANDS)
def plugins() -> None:
    """Python plugins, and the plugins of pigo, Claude Code and ion that are imported here."""


@click.command("list")
@PLUGIN_DIR
@PLUGIN_OWNER
@common_options
@pass_fleet
def list_plugins(fleet: Context, plugin_dirs: Sequence[Path], owner: str | None) -> None:
    """List the plugins: Python plugins with their calls and times in all workers, and those of imported hook files."""
    import msgspec

    from workers.admin.plugins import plugins as listed
    from workers.cli.formatting import plain
    from workers.cli.hooks.listing import short_origin

    hooks = in_force(fleet, needed=False, plugin_dirs=plugin_dirs, owner=owner)
    found, imported = known_plugins(fleet, hooks), listed(hooks.files)
    if fleet.json:
        fleet.data([msgspec.to_builtins(plugin) for plugin in (*found, *imported)])
        return
    rows = [
        (
            plain(plugin.name),
            plugin.state,
            plugin.version or "-",
            plugin.hooks,
            plugin.calls,
            plugin.failures,
            f"{plugin.p50_ms:.2f} ms" if plugin.calls else "-",
            f"{plugin.p99_ms:.2f} ms" if plugin.calls else "-",
            len(plugin.workers),
            plugin.layer or "-",
            short_origin(plugin.origin or plugin.path) or "-",
        )
        for plugin in found
    ]
    if rows:
        fleet.table(_COLUMNS, rows)
    if imported:
        fleet.table(IMPORTED_COLUMNS, imported_rows(imported))
    if not rows and not imported:
        fleet.say(
            "no Python plugin is enabled or found (`fleethook plugins new` writes one), and no plugins are imported here: "
            "`fleethook hooks import` lists those in the usual places"
        )
    problems = [(plugin.name, plugin.problem) for plugin in found]
    for name, problem in (*problems, *((plugin.name, plugin.problem) for plugin in imported)):
        if problem:
            fleet.say(f"{plain(name)}: {plain(problem)}")


@click.command()
@click.argument("name")
@common_options
@pass_fleet
def show(fleet: Context, name: str) -> None:
    """Show a plugin: a Python plugin's handlers and its state in each worker; of others, all that they consist of."""
    import msgspec

    from bus.config.validation import suggestion
    from bus.errors import NotFound
    from workers.admin.plugins import plugins as listed
    from workers.cli.formatting import plain
    from workers.cli.plugins.imported_plugins import show_imported

    hooks = in_force(fleet, needed=False)
    known, imported = known_plugins(fleet, hooks), listed(hooks.files)
    found = [plugin for plugin in known if plugin.name == name]
    others = [plugin for plugin in imported if plugin.name == name]
    if not found and others:
        show_imported(fleet, others, hooks)
        return
    if not found:
        names = [*(plugin.name for plugin in known), *(plugin.name for plugin in imported)]
        raise NotFound(
            f"no plugin is called {name!r}; {suggestion(name, names) or '`fleethook plugins list` lists them'}"
        )
    if fleet.json:
        fleet.data([msgspec.to_builtins(plugin) for plugin in found])
        return
    for plugin in found:
        fleet.data(f"{plain(plugin.name)} {plugin.version}  {plugin.state}  {plugin.layer}".rstrip())
        for key in ("description", "path", "origin", "problem"):
            if value := getattr(plugin, key):
                fleet.data(f"  {key:<12} {plain(value)}")
        for key in ("requires", "actions", "conditions"):
            if values := getattr(plugin, key):
                fleet.data(f"  {key:<12} {plain(', '.join(values))}")
        for method, event, priority in plugin.handlers:
            fleet.data(
                f"  {'decides' if priority < 50 else 'observes':<12} {plain(event)} at {priority}: {plain(method)}"
            )
        for state in plugin.workers:
            fleet.data(
                f"  {plain(state.worker)}: {state.state}, pid {state.pid or '-'}, {state.calls} calls, "
                f"{state.failures} failed, p50 {state.p50_ms:.2f} ms, p99 {state.p99_ms:.2f} ms, "
                f"{state.restarts} restarts, breaker {state.breaker}"
            )


def known_plugins(fleet: Context, hooks: HookSet) -> list[PluginSummary]:
    """Every Python plugin that is enabled, runs somewhere, or could be enabled here."""
    from bus.errors import Unreachable
    from bus.hooksets.plugins.sources import offered, plugin_folders
    from workers.plugins.listing import summaries
    from workers.plugins.records import list_plugins as read

    states: list[PluginState] = []
    with suppress(Unreachable):  # `in_force` has said so
        states = fleet.run(lambda connections: read(connections, fleet.keys()))
    project = plugin_folders("project", str(Path.cwd() / "fleethook.yaml"))
    return summaries(hooks.files, states, offered(project))
