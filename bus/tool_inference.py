"""What a tool that no agent's table lists does (an MCP server's, a program's own), by its name and its arguments' names.

A guard on `bash`, `write`, `edit` or `delete` has to see `mcp__x__run_command` with `{"cmd": …}` as what it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.tool_names import CANONICAL, ToolAlias
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
    LANGUAGE_NAMES,
    LANGUAGES,
    LOSING_WORDS,
    MOVE_WORDS,
    NAME,
    ON_PATH,
    OPERATIONS,
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
    one_spelling,
    texts_in,
)


class Inferred(NamedTuple):
    """What a call amounts to: the canonical tools that it acts as, its fields, and fields that no own field holds."""

    tools: tuple[str, ...] = ()
    use: ToolAlias = ToolAlias("", {})
    made: Mapping[str, Any] = {}


_NOTHING: Final = Inferred()


class _Call(NamedTuple):
    """A call: the words of its tool's name and of its server's, and its arguments in one spelling."""

    words: frozenset[str]
    server: frozenset[str]
    given: Mapping[str, Any]
    own: Mapping[str, str]
    """By spelling, what the agent calls the argument; empty for one inside of another."""


def infer(native: str, given: Mapping[str, Any]) -> Inferred:
    """What a call of the unknown tool `native` amounts to.

    It is asked twice for each event: `canonical_input` fills the event's fields, and `acts_as` finds the hooks. An event keeps
    no trace of the first answer, because it may come from another machine, a spool or a replay.
    """
    if native in CANONICAL or not native:
        return _NOTHING
    call = _call(native, given)
    found = _request(native, call) or _statement(call) or _program(native, call) or _on_files(call)
    return found or _code(call) or _shell(call) or _file(call)


def acts_as(tool: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    """The further names of a call: canonical tools that an unknown tool amounts to, or an edit inside a shell command.

    Where an argument says that something is deleted, the name with that too: `mcp__pg__manage_schema_drop_table`.
    """
    if tool == "bash":
        return ("edit", "write") if "patch" in given and "paths" in given else ()
    if tool in CANONICAL:
        return ()
    tools = infer(tool, given).tools
    said = next((value for name in OPERATIONS if isinstance(value := given.get(name), str)), "")
    if NAME.fullmatch(said) and not LOSING_WORDS.isdisjoint(WORD.findall(said.lower())):
        return (*tools, f"{tool}_{'_'.join(WORD.findall(said.lower()))}")
    return tools


def _call(native: str, given: Mapping[str, Any]) -> _Call:
    fields: dict[str, Any] = {}
    own: dict[str, str] = {}
    for name, value in given.items():
        spelled = one_spelling(name)
        if isinstance(value, dict) and spelled in WRAPPERS:
            for inner, one in value.items():
                if isinstance(inner, str):
                    fields.setdefault(one_spelling(inner), one)
        else:
            fields[spelled] = value
            own[spelled] = name
    words = _words(native)
    operation = next(
        (value for name in ("operation", "action", "op") if isinstance(value := fields.get(name), str)), ""
    )
    if NAME.fullmatch(operation):
        words |= {word.lower() for word in WORD.findall(operation)}
    return _Call(words, frozenset(tool_parts(native)[0]), fields, own)


def _request(native: str, call: _Call) -> Inferred | None:
    """A call that deletes by HTTP or GraphQL."""
    line = request_command(native, call.given)
    return _lines(line) if line else None


def _program(native: str, call: _Call) -> Inferred | None:
    """A call of a tool that is named after a program."""
    line = program_command(native, call.given)
    return _lines(line) if line else None


def _on_files(call: _Call) -> Inferred | None:
    """A call that deletes, moves or copies files, or changes their rights."""
    words, given = call.words, call.given
    paths = texts_in(given.get(_field(given, PATHS)))
    tree = not words.isdisjoint(TREE_WORDS) or bool(given.get("recursive"))
    if paths and (not words.isdisjoint(DELETE_WORDS) or (tree and not words.isdisjoint(EMPTYING_WORDS))):
        return _command(call, ["rm", *(["-r"] if tree else []), *paths], "delete", _field(given, PATHS))
    if not words.isdisjoint(MOVE_WORDS):
        return _moved(call, "mv")
    if not words.isdisjoint(COPY_WORDS):
        return _moved(call, "cp")
    program = next((ON_PATH[word] for word in words if word in ON_PATH), ())
    if paths and program:
        more = [str(given[name]) for name in ("mode", "permissions", "owner") if isinstance(given.get(name), str | int)]
        if more or program[0] == "truncate":
            return _command(call, [*program, *more[:1], *paths])
    if "service" in words and (verb := next((one for one in STOPPING_WORDS if one in words), "")):
        service = _field(given, ("service", "service_name", "name", "unit"))
        if service:
            return _command(call, ["systemctl", verb, given[service]])
    if "pid" in given and "kill" in words:
        return _command(call, ["kill", given["pid"]])
    return None


def _shell(call: _Call) -> Inferred | None:
    """A call that runs a command."""
    words, given = call.words, call.given
    command = _field(given, COMMANDS) or ("" if words.isdisjoint(TYPED_WORDS) else _field(given, ("text", "data")))
    says_shell = not words.isdisjoint(SHELL_WORDS) or not call.server.isdisjoint(SHELL_SERVERS)
    if not command or (command not in SURE and not says_shell):
        return None
    if (given.get("path") or given.get("file_path")) and _field(given, CONTENTS):
        return None  # an editor's `{"command": "create", "path": …}`
    more, value = _field(given, ARGUMENTS), given[command]
    if more and more != command and isinstance(given[more], list):
        rest = shlex.join(map(str, given[more]))
        return _lines(f"{shlex.join(map(str, value)) if isinstance(value, list) else value} {rest}")
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return _lines("\n".join(_step(one) for one in value))
    if command not in call.own or command == "argv":
        return _lines(shlex.join(map(str, value)) if isinstance(value, list) else value)
    fields = {"command": (call.own[command],)}
    if (where := _field(given, DIRECTORIES)) and where in call.own:
        fields["cwd"] = (call.own[where],)
    return Inferred(("bash",), ToolAlias("bash", fields))


def _step(step: Mapping[str, Any]) -> str:
    """The command line of one of several commands: `{"cmd": "rm", "args": ["-rf", "x"]}`."""
    rest = step.get("args")
    text = next((step[name] for name in ("command", "cmd", "run", "script") if isinstance(step.get(name), str)), "")
    return f"{text} {shlex.join(map(str, rest))}" if isinstance(rest, list) else text


def _code(call: _Call) -> Inferred | None:
    """A call that runs code in a language that its name, its arguments or its server's name says."""
    given = call.given
    code = _field(given, CODE)
    if not code or not isinstance(given[code], str):
        return None
    said = next((given[name].lower() for name in LANGUAGE_NAMES if isinstance(given.get(name), str)), "")
    named = next((word for word in call.words if word in LANGUAGES), "")
    language = said if said in LANGUAGES else named or next((word for word in call.server if word in LANGUAGES), "")
    if not language and "ide" in call.server and "code" in call.words:
        language = "python"  # of Claude Code's extension for VS Code: a notebook's cell
    if not language:
        return None
    program = LANGUAGES[language]
    if program[0] != "python3":
        return _command(call, [*program, given[code]])
    return _lines(_cell(given[code]))


def _cell(code: str) -> str:
    """The command lines of a notebook's cell: its Python, and its lines for the shell."""
    rest, magic = SHELL_CELL.subn("", code, count=1)
    if magic:
        return shlex.join(["bash", "-c", rest])
    shell = [found[1] for found in SHELL_LINE.finditer(code)]
    own = SHELL_LINE.sub("pass", code) if shell else code
    return "\n".join([shlex.join(["python3", "-c", own]), *shell])


def _statement(call: _Call) -> Inferred | None:
    """A call that sends a statement to a database."""
    given = call.given
    name = _field(given, STATEMENTS)
    if not name and isinstance(text := given.get("command"), str) and SQL.match(text):
        name = "command"
    sure = name[:3] in ("sql", "raw", "cyp")
    if not name or (not sure and call.words.isdisjoint(SQL_WORDS) and call.server.isdisjoint(SQL_SERVERS)):
        return None
    if not sure and not call.words.isdisjoint(ASKING_WORDS):
        return None
    text = ";\n".join(texts_in(given[name]))
    cypher = "neo4j" in call.server or not call.words.isdisjoint(["cypher", "neo4j"])
    return _command(call, ["cypher-shell", text] if cypher else ["psql", "-c", text])


def _file(call: _Call) -> Inferred:
    """A call that writes or reads a file."""
    given = call.given
    path, content = _field(given, PATHS), _field(given, CONTENTS)
    several = given.get("files")
    if isinstance(several, list) and all(isinstance(one, dict) for one in several) and call.words & WRITE_WORDS:
        paths = [path for one in several if isinstance(path := one.get("path", one.get("file_path")), str)]
        return Inferred(("write", "edit"), ToolAlias("write", {}), {"paths": paths}) if paths else _NOTHING
    fields = {"path": (call.own.get(path, path),), "content": (call.own.get(content, content),)}
    if path and content and not call.words.isdisjoint(WRITE_WORDS | {"file"}):
        return Inferred(("write", "edit"), ToolAlias("write", fields))
    if path and not call.words.isdisjoint(READ_WORDS):
        return Inferred(("read",), ToolAlias("read", {"path": fields["path"]}))
    return _NOTHING


def _moved(call: _Call, program: str) -> Inferred | None:
    """A call that moves or copies a file."""
    given = call.given
    source = _field(given, ("source", "src", "from", "old_path", "source_path", "path"))
    target = _field(given, ("destination", "dest", "to", "new_path", "destination_path", "target", "target_path"))
    if not source or not target:
        return None
    argv = [program, given[source], given[target]]
    if program == "cp":
        return _command(call, argv)  # the command shows what it writes: its source is only read
    moved = _command(call, argv, "delete")
    return moved._replace(tools=(*moved.tools, "write"), made={**moved.made, "paths": argv[1:]})


def _command(call: _Call, argv: list[Any], tool: str = "", path: str = "") -> Inferred:
    """A call as the command that does the same; it may be another tool's too, with its path in the field `path`."""
    found = _lines(" ".join(_quoted(str(word)) for word in argv))
    if not tool:
        return found
    fields = {"path": (call.own[path],)} if path in call.own else {}
    return Inferred((tool, "bash"), ToolAlias(tool, fields), found.made)


def _lines(text: str) -> Inferred:
    """A call as these command lines."""
    return Inferred(("bash",), ToolAlias("bash", {}), {"command": text})


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
    """The first of these arguments that is given as a text or a list, and is not empty."""
    for name in names:  # a generator takes three times as long, and most calls have none of fifty names
        if name in given and isinstance(value := given[name], (str, list)) and value:
            return name
    return ""


@lru_cache(4096)
def _words(native: str) -> frozenset[str]:
    """The words in a tool's name: `mcp__files__deleteFile` has `delete` and `file`."""
    return frozenset(word.lower() for word in WORD.findall(tool_parts(native)[1]))
