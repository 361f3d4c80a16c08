"""Adds, switches and removes plugins of Claude Code and ion in the text of a hook file, whose other text stays as it is.

A plugin is an entry of `import:`. In the user's own file it is pinned: by the files that are read for its hooks, by the
scripts that they name, and (if it has MCP servers) by its whole folder. Changed content is not in force.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bus.config.documents import loads, read_file
from bus.config.edit_add import with_entry
from bus.config.edit_change import with_values, without_entry
from bus.config.hook_file_value import HookFile
from bus.config.validation import suggestion
from bus.errors import ConfigError, NotFound
from bus.hookfiles.claude.marketplaces import Marketplace, read_marketplace
from bus.hookfiles.claude.plugin_check import CheckedPlugin, check_plugin
from bus.hookfiles.claude.plugins import MANIFEST, is_plugin, plugin_contents, plugin_roots
from bus.hooks import Layer
from bus.hooksets.hookfile import load_foreign, parse_hook_file
from bus.hooksets.imports import import_path
from bus.hooksets.pinned_imports import content_digest, scripts_digest
from bus.hooksets.plugin_owner import owner
from bus.hooksets.plugins.folder_digest import folder_digest
from workers.admin.endpoint_edit import Edited


@dataclass(frozen=True, slots=True)
class ImportedPlugin:
    """An entry of a file's `import:` that is one plugin."""

    number: int
    name: str
    path: Path
    raw: str | dict[str, Any]

    @property
    def entry(self) -> dict[str, Any]:
        """The entry as a mapping."""
        return dict(self.raw) if isinstance(self.raw, dict) else {"path": self.raw}


def checked_plugin(root: Path, dialect: str = "") -> tuple[CheckedPlugin, str]:
    """A plugin with what is wrong with it, and its dialect: the given one, else the one that its content shows."""
    if not is_plugin(root):
        hint = "a plugin has .claude-plugin/plugin.json, hooks/hooks.json, commands, skills, agents or .mcp.json"
        if below := _plugins_below(root):
            hint = f"name one of the plugins below it: {', '.join(map(str, below))}"
        raise ConfigError("this is no plugin", file=str(root), hint=hint)
    return _checked(root, dialect)


def _plugins_below(root: Path) -> list[Path]:
    """The plugins one and two folders below a folder, such as a checkout with several of them; the first ten."""
    try:
        found = [
            path for pattern in ("*", "*/*") for path in sorted(root.glob(pattern)) if not path.name.startswith(".")
        ]
    except OSError:
        return []
    return [path for path in found if (path / MANIFEST).is_file()][:10]


def _checked(root: Path, dialect: str) -> tuple[CheckedPlugin, str]:
    chosen = dialect or owner(root) or ("ion" if ".ion" in root.parts or "ion" in root.parts[-3:-1] else "claude")
    return check_plugin(root, chosen), chosen


def checked_marketplace(root: Path, dialect: str = "") -> tuple[Marketplace, list[tuple[CheckedPlugin, str]]]:
    """A marketplace, and its plugins on this disk, each checked on its own."""
    market = read_marketplace(root)
    roots = dict.fromkeys(offer.root for offer in market.offers if offer.root)
    return market, [_checked(Path(root), dialect) for root in roots]


def offered_root(market: Marketplace, name: str) -> Path:
    """The folder of a marketplace's plugin; raises NotFound and ConfigError, with what can be done instead."""
    found = next((offer for offer in market.offers if offer.name == name), None)
    wrong = next((error for refused, error in market.refused if refused == name), None)
    if found is None and wrong is not None:
        raise wrong
    if found is None:
        known = [offer.name for offer in market.offers]
        raise NotFound(
            f"the marketplace {market.name!r} has no plugin {name!r}; {suggestion(name, known) or _few(known)}"
        )
    if not found.root:
        text = f"the plugin {name!r} is not in the marketplace's folder: {found.source}"
        raise ConfigError(text, file=found.origin, hint="Fleethook fetches nothing: clone it, and add its folder")
    if found.defines:
        text = f"the marketplace defines {' and '.join(found.defines)} of {name!r}, and not the plugin itself"
        hint = f"move them into {found.root}/{MANIFEST}"
        raise ConfigError(text, file=found.origin, hint=hint)
    return Path(found.root)


def _few(names: Sequence[str]) -> str:
    return f"it has {', '.join(names[:10])}" + (" …" if len(names) > 10 else "") if names else "it has none"


def imported_plugins(path: Path, text: str) -> list[ImportedPlugin]:
    """The plugins that a hook file imports one by one, also those that are disabled or cannot be read."""
    whole = loads(text, file=str(path)).value
    entries = whole.get("import") if isinstance(whole, dict) else None
    found = []
    for number, raw in enumerate(entries if isinstance(entries, list) else ()):
        written = raw.get("path") if isinstance(raw, dict) else raw
        if not isinstance(written, str):
            continue
        place = import_path(written, str(path))
        roots = plugin_roots(place) if place.exists() else []
        if len(roots) == 1 and os.path.realpath(roots[0]) == os.path.realpath(place):
            name = plugin_contents(roots[0], hooks_only=True).name
        elif not place.exists() and not place.suffix:
            name = place.name
        else:
            continue
        found.append(ImportedPlugin(number, name, place, raw))
    return found


def file_with_plugin(
    path: Path, layer: Layer, plugin: CheckedPlugin, dialect: str, env_pass: Sequence[str] = ()
) -> Edited:
    """The file with a plugin added, or with the plugin's present content accepted; raises ConfigError."""
    root = Path(plugin.contents.root)
    before = read_file(path) if path.exists() else ""
    known = imported_plugins(path, before)
    same = next((one for one in known if os.path.realpath(one.path) == str(root)), None)
    other = next((one for one in known if one.name == plugin.contents.name and one is not same), None)
    if other is not None:
        text = f"a plugin {plugin.contents.name!r} is added already, from {other.path}"
        raise ConfigError(text, file=str(path), hint=f"`fleethook plugins remove {other.name}` removes that one")
    pins = _pins(root, plugin, dialect) if layer == "user" else {}
    if same is not None:
        kept = {
            key: value for key, value in same.entry.items() if key not in {"enabled", "sha256", "scripts", "servers"}
        }
        entry = {**kept, "dialect": dialect, **pins}
    else:
        entry = {"path": _written(root, path.parent), "dialect": dialect, **pins}
    if env_pass:
        entry["env_pass"] = list(dict.fromkeys((*entry.get("env_pass", ()), *env_pass)))
    if same is None:
        after = with_entry(before, str(path), "import", entry)
    elif isinstance(same.raw, dict):
        after = with_values(before, str(path), ("import", same.number), entry)
    else:
        after = with_entry(without_entry(before, str(path), "import", same.number), str(path), "import", entry)
    return _edited(path, layer, before, after)


def file_with_switch(path: Path, layer: Layer, name: str, on: bool) -> Edited:
    """The file with an added plugin enabled or disabled; raises NotFound."""
    before = read_file(path) if path.exists() else ""
    found = _named(path, before, name)
    entry = {key: value for key, value in found.entry.items() if key != "enabled"}
    entry |= {} if on else {"enabled": False}
    if found.entry == entry:
        return _edited(path, layer, before, before)
    if isinstance(found.raw, dict):
        after = with_values(before, str(path), ("import", found.number), entry)
    else:
        after = with_entry(without_entry(before, str(path), "import", found.number), str(path), "import", entry)
    return _edited(path, layer, before, after)


def file_without_plugin(path: Path, layer: Layer, name: str) -> Edited:
    """The file without a plugin: an added one, or a Python plugin's entry; raises NotFound."""
    before = read_file(path) if path.exists() else ""
    whole = loads(before, file=str(path)).value
    python = whole.get("plugins") if isinstance(whole, dict) else None
    if isinstance(python, dict) and name in python:
        rest = {key: value for key, value in python.items() if key != name}
        after = with_values(before, str(path), ("plugins",), rest) if rest else _without(before, path, whole, "plugins")
    else:
        found = _named(path, before, name)
        several = len(whole["import"]) > 1
        after = (
            without_entry(before, str(path), "import", found.number)
            if several
            else _without(before, path, whole, "import")
        )
    return _edited(path, layer, before, after)


def is_imported(path: Path, name: str) -> bool:
    """Whether a file imports a plugin of this name."""
    return path.exists() and any(one.name == name for one in imported_plugins(path, read_file(path)))


def python_plugins(path: Path) -> frozenset[str]:
    """The Python plugins under `plugins:` of a hook file, on or off; raises ConfigError if it cannot be read."""
    whole = loads(read_file(path), file=str(path)).value if path.exists() else None
    plugins = whole.get("plugins") if isinstance(whole, dict) else None
    return frozenset(map(str, plugins)) if isinstance(plugins, dict) else frozenset()


def _without(text: str, path: Path, whole: dict[str, Any], key: str) -> str:
    """The text without a key; a file that has nothing else has the version."""
    rest = {name: value for name, value in whole.items() if name != key}
    return with_values(text, str(path), (), rest or {"version": 1})


def _named(path: Path, text: str, name: str) -> ImportedPlugin:
    known = imported_plugins(path, text)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        raise NotFound(f"{path} has no plugin {name!r}; `fleethook plugins list` shows where each one is from")
    return found


def _pins(root: Path, plugin: CheckedPlugin, dialect: str) -> dict[str, str]:
    """The digests that pin a plugin in the user's own file."""
    read: HookFile = load_foreign(root, "user", dialect)[0]
    pins = {"sha256": content_digest(root, [source.path for source in read.sources])}
    if scripts := scripts_digest(read, root):
        pins["scripts"] = scripts
    if plugin.contents.mcp_servers:
        pins["servers"] = folder_digest(root)
    return pins


def _edited(path: Path, layer: Layer, before: str, after: str) -> Edited:
    """The edit, if it brings no new error into the file."""
    known = {(problem.path, problem.message) for problem in _parsed(before, layer, path).problems}
    read = _parsed(after, layer, path)
    for problem in read.problems:
        if after != before and (problem.path, problem.message) not in known and problem.file == str(path):
            raise problem
    return Edited(path, before, after, read)


def _parsed(text: str, layer: Layer, path: Path) -> HookFile:
    return parse_hook_file(text, layer, file=str(path))


def _written(root: Path, folder: Path) -> str:
    """How a file names the plugin: from its own folder if that contains it, else from home, else as an absolute path."""
    if root.is_relative_to(folder):
        return str(root.relative_to(folder))
    home = Path.home()
    return f"~/{root.relative_to(home)}" if root.is_relative_to(home) else str(root)
