"""The MCP servers that a plugin defines, in the forms of Claude Code and of ion (I-10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec

from bus.config.documents import Document, PathParts, Plain
from bus.config.validation import convert
from bus.errors import ConfigError
from bus.lazy.regex import lazy_regex

FILES: Final = (".mcp.json", "mcp/mcp.json")
"""Where a plugin's servers are without an entry in its manifest."""

Transport = Literal["stdio", "http", "sse", "ws"]

_ROOT: Final = lazy_regex(r"\$\{(?:CLAUDE_PLUGIN_ROOT|PLUGIN_ROOT)\}")
_BUNDLES: Final = (".mcpb", ".dxt")


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server of a plugin, with the plugin's root filled in (I-10); `env` and `headers` may hold secrets."""

    name: str
    type: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str = ""
    """The folder that it starts in; empty: the plugin's."""
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    origin: str = ""
    """`file:line` of its definition."""


class _OAuth(msgspec.Struct, frozen=True, rename="camel"):
    client_id: str = ""
    callback_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    auth_server_metadata_url: str = ""
    scopes: str = ""


class _ServerEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a server that Claude Code documents; others are ignored, as it ignores them."""

    type: Literal["stdio", "http", "streamable-http", "sse", "ws"] | None = None
    command: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    args: list[str] = msgspec.field(default_factory=list)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str = ""
    url: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    headers_helper: str = ""
    oauth: _OAuth | None = None
    timeout: float | None = None


def server_file(document: Document, plugin: str, root: str) -> Iterator[McpServer | ConfigError]:
    """The servers of a whole file: `{"mcpServers": {…}}`, ion's `{"mcp": {…}}`, or the names themselves."""
    value = document.value
    if isinstance(value, dict) and "mcpServers" in value:
        yield from server_map(document, ("mcpServers",), value["mcpServers"], root)
    elif isinstance(value, dict) and isinstance(value.get("mcp"), dict):
        yield from ion_server(document, value["mcp"], plugin, root)
    else:
        yield from server_map(document, (), value, root)


def ion_server(document: Document, value: Plain, plugin: str, root: str) -> Iterator[McpServer | ConfigError]:
    """ion's single server of a plugin, which has the plugin's name (I-10)."""
    yield _server(document, ("mcp",), "mcp", value, root, plugin)


def server_map(document: Document, at: PathParts, value: Plain, root: str) -> Iterator[McpServer | ConfigError]:
    """The servers of an object of names, each as a server or as what is wrong with it."""
    if not isinstance(value, dict):
        yield document.error(at, "MCP servers are an object of names and their servers", hint='write {"NAME": {…}}')
        return
    for name, entry in value.items():
        if not name.startswith("$"):
            yield _server(document, (*at, name), name, entry, root)


def is_bundle(text: str) -> bool:
    """Whether a path or URL names a packed server (MCPB), which only Claude Code unpacks."""
    return text.lower().partition("?")[0].endswith(_BUNDLES)


def _server(
    document: Document, place: PathParts, name: str, entry: Plain, root: str, known_as: str = ""
) -> McpServer | ConfigError:
    what = f"the MCP server {name[:64]!r}"
    if not isinstance(entry, dict) or not {"command", "url"} & entry.keys():
        hint = 'write {"command": "…", "args": […]} or {"type": "http", "url": "…"}'
        return document.error(place, f"{what} has no command and no url", hint=hint)
    fields, problems = convert(document, place, entry, _ServerEntry)
    if fields is None:
        problem = problems[0]
        problem.message = f"{what} does not fit: {problem.message}"
        return problem
    if fields.command is not None and fields.url is not None:
        return document.error(place, f"{what} has a command and a url", hint="keep one of them")
    if fields.type == "stdio" and fields.command is None:
        return document.error(place, f"{what} is of type stdio and has no command", hint='add "command": "…"')
    if fields.type not in {None, "stdio"} and fields.url is None:
        return document.error(place, f"{what} is of type {fields.type} and has no url", hint='add "url": "https://…"')
    kind: Transport = "stdio" if fields.url is None else "http"
    if fields.type in {"sse", "ws"}:
        kind = fields.type
    return McpServer(
        name=known_as or name,
        type=kind,
        command=_filled(fields.command or "", root),
        args=tuple(_filled(fields.args, root)),
        env=_filled(fields.env, root),
        cwd=_filled(fields.cwd, root),
        url=_filled(fields.url or "", root),
        headers=_filled(fields.headers, root),
        origin=f"{document.file}:{document.place(place)[0]}",
    )


def _filled(value: Any, root: str) -> Any:
    """Text, or the texts of a list or mapping, with the plugin's folder filled in."""
    if isinstance(value, str):
        return _ROOT.sub(lambda _match: root, value)
    if isinstance(value, list):
        return [_filled(item, root) for item in value]
    return {key: _filled(item, root) for key, item in value.items()}
