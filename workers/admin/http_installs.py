"""Finds the gateway for an install of hooks of type `http`, and makes the same call as such a hook."""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.ids import host_name
from bus.installs.base import InstallScope, Program
from bus.installs.http_hooks import TOKEN, HttpHooks
from bus.system.directories import Directories

_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - it is replaced
_CA_VARIABLE: Final = "NODE_EXTRA_CA_CERTS"


class HttpAnswer(NamedTuple):
    """A gateway's response. If the gateway could not be reached, the status is 0 and `text` is the error."""

    status: int
    text: str
    fallback: bool = False


def hooks_of_settings(settings: Settings, places: Directories) -> tuple[HttpHooks, tuple[str, ...]]:
    """The gateway of FLEETHOOK_URL, else that of this machine, and warnings about it; raises ConfigError."""
    parts = urlsplit(settings.url)
    if not settings.url or (parts.scheme == "unix" and parts.path == str(places.gateway_socket)):
        if not settings.gateway_port:
            raise ConfigError(
                "agents' hooks of type http need the gateway's TCP port, and FLEETHOOK_GATEWAY_PORT is 0",
                hint="set a port, or install without --http",
            )
        host = _ANY.get(settings.gateway_host, settings.gateway_host)
        return HttpHooks(f"http://{f'[{host}]' if ':' in host else host}:{settings.gateway_port}"), ()
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(
            f"agents' hooks of type http cannot use FLEETHOOK_URL={settings.url}",
            hint="set it to an http:// or https:// address of the gateway, or install without --http",
        )
    hooks = HttpHooks(f"{parts.scheme}://{parts.netloc}")
    warnings: tuple[str, ...] = ()
    if parts.query:
        warnings = (f"agents ignore ssl_ca_certs in the URL: start them with {_CA_VARIABLE} set to that file",)
    return hooks if hooks.loopback else HttpHooks(hooks.base, settings.host or host_name()), warnings


def token_of(program: Program, where: InstallScope) -> str:
    """The token of an agent that is started here: from its settings, else from this environment."""
    return program.variables(where).get(TOKEN) or os.environ.get(TOKEN, "")


def post(url: str, body: bytes, token: str, headers: Mapping[str, str], seconds: float) -> HttpAnswer:
    """Post a body as an agent's hook of type `http` does: no proxy, no redirects."""
    parts = urlsplit(url)
    try:
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, seconds)
        try:
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            about = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
            connection.request("POST", target, body, about)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
            return HttpAnswer(response.status, text, response.headers.get("Fleethook-Fallback") is not None)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return HttpAnswer(0, getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _connection(scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=seconds)
    context = ssl.create_default_context()
    if extra := os.environ.get(_CA_VARIABLE):
        context.load_verify_locations(extra)
    return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
