"""The placeholders in a Claude Code command: their values, and the problems of the scripts that they name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bus.errors import ConfigError
from bus.hookfiles.claude.plugins import inside
from bus.lazy.regex import lazy_regex

SET_HERE: Final = frozenset(
    {
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_EFFORT",
        "CLAUDECODE",
        "PLUGIN_ROOT",
        "ION_SESSION_ID",
        "ION_CWD",
        "ION_MODEL",
        "ION_PROVIDER",
    }
)
"""Variables that a hook gets here in addition to CLAUDE_PLUGIN_…; some are empty if the agent does not give a value."""

_PLUGIN: Final = lazy_regex(r"\$\{(?:CLAUDE_PLUGIN_ROOT|PLUGIN_ROOT)\}")
_RUNTIME: Final = lazy_regex(
    r"(\$\{(?:CLAUDE_PROJECT_DIR|CLAUDE_PLUGIN_DATA|ION_SESSION_ID|ION_CWD|ION_MODEL|ION_PROVIDER)\})"
)
_SCRIPT: Final = lazy_regex(r"\$\{?(CLAUDE_PLUGIN_ROOT|PLUGIN_ROOT|CLAUDE_PROJECT_DIR)\b\}?[\"']?(/[^\s\"'`;|&<>()$]*)")
_UNSET: Final = lazy_regex(r"\$\{?(CLAUDE_ENV_FILE|CLAUDE_PLUGIN_OPTION_\w+|user_config\.\w+)")
_INSTALLED: Final = lazy_regex(r"/\.claude/plugins/cache/([\w-]+)/([\w-]+)/[^/]+/?\Z")
_PLAIN: Final = lazy_regex(r"[\w@%+=:,./ -]+")
"""Names without a character that has a meaning to the shell; a space has one outside of quotes only."""
_QUOTES: Final = lazy_regex(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^'\"\\]+", re.DOTALL)
"""The pieces of a command: each in quotes of one kind, or in none."""
_VARIABLE: Final = lazy_regex(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class Roots(NamedTuple):
    """The values of a command's placeholders, as far as they are known without an event."""

    plugin: str = ""
    """The plugin's folder, absolute; empty outside of plugins."""
    project: str = ""
    """The folder with `.claude` or `.ion` in it; empty if only the event determines it."""
    data: str = ""
    """The folder for data that the plugin keeps across updates; a leading ~ is home."""

    @classmethod
    def of(cls, file: Path, plugin: str, slug: str, dialect: str) -> Roots:
        """The roots for the commands in a file."""
        return cls(plugin, _project(Path(plugin or file)), _data(plugin, slug, dialect) if plugin else "")

    def own(self) -> dict[str, str]:
        """The roots that are not empty, for `Hook.own`."""
        values = {"root": self.plugin, "project": self.project, "data": self.data}
        return {name: value for name, value in values.items() if value}


def filled(command: str, args: Sequence[str] | None, roots: Roots) -> tuple[str, tuple[str, ...]]:
    """The command with the plugin's folder filled in, and its arguments if it starts without a shell.

    It is one word there, whatever its name is and whether the command quotes it or not. If the name has characters with a
    meaning to the shell, the shell fills it in from a variable. Placeholders
    that depend on the event are never put into text: a program with such arguments is started by a shell that expands
    them.
    """
    if args is None:
        return _QUOTES.sub(lambda quoted: _with_root(quoted[0], roots.plugin), command), ()
    words = [_PLUGIN.sub(lambda _match: roots.plugin, word) if roots.plugin else word for word in (command, *args)]
    if len(words) > 1 and not any(_RUNTIME.search(word) for word in words):
        return words[0], tuple(words[1:])
    return "exec " + " ".join(map(_quoted, words)), ()


def _with_root(text: str, root: str) -> str:
    """A piece of a command, which is in one kind of quotes or in none, with the plugin's folder filled in."""
    quote = text[0] if text[0] in "'\"" else ""
    if not root:
        return text
    if _PLAIN.fullmatch(root):
        filled_in = root if quote else shlex.quote(root) if " " in root else root
        return _PLUGIN.sub(lambda _match: filled_in, text)
    outside = {"": '"{}"', "'": "'\"{}\"'", '"': "{}"}[quote]
    return _PLUGIN.sub(lambda match: outside.format(match[0]), text)


def script_problems(text: str, roots: Roots) -> Iterator[tuple[bool, str, str]]:
    """The problems of the scripts that a command names by a placeholder: whether each is an error, the message, and the fix."""
    for name, script_path in _SCRIPT.findall(text):
        root = roots.project if name == "CLAUDE_PROJECT_DIR" else roots.plugin
        if name != "CLAUDE_PROJECT_DIR" and not root:
            yield False, f"{name} is empty outside of a plugin", "write the path, or use CLAUDE_PROJECT_DIR"
            continue
        if not root:
            continue
        path = os.path.join(root, script_path.lstrip("/"))
        if name != "CLAUDE_PROJECT_DIR":
            try:
                inside(root, script_path.lstrip("/"))
            except ConfigError as error:
                yield True, error.message, error.hint
                continue
        if script_path.strip("/") and not os.path.exists(path):
            yield False, f"the command names {path}, which does not exist", "create the script, or correct the path"


def unset_variables(text: str) -> tuple[str, ...]:
    """The variables of Claude Code that a command names and that are not set here."""
    return tuple(dict.fromkeys(_UNSET.findall(text)))


def interpolated(value: str, allowed: Sequence[str] | None) -> str:
    """A header's value with the allowed `$VAR` and `${VAR}` filled in; others become empty."""
    if allowed is None:
        return value
    return _VARIABLE.sub(lambda found: f"${{{name}}}" if (name := found[1] or found[2]) in allowed else "", value)


def url_fits(pattern: object, url: str) -> bool:
    """Whether a URL fits an allowed one, in which `*` is any text."""
    if not isinstance(pattern, str):
        return False
    first, *rest = pattern.split("*")
    if not url.startswith(first):
        return False
    at = len(first)
    for part in rest:
        found = url.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at == len(url) or pattern.endswith("*")


def _quoted(word: str) -> str:
    """A shell word in which only our placeholders are expanded."""
    parts = (f'"{part}"' if _RUNTIME.fullmatch(part) else shlex.quote(part) for part in _RUNTIME.split(word) if part)
    return "".join(parts) or "''"


def _data(plugin: str, slug: str, dialect: str) -> str:
    """The plugin's data folder; for an installed plugin, the same that Claude Code uses."""
    if dialect == "ion":
        return f"~/.local/share/ion/plugins/data/{slug}"
    installed = _INSTALLED.search(plugin)
    return (
        f"~/.claude/plugins/data/{installed[2]}-{installed[1]}"
        if installed
        else f"~/.claude/plugins/data/{slug}-inline"
    )


def _project(path: Path) -> str:
    """The folder above the nearest `.claude` or `.ion`; not the home directory, whose settings are for every project."""
    home = os.path.realpath(os.path.expanduser("~"))
    for folder in path.parents:
        if folder.name in (".claude", ".ion"):
            return "" if os.path.realpath(folder.parent) == home else str(folder.parent)
    return ""
