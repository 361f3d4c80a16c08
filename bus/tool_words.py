"""Words in the names of unknown tools and of their arguments that say what a call does; all in snake_case."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from bus.lazy.regex import lazy_regex

COMMANDS: Final = (
    "command",
    "cmd",
    "commands",
    "command_line",
    "cmdline",
    "cmd_line",
    "cmd_string",
    "cli_command",
    "shell_command",
    "bash_command",
    "shell",
    "bash",
    "script",
    "input",
    "keys",
    "line",
    "argv",
    "program",
    "executable",
)


SURE: Final = frozenset(COMMANDS[:10])
"""Arguments that are a command for a tool of any name; the others count only if the tool's name says shell."""


ARGUMENTS: Final = ("args", "arguments", "argv", "parameters")


PATHS: Final = (
    "path",
    "file_path",
    "filepath",
    "absolute_path",
    "file",
    "filename",
    "file_name",
    "target_file",
    "target_path",
    "relative_path",
    "relative_workspace_path",
    "path_in_project",
    "notebook_path",
    "directory",
    "dir",
    "dir_path",
    "directory_path",
    "folder",
    "folder_path",
    "uri",
    "destination",
    "target",
    "paths",
    "file_paths",
    "files",
)


PATCHES: Final = ("patch", "diff", "patch_text", "patch_content", "input", "changes")
"""Arguments that may be a patch, which names its files itself."""
PATCH_WORDS: Final = frozenset(["patch", "apply", "diff", "hunk"])
"""Words in the names of tools that apply a patch."""
PATCH_FOLDERS: Final = (
    "repo_path",
    "repository_path",
    "repo",
    "root",
    "cwd",
    "workdir",
    "working_directory",
    "directory",
)
"""Arguments that name the folder which a patch's paths start from."""


CONTENTS: Final = (
    "content",
    "contents",
    "file_text",
    "text",
    "data",
    "body",
    "new_content",
    "new_str",
    "new_string",
    "new_text",
    "edits",
    "diff",
    "patch",
    "patches",
    "code_edit",
    "replacement",
    "replace",
    "insert_text",
)


CODE: Final = (
    "code",
    "script",
    "source",
    "source_code",
    "program",
    "snippet",
    "python_code",
    "cell_source",
    "code_snippet",
    "js_code",
    "py_code",
    "cell",
    "expression",
    "input",
)


DIRECTORIES: Final = ("cwd", "workdir", "working_directory", "working_dir", "directory")


WRAPPERS: Final = (
    "params",
    "arguments",
    "args",
    "input",
    "request",
    "options",
    "payload",
    "parameters",
    "kwargs",
    "flags",
)
"""Arguments that hold the arguments."""


NAME: Final = lazy_regex(r"[A-Za-z][A-Za-z_-]{1,40}")
"""The name of an operation, such as `drop_table`; a longer text is not a name."""


OPERATIONS: Final = ("operation", "action", "op", "command")


SHELL_WORDS: Final = frozenset(
    [
        "shell",
        "bash",
        "sh",
        "zsh",
        "terminal",
        "exec",
        "execute",
        "run",
        "command",
        "cmd",
        "keys",
        "tmux",
        "console",
        "spawn",
        "ssh",
        "pty",
        "powershell",
        "pwsh",
        "cli",
        "process",
        "subprocess",
        "system",
    ]
)


TYPED_WORDS: Final = frozenset(["terminal", "pty", "tmux", "keys"])
"""Words in the names of tools that type their text into a shell."""


SHELL_SERVERS: Final = frozenset(["shell", "bash", "terminal", "ssh", "tmux", "iterm", "console"])


WRITE_WORDS: Final = frozenset(
    [
        "write",
        "create",
        "save",
        "put",
        "append",
        "overwrite",
        "edit",
        "update",
        "modify",
        "replace",
        "insert",
        "patch",
        "set",
        "upload",
        "apply",
    ]
)


DELETE_WORDS: Final = frozenset(
    ["delete", "remove", "rm", "unlink", "trash", "rmdir", "del", "erase", "rmtree", "destroy"]
)


LOSING_WORDS: Final = DELETE_WORDS | {
    "drop",
    "terminate",
    "purge",
    "truncate",
    "wipe",
    "prune",
    "drain",
    "uninstall",
    "reset",
}


EMPTYING_WORDS: Final = frozenset(["clear", "empty", "wipe", "purge"])


STOPPING_WORDS: Final = ("stop", "disable", "mask")
KILL_WORDS: Final = ("kill", "killall", "pkill", "taskkill")
END_WORDS: Final = ("terminate", "end", "stop", "quit", "signal", "close")
"""Words that end something; in the name of a tool about processes they end a process."""


MOVE_WORDS: Final = frozenset(["move", "rename", "mv"])


COPY_WORDS: Final = frozenset(["copy", "cp"])


READ_WORDS: Final = frozenset(["read", "view", "cat", "open", "get", "show", "load", "head", "tail"])


TREE_WORDS: Final = frozenset(["directory", "dir", "folder", "tree", "rmtree", "rmdir", "recursive", "recursively"])


ON_PATH: Final[Mapping[str, tuple[str, ...]]] = {
    "truncate": ("truncate", "-s", "0"),
    "chmod": ("chmod",),
    "permissions": ("chmod",),
    "chown": ("chown",),
}
"""The program that does the same as a tool, by a word in the tool's name; for tools that change a file in other ways."""


LANGUAGES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(
        ["python", "python3", "py", "ipython", "jupyter", "notebook", "repl", "cell", "interpreter"], ("python3", "-c")
    ),
    **dict.fromkeys(["javascript", "js", "node", "nodejs", "typescript", "ts", "deno", "bun"], ("node", "-e")),
    **dict.fromkeys(["bash", "sh", "shell", "zsh", "shellscript"], ("bash", "-c")),
    **dict.fromkeys(["powershell", "pwsh", "ps"], ("powershell", "-Command")),
    "ruby": ("ruby", "-e"),
    "php": ("php", "-r"),
    "tinker": ("php", "-r"),
    "perl": ("perl", "-e"),
    **dict.fromkeys(["applescript", "osascript"], ("osascript", "-e")),
}


LANGUAGE_NAMES: Final = ("language", "lang", "language_id", "runtime", "kernel", "kernel_name", "interpreter")


SHELL_LINE: Final = lazy_regex(r"^[ \t]*(?:!|%(?:sx|system|sh)\s)[ \t]*(.*)$", re.MULTILINE)
"""A line of a notebook's cell that a shell runs."""


SHELL_CELL: Final = lazy_regex(r"\A\s*%%?(?:bash|sh|script\s+\S+)[^\n]*\n")


STATEMENTS: Final = (
    "sql",
    "query",
    "statement",
    "queries",
    "statements",
    "sql_query",
    "sql_statement",
    "sql_statements",
    "raw_sql",
    "sql_text",
    "query_text",
    "query_string",
    "cypher",
)


SQL: Final = lazy_regex(r"\s*(?:drop|truncate|delete|update|alter)\s+\w", re.IGNORECASE)


SQL_WORDS: Final = frozenset(
    [
        "sql",
        "query",
        "postgres",
        "postgresql",
        "mysql",
        "sqlite",
        "database",
        "db",
        "psql",
        "mariadb",
        "supabase",
        "migration",
        "cypher",
    ]
)


SQL_SERVERS: Final = frozenset(
    [
        "sql",
        "postgres",
        "postgresql",
        "mysql",
        "sqlite",
        "database",
        "db",
        "dbhub",
        "mariadb",
        "mssql",
        "sqlserver",
        "oracle",
        "snowflake",
        "bigquery",
        "clickhouse",
        "duckdb",
        "redshift",
        "neon",
        "databricks",
        "athena",
        "trino",
        "neo4j",
    ]
)


ASKING_WORDS: Final = frozenset(
    [
        "search",
        "docs",
        "documentation",
        "ask",
        "explain",
        "find",
        "help",
        "graphql",
        "suggest",
        "logs",
        "metrics",
        "prometheus",
    ]
)
"""Words in the names of tools whose `query` is a question in prose, and not a statement."""


_PART: Final = lazy_regex(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


@lru_cache(4096)
def one_spelling(name: str) -> str:
    """An argument's name in snake_case: `filePath` and `file-path` become `file_path`."""
    return "_".join(part.lower() for part in _PART.findall(name))


def command_line(words: Sequence[object]) -> str:
    """The command line that a list of words gives. A list of one is a line already; more are a program and its arguments."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else shlex.join(texts)


def texts_in(value: object) -> list[str]:
    """The texts in an argument: the argument itself, or the texts in its list."""
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
