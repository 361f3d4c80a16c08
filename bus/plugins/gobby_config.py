"""Gobby's configuration values of hook extensions, for plugins and tests that build them (G-11, G-23).

Importable as `gobby.config.app` and `gobby.config.extensions`. Mappings are taken where a value of a class here is expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

_V = TypeVar("_V")


@dataclass
class PluginItemConfig:
    """One plugin: whether it is on, and what its `on_load` gets."""

    enabled: bool = True
    config: dict[str, Any] = field(default_factory=dict)


@dataclass
class PluginsConfig:
    """Where plugins are looked for, and the settings of each by its name."""

    enabled: bool = False
    plugin_dirs: list[str] = field(default_factory=lambda: ["~/.gobby/plugins", ".gobby/plugins"])
    auto_discover: bool = True
    plugins: dict[str, PluginItemConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plugins = {name: _made(PluginItemConfig, entry) for name, entry in self.plugins.items()}


@dataclass
class WebSocketBroadcastConfig:
    """Which events are broadcast."""

    enabled: bool = True
    broadcast_events: list[str] = field(
        default_factory=lambda: ["session-start", "session-end", "pre-tool-use", "post-tool-use"]
    )
    include_payload: bool = True


@dataclass
class WebhookEndpointConfig:
    """One webhook endpoint; times in seconds."""

    name: str
    url: str
    events: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float = 10.0
    retry_count: int = 3
    retry_delay: float = 1.0
    can_block: bool = False
    enabled: bool = True

    def __post_init__(self) -> None:
        _between("timeout", self.timeout, 1, 60)
        _between("retry_count", self.retry_count, 0, 10)
        _between("retry_delay", self.retry_delay, 0.1, 30)


@dataclass
class WebhooksConfig:
    """The webhook endpoints."""

    enabled: bool = True
    endpoints: list[WebhookEndpointConfig] = field(default_factory=list)
    default_timeout: float = 10.0
    async_dispatch: bool = True

    def __post_init__(self) -> None:
        _between("default_timeout", self.default_timeout, 1, 60)
        self.endpoints = [_made(WebhookEndpointConfig, entry) for entry in self.endpoints]


@dataclass
class HookExtensionsConfig:
    """The section `hook_extensions`."""

    websocket: WebSocketBroadcastConfig = field(default_factory=WebSocketBroadcastConfig)
    webhooks: WebhooksConfig = field(default_factory=WebhooksConfig)
    plugins: PluginsConfig = field(default_factory=PluginsConfig)

    def __post_init__(self) -> None:
        self.websocket = _made(WebSocketBroadcastConfig, self.websocket)
        self.webhooks = _made(WebhooksConfig, self.webhooks)
        self.plugins = _made(PluginsConfig, self.plugins)


def _made(kind: type[_V], value: Any) -> _V:
    return kind(**value) if isinstance(value, Mapping) else value


def _between(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} has to be between {least:g} and {most:g}, it is {value!r}")


CLASSES = (
    PluginItemConfig,
    PluginsConfig,
    WebSocketBroadcastConfig,
    WebhookEndpointConfig,
    WebhooksConfig,
    HookExtensionsConfig,
)
