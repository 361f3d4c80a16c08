"""Builds the command line of a tool that is named after a program (`git_push`, `run_gcloud_command`) or sends a request.

So a rule about `git push --force` also judges `git_push {"force": true}`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from bus.lazy.regex import lazy_regex

WORD: Final = lazy_regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: (name,)
        for name in (
            "git",
            "kubectl",
            "oc",
            "helm",
            "docker",
            "podman",
            "terraform",
            "tofu",
            "terragrunt",
            "pulumi",
            "cdk",
            "gh",
            "glab",
            "aws",
            "gcloud",
            "gsutil",
            "az",
            "heroku",
            "fly",
            "flyctl",
            "vercel",
            "netlify",
            "railway",
            "wrangler",
            "supabase",
            "firebase",
            "prisma",
            "npm",
            "pnpm",
            "yarn",
            "systemctl",
            "argocd",
            "nomad",
            "vault",
            "doctl",
            "ansible",
            "mongosh",
            "curl",
            "make",
            "just",
            "alembic",
            "rails",
            "flyway",
            "liquibase",
            "artisan",
            "journalctl",
            "launchctl",
            "pm2",
            "restic",
            "rclone",
        )
    },
    "kubernetes": ("kubectl",),
    "k8s": ("kubectl",),
    "aks": ("kubectl",),
    "azure": ("az",),
    "redis": ("redis-cli",),
    "valkey": ("redis-cli",),
    "compose": ("docker", "compose"),
    "systemd": ("systemctl",),
    "mongo": ("mongosh", "--eval"),
    "mongodb": ("mongosh", "--eval"),
    "django": ("python", "manage.py"),
}
"""The program that a tool runs, by a word in the tool's name or in its server's name."""

_SERVER_NAMES: Final = frozenset(
    [
        "git",
        "docker",
        "podman",
        "kubernetes",
        "k8s",
        "kubectl",
        "helm",
        "terraform",
        "pulumi",
        "redis",
        "valkey",
        "mongo",
        "mongodb",
        "prisma",
        "systemd",
        "systemctl",
        "heroku",
        "gh",
        "vault",
        "npm",
        "make",
        "just",
        "django",
    ]
)
"""The words that also count if they are only in the server's name."""
_READING_VERBS: Final = frozenset(
    [
        "get",
        "list",
        "describe",
        "show",
        "status",
        "log",
        "logs",
        "diff",
        "search",
        "read",
        "view",
        "info",
        "inspect",
        "explain",
        "find",
        "fetch",
        "suggest",
        "count",
        "blame",
    ]
)
"""Verbs of tools that only read; their calls are not turned into commands."""
_FILLERS: Final = frozenset(
    [
        "command",
        "commands",
        "cmd",
        "cli",
        "run",
        "execute",
        "exec",
        "raw",
        "tool",
        "extension",
        "call",
        "generic",
        "resource",
        "resources",
        "chart",
        "mcp",
        "azmcp",
        "server",
        "use",
        "api",
    ]
)
"""Words of a tool's name that are not part of the command."""
_VERBS: Final = (
    "service_name",
    "operation_name",
    "sub_command",
    "subcommand",
    "command",
    "cli_command",
    "commands",
    "cmd",
    "operation",
    "action",
    "op",
    "mode",
    "verb",
    "type",
    "reset_type",
)
"""Arguments whose value is the command, or a part of it."""
_OPERANDS: Final = (
    "args",
    "arguments",
    "argv",
    "options",
    "flags",
    "extra_args",
    "resource_type",
    "resource",
    "kind",
    "remote",
    "branch",
    "branch_name",
    "ref",
    "commit",
    "target",
    "refspec",
    "tag",
    "tag_name",
    "stash_ref",
    "address",
    "worktree_path",
    "files",
    "paths",
    "name",
    "node_name",
    "volume",
    "volume_name",
    "container",
    "image",
    "package",
    "stack",
    "release",
    "release_name",
    "key",
    "service",
    "unit",
    "script",
    "recipe",
)
"""Arguments that are positional in the command, in this order."""
_KINDS: Final = ("resource_type", "resource", "kind")
_BLANK: Final = lazy_regex(r"\s")
"""Whether an option's value is prose, such as a message or a question."""
_FLAGS: Final = frozenset(["force", "hard", "soft", "mixed"])
_WITH_FLAG_VERBS: Final = frozenset(["reset", "branch", "tag", "push", "clean", "rebase", "merge"])
"""Subcommands of git whose `mode` is an option (`reset --hard`) and not a subcommand."""
_PLACE_ARGUMENTS: Final = frozenset(
    ["container", "container_id", "container_name", "pod", "pod_name", "host", "hostname", "vmid", "vm_id"]
)
"""Arguments that say where a command runs. Such a command is a whole shell line, and not a subcommand of the program."""
_LINES: Final = frozenset(
    ["command", "cmd", "commands", "command_line", "shell_command", "bash_command", "cli_command"]
)
"""Arguments that are a whole shell line."""
_SHELLS: Final = frozenset(["exec", "ssh", "shell", "bash", "terminal"])
_DESCRIBING_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "systemctl": frozenset(["service", "services", "unit", "units"]),
    "kubectl": frozenset(["node", "management", "namespaced"]),
    "helm": frozenset(["release", "releases"]),
    "aws": frozenset(["pipeline"]),
    "python": frozenset(["management"]),
    "npm": frozenset(["script", "scripts"]),
    "make": frozenset(["target", "targets"]),
}
"""By program, further words of a tool's name that are not part of the command."""


def program_command(native: str, arguments: Mapping[str, Any]) -> str:
    """The command lines of a call, if the tool `native` is named after a program; else empty.

    The names in `arguments` are in snake_case.
    """
    server, tool_name = tool_parts(native)
    words = [word.lower() for word in WORD.findall(tool_name)]
    named = next((word for word in ("compose", *words) if word in words and word in _PROGRAMS), "")
    if not named:
        named = next((word for word in server if word in _SERVER_NAMES), "")
        runs = not _LINES.isdisjoint(arguments)
        if not named or (runs and (not _PLACE_ARGUMENTS.isdisjoint(arguments) or not _SHELLS.isdisjoint(words))):
            return ""
    elif not _SHELLS.isdisjoint(words) and not _PLACE_ARGUMENTS.isdisjoint(arguments):
        return ""
    program = _PROGRAMS[named]
    describing = _FILLERS | _DESCRIBING_WORDS.get(program[0], frozenset())
    verbs = [word for word in words if word not in describing and _PROGRAMS.get(word, ("",))[0] != program[0]]
    if not _READING_VERBS.isdisjoint(verbs[:1]) or not (arguments or verbs):
        return ""
    return "\n".join(_line(program, verbs, command, arguments) for command in _commands(arguments))


def request_command(native: str, arguments: Mapping[str, Any]) -> str:
    """The command line of a call that changes something by HTTP or GraphQL; empty for any other call.

    The names in `arguments` are in snake_case.
    """
    server, tool_name = tool_parts(native)
    words = {word.lower() for word in WORD.findall(tool_name)}
    query = next(
        (
            arguments[name]
            for name in ("query", "mutation", "graphql", "graphql_query")
            if isinstance(arguments.get(name), str)
        ),
        "",
    )
    if "mutation" in query and ("graphql" in words or "graphql" in server or "mutation" in arguments):
        return shlex.join(["curl", f"https://{'.'.join(server)}/graphql", "-d", query])
    url = _text(arguments, "url", "uri", "endpoint")
    method = arguments.get("method", arguments.get("http_method", "delete" if "delete" in words else ""))
    if url.startswith(("https://", "http://")) and isinstance(method, str) and method.upper() == "DELETE":
        return shlex.join(["curl", "-X", "DELETE", url])
    return ""


@lru_cache(maxsize=4096)
def tool_parts(native: str) -> tuple[tuple[str, ...], str]:
    """The words of an MCP server's name, and the tool's own name: `mcp__my-git__push` is `my`, `git` and `push`."""
    if not native.startswith("mcp__"):
        return (), native.removeprefix("MCP:")
    server, _, tool_name = native.removeprefix("mcp__").replace("k8s", "kubernetes").rpartition("__")
    return tuple(re.split(r"[^a-z0-9]+", server.lower())), tool_name


def _commands(arguments: Mapping[str, Any]) -> list[str]:
    """The subcommands that the arguments name: usually one text; several if an argument is a list of commands."""
    several = next(
        (arguments[name] for name in ("commands", "cli_command") if isinstance(arguments.get(name), list)), None
    )
    if several is not None:
        return [" ".join(map(str, words)) if isinstance(words, list) else str(words) for words in several]
    return [" ".join(str(arguments[name]) for name in _VERBS if isinstance(arguments.get(name), str))]


def _line(program: Sequence[str], verbs: Sequence[str], command: str, arguments: Mapping[str, Any]) -> str:
    name = program[0]
    if command.split(maxsplit=1)[:1] == [name]:
        return command
    if program[-1] == "--eval":
        code = _text(arguments, "command", "script", "code", "query")
        return shlex.join([*program, code]) if code else ""
    if name == "git":
        verbs, command = _git(verbs, command)
    elif name == "heroku" and len(verbs) == 2:  # pg_reset is pg:reset
        verbs = [":".join(verbs)]
    elif name == "redis-cli":
        verbs = ["".join(verbs).replace("database", "db")] if verbs and not command else []
    elif name == "kubectl":
        arguments = {
            key: value.lower() if key in _KINDS and isinstance(value, str) else value
            for key, value in arguments.items()
        }
    elif name == "aws":
        command = command.replace("_", "-")
    return " ".join([*program, *verbs, *filter(None, [command]), *_arguments(arguments)])


def _git(verbs: Sequence[str], command: str) -> tuple[list[str], str]:
    """Puts the subcommand first: `force_push` becomes `push --force`, `reset` with the mode `hard` becomes `reset --hard`."""
    if "working" in verbs:
        return [], ""  # `git_set_working_dir` sets the server's own directory
    if "discard" in verbs:
        return ["restore", "."], ""
    if verbs[:1] == ["filter"]:
        return ["-".join(verbs)], command
    flags = [f"--{word}" for word in verbs if word in _FLAGS or word == "delete"]
    rest = [word for word in verbs if word not in _FLAGS and word != "delete"]
    if rest and rest[0] in _WITH_FLAG_VERBS and command.isalpha():
        flags, command = [*flags, f"--{command}"], ""
    return [*rest, *flags], command


def _arguments(arguments: Mapping[str, Any]) -> Iterable[str]:
    """The other arguments as words of a command line: operands in their order, then options."""
    for name in _OPERANDS:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            yield value if name in ("args", "arguments", "options", "flags") else shlex.quote(value)
        elif isinstance(value, list):
            yield shlex.join(map(str, value))
    for name, value in arguments.items():
        option = f"--{name.replace('_', '-')}"
        if name in _VERBS or name in _OPERANDS:
            if value is True:
                yield option
        elif value is True:
            yield option
        elif isinstance(value, str | int) and value is not False and not _BLANK.search(str(value)):
            yield f"{option}={shlex.quote(str(value))}"


def _text(arguments: Mapping[str, Any], *names: str) -> str:
    """The first of these arguments that is a text; empty if none is."""
    return next((value for name in names if isinstance(value := arguments.get(name), str)), "")
