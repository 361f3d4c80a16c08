"""Finds the packages that a text adds to a manifest, such as `requirements.txt`, `package.json` or `Cargo.toml`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.matching.facts.package_specs import Package, Registry, servers_in

_MOST_LINES: Final = 2000
"""So many lines of a text are read."""

_REQUIREMENT: Final = lazy_regex(r"[A-Za-z0-9][\w.-]*(?:\[[\w,\s.-]*\])?\s*(?:(?:[<>=~!]=?|@)[^\"']*)?(?:;.*)?")
_ADDRESS: Final = lazy_regex(r"(?i)(?:-e\s+|--editable[ =])?(?P<address>(?:git|hg|svn|bzr)\+\S+|https?://\S+)")
_SECTION: Final = lazy_regex(r"\[+\s*([^\]]+?)\s*\]+\s*(?:#.*)?")
_ARRAY: Final = lazy_regex(r"([\w-]+)\s*=\s*\[(.*)")
_QUOTED: Final = lazy_regex(r"\"([^\"]+)\"|'([^']+)'")
_PAIR: Final = lazy_regex(r"[\"']?([A-Za-z0-9][\w./-]*)[\"']?\s*=\s*(.+)")
_VERSION: Final = lazy_regex(r"[\"'](?:[\^~<>=*]|v?\d)[^\"']*[\"']")
_TABLE: Final = lazy_regex(r"\{.*\b(?:version|git|url|path|workspace)\s*=.*")
_TABLE_SOURCE: Final = lazy_regex(r"\b(?:git|url)\s*=\s*[\"']([^\"']+)[\"']")
_TABLE_COMMIT: Final = lazy_regex(r"\brev\s*=\s*[\"']([0-9a-f]{7,64})[\"']")
_JSON_PAIR: Final = lazy_regex(r"\"((?:@[\w.-]+/)?[\w][\w./-]*)\"\s*:\s*\"([^\"]{1,300})\"")
_JSON_SPEC: Final = lazy_regex(
    r"(?i)[\^~<>=*]|v?\d|x\b|latest\b|next\b|workspace:|npm:|file:|link:|(?:github|gitlab|bitbucket|gist|git)[:+@]|https?://|dev-"
)
_NO_PACKAGES: Final = frozenset(
    [
        *(
            "version",
            "name",
            "node",
            "npm",
            "pnpm",
            "yarn",
            "bun",
            "vscode",
            "url",
            "homepage",
            "repository",
            "bugs",
            "type",
        ),
        *(
            "license",
            "main",
            "module",
            "php",
            "target",
            "edition",
            "packageManager",
            "engines",
            "python",
            "requires-python",
        ),
        *("target-version", "rust-version", "resolver", "description", "email", "src", "href"),
    ]
)
"""Keys that have a version or an address and are no packages."""
_JSON_SECTIONS: Final = {
    "package.json": (
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "optionalDependencies",
        "overrides",
        "resolutions",
    ),
    "composer.json": ("require", "require-dev"),
}
_GEM: Final = lazy_regex(r"\s*gem[ (]+[\"']([\w.-]+)[\"'](.*)")
_GEM_SOURCE: Final = lazy_regex(
    r"(?:github|git|gitlab|bitbucket):\s*[\"']([^\"']+)[\"']|:(?:github|git)\s*=>\s*[\"']([^\"']+)[\"']"
)
_GEM_COMMIT: Final = lazy_regex(r"ref(?::|\s*=>)\s*[\"'][0-9a-f]{7,40}[\"']")
_MODULE: Final = lazy_regex(r"\s*(?:require\s+)?((?:[\w-]+\.)+[a-z]{2,}/[\w./~-]+)\s+v\d\S*")
_CONDA: Final = lazy_regex(r"\s*-\s*[\"']?([A-Za-z0-9][\w.-]*)\s*(?:[<>=!~].*)?[\"']?\s*")


def manifest_of(path: str) -> str:
    """The kind of manifest that a path names; empty for any other file."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    if name in _KINDS:
        return name
    if name.endswith("mcp.json") or name in _SERVER_FILES:
        return SERVERS
    if name.endswith((".csproj", ".fsproj", ".vbproj")) or name in ("directory.packages.props", "packages.config"):
        return "csproj"
    if name.endswith((".txt", ".in")) and ("requirements" in path.lower() or name.startswith("constraints")):
        return "requirements.txt"
    return ""


def packages_in(kind: str, text: str) -> Iterator[Package]:
    """The packages in a text, or in a part of it, that is written into a manifest of this kind."""
    read = _KINDS.get(kind)
    return iter(()) if read is None else read(text)


def _lines(text: str) -> list[str]:
    return text.split("\n", _MOST_LINES)[:_MOST_LINES]


def _requirements(text: str) -> Iterator[Package]:
    for line in _lines(text):
        yield from _requirement(line.partition(" #")[0].strip())


def _requirement(line: str) -> Iterator[Package]:
    if (address := _ADDRESS.match(line)) is not None:
        yield Package("python", address["address"], runs=False)
    elif _REQUIREMENT.fullmatch(line):
        yield Package("python", line, runs=False)


_OF_PACKAGES: Final = ("dependencies", "packages", "patch.", "tool.uv.sources")
"""What the names of sections with packages contain."""


def _toml(registry: Registry) -> Callable[[str], Iterator[Package]]:
    def read(text: str) -> Iterator[Package]:
        section, array = "?", ""
        for raw in _lines(text):
            line = raw.strip()
            if line[:1] == "[" and (header := _SECTION.fullmatch(line)) is not None:
                section, array = header[1].lower(), ""
            elif (opened := _ARRAY.match(line)) is not None and registry == "python":
                array = "" if "]" in opened[2] else opened[1]
                if _has_packages(section, opened[1]):
                    yield from _quoted(opened[2])
            elif line[:1] in "\"'" and line and "=" not in line.partition(line[0])[2].partition(line[0])[2]:
                if registry == "python" and _has_packages(section, array):
                    yield from _quoted(line)
            elif line[:1] == "]":
                array = ""
            elif (section == "?" or any(part in section for part in _OF_PACKAGES)) and not array:
                yield from _pair(registry, line, section)

    return read


def _has_packages(section: str, key: str) -> bool:
    """Whether an array of `pyproject.toml` is one of packages. Of a part of a file neither section nor key may be known."""
    if key in ("dependencies", "requires", "dev-dependencies"):
        return True
    return ("dependenc" in section and "tool.poetry" not in section) or (
        section == "?" and key in ("", "dev", "test", "lint", "docs")
    )


def _quoted(text: str) -> Iterator[Package]:
    for found in _QUOTED.finditer(text):
        yield from _requirement((found[1] or found[2]).strip())


def _pair(registry: Registry, line: str, section: str) -> Iterator[Package]:
    pair = _PAIR.fullmatch(line)
    if pair is None or pair[1] in _NO_PACKAGES:
        return
    name, value = pair[1].removesuffix(".version"), pair[2]
    if _TABLE.match(value):
        source = _TABLE_SOURCE.search(value)
        if source is not None:
            commit = _TABLE_COMMIT.search(value)
            yield Package(registry, f"git+{source[1]}" + (f"@{commit[1]}" if commit is not None else ""), runs=False)
        elif "path" not in value:
            yield Package(registry, name, runs=False)
    elif _VERSION.match(value) or section != "?":
        yield Package(registry, name, runs=False)


def _json(kind: str, registry: Registry) -> Callable[[str], Iterator[Package]]:
    def read(text: str) -> Iterator[Package]:
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            pairs = [(found[1], found[2]) for found in _JSON_PAIR.finditer(text) if found[1] not in _NO_PACKAGES]
        else:
            sections = [whole.get(name) for name in _JSON_SECTIONS[kind]] if isinstance(whole, dict) else []
            pairs = [
                (name, spec)
                for section in sections
                if isinstance(section, dict)
                for name, spec in section.items()
                if isinstance(spec, str)
            ]
        for name, spec in pairs[:_MOST_LINES]:
            if not _JSON_SPEC.match(spec):
                continue
            if registry == "javascript" and spec[:1].isalpha() and ":" in spec:
                yield Package(registry, spec, runs=False)
            elif registry == "php" and "/" not in name:
                continue
            else:
                yield Package(registry, name, runs=False)

    return read


def _gems(text: str) -> Iterator[Package]:
    for line in _lines(text):
        if (gem := _GEM.match(line)) is None:
            continue
        source = _GEM_SOURCE.search(gem[2])
        if source is None:
            yield Package("ruby", gem[1], runs=False)
        elif not _GEM_COMMIT.search(gem[2]):
            yield Package("ruby", f"git+{source[1] or source[2]}", runs=False)


def _modules(text: str) -> Iterator[Package]:
    for line in _lines(text):
        if (module := _MODULE.match(line)) is not None:
            yield Package("go", module[1], runs=False)


def _conda(text: str) -> Iterator[Package]:
    for line in _lines(text):
        if (found := _CONDA.fullmatch(line)) is not None:
            yield Package("python", found[1], runs=False)


_REQUIRES: Final = lazy_regex(r"(?s)\w*_requires?\s*=\s*[\[{(](.{0,4000}?)[\]})]")


def _setup(text: str) -> Iterator[Package]:
    for found in _REQUIRES.finditer(text):
        yield from _quoted(found[1])


_REFERENCE: Final = lazy_regex(
    r"<(?:PackageReference|PackageVersion|GlobalPackageReference|package) (?:Include|Update|id)=\"([\w.-]+)\""
)


def _references(text: str) -> Iterator[Package]:
    for found in _REFERENCE.finditer(text):
        yield Package("dotnet", found[1], runs=False)


_PUB_ENTRY: Final = lazy_regex(r"(?m)^  ([a-z][a-z0-9_]*):[ ]*(?:[\^\d\"'>]|any\b)")


def _pub(text: str) -> Iterator[Package]:
    for found in _PUB_ENTRY.finditer(text):
        yield Package("dart", found[1], runs=False)


SERVERS: Final = "servers"
"""The kind of file that names MCP servers, which an agent starts."""
_SERVER_FILES: Final = frozenset(
    {
        "mcp_config.json",
        "claude_desktop_config.json",
        "cline_mcp_settings.json",
        "mcp_settings.json",
        ".claude.json",
        "config.toml",
    }
    | {"settings.json", "settings.local.json", "opencode.json", "mcp.yaml", "mcp.yml", "config.yaml"}
)
_KINDS: Final[dict[str, Callable[[str], Iterator[Package]]]] = {
    "requirements.txt": _requirements,
    "pyproject.toml": _toml("python"),
    "pipfile": _toml("python"),
    "cargo.toml": _toml("rust"),
    "package.json": _json("package.json", "javascript"),
    "composer.json": _json("composer.json", "php"),
    "setup.py": _setup,
    "gemfile": _gems,
    "go.mod": _modules,
    "environment.yml": _conda,
    "environment.yaml": _conda,
    "csproj": _references,
    "pubspec.yaml": _pub,
    SERVERS: servers_in,
}
