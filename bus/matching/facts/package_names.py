"""Finds the packages that a command installs or runs, and says which of them need a look before that happens."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.matching.paths import Place, located
from bus.shell.commands import Command
from bus.shell.words import is_hidden

PackageKind = Literal["imitation", "unknown_program", "unpinned_source"]
"""`imitation`: a name that differs from that of a popular package by one sign. `unknown_program`: a package that npx, uvx and
their like download and run, and that is not widely known. `unpinned_source`: code from an address or a repository, without the
commit or the hash that says which code it is."""

Registry = Literal["python", "javascript", "rust", "ruby"]


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


def _verbs(registry: Registry, text: str, *, runs: bool = False, prefix: str = "") -> tuple[_Verb, ...]:
    return tuple(_Verb(registry, tuple(words.split()), runs, runs, prefix) for words in text.split(","))


_PIP: Final = _verbs("python", "install,download")
_INSTALLERS: Final[dict[str, tuple[_Verb, ...]]] = {
    **dict.fromkeys(("pip", "pip2", "pip3", "pip3.10", "pip3.11", "pip3.12", "pip3.13", "pip3.14"), _PIP),
    "uv": (*_verbs("python", "add,pip install,tool install"), *_verbs("python", "tool run", runs=True)),
    "uvx": _verbs("python", "", runs=True),
    "pipx": (*_verbs("python", "install,inject"), *_verbs("python", "run", runs=True)),
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
}
PROGRAMS: Final = frozenset(_INSTALLERS)
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
        *("--dir", "--cwd", "--omit", "--include", "--loglevel", "--git", "--call"),
    ]
)
"""Options that take the next word in every one of these programs that has them."""
_LOCAL_FIRST: Final = frozenset({"npx", "npm", "pnpm", "bunx", "bun"})
"""Programs that run what the project has, before they download anything."""
_MARK: Final = "\0program"
"""Ends the key of a look-up, so that it is none for a path: no path has such a character."""
_PACKAGE_OPTIONS: Final = frozenset({"--package", "--from", "--with", "--spec", "-p"})
"""Options of programs that run packages whose value is a package."""
_FILE_OPTIONS: Final = frozenset({"-r", "--requirement", "-c", "--constraint", "--git", "-e", "--editable"})
"""Options whose value may be an address to install from."""

_ADDRESS: Final = lazy_regex(r"(?i)(?:[a-z+]{2,12}://|git@|[a-z+]{2,12}\+|(?:github|gitlab|bitbucket|gist):)")
_ON_GITHUB: Final = lazy_regex(r"[A-Za-z0-9][\w-]*/[\w.-]+(?:#.*)?")
_PINNED: Final = lazy_regex(
    r"(?i)[@#](?:commit=)?[0-9a-f]{7,64}(?:[#&?/]|$)|sha(?:256|512)[=:-]|/(?:commit|tar\.gz|zip)/[0-9a-f]{7,40}\b"
)
_PYTHON_NAME: Final = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEPARATOR: Final = lazy_regex(r"[-_.]+")
_LEAST_LENGTH: Final = 5
"""Names of fewer signs have too many neighbours that are packages of their own."""
_COMMIT_OPTIONS: Final = frozenset({"--rev"})


def kinds_of_packages(command: Command, place: Place) -> frozenset[PackageKind]:
    """What has to be looked at about the packages that a command installs or runs."""
    if command.program not in PROGRAMS:
        return frozenset()
    is_pinned = any(word.partition("=")[0] in _COMMIT_OPTIONS for word in command.words)
    found: set[PackageKind] = set()
    for package in packages_of(command):
        spec = package.spec
        if is_hidden(spec):
            continue
        if _is_source(package):
            if not is_pinned and _PINNED.search(spec) is None:
                found.add("unpinned_source")
            continue
        name = _name(package)
        if not name:
            continue
        if imitated(package.registry, name):
            found.add("imitation")
        elif package.runs and not _is_known(package.registry, name) and not _is_installed(name, command, place):
            found.add("unknown_program")
    return frozenset(found)


def packages_of(command: Command) -> Iterator[Package]:
    """The packages among a command's words."""
    for verb in _INSTALLERS.get(command.program, ()):
        rest = _behind(command.words, verb.words)
        if rest is not None:
            yield from _packages(rest, verb)
            return


@lru_cache(maxsize=1024)
def imitated(registry: Registry, name: str) -> str:
    """The popular package whose name differs from this one by one sign; empty if there is none, or if this one is known too.

    One more, one less or another sign, two neighbours in the other order, or another separator. A further digit at the end
    is a version and no imitation: `elasticsearch8`.
    """
    names = _names(registry)
    plain = _plain(registry, name)
    if plain in names.known or len(plain) < _LEAST_LENGTH:
        return ""
    close = {other for part in _shortened(plain) for other in names.by_part.get(part, ())}
    return min((other for other in close if _is_near(plain, other)), default="")


class _Names(NamedTuple):
    known: frozenset[str]
    by_part: dict[str, tuple[str, ...]]
    """The popular names by each text that is left of them if one sign or none is taken away."""
    scopes: frozenset[str]
    """`@types` of `@types/node`."""


@lru_cache(maxsize=4)
def _names(registry: Registry) -> _Names:
    """The names of a registry; the file is read at the first command that installs something."""
    known: set[str] = set()
    by_part: dict[str, tuple[str, ...]] = {}
    part = kind = ""
    for line in files(__package__ or "").joinpath("popular-packages.txt").read_text(encoding="utf-8").split("\n"):
        if line[:1] in ("#", ""):
            continue
        if line[:1] == "[":
            kind = line.strip("[]")
            part = kind if kind in ("python", "javascript", "rust", "ruby") else part
        elif part == registry:
            plain = _plain(registry, line)
            known.add(plain)
            if kind != "known" and len(plain) >= _LEAST_LENGTH and plain[:1] != "@":
                for text in _shortened(plain):
                    by_part[text] = (*by_part.get(text, ()), plain)
    return _Names(frozenset(known), by_part, frozenset(name.partition("/")[0] for name in known if name[:1] == "@"))


def _behind(words: Sequence[str], wanted: tuple[str, ...]) -> Sequence[str] | None:
    """The words behind the verb; None if the command has another one. Options may come before it."""
    left = list(wanted)
    for place, word in enumerate(words):
        if not left:
            return words[place:]
        if word == left[0]:
            del left[0]
        elif word[:1] != "-":
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
            if option in _PACKAGE_OPTIONS and (verb.runs or option == "--with"):
                given = value if sign else words[position] if position < len(words) else ""
                position += not sign
                named = named or option != "--with"
                yield Package(verb.registry, given, verb.runs)
            elif option in _FILE_OPTIONS:
                given = value if sign else words[position] if position < len(words) else ""
                position += not sign
                if _ADDRESS.match(given):
                    yield Package(verb.registry, given, runs=False)
            elif option in _VALUES and not sign:
                position += 1
            continue
        if word == "--":
            continue
        if not (verb.only_first and named):
            yield Package(verb.registry, f"{verb.prefix}{word}" if not _ADDRESS.match(word) else word, verb.runs)
        if verb.only_first:
            return


def _is_source(package: Package) -> bool:
    """Whether a package comes from an address or a repository and not from the registry by its name."""
    spec = package.spec.partition(" @ ")[2].strip() or package.spec
    if _ADDRESS.match(spec):
        return not spec.startswith(("file:", "npm:", "workspace:", "link:", "jsr:"))
    return package.registry == "javascript" and spec[:1] not in ".@~/" and _ON_GITHUB.fullmatch(spec) is not None


def _name(package: Package) -> str:
    """The name in a spec, without version and extras; empty for a path."""
    spec = package.spec
    if spec[:1] in (".", "/", "~") or spec.endswith((".whl", ".tar.gz", ".tgz", ".zip", ".gem")):
        return ""
    if package.registry == "python":
        match = _PYTHON_NAME.match(spec)
        return match[0] if match is not None and "/" not in spec else ""
    if package.registry == "javascript":
        spec = spec.removeprefix("npm:")
        scope, slash, name = spec.rpartition("/") if spec[:1] == "@" else ("", "", spec)
        return f"{scope}{slash}{name.partition('@')[0]}"
    return spec.partition("@")[0].partition(":")[0]


def _plain(registry: Registry, name: str) -> str:
    return _SEPARATOR.sub("-", name.lower()) if registry == "python" else name


def _is_known(registry: Registry, name: str) -> bool:
    names = _names(registry)
    return _plain(registry, name) in names.known or (name[:1] == "@" and name.partition("/")[0] in names.scopes)


def _is_installed(name: str, command: Command, place: Place) -> bool:
    """Whether the project has this program in `node_modules` already, on the event's own host."""
    directory = located(command.directory, place) if place.here and command.program in _LOCAL_FIRST else None
    while directory is not None:
        key = f"{directory}/node_modules/.bin/{name.rpartition('/')[2]}{_MARK}"
        if _look(key) if place.disk is None else place.disk.look_up(key, _look):
            return True
        above = os.path.dirname(directory)
        directory = above if directory not in (place.project, above) else None
    return False


def _look(key: str) -> str:
    return "there" if os.path.lexists(key.removesuffix(_MARK)) else ""


def _shortened(name: str) -> frozenset[str]:
    """The name, and what is left of it without one sign, or without its separators."""
    return frozenset([name, _SEPARATOR.sub("", name), *(name[:at] + name[at + 1 :] for at in range(len(name)))])


def _is_near(name: str, other: str) -> bool:
    if name == other:
        return False
    if _SEPARATOR.sub("", name) == _SEPARATOR.sub("", other):
        return True
    if len(name) == len(other):
        places = [at for at, pair in enumerate(zip(name, other, strict=True)) if pair[0] != pair[1]]
        if len(places) == 1:
            return not (name[places[0]].isdigit() and other[places[0]].isdigit())
        first, last = places[0], places[-1]
        return len(places) == 2 and last == first + 1 and name[first] == other[last] and name[last] == other[first]
    long, short = (name, other) if len(name) > len(other) else (other, name)
    if len(long) != len(short) + 1 or (long == name and long[-1].isdigit() and long[:-1] == short):
        return False
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))
