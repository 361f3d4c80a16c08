"""`fleethook plugins add`, `remove` and `validate`: plugins in the format of Claude Code and ion (I-05, I-09)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.edits import user_file, write_change
from workers.cli.hooks.listing import import_row
from workers.cli.plugins.imported_plugins import server_line

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.errors import ConfigError
    from bus.hookfiles.claude.marketplaces import Marketplace
    from bus.hookfiles.claude.plugin_check import CheckedPlugin

_Layer = Literal["user", "project"]
_AS = click.option(
    "--as", "dialect", type=click.Choice(("claude", "ion")), help="Whose plugin it is. Default: its content shows it."
)
_LAYER = click.option(
    "--layer",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Your own file, or the file of the project here.",
)
_YES = click.option("--yes", is_flag=True, help="Do not ask.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


@click.command()
@click.argument("path")
@click.option("--plugin", "name", help="The plugin of a marketplace. Without it, its plugins are listed.")
@click.option("--env-pass", "env_pass", multiple=True, metavar="NAME", help="A variable that its MCP servers get.")
@_AS
@_LAYER
@_YES
@_DRY_RUN
@common_options
@pass_fleet
def add(
    fleet: Context,
    path: str,
    name: str | None,
    env_pass: Sequence[str],
    dialect: str | None,
    layer: _Layer,
    yes: bool,
    dry_run: bool,
) -> None:
    """Add a plugin of Claude Code or ion: its hooks run, and its MCP servers are offered by `fleethook mcp`.

    PATH is the plugin's folder, or a marketplace's folder. The plugin stays where it is. What it runs is shown first, and its
    present content is accepted: after a change, add it again. If an agent runs this, a person has to confirm it on a terminal.

    \b
    fleethook plugins add ./my-plugin
    fleethook plugins add ./marketplace --plugin formatter
    fleethook plugins add formatter@my-marketplace
    """
    from workers.admin.plugins.imports import checked_plugin, file_with_plugin

    root = _chosen(fleet, path, name)
    if root is None:
        return
    plugin, system = checked_plugin(root, dialect or "")
    if not fleet.json:
        _show(fleet, plugin, system)
    if not fleet.json:
        if env_pass:
            fleet.data(f"  its MCP servers get {', '.join(env_pass)} of the environment")
        _report(fleet, plugin.problems, plugin.warnings)
    if plugin.problems:
        raise CheckFailed(f"{plugin.contents.name} has errors, and was not added")
    file = _file(fleet, layer)
    if not dry_run:
        fleet.require_person("plugins add", file)
    edited = file_with_plugin(file, layer, plugin, system, env_pass)
    result: dict[str, Any] = write_change(fleet, edited, yes, dry_run)
    if result["written"]:
        _accept(fleet, file, layer)
    if fleet.json:
        fleet.data({**_record(plugin, system), "env_pass": list(env_pass), "layer": layer, **result})
    elif result["written"]:
        when = "in force within a second where workers run"
        when = when if layer == "user" else "in force once you trust the project's file again: `fleethook hooks trust`"
        fleet.data(f"{plugin.contents.name} is added to {result['file']}, {when}")


@click.command()
@click.argument("name")
@_LAYER
@_YES
@_DRY_RUN
@common_options
@pass_fleet
def remove(fleet: Context, name: str, layer: _Layer, yes: bool, dry_run: bool) -> None:
    """Remove a plugin from your hook file; its folder stays as it is.

    If an agent runs this, a person has to confirm it on a terminal.
    """
    from workers.admin.plugins.imports import file_without_plugin

    file = _file(fleet, layer)
    if not dry_run:
        fleet.require_person("plugins remove", file)
    result: dict[str, Any] = write_change(fleet, file_without_plugin(file, layer, name), yes, dry_run)
    if result["written"]:
        _accept(fleet, file, layer)
    if fleet.json:
        fleet.data({"name": name, "layer": layer, **result})
    elif result["written"]:
        fleet.data(f"{name} is removed from {result['file']}; workers stop using it within a second")


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@_AS
@common_options
@pass_fleet
def validate(fleet: Context, path: Path, strict: bool, dialect: str | None) -> None:
    """Check a plugin of Claude Code or ion, or a marketplace with all its plugins; nothing is run.

    Exit code 1 if something is wrong; each message says where, and how to correct it.
    """
    from bus.errors import ConfigError
    from bus.hookfiles.claude.marketplaces import is_marketplace
    from workers.admin.plugins.imports import checked_marketplace, checked_plugin

    try:
        if is_marketplace(path):
            market, plugins = checked_marketplace(path, dialect or "")
        else:
            market, plugins = None, [checked_plugin(path, dialect or "")]
    except ConfigError as error:  # there is nothing to check further
        raise CheckFailed(str(error)) from error
    problems = [
        *(market.problems if market else ()),
        *(problem for plugin, _ in plugins for problem in plugin.problems),
    ]
    warnings = [*(market.warnings if market else ()), *(text for plugin, _ in plugins for text in plugin.warnings)]
    name = market.name if market else plugins[0][0].contents.name
    if fleet.json:
        records = [_record(plugin, system) for plugin, system in plugins]
        more = {"marketplace": name, "offers": [offer.name for offer in market.offers]} if market else {}
        fleet.data({"name": name, "passes": not problems, **_findings(problems, warnings), **more, "plugins": records})
    else:
        _report(fleet, problems, warnings)
    if problems or (strict and warnings):
        raise CheckFailed(f"{name} does not pass: {_count(problems, 'error')}, {_count(warnings, 'warning')}")
    if not fleet.json:
        fleet.data(f"{name} passes" + (f" with {_count(warnings, 'warning')}" if warnings else ""))


def _count(items: Sequence[object], what: str) -> str:
    return f"{len(items)} {what}{'s' * (len(items) != 1)}"


def _chosen(fleet: Context, path: str, name: str | None) -> Path | None:
    """The plugin's folder; None if the plugins of a marketplace were listed in its place."""
    from bus.errors import ConfigError
    from bus.hookfiles.claude.marketplaces import is_marketplace, known_marketplaces, read_marketplace
    from bus.hookfiles.claude.plugins import MANIFEST
    from workers.admin.plugins.imports import offered_root

    place = Path(path).expanduser().absolute()
    if name is None and "@" in path and not place.exists():
        name, _, shop = path.partition("@")
        known = known_marketplaces(Path.home())
        place = known.get(shop) or Path(shop).expanduser().absolute()
        if not place.is_dir():
            hint = f"name its folder, or one of: {', '.join(known)}" if known else "name its folder"
            raise ConfigError(f"Claude Code knows no marketplace {shop!r} on this machine", file=path, hint=hint)
    if not place.is_dir():
        raise ConfigError("there is no such folder", file=path, hint="name the folder that has .claude-plugin in it")
    if name is None and ((place / MANIFEST).is_file() or not is_marketplace(place)):
        return place
    if not is_marketplace(place):
        hint = "leave out --plugin to add the folder as a plugin"
        raise ConfigError("this is no marketplace: there is no .claude-plugin/marketplace.json", file=path, hint=hint)
    market = read_marketplace(place)
    if name is None:
        _list_offers(fleet, market)
        return None
    return offered_root(market, name)


def _list_offers(fleet: Context, market: Marketplace) -> None:
    from workers.cli.formatting import plain, short

    if fleet.json:
        import msgspec

        fleet.data({"marketplace": market.name, "plugins": [msgspec.to_builtins(offer) for offer in market.offers]})
        return
    rows = [
        (plain(offer.name), offer.version or "-", plain(offer.source), plain(short(offer.description, 60)) or "-")
        for offer in market.offers
    ]
    fleet.table(("PLUGIN", "VERSION", "SOURCE", "DESCRIPTION"), rows)
    fleet.say(f"`fleethook plugins add {shlex.quote(market.root)} --plugin NAME` adds one")


def _file(fleet: Context, layer: _Layer) -> Path:
    from bus.hooksets.trust import project_file

    own = user_file(fleet)
    return own if layer == "user" else project_file(Path.cwd(), user=own) or Path.cwd() / "fleethook.yaml"


def _accept(fleet: Context, file: Path, layer: _Layer) -> None:
    """Keep a copy of the user's file with the accepted content, which stays in force if a file is damaged later."""
    from bus.hooksets.files_in_force import file_in_force

    if layer == "user":
        file_in_force(file, "user", fleet.directories().last_good)


def _show(fleet: Context, plugin: CheckedPlugin, dialect: str) -> None:
    """Print what the plugin runs: each hook with its command, and each MCP server."""
    from workers.cli.formatting import plain
    from workers.cli.hooks.import_ import UNDERSTOOD_COLUMNS

    contents = plugin.contents
    fleet.say(f"{plain(contents.name)} {contents.version}".rstrip() + f": a plugin of {dialect}, in {contents.root}")
    if plugin.file.hooks:
        fleet.table(UNDERSTOOD_COLUMNS, [import_row(hook) for hook in plugin.file.hooks])
        for hook in plugin.file.hooks:
            what = hook.target
            fleet.data(f"  {plain(hook.id)}: {plain(shlex.join((what, *hook.args)) if hook.args else what)}")
    for server in contents.mcp_servers:
        fleet.data(f"  MCP server {plain(server.name)}: {plain(server_line(server))}")
    for kind in ("commands", "skills", "agents"):
        if items := getattr(contents, kind):
            fleet.data(f"  {kind}: {plain(', '.join(item.name for item in items))}")


def _report(fleet: Context, problems: Iterable[ConfigError], warnings: Iterable[str]) -> None:
    for problem in problems:
        fleet.data(fleet.style(str(problem), "red"))
    for text in warnings:
        fleet.data(fleet.style(f"{text} (warning)", "yellow"))


def _findings(problems: Iterable[ConfigError], warnings: Iterable[str]) -> dict[str, Any]:
    from workers.cli.common import error_report

    return {"problems": [error_report(problem) for problem in problems], "warnings": list(warnings)}


def _record(plugin: CheckedPlugin, dialect: str) -> dict[str, Any]:
    from workers.records.hook_list import hook_record

    contents = plugin.contents
    return {
        "name": contents.name,
        "dialect": dialect,
        "version": contents.version,
        "root": contents.root,
        "hooks": [hook_record(hook) for hook in plugin.file.hooks],
        **{kind: [item.name for item in getattr(contents, kind)] for kind in ("commands", "skills", "agents")},
        "mcp_servers": [{"name": server.name, "runs": server_line(server)} for server in contents.mcp_servers],
        **_findings(plugin.problems, plugin.warnings),
    }
