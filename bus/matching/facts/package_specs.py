"""Finds the packages that a command names, as they are written: what pip, npm, cargo and others are told to install or run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.shell.commands import Command

Registry = Literal["python", "javascript", "rust", "ruby", "go", "php", "dotnet", "dart"]


class Package(NamedTuple):
    """One package that a command names."""

    registry: Registry
    spec: str
    """As it is written: `requests==2.32`, `git+https://…`, `@types/node@20`."""
    runs: bool
    """Whether a program of it is run at once."""


class _Verb(NamedTuple):
    registry: Registry
    words: tuple[str, ...]
    """The words behind the program's name that are asked for."""
    runs: bool = False
    only_first: bool = False
    """Whether only the first operand is a package, and the rest is for its program."""
    prefix: str = ""
    """What comes before the name: `npm create vite` runs `create-vite`."""
    options_only: bool = False
    """Whether only options name packages: `uv run --with x y.py`."""


def _verbs(
    registry: Registry, text: str, *, runs: bool = False, prefix: str = "", options_only: bool = False
) -> tuple[_Verb, ...]:
    return tuple(_Verb(registry, tuple(words.split()), runs, runs, prefix, options_only) for words in text.split(","))


_PIP: Final = _verbs("python", "install,download")
_INSTALLERS: Final[dict[str, tuple[_Verb, ...]]] = {
    **dict.fromkeys(("pip", "pip2", "pip3", "pip3.10", "pip3.11", "pip3.12", "pip3.13", "pip3.14"), _PIP),
    "uv": (
        *_verbs("python", "add,pip install"),
        *_verbs("python", "tool install,tool run", runs=True),
        *_verbs("python", "run", options_only=True),
    ),
    "uvx": _verbs("python", "", runs=True),
    "pipx": (*_verbs("python", "inject"), *_verbs("python", "install,run", runs=True)),
    **dict.fromkeys(("poetry", "pdm", "rye", "hatch"), _verbs("python", "add")),
    "pipenv": _verbs("python", "install"),
    "npm": (
        *_verbs("javascript", "install,i,add,in,isntall"),
        *_verbs("javascript", "exec,x", runs=True),
        *_verbs("javascript", "create,init", runs=True, prefix="create-"),
    ),
    "pnpm": (
        *_verbs("javascript", "add,install,i"),
        *_verbs("javascript", "dlx", runs=True),
        *_verbs("javascript", "create", runs=True, prefix="create-"),
    ),
    "yarn": (
        *_verbs("javascript", "add,global add"),
        *_verbs("javascript", "dlx", runs=True),
        *_verbs("javascript", "create", runs=True, prefix="create-"),
    ),
    "bun": (
        *_verbs("javascript", "add,install,i"),
        *_verbs("javascript", "x", runs=True),
        *_verbs("javascript", "create", runs=True, prefix="create-"),
    ),
    **dict.fromkeys(("npx", "bunx", "pnpx"), _verbs("javascript", "", runs=True)),
    "cargo": _verbs("rust", "add,install"),
    "gem": _verbs("ruby", "install,specific_install"),
    **dict.fromkeys(("bundle", "bundler"), _verbs("ruby", "add")),
    "go": (*_verbs("go", "get,install"), *_verbs("go", "run", runs=True)),
    "composer": _verbs("php", "require,global require"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _verbs("python", "install,create")),
    "pixi": _verbs("python", "add,global install"),
    "deno": _verbs("javascript", "add,install"),
    "dotnet": _verbs("dotnet", "add package,package add,tool install"),
    "nuget": _verbs("dotnet", "install"),
    "paket": _verbs("dotnet", "add"),
    "install-package": _verbs("dotnet", ""),
    **dict.fromkeys(("dart", "flutter"), _verbs("dart", "pub add,pub global activate")),
}
_AGENTS: Final = frozenset(
    (
        *(
            "claude",
            "codex",
            "gemini",
            "qwen",
            "cursor-agent",
            "cursor",
            "opencode",
            "amp",
            "copilot",
            "droid",
            "goose",
        ),
        *(
            "crush",
            "kiro",
            "auggie",
            "code",
            "code-insiders",
            "windsurf",
            "openhands",
            "cline",
            "kimi",
            "iflow",
            "vibe",
        ),
    )
)
"""Programs whose `mcp add` names the command of a server that they start from then on."""
PROGRAMS: Final = frozenset(_INSTALLERS) | _AGENTS
"""The programs whose packages are known."""

_VALUES: Final = frozenset(
    [
        *("-r", "-c", "-i", "-t", "-w", "-C", "-G", "-F"),
        *("--requirement", "--constraint", "--index-url", "--extra-index-url", "--find-links", "--target", "--prefix"),
        *(
            "--root",
            "--platform",
            "--python",
            "--python-version",
            "--implementation",
            "--abi",
            "--registry",
            "--workspace",
        ),
        *(
            "--filter",
            "--tag",
            "--cache",
            "--userconfig",
            "--index",
            "--default-index",
            "--group",
            "--extra",
            "--extras",
        ),
        *("--source", "--branch", "--rev", "--features", "--version", "--path", "--trusted-host", "--proxy", "--cert"),
        *("--log", "--timeout", "--retries", "--config-settings", "--global-option", "--only-binary", "--no-binary"),
        *("--dir", "--cwd", "--omit", "--include", "--loglevel", "--git", "--call", "-n", "--name", "--channel"),
    ]
)
"""Options that take the next word in every one of these programs that has them."""
_PACKAGE_OPTIONS: Final = frozenset({"--package", "--from", "--with", "--spec", "-p"})
"""Options of programs that run packages whose value is a package."""
_FILE_OPTIONS: Final = frozenset({"-r", "--requirement", "-c", "--constraint", "--git", "-e", "--editable"})
"""Options whose value may be an address to install from."""

_FOR_ALL: Final = frozenset({"-g", "--global", "--location=global", "global"})
"""What makes an installed package a program of the user."""
_RUNNERS: Final = frozenset({"npx", "bunx", "pnpx", "uvx", "uv", "pipx", "npm", "pnpm", "yarn", "bun", "deno", "go"})
_DEPENDENCY: Final = lazy_regex(
    r"(?:dev|peer|optional|bundled?)?[dD]ependencies[.\[][\"']?(?P<name>@?[\w./-]+)[\"']?\]?=[\"']?(?P<spec>[^\"']*)"
)
_OF_VERSIONS: Final = frozenset("^~<>=*0123456789vlnx")
"""How the versions of a registry begin, also `latest` and `next`."""
_SERVER: Final = lazy_regex(
    r"[\"']?command[\"']?\s{0,4}[:=]\s{0,4}[\"'](?:[^\"'\s]{0,80}/)?(?P<program>npx|bunx|pnpx|uvx|uv|pipx|npm|pnpm|yarn|bun)[\"']"
    r"[^{}]{0,300}?[\"']?args[\"']?\s{0,4}[:=]\s{0,4}\[(?P<args>[^\]]{0,1000})\]"
)
_QUOTED: Final = lazy_regex(r"\"([^\"]*)\"|'([^']*)'")
_MOST_SERVERS: Final = 50

ADDRESS: Final = lazy_regex(r"(?i)(?:[a-z+]{2,12}://|git@|[a-z+]{2,12}\+|(?:github|gitlab|bitbucket|gist):)")
"""Matches an address or a repository at the beginning of what is installed."""


def packages_of(command: Command) -> Iterator[Package]:
    """The packages among a command's words."""
    if command.program in _AGENTS:
        yield from _of_servers(command.words)
        return
    if command.program == "npm" and command.words[:2] == ("pkg", "set"):
        for word in command.words[2:]:
            if (entry := _DEPENDENCY.match(word)) is not None:
                yield Package(
                    "javascript", entry["name"] if entry["spec"][:1] in _OF_VERSIONS else entry["spec"], runs=False
                )
        return
    for verb in _INSTALLERS.get(command.program, ()):
        rest = _behind(command.words, verb.words)
        if rest is not None:
            is_program = verb.registry == "javascript" and not _FOR_ALL.isdisjoint(command.words)
            yield from _packages(rest, verb._replace(runs=True) if is_program else verb)
            return


def servers_in(text: str) -> Iterator[Package]:
    """The packages that the settings of MCP servers in a text let an agent run: `"command": "npx", "args": ["-y", "x"]`."""
    for found in islice(_SERVER.finditer(text), _MOST_SERVERS):
        words = tuple(one or other for one, other in _QUOTED.findall(found["args"]))
        yield from packages_of(Command(found["program"], words))


def _of_servers(words: Sequence[str]) -> Iterator[Package]:
    if "mcp" in words[:2] and ("add" in words[:3] or "add-json" in words[:3]):
        for place, word in enumerate(words):
            if (program := word.rpartition("/")[2]) in _RUNNERS:
                yield from packages_of(Command(program, tuple(words[place + 1 :])))
                return
    for word in words:
        if '"command"' in word:
            yield from servers_in(word)


def _behind(words: Sequence[str], wanted: tuple[str, ...]) -> Sequence[str] | None:
    """The words behind the verb; None if the command has another one. Options may come before it."""
    left = list(wanted)
    for place, word in enumerate(words):
        if not left:
            return words[place:]
        if word == left[0]:
            del left[0]
        elif word[:1] != "-" and not word.endswith("proj"):
            return None
    return None if left else ()


def _packages(words: Sequence[str], verb: _Verb) -> Iterator[Package]:
    named = False
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        option, sign, value = word.partition("=")
        if word == "--" and not verb.runs:
            continue
        if word[:1] == "-" and word != "--":
            if (
                option in _PACKAGE_OPTIONS
                and (verb.runs or option == "--with")
                and (option != "-p" or verb.registry != "python")
            ):
                given = value if sign else words[position] if position < len(words) else ""
                position += not sign
                named = named or option != "--with"
                yield Package(verb.registry, given, verb.runs)
            elif option in _FILE_OPTIONS:
                given = value if sign else words[position] if position < len(words) else ""
                position += not sign
                if ADDRESS.match(given):
                    yield Package(verb.registry, given, runs=False)
            elif option in _VALUES and not sign:
                position += 1
            continue
        if word == "--":
            continue
        if verb.options_only:
            return
        if not (verb.only_first and named):
            yield Package(verb.registry, f"{verb.prefix}{word}" if not ADDRESS.match(word) else word, verb.runs)
        if verb.only_first:
            return
