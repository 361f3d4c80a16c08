"""Infers what an unknown tool does (one of an MCP server or a program) from its name and the names of its arguments.

A guard on `bash` has to see `mcp__x__run_command` with `{"cmd": …}` as a shell command; the same holds for `write`, `edit`
and `delete`.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.tool_names import CANONICAL, ToolAlias
from bus.tool_patches import patched_files
from bus.tool_programs import WORD, program_command, request_command, tool_parts
from bus.tool_words import (
    ARGUMENTS,
    ASKING_WORDS,
    CODE,
    COMMANDS,
    CONTENTS,
    COPY_WORDS,
    DELETE_WORDS,
    DIRECTORIES,
    EMPTYING_WORDS,
    END_WORDS,
    KILL_WORDS,
    LANGUAGE_NAMES,
    LANGUAGES,
    LOSING_WORDS,
    MOVE_WORDS,
    NAME,
    ON_PATH,
    OPERATIONS,
    PATCH_FOLDERS,
    PATCH_WORDS,
    PATCHES,
    PATHS,
    READ_WORDS,
    SHELL_CELL,
    SHELL_LINE,
    SHELL_SERVERS,
    SHELL_WORDS,
    SQL,
    SQL_SERVERS,
    SQL_WORDS,
    STATEMENTS,
    STOPPING_WORDS,
    SURE,
    TREE_WORDS,
    TYPED_WORDS,
    WRAPPERS,
    WRITE_WORDS,
    command_line,
    one_spelling,
    texts_in,
)


class Inferred(NamedTuple):
    """The meaning of a call that its tool's name does not show, in canonical terms."""

    tools: tuple[str, ...] = ()
    """Further tool names that hooks may match: first the canonical tools that do the same.

    If an argument names an operation that deletes, then also the tool's name with that operation:
    `mcp__pg__manage_schema_drop_table`.
    """
    use: ToolAlias = ToolAlias("", {})
    """The first of the canonical tools, and which of the call's own fields are its canonical fields."""
    derived_fields: Mapping[str, Any] = {}
    """Canonical fields that are computed from several arguments."""


_NOTHING: Final = Inferred()
_PATCH: Final = Inferred(("edit", "write"))


class _Call(NamedTuple):
    """A call: the words in the names of its tool and its MCP server, and its arguments with their names in snake_case."""

    words: frozenset[str]
    server: frozenset[str]
    arguments: Mapping[str, Any]
    native_names: Mapping[str, str]
    """The original name of each argument, by its name in snake_case; without arguments that are nested in another one."""


def infer(tool: str, arguments: Mapping[str, Any]) -> Inferred:
    """What a call of an unknown tool does. A known tool does nothing else, except `bash` with a patch in its command.

    `canonical_input` fills an event's fields with it, and the index of hooks matches its names. The result is not kept in the
    event, because an event may come from another machine, a spool or a replay.
    """
    if tool == "bash":
        return _PATCH if "patch" in arguments and "paths" in arguments else _NOTHING
    if tool in CANONICAL or not tool:
        return _NOTHING
    call = _call(tool, arguments)
    found = _request(tool, call) or _patch(call) or _statement(call) or _program(tool, call) or _on_files(call)
    found = found or _code(call) or _shell(call) or _file(call)
    operation = next((value for name in OPERATIONS if isinstance(value := arguments.get(name), str)), "")
    words = WORD.findall(operation.lower()) if NAME.fullmatch(operation) else []
    if LOSING_WORDS.isdisjoint(words):
        return found
    return found._replace(tools=(*found.tools, f"{tool}_{'_'.join(words)}"))


def _call(native: str, arguments: Mapping[str, Any]) -> _Call:
    fields: dict[str, Any] = {}
    native_names: dict[str, str] = {}
    for name, value in arguments.items():
        spelled = one_spelling(name)
        if isinstance(value, dict) and spelled in WRAPPERS:
            for inner_name, inner_value in _unwrapped(value):
                fields.setdefault(inner_name, inner_value)
        else:
            fields[spelled] = value
            native_names[spelled] = name
    words = _words(native)
    operation = next(
        (value for name in ("operation", "action", "op") if isinstance(value := fields.get(name), str)), ""
    )
    if NAME.fullmatch(operation):
        words |= {word.lower() for word in WORD.findall(operation)}
    return _Call(words, frozenset(tool_parts(native)[0]), fields, native_names)


def _unwrapped(arguments: Mapping[Any, Any], levels: int = 8) -> Iterator[tuple[str, Any]]:
    """The arguments in a wrapper, and in the wrappers inside of it, by their names in snake_case."""
    for name, value in arguments.items():
        spelled = one_spelling(name) if isinstance(name, str) else ""
        if levels and isinstance(value, dict) and spelled in WRAPPERS:
            yield from _unwrapped(value, levels - 1)
        elif spelled:
            yield spelled, value


def _request(native: str, call: _Call) -> Inferred | None:
    """A call that deletes by HTTP or GraphQL."""
    line = request_command(native, call.arguments)
    return _lines(line) if line else None


def _patch(call: _Call) -> Inferred | None:
    """A call that applies a patch to files, such as `git_apply {"repo_path": …, "patch": …}`."""
    if call.words.isdisjoint(PATCH_WORDS):
        return None
    arguments = call.arguments
    text = "\n".join(value for name in (*PATCHES, *CONTENTS) if isinstance(value := arguments.get(name), str))
    changed = patched_files(text)
    if not changed:
        return None
    base = next((value for name in PATCH_FOLDERS if isinstance(value := arguments.get(name), str)), "")
    paths = [path if path.startswith("~") else posixpath.join(base, path) for path in changed]
    named = [value for name in ("path", "file_path") if isinstance(value := arguments.get(name), str) and value != base]
    return Inferred(("write", "edit"), ToolAlias("write", {}), {"paths": [*named, *paths], "content": text})


def _program(native: str, call: _Call) -> Inferred | None:
    """A call of a tool that is named after a program, such as `git_push`."""
    line = program_command(native, call.arguments)
    return _lines(line) if line else None


def _on_files(call: _Call) -> Inferred | None:
    """A call that deletes, moves or copies files, or changes their rights."""
    words, arguments = call.words, call.arguments
    paths = texts_in(arguments.get(_field(arguments, PATHS)))
    tree = not words.isdisjoint(TREE_WORDS) or bool(arguments.get("recursive"))
    if paths and (not words.isdisjoint(DELETE_WORDS) or (tree and not words.isdisjoint(EMPTYING_WORDS))):
        return _command(call, ["rm", *(["-r"] if tree else []), *paths], "delete", _field(arguments, PATHS))
    if not words.isdisjoint(MOVE_WORDS):
        return _moved(call, "mv")
    if not words.isdisjoint(COPY_WORDS):
        return _moved(call, "cp")
    program = next((ON_PATH[word] for word in words if word in ON_PATH), ())
    if paths and program:
        more = [
            str(arguments[name])
            for name in ("mode", "permissions", "owner")
            if isinstance(arguments.get(name), str | int)
        ]
        if more or program[0] == "truncate":
            return _command(call, [*program, *more[:1], *paths])
    if "service" in words and (verb := next((word for word in STOPPING_WORDS if word in words), "")):
        service = _field(arguments, ("service", "service_name", "name", "unit"))
        if service:
            return _command(call, ["systemctl", verb, arguments[service]])
    return _ended(call)


def _ended(call: _Call) -> Inferred | None:
    """A call that ends processes, by number or by name."""
    words, arguments = call.words, call.arguments
    about = "process" in words or not call.server.isdisjoint(("process", "processes"))
    if words.isdisjoint(KILL_WORDS if not about else (*KILL_WORDS, *END_WORDS)):
        return None
    numbers = next((arguments[name] for name in ("pid", "pids", "process_id") if name in arguments), None)
    if numbers is not None:
        return _command(call, ["kill", *(numbers if isinstance(numbers, list) else [numbers])])
    named = ("process_name", "name", "process", "pattern", "image_name") if about else ("process_name", "name")
    found = next((value for name in named if isinstance(value := arguments.get(name), str)), "")
    return _command(call, ["pkill", found]) if found else None


def _shell(call: _Call) -> Inferred | None:
    """A call that runs a command."""
    words, arguments = call.words, call.arguments
    command = _field(arguments, COMMANDS) or (
        "" if words.isdisjoint(TYPED_WORDS) else _field(arguments, ("text", "data"))
    )
    says_shell = not words.isdisjoint(SHELL_WORDS) or not call.server.isdisjoint(SHELL_SERVERS)
    if not command and says_shell and isinstance(argv := arguments.get(_field(arguments, ARGUMENTS)), list):
        return _lines(shlex.join(map(str, argv)))  # `run {"args": ["rm", "-rf", "x"]}`
    if not command or (command not in SURE and not says_shell):
        return None
    if (arguments.get("path") or arguments.get("file_path")) and _field(arguments, CONTENTS):
        return None  # an editor's `{"command": "create", "path": …}`
    more, value = _field(arguments, ARGUMENTS), arguments[command]
    if more and more != command and isinstance(arguments[more], list):
        rest = shlex.join(map(str, arguments[more]))
        return _lines(f"{shlex.join(map(str, value)) if isinstance(value, list) else value} {rest}")
    if (
        more
        and more != command
        and isinstance(value, str)
        and isinstance(arguments[more], str)
        and arguments[more][:1] != "{"
    ):
        return _lines(f"{value} {arguments[more]}")
    if isinstance(value, list) and all(isinstance(step, dict) for step in value):
        return _lines("\n".join(_step(step) for step in value))
    if command not in call.native_names or command == "argv":
        return _lines(command_line(value) if isinstance(value, list) else value)
    fields = {"command": (call.native_names[command],)}
    if (directory := _field(arguments, DIRECTORIES)) and directory in call.native_names:
        fields["cwd"] = (call.native_names[directory],)
    return Inferred(("bash",), ToolAlias("bash", fields))


def _step(step: Mapping[str, Any]) -> str:
    """The command line of an item in a list of commands, such as `{"cmd": "rm", "args": ["-rf", "x"]}`."""
    rest = step.get("args")
    text = next((step[name] for name in ("command", "cmd", "run", "script") if isinstance(step.get(name), str)), "")
    return f"{text} {shlex.join(map(str, rest))}" if isinstance(rest, list) else text


def _code(call: _Call) -> Inferred | None:
    """A call that runs code; the tool's name, an argument or the server's name says the language."""
    arguments = call.arguments
    code = _field(arguments, CODE)
    if not code or not isinstance(arguments[code], str):
        return None
    language = next((arguments[name].lower() for name in LANGUAGE_NAMES if isinstance(arguments.get(name), str)), "")
    if language not in LANGUAGES:
        language = next((word for word in (*call.words, *call.server) if word in LANGUAGES), "")
    if not language and "ide" in call.server and "code" in call.words:
        language = "python"  # a notebook's cell, run by Claude Code's extension for VS Code
    if not language:
        return None
    program = LANGUAGES[language]
    if program[0] != "python3":
        return _command(call, [*program, arguments[code]])
    return _lines(_cell(arguments[code]))


def _cell(code: str) -> str:
    """The command lines of a notebook's cell: its Python, and its lines for the shell."""
    rest, magic = SHELL_CELL.subn("", code, count=1)
    if magic:
        return shlex.join(["bash", "-c", rest])
    shell = [found[1] for found in SHELL_LINE.finditer(code)]
    python = SHELL_LINE.sub("pass", code) if shell else code
    return "\n".join([shlex.join(["python3", "-c", python]), *shell])


def _statement(call: _Call) -> Inferred | None:
    """A call that sends a statement to a database."""
    arguments = call.arguments
    name = _field(arguments, STATEMENTS)
    if not name and isinstance(text := arguments.get("command"), str) and SQL.match(text):
        name = "command"
    sure = name[:3] in ("sql", "raw", "cyp")
    if not name or (not sure and call.words.isdisjoint(SQL_WORDS) and call.server.isdisjoint(SQL_SERVERS)):
        return None
    if not sure and not call.words.isdisjoint(ASKING_WORDS):
        return None
    text = ";\n".join(texts_in(arguments[name]))
    cypher = "neo4j" in call.server or not call.words.isdisjoint(["cypher", "neo4j"])
    return _command(call, ["cypher-shell", text] if cypher else ["psql", "-c", text])


def _file(call: _Call) -> Inferred:
    """A call that writes or reads a file."""
    arguments = call.arguments
    path, content = _field(arguments, PATHS), _field(arguments, CONTENTS)
    if path and not content:  # an empty content empties the file
        content = next((name for name in CONTENTS if arguments.get(name) == ""), "")
    several = arguments.get("files")
    if isinstance(several, list) and all(isinstance(file, dict) for file in several) and call.words & WRITE_WORDS:
        paths = [path for file in several if isinstance(path := file.get("path", file.get("file_path")), str)]
        return Inferred(("write", "edit"), ToolAlias("write", {}), {"paths": paths}) if paths else _NOTHING
    patch = "" if path else _field(arguments, PATCHES)
    if patch and isinstance(arguments[patch], str) and (changed := patched_files(arguments[patch])):
        return Inferred(("write", "edit"), ToolAlias("write", {}), {"paths": [*changed]})
    fields = {"path": (call.native_names.get(path, path),), "content": (call.native_names.get(content, content),)}
    if path and content and not call.words.isdisjoint(WRITE_WORDS | {"file"}):
        return Inferred(("write", "edit"), ToolAlias("write", fields))
    if path and not call.words.isdisjoint(READ_WORDS):
        return Inferred(("read",), ToolAlias("read", {"path": fields["path"]}))
    return _NOTHING


def _moved(call: _Call, program: str) -> Inferred | None:
    """A call that moves or copies a file."""
    arguments = call.arguments
    source = _field(arguments, ("source", "src", "from", "old_path", "source_path", "path"))
    target = _field(arguments, ("destination", "dest", "to", "new_path", "destination_path", "target", "target_path"))
    if not source or not target:
        return None
    argv = [program, arguments[source], arguments[target]]
    if program == "cp":
        return _command(call, argv)  # no `paths`: it only reads its source, and the command itself shows what it writes
    moved = _command(call, argv, "delete")
    return moved._replace(tools=(*moved.tools, "write"), derived_fields={**moved.derived_fields, "paths": argv[1:]})


def _command(call: _Call, argv: list[Any], tool: str = "", path: str = "") -> Inferred:
    """A call as the command that does the same, and also as the canonical tool `tool` if that is not empty.

    `path` is the argument that has the tool's path.
    """
    found = _lines(" ".join(_quoted(str(word)) for word in argv))
    if not tool:
        return found
    fields = {"path": (call.native_names[path],)} if path in call.native_names else {}
    return Inferred((tool, "bash"), ToolAlias(tool, fields), found.derived_fields)


def _lines(text: str) -> Inferred:
    """A call as these command lines."""
    return Inferred(("bash",), ToolAlias("bash", {}), {"command": text})


def _quoted(word: str) -> str:
    """A word quoted for a shell, except a leading `~`, which has to keep its meaning."""
    return (
        f"~/{shlex.quote(word[2:]) if word[2:] else ''}"
        if word.startswith("~/")
        else word
        if word == "~"
        else shlex.quote(word)
    )


def _field(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these names whose argument is a text or a list and is not empty."""
    for name in names:  # a generator expression takes three times as long, and most calls have none of the fifty names
        if name in arguments and isinstance(value := arguments[name], (str, list)) and value:
            return name
    return ""


@lru_cache(4096)
def _words(native: str) -> frozenset[str]:
    """The words in a tool's name: `mcp__files__deleteFile` has `delete` and `file`."""
    return frozenset(word.lower() for word in WORD.findall(tool_parts(native)[1]))
