"""The command line of a tool that is named after a program (`git_push`, `run_gcloud_command`), or that sends a request.

What the rules know of `git push --force` holds for `git_push {"force": true}` too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

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
"""By a word in a tool's or its server's name, the program that it runs."""

_SERVERS: Final = frozenset(
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
"""Those that count also where only the server is called so."""
_READING: Final = frozenset(
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
"""Verbs of tools that only read: they stay what they are."""
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
"""Words of a tool's name that are no part of the command."""
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
_BLANK: Final = re.compile(r"\s")
"""In the values of options that are prose: a message, a question."""
_FLAGS: Final = frozenset(["force", "hard", "soft", "mixed"])
_WITH_FLAG_VERBS: Final = frozenset(["reset", "branch", "tag", "push", "clean", "rebase", "merge"])
"""Subcommands of git whose `mode` is an option and no subcommand of their own."""
_ELSEWHERE: Final = frozenset(
    ["container", "container_id", "container_name", "pod", "pod_name", "host", "hostname", "vmid", "vm_id"]
)
"""Arguments that say where the command runs: it is a shell's, and not the program's."""
_SHELLS: Final = frozenset(["exec", "ssh", "shell", "bash", "terminal"])
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "systemctl": frozenset(["service", "services", "unit", "units"]),
    "kubectl": frozenset(["node", "management", "namespaced"]),
    "helm": frozenset(["release", "releases"]),
    "aws": frozenset(["pipeline"]),
    "python": frozenset(["management"]),
    "npm": frozenset(["script", "scripts"]),
    "make": frozenset(["target", "targets"]),
}
"""Words that only describe the tool where it is of this program."""


def program_command(native: str, given: Mapping[str, Any]) -> str:
    """The command lines of a call of the tool `native` named after a program; empty for another. `given` is in one spelling."""
    server, own = tool_parts(native)
    words = [word.lower() for word in WORD.findall(own)]
    named = next((word for word in ("compose", *words) if word in words and word in _PROGRAMS), "")
    if not named:
        named = next((word for word in server if word in _SERVERS), "")
        runs = "command" in given or "cmd" in given
        if not named or (runs and (not _ELSEWHERE.isdisjoint(given) or not _SHELLS.isdisjoint(words))):
            return ""
    elif not _SHELLS.isdisjoint(words) and not _ELSEWHERE.isdisjoint(given):
        return ""
    program = _PROGRAMS[named]
    describing = _FILLERS | _OWN.get(program[0], frozenset())
    verbs = [word for word in words if word not in describing and _PROGRAMS.get(word, ("",))[0] != program[0]]
    if not _READING.isdisjoint(verbs[:1]) or not (given or verbs):
        return ""
    return "\n".join(_line(program, verbs, command, given) for command in _commands(given))


def request_command(native: str, given: Mapping[str, Any]) -> str:
    """The command line of a call that changes something by HTTP or GraphQL; empty for another. `given` is in one spelling."""
    server, own = tool_parts(native)
    words = {word.lower() for word in WORD.findall(own)}
    query = next(
        (given[name] for name in ("query", "mutation", "graphql", "graphql_query") if isinstance(given.get(name), str)),
        "",
    )
    if "mutation" in query and ("graphql" in words or "graphql" in server or "mutation" in given):
        return shlex.join(["curl", f"https://{'.'.join(server)}/graphql", "-d", query])
    url = _text(given, "url", "uri", "endpoint")
    method = given.get("method", given.get("http_method", "delete" if "delete" in words else ""))
    if url.startswith(("https://", "http://")) and isinstance(method, str) and method.upper() == "DELETE":
        return shlex.join(["curl", "-X", "DELETE", url])
    return ""


@lru_cache(maxsize=4096)
def tool_parts(native: str) -> tuple[tuple[str, ...], str]:
    """The words of an MCP server's name, and the tool's own name: `mcp__my-git__push` is `my`, `git` and `push`."""
    if not native.startswith("mcp__"):
        return (), native.removeprefix("MCP:")
    server, _, own = native.removeprefix("mcp__").replace("k8s", "kubernetes").rpartition("__")
    return tuple(re.split(r"[^a-z0-9]+", server.lower())), own


def _commands(given: Mapping[str, Any]) -> list[str]:
    """What the arguments say that the program does: usually one text, several in a list of commands."""
    several = next((given[name] for name in ("commands", "cli_command") if isinstance(given.get(name), list)), None)
    if several is not None:
        return [" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in several]
    return [" ".join(str(given[name]) for name in _VERBS if isinstance(given.get(name), str))]


def _line(program: Sequence[str], verbs: Sequence[str], command: str, given: Mapping[str, Any]) -> str:
    name = program[0]
    if command.split(maxsplit=1)[:1] == [name]:
        return command
    if program[-1] == "--eval":
        code = _text(given, "command", "script", "code", "query")
        return shlex.join([*program, code]) if code else ""
    if name == "git":
        verbs, command = _git(verbs, command)
    elif name == "heroku" and len(verbs) == 2:  # pg_reset is pg:reset
        verbs = [":".join(verbs)]
    elif name == "redis-cli":
        verbs = ["".join(verbs).replace("database", "db")] if verbs and not command else []
    elif name == "kubectl":
        given = {
            key: value.lower() if key in _KINDS and isinstance(value, str) else value for key, value in given.items()
        }
    elif name == "aws":
        command = command.replace("_", "-")
    return " ".join([*program, *verbs, *filter(None, [command]), *_arguments(given)])


def _git(verbs: Sequence[str], command: str) -> tuple[list[str], str]:
    """The subcommand first: `force_push` is `push --force`, `reset` with the mode `hard` is `reset --hard`."""
    if "working" in verbs:
        return [], ""  # where the server itself is to work
    if "discard" in verbs:
        return ["restore", "."], ""
    if verbs[:1] == ["filter"]:
        return ["-".join(verbs)], command
    flags = [f"--{word}" for word in verbs if word in _FLAGS or word == "delete"]
    rest = [word for word in verbs if word not in _FLAGS and word != "delete"]
    if rest and rest[0] in _WITH_FLAG_VERBS and command.isalpha():
        flags, command = [*flags, f"--{command}"], ""
    return [*rest, *flags], command


def _arguments(given: Mapping[str, Any]) -> Iterable[str]:
    """What the other arguments are in a command line: operands in their order, the others as options."""
    for name in _OPERANDS:
        value = given.get(name)
        if isinstance(value, str) and value:
            yield value if name in ("args", "arguments", "options", "flags") else shlex.quote(value)
        elif isinstance(value, list):
            yield shlex.join(map(str, value))
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if name in _VERBS or name in _OPERANDS:
            if value is True:
                yield option
        elif value is True:
            yield option
        elif isinstance(value, str | int) and value is not False and not _BLANK.search(str(value)):
            yield f"{option}={shlex.quote(str(value))}"


def _text(given: Mapping[str, Any], *names: str) -> str:
    """The first of these arguments that is a text."""
    return next((value for name in names if isinstance(value := given.get(name), str)), "")
