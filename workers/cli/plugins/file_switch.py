"""Enables and disables a Python plugin in the text of a hook file, whose other text stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bus.config.documents import loads, read_file
from bus.config.edit_add import flow
from bus.config.edit_change import with_values
from bus.errors import ConfigError, NotFound
from bus.hooks import Layer
from bus.hooksets.hookfile import parse_hook_file
from workers.admin.endpoint_edit import Edited


def file_switched(path: Path, layer: Layer, name: str, on: bool, source: str = "") -> Edited:
    """The file with a plugin enabled or disabled; `source` is the plugin's file where it is not found by name.

    Raises ConfigError where the plugin cannot be enabled, and NotFound for disabling one that the file does not have.
    """
    before = read_file(path) if path.exists() else ""
    whole = loads(before, file=str(path)).value
    document: dict[str, Any] = whole if isinstance(whole, dict) else {}
    plugins = document.get("plugins")
    raw = plugins.get(name) if isinstance(plugins, dict) else None
    if raw is None and not on:
        raise NotFound(
            f"{path} does not enable a plugin {name!r}; `fleethook plugins list` shows where each is enabled"
        )
    value: Any = {**raw, "enabled": on} if isinstance(raw, dict) else on
    if isinstance(value, dict) and on:
        del value["enabled"]
    if source:
        value = {**(value if isinstance(value, dict) else {}), "path": source}
    value = True if value == {} else value
    after = before if raw == value else _with(before, path, document, name, value)
    old, read = (parse_hook_file(text, layer, file=str(path)) for text in (before, after))
    known = {(problem.path, problem.message) for problem in old.problems}
    for problem in read.problems:
        if (problem.path, problem.message) not in known:
            raise problem
    if on and name not in {plugin.name for plugin in read.plugins}:
        raise ConfigError(f"the plugin {name!r} cannot be enabled: {path} has errors", hint="`fleethook config check`")
    return Edited(path, before, after, read)


def _with(text: str, path: Path, document: dict[str, Any], name: str, value: Any) -> str:
    plugins = document.get("plugins")
    if isinstance(plugins, dict):
        return with_values(text, str(path), ("plugins",), {**plugins, name: value})
    if text.lstrip().startswith("{") or "plugins" in document:
        return with_values(text, str(path), (), {**document, "plugins": {name: value}})
    apart = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    shown = str(value).lower() if isinstance(value, bool) else flow(value)
    return f"{text}{apart}plugins:\n  {flow(name)}: {shown}\n"
