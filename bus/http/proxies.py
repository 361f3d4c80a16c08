"""Finds the forward proxy for a webhook by `network.proxy` of fleethook.yaml.

By default there is no proxy, even if the environment names one. The operator chooses the proxy's address, so the address
policy judges only targets. The password is never in the file: `http://user:${PROXY_PASSWORD}@proxy.corp:3128`.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final
from urllib.parse import unquote

from bus.errors import ConfigError, ProxyFailed, TargetRefused
from bus.http.address_policy import AddressPolicy, Target, parse_target
from bus.secrets.references import fill

NONE: Final = "none"
ENVIRONMENT: Final = "environment"
MAY_NAME: Final = frozenset({"fleet", "user"})
"""The layers that may name a proxy: a cloned repository must not route webhooks through a stranger's machine."""

_HINT: Final = "write none, environment or http://proxy.example:3128"
_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}\Z")
_USERINFO: Final = re.compile(r"(?P<user>(?:\$\{[^}]*\}|[^:])*)(?::(?P<password>.*))?\Z")
_ANY_PORT: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A forward proxy; user and password are references, as in headers, unless `filled` is true."""

    host: str
    port: int
    user: str = ""
    password: str = ""
    filled: bool = False

    @property
    def name(self) -> str:
        """`host:port`; messages never show more of a proxy."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self.name})"


def check_proxy(configured: str) -> None:
    """Raise ConfigError unless this is a valid `network.proxy`; the message does not quote it."""
    if configured not in ("", NONE, ENVIRONMENT):
        _from_file(configured)


def proxy_for(configured: str, target: Target, environ: Mapping[str, str] | None = None) -> Proxy | None:
    """The proxy for a target by `network.proxy`; None for a direct connection.

    This machine is never reached through a proxy, which would connect 127.0.0.1 to itself. Raises ProxyFailed if the
    environment (by default this process's) names a proxy that cannot be used.
    """
    if configured in ("", NONE) or _is_here(target):
        return None
    if configured != ENVIRONMENT:
        return _from_file(configured)
    environ = os.environ if environ is None else environ
    name = f"{target.scheme}_proxy"
    url = _variable(environ, name)
    if not url or _excepted(target, _variable(environ, "no_proxy")):
        return None
    try:
        proxy = _parse(url if "://" in url else f"http://{url}")
    except ConfigError as error:
        raise ProxyFailed(f"{name.upper()} of the environment: {error.message}") from None
    return Proxy(proxy.host, proxy.port, unquote(proxy.user), unquote(proxy.password), filled=True)


def authorization(proxy: Proxy) -> str:
    """The value of Proxy-Authorization, empty if no user is configured; raises ProxyFailed if a variable or file is missing."""
    if not (proxy.user or proxy.password):
        return ""
    values = {"user": proxy.user, "password": proxy.password}
    try:
        found = values if proxy.filled else fill({"user": unquote(proxy.user), "password": proxy.password})
    except ConfigError as error:
        raise ProxyFailed(f"{proxy.name}: {error}") from None
    return "Basic " + b64encode(f"{found['user']}:{found['password']}".encode()).decode()


def is_named(target: Target, allowed: AddressPolicy) -> bool:
    """Whether the allow list has the target's name itself: then the proxy may resolve a name that this machine cannot."""
    return any(entry.host == target.host and entry.port in (0, target.port) for entry in allowed.entries)


def _from_file(configured: str) -> Proxy:
    proxy = _parse(configured)
    if proxy.password and not _REFERENCE.match(proxy.password):
        raise ConfigError(
            "the proxy's password is written in the file",
            hint="write http://user:${VAR}@… or http://user:${file:PATH}@…",
        )
    return proxy


def _parse(url: str) -> Proxy:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != "http":
        raise ConfigError("a proxy's URL has to begin with http://", hint=_HINT)
    userinfo, at, place = rest.rpartition("@")
    match = _USERINFO.match(userinfo)
    if not url.isprintable() or match is None or (at and not match["user"]):
        raise ConfigError("there is no user and password before the proxy's @", hint=_HINT)
    try:
        target = parse_target(f"http://{place}", ports=_ANY_PORT)
    except TargetRefused as error:
        raise ConfigError(f"the proxy's address: {error.reason}", hint=_HINT) from None
    if not target.url.endswith("/") or target.url.count("/") != 3:
        raise ConfigError("nothing may follow the proxy's port", hint=_HINT)
    return Proxy(target.host, target.port, match["user"], match["password"] or "")


def _is_here(target: Target) -> bool:
    if target.literal is not None:
        return target.literal.is_loopback
    return target.host == "localhost" or target.host.endswith(".localhost")


def _variable(environ: Mapping[str, str], name: str) -> str:
    """The value of a variable; its lower-case spelling overrides the upper-case one, also with an empty value."""
    return next((environ[key].strip() for key in (name, name.upper()) if key in environ), "")


def _excepted(target: Target, listed: str) -> bool:
    """Whether NO_PROXY lists the target: `*`, a name with its subdomains, `name:port`, an address or a CIDR."""
    return any(_fits(target, entry) for entry in listed.lower().replace(",", " ").split())


def _fits(target: Target, entry: str) -> bool:
    if entry == "*":
        return True
    if target.literal is not None:
        try:
            return target.literal in ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            pass  # a name, or an address with a port
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit():
        if int(port) != target.port:
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*").lstrip(".")
    return bool(entry) and (target.host == entry or target.host.endswith(f".{entry}"))
