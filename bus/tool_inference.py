"""What a tool that no agent's table lists does (an MCP server's, a program's own), by its name and its arguments' names.

A guard on `bash`, `write`, `edit` or `delete` has to see `mcp__x__run_command` with `{"cmd": …}` as what it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.vocabulary import CANONICAL, Use

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_COMMANDS: Final = ("command", "cmd", "commands", "command_line", "commandLine", "cmdline", "shell_command", "bash_command",
                    "shell", "bash",
                    "script", "input", "line")  # fmt: skip
_SURE: Final = frozenset(_COMMANDS[:8])
"""Arguments that are a command whatever the tool is called; the others are where its name says shell."""
_ARGUMENTS: Final = ("args", "arguments", "argv", "parameters")
_PATHS: Final = ("path", "file_path", "filePath", "filepath", "absolute_path", "file", "filename", "file_name", "fileName",
                 "target_file", "target_path", "relative_path", "notebook_path", "directory", "dir", "folder", "uri",
                 "destination", "target")  # fmt: skip
_CONTENTS: Final = ("content", "contents", "file_text", "text", "data", "body", "new_content", "new_str", "newText",
                    "new_string", "new_text", "edits", "diff", "patch", "code_edit", "replacement", "insert_text")  # fmt: skip
_CODE: Final = ("code", "script", "source", "source_code", "program", "snippet")
_DIRECTORIES: Final = ("cwd", "workdir", "working_directory", "workingDirectory", "working_dir", "directory")

_SHELL_WORDS: Final = frozenset(
    ["shell", "bash", "sh", "zsh", "terminal", "exec", "execute", "run", "command", "cmd",
     "console", "spawn", "ssh", "powershell", "pwsh", "cli", "process", "subprocess", "system"]
)  # fmt: skip
_WRITE_WORDS: Final = frozenset(["write", "create", "save", "put", "append", "overwrite", "edit", "update", "modify", "replace",
                                 "insert", "patch", "set", "upload", "apply"])  # fmt: skip
_DELETE_WORDS: Final = frozenset(
    ["delete", "remove", "rm", "unlink", "trash", "rmdir", "del", "erase", "rmtree", "destroy"]
)
_MOVE_WORDS: Final = frozenset(["move", "rename", "mv"])
_READ_WORDS: Final = frozenset(["read", "view", "cat", "open", "get", "show", "load", "head", "tail"])
_TREE_WORDS: Final = frozenset(["directory", "dir", "folder", "tree", "rmtree", "rmdir", "recursive", "recursively"])
_LANGUAGES: Final[Mapping[str, tuple[str, str]]] = {
    "python": ("python3", "-c"), "py": ("python3", "-c"), "ipython": ("python3", "-c"), "jupyter": ("python3", "-c"),
    "javascript": ("node", "-e"), "js": ("node", "-e"), "node": ("node", "-e"), "typescript": ("node", "-e"),
    "ruby": ("ruby", "-e"), "php": ("php", "-r"), "perl": ("perl", "-e"), "applescript": ("osascript", "-e"),
}  # fmt: skip
_STATEMENTS: Final = ("sql", "query", "statement", "queries")
_SQL_WORDS: Final = frozenset(
    ["sql", "query", "postgres", "mysql", "sqlite", "database", "db", "psql", "mariadb", "supabase", "migration"]
)


class Inferred(NamedTuple):
    """What a call amounts to: the canonical tools that it acts as, its fields, and fields that no own field holds."""

    tools: tuple[str, ...] = ()
    use: Use = Use("", {})
    made: Mapping[str, Any] = {}


_NOTHING: Final = Inferred()


def infer(native: str, given: Mapping[str, Any]) -> Inferred:
    """What a call of the unknown tool `native` amounts to; its server's name does not count."""
    if native in CANONICAL or not native:
        return _NOTHING
    words = _words(native)
    path = _field(given, _PATHS)
    if path and not words.isdisjoint(_DELETE_WORDS):
        tree = not words.isdisjoint(_TREE_WORDS) or bool(given.get("recursive"))
        return _command(given, ["rm", *(["-r"] if tree else []), given[path]], "delete", path)
    if not words.isdisjoint(_MOVE_WORDS):
        return _moved(given)
    return _shell(words, given) or _code(words, given) or _file(words, given, path)


def _shell(words: frozenset[str], given: Mapping[str, Any]) -> Inferred | None:
    """A call that runs a command."""
    command = _field(given, _COMMANDS)
    if not command or (command not in _SURE and words.isdisjoint(_SHELL_WORDS)):
        return None
    if (given.get("path") or given.get("file_path")) and _field(given, _CONTENTS):
        return None  # an editor's `{"command": "create", "path": …}`
    more, value = _field(given, _ARGUMENTS), given[command]
    if more and isinstance(given[more], list):
        first = value if isinstance(value, list) else [value]
        return Inferred(("bash",), Use("bash", {}), {"command": shlex.join(map(str, [*first, *given[more]]))})
    fields = {"command": (command,)}
    if where := _field(given, _DIRECTORIES):
        fields["cwd"] = (where,)
    return Inferred(("bash",), Use("bash", fields))


def _code(words: frozenset[str], given: Mapping[str, Any]) -> Inferred | None:
    """A call that runs code of another language, or a database's statements."""
    language = next((word for word in words if word in _LANGUAGES), str(given.get("language", "")).lower())
    code = _field(given, _CODE)
    if code and isinstance(given[code], str) and language in _LANGUAGES:
        return _command(given, [*_LANGUAGES[language], given[code]])
    statement = _field(given, _STATEMENTS)
    if statement and isinstance(given[statement], str) and (statement == "sql" or not words.isdisjoint(_SQL_WORDS)):
        return _command(given, ["psql", "-c", given[statement]])
    return None


def _file(words: frozenset[str], given: Mapping[str, Any], path: str) -> Inferred:
    """A call that writes or reads a file."""
    content = _field(given, _CONTENTS)
    if path and content and not words.isdisjoint(_WRITE_WORDS | {"file"}):
        return Inferred(("write", "edit"), Use("write", {"path": (path,), "content": (content,)}))
    if path and not words.isdisjoint(_READ_WORDS):
        return Inferred(("read",), Use("read", {"path": (path,)}))
    return _NOTHING


def acts_as(tool: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    """The further canonical tools that a call amounts to: an unknown tool's, and an edit inside a shell command."""
    if tool == "bash":
        return ("edit", "write") if "patch" in given and "paths" in given else ()
    return () if tool in CANONICAL else infer(tool, given).tools


def _moved(given: Mapping[str, Any]) -> Inferred:
    """A call that moves a file: it changes both paths."""
    source = _field(given, ("source", "src", "from", "old_path", "oldPath", "source_path", "path"))
    target = _field(given, ("destination", "dest", "to", "new_path", "newPath", "destination_path", "target"))
    if not source or not target:
        return _NOTHING
    moved = _command(given, ["mv", given[source], given[target]], "delete")
    return moved._replace(tools=(*moved.tools, "write"), made={**moved.made, "paths": [given[source], given[target]]})


def _command(given: Mapping[str, Any], argv: list[Any], tool: str = "", path: str = "") -> Inferred:
    """A call as the command that does the same; it may be another tool's too, with its path in the field `path`."""
    made = {} if "command" in given else {"command": " ".join(_quoted(str(word)) for word in argv)}
    use = Use(tool or "bash", {"path": (path,)} if path else {})
    return Inferred((tool, "bash") if tool else ("bash",), use, made)


def _quoted(word: str) -> str:
    """A word for a shell; a leading `~` stays the home directory."""
    return (
        f"~/{shlex.quote(word[2:]) if word[2:] else ''}"
        if word.startswith("~/")
        else word
        if word == "~"
        else shlex.quote(word)
    )


def _field(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((name for name in names if isinstance(given.get(name), str | list) and given[name]), "")


@lru_cache(4096)
def _words(native: str) -> frozenset[str]:
    """The words in a tool's name: `mcp__files__deleteFile` has `delete` and `file`."""
    own = native.rpartition("__")[2] if native.startswith("mcp__") else native.removeprefix("MCP:")
    return frozenset(word.lower() for word in _WORD.findall(own))
