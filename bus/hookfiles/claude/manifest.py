"""The fields of a plugin's manifest as Claude Code documents them, and what is wrong with them (I-05, I-09).

Source: code.claude.com/docs/en/plugins/manifest-reference, and the published JSON Schema of the manifest. Unknown fields
at the top are warnings, as they are for Claude Code; unknown fields of user options, channels, language servers and
monitors are errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from bus.config.documents import Document, PathParts, Plain, read_file
from bus.config.validation import convert, is_extra, nearest
from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex

_Text = Annotated[str, Meta(min_length=1)]
_Paths = str | list[str]
_PLUGIN_NAME: Final = r"^[A-Za-z0-9][-A-Za-z0-9._]*$"
_KEBAB: Final = lazy_regex(r"[a-z0-9]+(?:[-.][a-z0-9]+)*\Z")
_OPTION: Final = lazy_regex(r"[A-Za-z_]\w*\Z")


class Author(msgspec.Struct, frozen=True):
    """Who wrote a plugin, or keeps a marketplace."""

    name: _Text
    email: str = ""
    url: str = ""


class _Dependency(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(pattern=_PLUGIN_NAME)]
    marketplace: Annotated[str, Meta(pattern=_PLUGIN_NAME)] | None = None
    version: str = ""


class _Command(msgspec.Struct, frozen=True, rename="camel"):
    source: str | None = None
    content: str | None = None
    description: str = ""
    argument_hint: str = ""
    model: str = ""
    allowed_tools: list[str] = msgspec.field(default_factory=list)


class _Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["string", "number", "boolean", "directory", "file"]
    title: str
    description: str
    required: bool = False
    default: str | float | bool | list[str] | None = None
    options: list[Any] = msgspec.field(default_factory=list)
    multiple: bool = False
    sensitive: bool = False
    min: float | None = None
    max: float | None = None


class _Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    server: _Text
    display_name: str = ""
    user_config: dict[str, _Option] = msgspec.field(default_factory=dict)


class _LanguageServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    command: _Text
    extension_to_language: dict[str, _Text]
    args: list[_Text] = msgspec.field(default_factory=list)
    transport: Literal["stdio", "socket"] = "stdio"
    env: dict[str, str] = msgspec.field(default_factory=dict)
    initialization_options: Any = None
    settings: Any = None
    workspace_folder: str = ""
    startup_timeout: Annotated[int, Meta(gt=0)] | None = None
    shutdown_timeout: Annotated[int, Meta(gt=0)] | None = None
    restart_on_crash: bool | None = None
    max_restarts: Annotated[int, Meta(ge=0)] | None = None


class Monitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program that Claude Code keeps running for a session; Fleethook does not run it."""

    name: _Text
    command: _Text
    description: _Text
    when: Annotated[str, Meta(pattern=r"^(?:always|on-skill-invoke:.*)$")] = "always"


class _Experimental(msgspec.Struct, frozen=True):
    themes: _Paths | None = None
    monitors: str | list[Monitor] | None = None


_Servers = dict[str, dict[str, Any]]
_LanguageServers = dict[str, _LanguageServer]

FIELDS: Final[Mapping[str, Any]] = {
    "name": _Text,
    "displayName": str,
    "version": str,
    "description": str,
    "author": Author,
    "homepage": str,
    "repository": str,
    "license": str,
    "keywords": list[str],
    "dependencies": list[str | _Dependency],
    "defaultEnabled": bool,
    "hooks": str | dict[str, list[Any]] | list[str | dict[str, Any]],
    "commands": str | list[str] | dict[str, _Command],
    "agents": _Paths,
    "skills": _Paths,
    "outputStyles": _Paths,
    "workflows": _Paths,
    "themes": _Paths,
    "mcpServers": str | _Servers | list[str | _Servers],
    "lspServers": str | _LanguageServers | list[str | _LanguageServers],
    "monitors": str | list[Monitor],
    "settings": dict[str, Any],
    "userConfig": dict[str, _Option],
    "channels": list[_Channel],
    "experimental": _Experimental,
    "metadata": dict[str, Any],
    "mcp": dict[str, Any],
}
"""Every field with the type of its value; `mcp` is ion's."""

_PATHS: Final = ("hooks", "commands", "agents", "skills", "outputStyles", "workflows", "themes", "mcpServers")
_WANTED: Final = ("version", "description", "author")


class ManifestFindings(NamedTuple):
    """What a check found: errors, and what works but is not as it should be."""

    problems: list[ConfigError]
    warnings: list[str]


def check_manifest(
    document: Document, at: PathParts = (), *, more: Mapping[str, Any] | None = None
) -> ManifestFindings:
    """Check the manifest at a place in a document; `more` are the types of further fields (of a marketplace's entry)."""
    value: Plain = document.value
    for part in at:
        value = value[part]
    if not isinstance(value, dict):
        return ManifestFindings([document.error(at, "a manifest is an object", hint='write {"name": "…"}')], [])
    fields = {**FIELDS, **(more or {})}
    problems: list[ConfigError] = []
    warnings: list[ConfigError] = []
    for key, part in value.items():
        if key in fields:
            problems += _check(document, (*at, key), key, part, fields[key])
        elif not is_extra(key):
            near = nearest(key, fields)
            hint = f'did you mean "{near}"?' if near else "Claude Code ignores it"
            warnings.append(document.error((*at, key), f'unknown field "{key[:80]}"', hint=hint, key=True))
    if "name" not in value:
        problems.append(document.error(at, '"name" is missing', hint='add "name": "my-plugin"'))
    warnings += _advice(document, at, value, is_entry=more is not None)
    return ManifestFindings(problems, list(map(str, warnings)))


def check_json(file: str) -> ConfigError | None:
    """What makes a file no strict JSON, which it has to be for Claude Code; None if nothing does, or it cannot be read.

    Files are read here as YAML, which has JSON in it and allows comments and more.
    """
    try:
        json.loads(read_file(Path(file)))
    except json.JSONDecodeError as error:
        hint = "Claude Code reads no comments, no commas before a closing bracket, and texts in double quotes only"
        return ConfigError(f"this is no JSON: {error.msg}", file=file, line=error.lineno, column=error.colno, hint=hint)
    except (ConfigError, ValueError, RecursionError):
        return None  # its reader reports it
    return None


@cache
def _with_field(key: str, kind: Any) -> type[msgspec.Struct]:
    """A type with one field."""
    return msgspec.defstruct("Manifest", [(key, kind)], forbid_unknown_fields=True)


def _check(document: Document, at: PathParts, key: str, value: Plain, kind: Any) -> Iterator[ConfigError]:
    """The errors of one field; a type that is wrong on the whole is named by its field."""
    yield from convert(document, at[:-1], {key: value}, _with_field(key, kind))[1]
    if key == "userConfig" and isinstance(value, dict):
        for name in value:
            if not _OPTION.match(name):
                hint = "letters, digits and _, beginning with a letter"
                yield document.error((*at, name), f"{name[:64]!r} cannot name an option", hint=hint, key=True)


def _advice(document: Document, at: PathParts, value: Mapping[str, Plain], *, is_entry: bool) -> Iterator[ConfigError]:
    name = value.get("name")
    if isinstance(name, str) and name and not _KEBAB.match(name):
        hint = 'write it like "my-plugin": its commands are called /my-plugin:…'
        yield document.error((*at, "name"), f"the name {name[:64]!r} is not in kebab-case", hint=hint)
    for key in () if is_entry else _WANTED:
        if key not in value:
            yield document.error(at, f"there is no {key}", hint=f'add "{key}" before you share the plugin')
    for place, path in _paths(value):
        leads_out = ".." in path.split("/")  # an error of its own
        if not path.startswith("./") and "://" not in path and not leads_out:
            hint = f"write ./{path.lstrip('/')}"
            yield document.error((*at, *place), f"Claude Code refuses the path {path[:80]!r}", hint=hint)
    if "monitors" in value:
        yield document.error(
            (*at, "monitors"), "monitors are experimental", hint='write "experimental": {"monitors": …}', key=True
        )
    yield from _channel_advice(document, at, value)


def _channel_advice(document: Document, at: PathParts, value: Mapping[str, Plain]) -> Iterator[ConfigError]:
    servers, channels = value.get("mcpServers"), value.get("channels")
    if not isinstance(servers, dict) or not isinstance(channels, list):
        return
    for number, channel in enumerate(channels):
        server = channel.get("server") if isinstance(channel, dict) else None
        if isinstance(server, str) and server not in servers:
            place = (*at, "channels", number, "server")
            yield document.error(place, f"mcpServers has no server {server[:64]!r}")


def _paths(value: Mapping[str, Plain]) -> Iterator[tuple[PathParts, str]]:
    """The paths that a manifest names, each with its place."""
    for key in _PATHS:
        entry = value.get(key)
        for number, item in enumerate(entry if isinstance(entry, list) else ()):
            if isinstance(item, str):
                yield (key, number), item
        if isinstance(entry, str):
            yield (key,), entry
