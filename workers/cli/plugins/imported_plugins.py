"""The plugins of pigo, Claude Code and ion in `plugins list` and `plugins show`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hookfiles.claude.mcp_servers import McpServer
    from bus.hooksets.in_force import HookSet
    from workers.admin.plugins import ListedPlugin
    from workers.cli.common import Context

IMPORTED_COLUMNS: Final = (
    *("PLUGIN", "ENABLED", "HOOKS", "DIALECT", "LAYER", "VERSION"),
    *("COMMANDS", "SKILLS", "AGENTS", "MCP", "FROM"),
)


def imported_rows(plugins: Iterable[ListedPlugin]) -> list[tuple[object, ...]]:
    """A row for each plugin of an imported hook file."""
    from workers.cli.formatting import plain
    from workers.cli.hooks.listing import short_origin

    return [
        (
            plain(plugin.name),
            "yes" if plugin.enabled else "no",
            plugin.hooks,
            plugin.dialect,
            plugin.layer,
            plugin.version or "-",
            plain(", ".join(plugin.commands)) or "-",
            plain(", ".join(plugin.skills)) or "-",
            plain(", ".join(plugin.agents)) or "-",
            plain(", ".join(plugin.mcp_servers)) or "-",
            short_origin(plugin.origin) or "-",
        )
        for plugin in plugins
    ]


def server_line(server: McpServer) -> str:
    """What an MCP server runs or where it is, without secrets."""
    from bus.secrets.redaction import redact_text

    if server.url:
        return redact_text(f"{server.url} ({server.type})")
    return redact_text(shlex.join((server.command, *server.args)))


def show_imported(fleet: Context, plugins: Sequence[ListedPlugin], hooks: HookSet) -> None:
    """Print plugins of imported files: each hook with what it runs, commands, skills, agents and MCP servers."""
    import msgspec

    if fleet.json:
        fleet.data([{**msgspec.to_builtins(plugin), "contents": _contents(plugin)} for plugin in plugins])
        return
    for plugin in plugins:
        _show_one(fleet, plugin, hooks)


def _show_one(fleet: Context, plugin: ListedPlugin, hooks: HookSet) -> None:
    from workers.cli.formatting import plain

    state = "on" if plugin.enabled else "off"
    fleet.data(f"{plain(plugin.name)} {plugin.version}  {state}  {plugin.layer}  {plugin.dialect}".replace("   ", "  "))
    for key in ("description", "origin", "problem"):
        if value := getattr(plugin, key):
            fleet.data(f"  {key:<12} {plain(value)}")
    for hook in hooks.hooks.values():
        if hook.plugin == plugin.name and hook.layer == plugin.layer and hook.handler is None:
            what = hook.target
            runs = shlex.join((what, *hook.args)) if hook.args else what
            fleet.data(f"  {'hook':<12} {plain(hook.id)} at {plain(', '.join(hook.on))}: {plain(runs)}")
    for kind, items in _contents(plugin).items():
        for item in items:
            text = f": {item['description']}" if item["description"] else ""
            fleet.data(f"  {kind:<12} {plain(item['name'])}{plain(text)}")


def _contents(plugin: ListedPlugin) -> dict[str, list[dict[str, Any]]]:
    """What a plugin's folder on this machine has, beside its hooks."""
    from bus.hookfiles.claude.plugins import plugin_contents

    root = Path(plugin.origin)
    if plugin.dialect not in {"claude", "ion"} or not root.is_dir():
        return {}
    contents = plugin_contents(root, single_files=plugin.dialect == "ion")
    found: dict[str, list[dict[str, Any]]] = {
        kind: [{"name": item.name, "description": item.description, "file": item.file} for item in items]
        for kind, items in (("command", contents.commands), ("skill", contents.skills), ("agent", contents.agents))
    }
    servers = [{"name": server.name, "description": server_line(server)} for server in contents.mcp_servers]
    return {**found, "MCP server": servers}
