"""Marketplaces of Claude Code on this disk: `.claude-plugin/marketplace.json`, with its plugins.

Source: code.claude.com/docs/en/plugins/marketplace-reference, and the published JSON Schema. Only plugins in the marketplace's
own folder can be added here; those in repositories and packages elsewhere are listed, and never fetched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from bus.config.documents import Document, PathParts, Plain, load
from bus.config.validation import convert, is_extra, nearest
from bus.errors import ConfigError
from bus.hookfiles.claude.manifest import Author, check_json, check_manifest
from bus.hookfiles.claude.plugins import MANIFEST, inside

MARKETPLACE: Final = Path(".claude-plugin", "marketplace.json")
KNOWN: Final = Path(".claude", "plugins", "known_marketplaces.json")

_Sha = Annotated[str, Meta(pattern="^[a-f0-9]{40}$")]
_Text = Annotated[str, Meta(min_length=1)]


class _Npm(msgspec.Struct, frozen=True):
    package: _Text
    version: str = ""
    registry: str = ""


class _Git(msgspec.Struct, frozen=True):
    url: _Text
    ref: str = ""
    sha: _Sha | None = None
    path: str = ""


class _GitHub(msgspec.Struct, frozen=True):
    repo: _Text
    ref: str = ""
    sha: _Sha | None = None
    path: str = ""


class _Subfolder(msgspec.Struct, frozen=True):
    url: _Text
    path: _Text
    ref: str = ""
    sha: _Sha | None = None


_SOURCES: Final[Mapping[str, tuple[Any, str]]] = {
    "npm": (_Npm, "package"),
    "url": (_Git, "url"),
    "git": (_Git, "url"),
    "github": (_GitHub, "repo"),
    "git-subdir": (_Subfolder, "url"),
}
"""The kinds of sources elsewhere, each with its type and the field that names it."""

_MORE: Final[Mapping[str, Any]] = {
    "source": str | dict[str, Any],
    "category": str,
    "tags": list[str],
    "strict": bool,
    "relevance": Any,
}
_FIELDS: Final[Mapping[str, Any]] = {
    "name": _Text,
    "owner": Author,
    "plugins": list[Any],
    "version": str,
    "description": str,
    "metadata": dict[str, Any],
    "forceRemoveDeletedPlugins": bool,
    "allowCrossMarketplaceDependenciesOn": list[str],
    "renames": dict[str, str | None],
}
_NEEDED: Final = {"name": '"name": "my-marketplace"', "owner": '"owner": {"name": "…"}', "plugins": '"plugins": []'}


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin of a marketplace."""

    name: str
    source: str
    """Where it is, as people read it."""
    root: str = ""
    """Its folder, absolute; empty if it is elsewhere, or wrong."""
    version: str = ""
    description: str = ""
    defines: tuple[str, ...] = ()
    """What the marketplace itself defines for it and would have to run: `hooks`, `mcpServers`."""
    origin: str = ""


class Marketplace(msgspec.Struct, frozen=True, kw_only=True):
    """What a marketplace offers, and what is wrong with it."""

    name: str
    root: str
    offers: tuple[Offer, ...] = ()
    refused: tuple[tuple[str, ConfigError], ...] = ()
    """The entries that are not offered, by name, with what is wrong."""
    problems: tuple[ConfigError, ...] = ()
    warnings: tuple[str, ...] = ()


def is_marketplace(path: Path) -> bool:
    """Whether a folder is a marketplace."""
    return (path / MARKETPLACE).is_file()


def known_marketplaces(home: Path) -> dict[str, Path]:
    """The folders of the marketplaces that Claude Code knows on this machine, by name."""
    try:
        value = load(home / KNOWN).value if (home / KNOWN).is_file() else None
    except ConfigError:
        return {}
    found = {}
    for name, entry in value.items() if isinstance(value, dict) else ():
        place = entry.get("installLocation") if isinstance(entry, dict) else None
        if isinstance(place, str) and is_marketplace(Path(place).expanduser()):
            found[name] = Path(place).expanduser()
    return found


def read_marketplace(root: Path) -> Marketplace:
    """A marketplace with everything that is wrong with it; raises ConfigError if its file cannot be parsed."""
    place = Path(os.path.realpath(root))
    try:
        document = load(place / MARKETPLACE)
    except ConfigError as error:
        raise check_json(str(place / MARKETPLACE)) or error from error
    value = document.value
    if not isinstance(value, dict):
        raise document.error((), "a marketplace is an object", hint='write {"name": "…", "owner": {…}, "plugins": []}')
    problems, warnings = _top(document, value)
    wrong = check_json(document.file)
    problems += [wrong] if wrong is not None else []
    base, offers, taken = _base(value), [], set()
    refused: list[tuple[str, ConfigError]] = []
    for number, entry in enumerate(value["plugins"] if isinstance(value.get("plugins"), list) else ()):
        at: PathParts = ("plugins", number)
        found = check_manifest(document, at, more=_MORE)
        problems += found.problems
        warnings += found.warnings
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            continue
        if entry["name"] in taken:
            problems.append(document.error((*at, "name"), f"a plugin {entry['name'][:64]!r} is in the list before"))
        taken.add(entry["name"])
        try:
            offers.append(_offer(document, at, entry, place, base))
        except ConfigError as error:
            refused.append(
                (
                    entry["name"],
                    error if error.file else document.error((*at, "source"), error.message, hint=error.hint),
                )
            )
            problems.append(refused[-1][1])
    name = value.get("name")
    return Marketplace(
        name=name if isinstance(name, str) else place.name,
        root=str(place),
        offers=tuple(offers),
        refused=tuple(refused),
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


@cache
def _with_field(key: str) -> type[msgspec.Struct]:
    """A type with one field of a marketplace."""
    return msgspec.defstruct("Marketplace", [(key, _FIELDS[key])])


def _top(document: Document, value: Mapping[str, Plain]) -> tuple[list[ConfigError], list[str]]:
    problems, warnings = [], []
    for key, part in value.items():
        if key in _FIELDS:
            problems += convert(document, (), {key: part}, _with_field(key))[1]
        elif not is_extra(key):
            near = nearest(key, _FIELDS)
            hint = f'did you mean "{near}"?' if near else "Claude Code ignores it"
            warnings.append(str(document.error((key,), f'unknown field "{key[:80]}"', hint=hint, key=True)))
    problems += [
        document.error((), f'"{key}" is missing', hint=f"add {example}")
        for key, example in _NEEDED.items()
        if key not in value
    ]
    return problems, warnings


def _base(value: Mapping[str, Plain]) -> str:
    metadata = value.get("metadata")
    base = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
    return base if isinstance(base, str) else ""


def _offer(document: Document, at: PathParts, entry: Mapping[str, Any], root: Path, base: str) -> Offer:
    """One entry; raises ConfigError for a wrong source."""
    version, description = entry.get("version"), entry.get("description")
    own = Offer(
        name=entry["name"],
        source="",
        version=version if isinstance(version, str) else "",
        description=description if isinstance(description, str) else "",
        origin=f"{document.file}:{document.place(at)[0]}",
    )
    if "source" not in entry:
        hint = f'add "source": "./plugins/{entry["name"]}"'
        raise document.error(at, '"source" is missing', hint=hint)
    source = entry["source"]
    if isinstance(source, dict):
        return msgspec.structs.replace(own, source=_elsewhere(document, (*at, "source"), source))
    if not isinstance(source, str):
        return own  # the check of the entry reports it
    folder = Path(inside(str(root), os.path.join(base, source)))
    if base and not os.path.isdir(folder):  # people also write the whole path beside `pluginRoot`
        whole = Path(inside(str(root), source))
        folder = whole if os.path.isdir(whole) else folder
    if not os.path.isdir(folder):
        raise ConfigError(
            f"there is no folder {str(folder)[:200]!r}", hint="correct the path; it begins at the marketplace's folder"
        )
    defines = () if (folder / MANIFEST).is_file() else tuple(key for key in ("hooks", "mcpServers") if key in entry)
    return msgspec.structs.replace(own, source=source, root=str(folder), defines=defines)


def _elsewhere(document: Document, at: PathParts, source: Mapping[str, Any]) -> str:
    """A source that is not on this disk, in words; raises ConfigError."""
    kind = source.get("source")
    if not isinstance(kind, str) or kind not in _SOURCES:
        raise document.error(
            at,
            f"the source has to be a path, or an object of kind {', '.join(_SOURCES)}",
            hint='add "source": "github"',
        )
    fields, name = _SOURCES[kind]
    problems = convert(document, at, {key: value for key, value in source.items() if key != "source"}, fields)[1]
    if problems:
        raise problems[0]
    path = source.get("path")
    return f"{kind} {source[name]}" + (f" {path}" if isinstance(path, str) else "")
