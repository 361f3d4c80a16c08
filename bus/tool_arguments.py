"""Finds the command line, the paths and the texts in the arguments of a tool call, for the conditions of rules.

A known tool has them in the canonical fields. MCP tools may give their arguments any name, so the usual names count too.
`tool_inference.py` decides which canonical tool such a call acts as.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.tool_words import command_line, one_spelling, texts_in

_COMMANDS: Final = ("command", "cmd", "script", "commands", "command_line", "shell_command", "shell", "line")
_PATHS: Final = frozenset(
    {
        "path",
        "paths",
        "file_path",
        "filepath",
        "file",
        "files",
        "filename",
        "file_name",
        "uri",
        "source",
        "src",
        "destination",
        "dest",
        "dst",
        "target",
        "target_file",
        "old_path",
        "new_path",
        "from",
        "to",
        "directory",
        "dir",
        "folder",
        "relative_path",
        "absolute_path",
        "output",
        "output_path",
    }
)

_REPLACED: Final = frozenset({"old", "old_string", "old_str", "old_text", "old_content", "search", "find", "original"})
"""Arguments with the text that an edit takes away."""
_NOT_ADDED: Final = _PATHS | _REPLACED
_SEARCHED: Final = lazy_regex(r"(?ms)^(?:<{5,9}|-{5,9}) SEARCH.*?^={5,9}\n")
_HUNK: Final = lazy_regex(r"(?m)^@@ ")

_POWERSHELLS: Final = lazy_regex(r"(?i)(?<![a-z])(?:powershell|pwsh)(?![a-z])")
"""Matches names of tools whose command is PowerShell: Claude Code's and Copilot CLI's on Windows, and MCP servers' tools."""


def command_of(event: Event) -> str | None:
    """The command line of a tool call; None if it has none."""
    text = event.input.get("command")
    if _names_powershell(event.native_tool or event.tool):
        code = next(
            (value for name in ("command", *_COMMANDS, "code") if isinstance(value := event.input.get(name), str)), ""
        )
        if code and not _POWERSHELLS.match(code):
            return shlex.join(("powershell", "-Command", code))  # PowerShell is not read as a shell line
    if isinstance(text, str):
        return text
    if not event.tool.startswith("mcp__"):
        return None
    arguments = {one_spelling(name): value for name, value in event.input.items()}
    for name in _COMMANDS:
        value = arguments.get(name)
        rest = arguments.get("args", arguments.get("arguments"))
        words = [word for word in rest if isinstance(word, str)] if isinstance(rest, list) else []
        if isinstance(value, str) and value:
            return " ".join((value, shlex.join(words))) if words else value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return "\n".join(value) if name == "commands" else command_line(value)
    return None


@lru_cache(4096)
def _names_powershell(tool: str) -> bool:
    return _POWERSHELLS.search(tool.rpartition("__")[2]) is not None


def paths_of(event: Event) -> list[str]:
    """The paths of a tool call."""
    if event.tool.startswith("mcp__"):
        candidates = [value for name, value in event.input.items() if one_spelling(name) in _PATHS]
        return [_local_path(path) for value in candidates for path in texts_in(value) if path]
    path, paths = event.input.get("path"), event.input.get("paths")
    named = (path, *(paths if isinstance(paths, list) else ()))
    return [name for name in named if isinstance(name, str) and name]


def texts_of(event: Event) -> Iterable[str]:
    """Every text in the arguments except the paths: what the call writes, replaces and removes, edit by edit."""
    return _texts_within([value for name, value in event.input.items() if one_spelling(name) not in _PATHS])


def added_texts_of(event: Event) -> list[str]:
    """Every text that a call adds, or that a person's prompt has: as `texts_of`, without what an edit replaces."""
    found: list[str] = []
    prompt = event.data.get("prompt")
    if not event.tool and isinstance(prompt, str):
        found.append(prompt)
    _add_texts(event.input, found)
    return found


def _add_texts(value: object, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(_added_lines(value) if "@@" in value or "SEARCH" in value or "*** Begin" in value else value)
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str) or one_spelling(name) not in _NOT_ADDED:
                _add_texts(item, found)
    elif isinstance(value, list):
        for item in value:
            _add_texts(item, found)


def _added_lines(text: str) -> str:
    """A patch without the lines that it removes or only shows; any other text as it is."""
    if _SEARCHED.search(text):
        return _SEARCHED.sub("", text)
    if text.startswith("*** Begin Patch") or _HUNK.search(text):
        return "\n".join(line[1:] for line in text.split("\n") if line[:1] == "+")
    return text


def _texts_within(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_within(item)


def _local_path(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file://") else path
