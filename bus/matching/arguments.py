"""The command and the paths that a tool call names, also where an MCP tool calls its arguments as it likes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from bus.events import Event

_COMMANDS: Final = ("command", "cmd", "script", "commands", "command_line", "shell_command", "shell", "line")
_PATHS: Final = (
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
)
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")


_POWERSHELLS: Final = re.compile(r"(?i)(?<![a-z])(?:powershell|pwsh)(?![a-z])")
"""In the names of tools whose command is PowerShell: Claude Code's and Copilot CLI's on Windows, MCP servers' tools."""


def command_of(event: Event) -> str | None:
    """The command line of a tool call; of an MCP tool also by what such arguments are usually called."""
    text = event.input.get("command")
    if _names_powershell(event.native_tool or event.tool):
        code = next(
            (one for name in ("command", *_COMMANDS, "code") if isinstance(one := event.input.get(name), str)), ""
        )
        if code and not _POWERSHELLS.match(code):
            return shlex.join(("powershell", "-Command", code))  # a language of its own, which is not read as a shell's
    if isinstance(text, str):
        return text
    if not event.tool.startswith("mcp__"):
        return None
    given = {_spelled(name): value for name, value in event.input.items()}
    for name in _COMMANDS:
        value = given.get(name)
        rest = given.get("args", given.get("arguments"))
        words = [word for word in rest if isinstance(word, str)] if isinstance(rest, list) else []
        if isinstance(value, str) and value:
            return " ".join((value, shlex.join(words))) if words else value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return "\n".join(value) if name == "commands" else shlex.join(value)
    return None


@lru_cache(4096)
def _names_powershell(tool: str) -> bool:
    return _POWERSHELLS.search(tool.rpartition("__")[2]) is not None


def paths_of(event: Event) -> list[str]:
    """The paths of a tool call, which may name several; of an MCP tool by what such arguments are usually called."""
    if event.tool.startswith("mcp__"):
        candidates = [value for name, value in event.input.items() if _spelled(name) in _PATHS]
        return [_local(path) for value in candidates for path in _texts(value)]
    path, several = event.input.get("path"), event.input.get("paths")
    return [one for one in (path, *(several if isinstance(several, list) else ())) if isinstance(one, str) and one]


def texts_of(event: Event) -> Iterable[str]:
    """Every text that a tool call carries, but for its paths: what it writes, replaces and removes, edit by edit."""
    return _carried([value for name, value in event.input.items() if _spelled(name) not in _PATHS])


def _carried(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _carried(one)


def _spelled(name: str) -> str:
    """An argument's name in the one spelling: `filePath` and `file-path` are `file_path`."""
    return "_".join(word.lower() for word in _WORD.findall(name))


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(one for one in value if isinstance(one, str) and one) if isinstance(value, list) else ()


def _local(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file://") else path
