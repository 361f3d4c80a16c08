"""Reads Gobby's own configuration of its daemon: the ports, and the events that it broadcasts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.config.documents import load
from bus.config.hook_file_value import Imported
from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.hookfiles import gobby
from bus.hooksets.detect import file_in
from bus.hooksets.in_force import Layered

HTTP_PORT: Final = 60887
WEBSOCKET_PORT: Final = 60888
"""The default ports, as in Gobby's last releases."""

BROADCAST: Final = ("session-start", "session-end", "pre-tool-use", "post-tool-use")

_BOOTSTRAP: Final = "bootstrap.yaml"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_MOST_PORT: Final = 65_535
_MOST_PING: Final = 3600.0


class GobbyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a gateway that takes the place of Gobby's daemon."""

    port: int = HTTP_PORT
    websocket_port: int = WEBSOCKET_PORT
    """0: there is no WebSocket."""
    ping_interval: float = 30.0
    ping_timeout: float = 10.0
    """Seconds between the WebSocket's pings, and for the answer to one."""
    broadcast_events: tuple[str, ...] = BROADCAST
    include_payload: bool = True
    plugins_enabled: bool = False
    plugin_dirs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The files that the settings are from."""


def gobby_config(settings: Settings, layers: Iterable[Layered]) -> GobbyConfig | None:
    """The configuration in force; None if the gateway does not replace Gobby's daemon.

    With FLEETHOOK_GOBBY=auto it replaces the daemon only while a hook file in force imports a file of Gobby. A file that
    cannot be read raises no error: the defaults count, and `fleethook doctor` reports the file.
    """
    layers = tuple(layers)
    imports = _imports(layers)
    if not may_replace(settings, layers):
        return None
    found: dict[str, Any] = {}
    for imported in reversed(imports):  # the highest layer's counts
        found |= _read(imported)
    if settings.gobby_port:
        found["port"] = settings.gobby_port
    if settings.gobby_websocket_port:
        found["websocket_port"] = settings.gobby_websocket_port
    return GobbyConfig(**found, files=tuple(imported.path for imported in imports))


def may_replace(settings: Settings, layers: Sequence[Layered]) -> bool:
    """Whether the gateway replaces Gobby's daemon, by the settings and the hook files in force."""
    return settings.gobby != "off" and (settings.gobby != "auto" or bool(_imports(layers)))


def _imports(layers: Iterable[Layered]) -> list[Imported]:
    return [
        imported
        for layer in layers
        for imported in layer.file.imports
        if imported.dialect == gobby.NAME and imported.enabled
    ]


def _read(imported: Imported) -> dict[str, Any]:
    path = file_in(Path(imported.path), gobby.NAME)
    whole = {**_mapping(path), **_mapping(path.with_name(_BOOTSTRAP))}
    found: dict[str, Any] = {}
    daemon, socket = _dict(whole.get("daemon")), _dict(whole.get("websocket"))
    if port := _port(whole.get("daemon_port", daemon.get("port"))):
        found["port"] = port
    if port := _port(whole.get("websocket_port", socket.get("port"))):
        found["websocket_port"] = port
    for name in ("ping_interval", "ping_timeout"):
        seconds = socket.get(name)
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= _MOST_PING:
            found[name] = float(seconds)
    live = _dict(imported.sections.get("websocket"))
    if socket.get("enabled") is False or live.get("enabled") is False:
        found["websocket_port"] = 0
    if isinstance(names := live.get("broadcast_events"), list):
        found["broadcast_events"] = tuple(str(name) for name in names)
    found["include_payload"] = live.get("include_payload") is not False
    plugins = _dict(imported.sections.get("plugins"))
    found["plugins_enabled"] = plugins.get("enabled") is True
    if isinstance(folders := plugins.get("plugin_dirs"), list):
        found["plugin_dirs"] = tuple(str(folder) for folder in folders)
    return found


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        value = load(path).value if path.is_file() else None
    except ConfigError:
        return {}
    return value if isinstance(value, dict) else {}


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _port(value: object) -> int:
    """A port, with `${VAR}` and `${VAR:-default}` replaced as in Gobby; 0 for anything else."""
    if isinstance(value, str):
        value = _VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2] or "", value).strip()
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_PORT else 0
