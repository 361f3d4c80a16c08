"""Which MCP servers of plugins may be started, and how: those that the user's own file has accepted (I-10, X-10)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.config.hook_file_value import Imported
from bus.errors import ConfigError
from bus.hookfiles.claude.mcp_servers import McpServer
from bus.hookfiles.claude.plugins import ClaudePlugin, inside, is_plugin, plugin_contents
from bus.hookfiles.claude.scripts import Roots
from bus.hooksets.layers import Layered
from bus.hooksets.plugins.folder_digest import folder_digest
from bus.system.environment import base_env
from workers.plugins.mcp.messages import ServerDown

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][\w.]*)(?::-([^}]*))?\}")
_OPTION: Final = "user_config."


@dataclass(frozen=True, slots=True)
class OfferedServer:
    """One server of an accepted plugin."""

    plugin: str
    server: McpServer
    root: str
    accepted: str
    """The digest of the plugin's folder that the user accepted."""
    env_pass: tuple[str, ...] = ()
    data: str = ""
    """The folder that the plugin may write to."""

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by."""
        return self.plugin, self.server.name


def offered_servers(files: Iterable[Layered]) -> list[OfferedServer]:
    """The servers that the user's own file offers, in its order. Servers of other layers are listed, and never started."""
    found: dict[tuple[str, str], OfferedServer] = {}
    for layered in files:
        for imported in layered.file.imports if layered.layer == "user" else ():
            for server in _of(imported):
                found.setdefault(server.key, server)
    return list(found.values())


def _of(imported: Imported) -> Iterator[OfferedServer]:
    place = Path(imported.path)
    if not imported.enabled or not imported.servers or not is_plugin(place):
        return
    try:
        contents = plugin_contents(place, servers_only=True)
    except ConfigError:
        return  # the folder went away
    for server in contents.mcp_servers:
        yield OfferedServer(
            plugin=contents.name,
            server=server,
            root=contents.root,
            accepted=imported.servers,
            env_pass=imported.env_pass,
            data=_data(contents, imported.dialect),
        )


def _data(contents: ClaudePlugin, dialect: str) -> str:
    return os.path.expanduser(Roots.of(Path(contents.root), contents.root, contents.slug, dialect).data)


def check_accepted(offered: OfferedServer) -> None:
    """Raise ServerDown if the plugin's folder is not as the user accepted it."""
    try:
        same = folder_digest(offered.root) == offered.accepted
    except ConfigError as error:
        raise ServerDown(str(error)) from error
    if not same:
        command = f"fleethook plugins add {shlex.quote(offered.root)}"
        raise ServerDown(f"its plugin's folder changed since you accepted it; `{command}` shows it and accepts it")


def variables(offered: OfferedServer, project: str) -> dict[str, str]:
    """The least environment: harmless variables, those that the user passes, and the plugin's own."""
    found = base_env(offered.env_pass)
    own = {
        "CLAUDE_PLUGIN_ROOT": offered.root,
        "PLUGIN_ROOT": offered.root,
        "CLAUDE_PLUGIN_DATA": offered.data,
        "CLAUDE_PROJECT_DIR": project,
    }
    return {**found, **{name: value for name, value in own.items() if value}, **_python(offered)}


def _python(offered: OfferedServer) -> dict[str, str]:
    """Python writes no compiled files, and reads none from the plugin's folder, since they are not part of what was accepted.

    Only where the folder has such files, all compiled files are kept elsewhere, which makes the first start slow.
    """
    compiled = any("__pycache__" in folders for _, folders, _ in os.walk(offered.root))
    if compiled and offered.data:
        return {"PYTHONPYCACHEPREFIX": os.path.join(offered.data, "pycache")}
    return {"PYTHONDONTWRITEBYTECODE": "1"}


def filled(offered: OfferedServer, known: Mapping[str, str]) -> McpServer:
    """The server with its `${…}` filled in; raises ServerDown for a variable that it does not get, and for a folder outside."""
    server = offered.server

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: _value(offered, match, known), value)
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return tuple(fill(item) for item in value)

    changes = {name: fill(getattr(server, name)) for name in ("command", "args", "env", "cwd", "url", "headers")}
    whole = msgspec.structs.replace(server, **changes)
    try:
        folder = (
            offered.root
            if whole.cwd in {"", offered.root}
            else inside(offered.root, _relative(whole.cwd, offered.root))
        )
    except ConfigError as error:
        raise ServerDown(f"its folder is not inside the plugin: {error.message}") from error
    return msgspec.structs.replace(whole, cwd=folder)


def _relative(path: str, root: str) -> str:
    return (
        os.path.relpath(path, root)
        if os.path.isabs(path) and not os.path.relpath(path, root).startswith("..")
        else path
    )


def _value(offered: OfferedServer, match: re.Match[str], known: Mapping[str, str]) -> str:
    name, default = match[1], match[2]
    variable = f"CLAUDE_PLUGIN_OPTION_{name.removeprefix(_OPTION).upper()}" if name.startswith(_OPTION) else name
    value = known.get(variable) or default
    if value is None:
        command = f"fleethook plugins add {shlex.quote(offered.root)} --env-pass {variable}"
        raise ServerDown(f"it needs the variable {variable}, which it does not get; `{command}` passes it on")
    return value
