"""What a published set does not contain: the files of its plugins, which other machines need too."""

from __future__ import annotations

from collections.abc import Iterator

from bus.config.hook_file_value import HookFile
from bus.hooksets.plugins.sources import find_source, plugin_folders


def not_published(file: HookFile) -> Iterator[str]:
    """A warning for each plugin whose files are not published with a hook file, and what other machines need."""
    folders = plugin_folders("user", "")
    for plugin in file.plugins:
        here = find_source(plugin.name, folders) is not None
        more = "" if here else "; a worker on this machine would not find it either"
        yield (
            f"{plugin.origin}: only the name of the plugin {plugin.name!r} is published: every machine with a worker needs its "
            f"file in {folders[0]}, or its package{more}"
        )
    roots: dict[str, tuple[str, str]] = {}
    for hook in file.hooks:
        if hook.plugin and (root := hook.own.get("root")):
            roots.setdefault(root, (hook.origin, hook.plugin))
    for root, (origin, name) in roots.items():
        yield (
            f"{origin}: the hooks of the plugin {name!r} are published, and not its files: they run on the event's machine, "
            f"which needs the same folder {root}; commands, skills, agents and MCP servers are not published"
        )
