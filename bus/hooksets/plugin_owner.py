"""Decides from content whether a hook file or plugin is Claude Code's or ion's, since both have the same form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from bus.agents import claude, ion
from bus.config.documents import Plain, load
from bus.config.hook_file_value import HookFile
from bus.errors import ConfigError
from bus.hookfiles import find_hooks
from bus.hookfiles.claude.plugins import HOOKS, MANIFEST, is_single_skill, plugin_contents, plugin_roots
from bus.hooks import Layer

Sign = tuple[bool, str]
"""Whether the sign is proof, and the system that it points to: `claude` or `ion`."""

_ION: Final[Sign] = (True, ion.NAME)
_CLAUDE: Final[Sign] = (True, claude.NAME)
_MAYBE_ION: Final[Sign] = (False, ion.NAME)
_MAYBE_CLAUDE: Final[Sign] = (False, claude.NAME)

_WORDS: Final[Mapping[Sign, re.Pattern[str]]] = {
    _ION: re.compile(r"(?<![A-Za-z0-9_])(?:PLUGIN_ROOT|ION_[A-Z]+)(?![a-z0-9])"),
    _MAYBE_ION: re.compile(r"(?<![A-Za-z0-9_])tool_output(?![A-Za-z0-9_])|(?<![\w.)\]])\.event(?!\w)"),
    # No proof, because ion sets CLAUDE_PLUGIN_ROOT and sends Claude Code's fields too (I-02, I-07).
    _MAYBE_CLAUDE: re.compile(r"(?<![A-Za-z0-9_])(?:CLAUDE_[A-Z]+|hook_event_name|tool_response)(?![a-z0-9])"),
}
"""The names of variables and payload fields that each sign consists of."""

_EVENTS: Final = frozenset(claude.CAPABILITIES) - frozenset(ion.CAPABILITIES)
_TYPES: Final = frozenset({"http", "mcp_tool", "prompt", "agent"})
_FIELDS: Final = frozenset(
    {"if", "async", "asyncRewake", "onFailure", "once", "statusMessage", "allowedEnvVars", "shell"}
)
"""Fields of a handler that only Claude Code has."""

_SECONDS: Final = frozenset({1200, 1500, 1800, 2400, 2700, 3600, 5400, 7200})
"""Timeouts above 1000 that are still seconds: people write such round numbers (20, 25, 30 … minutes)."""


def owner(path: Path) -> str:
    """The owner of a plugin (its folder or a file of it) or of a hook file: `claude`, `ion`, or empty if unclear."""
    if path.is_dir():
        return _decided(_plugin(path))
    if path.parts[-2:] in (MANIFEST.parts, HOOKS.parts):
        return _decided(_plugin(path.parent.parent))
    return _decided(_file(path))


def owners(path: Path, usual: str) -> dict[str, str]:
    """The owner of each plugin below a path, by the plugin's real folder; `usual` if its content is unclear."""
    return {os.path.realpath(root): owner(root) or usual for root in plugin_roots(path)}


def read_guessed(path: Path, layer: Layer, dialect: str) -> HookFile:
    """Read a file or folder of a detected dialect. Plugins of Claude Code and of ion in one folder are each read as such.

    Raises ConfigError if nothing of it can be read.
    """
    file = find_hooks(dialect).read(path, layer)
    if dialect not in {claude.NAME, ion.NAME}:
        return file
    others = {root: name for root, name in owners(path, dialect).items() if name != dialect}
    if not others or not path.is_dir():
        return file
    # Both dialects list the same hooks, with other units of time.
    other = find_hooks(next(iter(others.values()))).read(path, layer)
    replaced = {hook.id: hook for hook in other.hooks if hook.own.get("root") in others}
    roots = tuple(f"{root}{os.sep}" for root in others)
    warnings = [text for text in file.warnings if not text.startswith(roots)]
    warnings += [text for text in other.warnings if text.startswith(roots)]
    hooks = tuple(replaced.get(hook.id, hook) for hook in file.hooks)
    return replace(file, hooks=hooks, warnings=tuple(warnings)).with_digest()


def common_owner(paths: Iterable[Path]) -> str:
    """The one owner of the paths, without paths that have no clear owner; empty if there is none, or more than one."""
    found = {owner(path) for path in paths} - {""}
    return found.pop() if len(found) == 1 else ""


def _decided(signs: Iterable[Sign]) -> str:
    """The owner that all proofs name or, without proofs, that all other signs name; empty if they disagree."""
    found = set(signs)
    names = {name for proof, name in found if proof} or {name for _, name in found}
    return names.pop() if len(names) == 1 else ""


def _plugin(root: Path) -> Iterator[Sign]:
    try:
        plugin = plugin_contents(root, hooks_only=True)
    except ConfigError:
        return
    for file in {source.document.file: source.document for source in plugin.hooks}.values():
        yield from _signs(file.value)
    yield from _file(root / MANIFEST)
    for name in (Path(".mcp.json"), Path("mcp", "mcp.json")):
        yield from _file(root / name)
    yield from _shapes(root)


def _shapes(root: Path) -> Iterator[Sign]:
    """Signs in the files beside the hooks: ion's commands may be scripts, and its skills single files."""
    if any((root / "commands").glob("*.sh")) and not any((root / "commands").glob("*.md")):
        yield _MAYBE_ION
    if any(is_single_skill(file) for file in (root / "skills").glob("*.md")) and not any(
        (root / "skills").glob("*/SKILL.md")
    ):
        yield _MAYBE_ION


def _file(path: Path) -> Iterator[Sign]:
    try:
        value = load(path).value if path.is_file() else None
    except ConfigError:
        return  # the reader of the file reports it
    yield from _signs(value)


def _signs(value: Plain) -> Iterator[Sign]:
    for text in _texts(value):
        yield from (sign for sign, words in _WORDS.items() if words.search(text))
    if not isinstance(value, dict):
        return
    if isinstance(value.get("mcp"), dict):
        yield _ION
    if "mcpServers" in value:
        yield _MAYBE_CLAUDE
    hooks = value.get("hooks", value)
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        if event in _EVENTS:
            yield _CLAUDE
        handlers = (handler for group in _dicts(groups) for handler in _dicts(group.get("hooks")))
        yield from (sign for handler in handlers for sign in _handler(handler))


def _handler(handler: dict[str, Plain]) -> Iterator[Sign]:
    timeout = handler.get("timeout")
    if handler.get("type") in _TYPES or not _FIELDS.isdisjoint(handler):
        yield _CLAUDE
    if isinstance(timeout, int | float) and timeout >= 1000 and timeout not in _SECONDS:
        yield _MAYBE_ION  # ion counts milliseconds (I-04)


def _dicts(value: Plain) -> Iterator[dict[str, Plain]]:
    yield from (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def _texts(value: Plain) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
