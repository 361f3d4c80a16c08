"""Finds the packages that a command installs or runs, and says which of them need a look before that happens."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import Final, NamedTuple, get_args

from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.matching.facts.kinds import PackageKind
from bus.matching.facts.manifests import SERVERS, manifest_of, packages_in
from bus.matching.facts.package_specs import ADDRESS, PROGRAMS, Package, Registry, packages_of
from bus.matching.paths import Place, located
from bus.shell import Command, commands
from bus.shell.words import is_hidden, shown
from bus.tool_arguments import added_texts_of, paths_of

_LOCAL_FIRST: Final = frozenset({"npx", "npm", "pnpm", "bunx", "bun"})
"""Programs that run what the project has, before they download anything."""
_MARK: Final = "\0program"
"""Ends the key of a look-up, so that it is none for a path: no path has such a character."""
_ON_GITHUB: Final = lazy_regex(r"[A-Za-z0-9][\w-]*/[\w.-]+(?:#.*)?")
_PINNED: Final = lazy_regex(
    r"(?i)[@#](?:commit=)?[0-9a-f]{7,64}(?:[#&?/]|$)|sha(?:256|512)[=:-]|/(?:commit|tar\.gz|zip)/[0-9a-f]{7,40}\b"
)
_PYTHON_NAME: Final = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEPARATOR: Final = lazy_regex(r"[-_.]+")
_LEAST_LENGTH: Final = 5
"""Names of fewer signs have too many neighbours that are packages of their own."""
_REGISTRIES: Final = frozenset(get_args(Registry))
_COMMIT_OPTIONS: Final = frozenset({"--rev"})


_WRITERS: Final = frozenset({"echo", "printf", "cat", "tee"})
"""Programs that write their arguments or their input to a file."""
_EDITORS: Final = frozenset({"sed", "gsed", "perl", "jq", "gojq", "yq", "dasel", "awk", "gawk"})
"""Programs that change the text of a file."""
_REPLACEMENT: Final = lazy_regex(
    r"(?:^|[;{\s\d$/])s([/|#,@!])(?:(?!\1)[^\\]|\\.)*\1((?:(?!\1)[^\\]|\\.)*)\1|(?:^|[\d$/])[aic]\\?[ ]*(\S.*)"
)
"""The new text of `s/old/new/`, and of the lines that sed appends or inserts."""
_ASSIGNED: Final = lazy_regex(r"[dD]ependencies[.\[]+[\"']?(@?[\w./-]+)[\"']?\]?\s*\|?=\s*[\"']?([^\"'\s|]*)")
"""`.dependencies.x = "1"` of jq."""
_ENTRY: Final = lazy_regex(r"@?[A-Za-z][\w./@-]+(?:\s*(?:[=~<>^]=?|==)\s*[\w.*]+)?")
_OF_KIND: Final[dict[str, Registry]] = {
    "package.json": "javascript",
    "cargo.toml": "rust",
    "gemfile": "ruby",
    "composer.json": "php",
    "go.mod": "go",
    "csproj": "dotnet",
    "pubspec.yaml": "dart",
}
_SCRIPT: Final = lazy_regex(
    r"(?i)(?:^|[/\\])(?:(?:docker|container|make|just)file[\w.-]*|[\w.-]+\.(?:sh|bash|zsh|dockerfile|mk))$"
)
_INSTALL: Final = lazy_regex(
    r"\b(?:pip3?|uv|poetry|npm|pnpm|yarn|bun|cargo|gem|go|composer|conda)[ ]+(?:[\w-]+[ ]+)?"
    r"(?:install|add|i|get|require)\b[^\n;&|'\"`\\]{0,500}"
)
_MOST_INSTALLS: Final = 50
_NO_DOWNLOAD: Final = frozenset({"--no-install", "--no", "--offline"})


def kinds_of_packages(command: Command, place: Place) -> frozenset[PackageKind]:
    """What has to be looked at about the packages that a command installs or runs, or that it writes into a manifest."""
    if command.program in _WRITERS:
        return _kinds(_written(command))
    if command.program in _EDITORS:
        return _kinds(_edited(command))
    if command.program not in PROGRAMS:
        return frozenset()
    if "mcp" in command.words or "--add-mcp" in command.words:
        return _kinds(packages_of(command), servers=True)
    is_pinned = any(word.partition("=")[0] in _COMMIT_OPTIONS for word in command.words)
    found = _kinds(packages_of(command), command, place)
    return found - {"unpinned_source"} if is_pinned else found


def kinds_of_added(event: Event) -> frozenset[PackageKind]:
    """What has to be looked at about the packages that a call adds to a manifest, such as `package.json`."""
    paths = paths_of(event)
    kinds = {kind for path in paths if (kind := manifest_of(path))}
    is_script = any(map(_SCRIPT.search, paths))
    if not kinds and not is_script:
        return frozenset()
    texts = added_texts_of(event)
    found = _kinds(
        (package for text in texts for kind in kinds for package in packages_in(kind, text)), servers=SERVERS in kinds
    )
    return found | _kinds(package for text in texts for package in _installed_by(text)) if is_script else found


def _installed_by(text: str) -> Iterator[Package]:
    """The packages that a script or a Dockerfile installs by name."""
    for line in list(islice(_INSTALL.finditer(text), _MOST_INSTALLS)):
        for command in commands(line[0]).items:
            yield from packages_of(command)


def _written(command: Command) -> Iterable[Package]:
    """The packages that `echo x >> requirements.txt` adds."""
    to = command.words if command.program == "tee" else command.writes if command.redirects else ()
    kinds = {kind for path in to if (kind := manifest_of(path))}
    if not kinds:
        return ()
    given = command.stdin if command.program in ("tee", "cat") else "\n".join(command.words)
    text = shown(given or "").replace("\\n", "\n")
    return (package for kind in kinds for package in packages_in(kind, text))


def _edited(command: Command) -> Iterator[Package]:
    """The packages that `sed -i s/x/y/ package.json` and `jq '.dependencies.y = "1"' package.json` bring in."""
    kinds = {kind for word in command.words if (kind := manifest_of(word))}
    for kind in sorted(kinds):
        for word in command.words:
            for _, replaced, added in _REPLACEMENT.findall(word):
                text = replaced or added
                plain = text.strip("\"', \\")
                if _ENTRY.fullmatch(plain):
                    yield Package(_OF_KIND.get(kind, "python"), plain, runs=False)
                yield from packages_in(kind, text)
            for name, spec in _ASSIGNED.findall(word):
                yield Package(_OF_KIND.get(kind, "javascript"), spec if ":" in spec else name, runs=False)
            if "+=" in word or "*" in word:
                yield from packages_in(kind, word)


def _kinds(
    packages: Iterable[Package],
    command: Command | None = None,
    place: Place | None = None,
    *,
    servers: bool = False,
) -> frozenset[PackageKind]:
    """What has to be looked at. With `servers`, an agent starts them later, so that no project's folder has them."""
    found: set[PackageKind] = set()
    for package in packages:
        spec = package.spec
        if is_hidden(spec):
            continue
        if _is_source(package):
            if _PINNED.search(spec) is None:
                found.add("unpinned_source")
            continue
        name = _name(package)
        if not name:
            continue
        if imitated(package.registry, name):
            found.add("imitation")
        elif (
            package.runs
            and package.registry != "go"
            and not _is_known(package.registry, name)
            and (servers or (command is not None and place is not None and not _is_there(name, command, place)))
        ):
            found.add("unknown_program")
    return frozenset(found)


@lru_cache(maxsize=1024)
def imitated(registry: Registry, name: str) -> str:
    """The popular package whose name differs from this one by one sign; empty if there is none, or if this one is known too.

    One more, one less or another sign, two neighbours in the other order, or another separator. A further digit at the end
    is a version and no imitation: `elasticsearch8`. Of a short name only a doubled or a missing sign counts: `zodd`, `serd`.
    """
    names = _names(registry)
    plain = _plain(registry, name)
    if plain in names.known:
        return ""
    if registry == "javascript" and plain.removesuffix(".js") in names.imitable:
        return plain.removesuffix(".js")
    if doubled := next((one for one in _without_doubled(plain) if one in names.imitable), ""):
        return doubled
    if len(plain) < _LEAST_LENGTH - 1:
        return ""
    if len(plain) < _LEAST_LENGTH:
        longer = (other for other in names.by_part.get(plain, ()) if len(other) == _LEAST_LENGTH and other[-1] != "s")
        return min(longer, default="")
    close = {other for part in _shortened(plain) for other in names.by_part.get(part, ())}
    if plain[:1] == "@":  # the packages of one scope often differ by one other sign
        close = {other for other in close if len(other) != len(plain) or sorted(other) == sorted(plain)}
    return min((other for other in close if _is_near(plain, other)), default="")


class _Names(NamedTuple):
    known: frozenset[str]
    by_part: dict[str, tuple[str, ...]]
    """The popular names by each text that is left of them if one sign or none is taken away."""
    imitable: frozenset[str]
    """The popular names that others are compared with."""
    scopes: frozenset[str]
    """`@types` of `@types/node`."""


@lru_cache(maxsize=8)
def _names(registry: Registry) -> _Names:
    """The names of a registry; the file is read at the first command that installs something."""
    known: set[str] = set()
    by_part: dict[str, tuple[str, ...]] = {}
    imitable: set[str] = set()
    part = kind = ""
    for line in files(__package__ or "").joinpath("popular-packages.txt").read_text(encoding="utf-8").split("\n"):
        if line[:1] in ("#", ""):
            continue
        if line[:1] == "[":
            kind = line.strip("[]")
            part = kind if kind in _REGISTRIES else part
        elif part == registry:
            plain = _plain(registry, line)
            known.add(plain)
            if kind == "known":
                continue
            imitable.add(plain)
            if len(plain) >= _LEAST_LENGTH:
                for text in _shortened(plain):
                    by_part[text] = (*by_part.get(text, ()), plain)
    return _Names(
        frozenset(known),
        by_part,
        frozenset(imitable),
        frozenset(name.partition("/")[0] for name in known if name[:1] == "@"),
    )


def _is_source(package: Package) -> bool:
    """Whether a package comes from an address or a repository and not from the registry by its name."""
    spec = package.spec.partition(" @ ")[2].strip() or package.spec
    if ADDRESS.match(spec):
        return not spec.startswith(("file:", "npm:", "workspace:", "link:", "jsr:"))
    return package.registry == "javascript" and spec[:1] not in ".@~/" and _ON_GITHUB.fullmatch(spec) is not None


def _name(package: Package) -> str:
    """The name in a spec, without version and extras; empty for a path."""
    spec = package.spec
    if spec[:1] in (".", "/", "~") or spec.endswith((".whl", ".tar.gz", ".tgz", ".zip", ".gem")):
        return ""
    if package.registry in ("python", "dotnet", "dart"):
        match = _PYTHON_NAME.match(spec)
        return match[0] if match is not None and "/" not in spec else ""
    if package.registry == "javascript":
        spec = spec.removeprefix("npm:")
        scope, slash, name = spec.rpartition("/") if spec[:1] == "@" else ("", "", spec)
        return f"{scope}{slash}{name.partition('@')[0]}"
    return spec.partition("@")[0].partition(":")[0]


def _plain(registry: Registry, name: str) -> str:
    if registry == "python":
        return _SEPARATOR.sub("-", name.lower())
    return name.lower() if registry == "dotnet" else name


def _is_known(registry: Registry, name: str) -> bool:
    names = _names(registry)
    return _plain(registry, name) in names.known or (name[:1] == "@" and name.partition("/")[0] in names.scopes)


def _is_there(name: str, command: Command, place: Place) -> bool:
    """Whether nothing is downloaded: the command says so, or the project has it."""
    return not _NO_DOWNLOAD.isdisjoint(command.words) or _is_installed(name, command, place)


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


def _without_doubled(name: str) -> list[str]:
    """The name without one of two equal neighbours."""
    return [name[:at] + name[at + 1 :] for at in range(len(name) - 1) if name[at] == name[at + 1]]


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
