"""Lists the plugins of the hook files in force (pigo's, Claude Code's and ion's), and what each contains (P-14, I-13)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bus.config.hook_file_value import HookFile, Imported
from bus.errors import ConfigError
from bus.hookfiles import pigo as pigo_hooks
from bus.hookfiles.claude import plugins as claude_plugins
from bus.hooksets.in_force import Layered
from bus.hooksets.plugin_owner import owners


class ListedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin; `problem` says what could not be read, and why."""

    name: str
    dialect: str
    layer: str
    enabled: bool = True
    hooks: int = 0
    """How many of its hooks are in force."""
    version: str = ""
    description: str = ""
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    origin: str = ""
    problem: str = ""


def plugins(layers: Iterable[Layered]) -> list[ListedPlugin]:
    """Every plugin of the layers, in order; only the names for published sets, whose files are on another machine."""
    found: list[ListedPlugin] = []
    for contents in layers:
        if contents.file.imports:
            found += [
                plugin for imported in contents.file.imports for plugin in _of(imported, contents.file, contents.layer)
            ]
        else:
            hooks = [hook for hook in contents.file.hooks if hook.plugin and hook.enabled and hook.handler is None]
            counted = Counter((hook.plugin, hook.dialect) for hook in hooks)
            found += [
                ListedPlugin(name=name, dialect=dialect, layer=contents.layer, hooks=count)
                for (name, dialect), count in counted.items()
            ]
    return found


def _of(imported: Imported, file: HookFile, layer: str) -> Iterator[ListedPlugin]:
    ids = set(imported.hooks)
    counted = Counter(hook.plugin for hook in file.hooks if hook.id in ids and hook.enabled)
    dialect = imported.dialect
    path = Path(imported.path)
    try:
        if not imported.enabled:
            name = claude_plugins.plugin_contents(path, hooks_only=True).name if path.is_dir() else path.name
            yield ListedPlugin(name=name, enabled=False, origin=imported.origin, dialect=dialect, layer=layer)
        elif dialect == pigo_hooks.NAME:
            for pigo in pigo_hooks.plugins(path):
                count = counted[pigo.name]
                yield ListedPlugin(
                    name=pigo.name, enabled=pigo.enabled, hooks=count, origin=pigo.origin, dialect=dialect, layer=layer
                )
        elif dialect in {"claude", "ion"}:
            yield from _folders(path, counted, imported, layer)
    except ConfigError as error:
        yield ListedPlugin(
            name=path.name, enabled=False, problem=str(error), origin=imported.origin, dialect=dialect, layer=layer
        )


def _folders(path: Path, counted: Counter[str], imported: Imported, layer: str) -> Iterator[ListedPlugin]:
    known = owners(path, imported.dialect) if imported.guessed else {}
    for folder in claude_plugins.plugin_roots(path):
        dialect = known.get(os.path.realpath(folder), imported.dialect)
        if layer == "project" and claude_plugins.leads_out(folder, folder.parent):
            why = "it is a link that leads out of the project's plugins, so it is not read"
            yield ListedPlugin(
                name=folder.name, dialect=dialect, layer=layer, enabled=False, origin=str(folder), problem=why
            )
            continue
        contents = claude_plugins.plugin_contents(folder, single_files=dialect == "ion")
        # The problems of its hooks are reported with the hook files.
        known_problems = {str(problem) for problem in claude_plugins.plugin_contents(folder, hooks_only=True).problems}
        more = [text for problem in contents.problems if (text := str(problem)) not in known_problems]
        yield ListedPlugin(
            name=contents.name,
            dialect=dialect,
            layer=layer,
            hooks=counted[contents.name],
            version=contents.version,
            description=contents.description,
            origin=contents.root,
            commands=tuple(item.name for item in contents.commands),
            skills=tuple(item.name for item in contents.skills),
            agents=tuple(item.name for item in contents.agents),
            mcp_servers=tuple(server.name for server in contents.mcp_servers),
            problem="; ".join(more),
        )
