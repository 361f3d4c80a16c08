"""Who may call: the name that a gateway is called by, the page that calls it, and the token.

A browser can be made to send requests to localhost. So a gateway answers only to its own names (against DNS rebinding),
refuses requests that another page caused, and sends no CORS headers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from typing import Final

from starlette.requests import HTTPConnection

from bus.config.settings import Settings
from bus.errors import FleethookError
from workers.gateway.problems import Problem
from workers.gateway.tokens import Scope, TokenBook

LOCAL: Final = "fleethook.local"
"""The entry of an ASGI scope that says that the call came through the unix socket, which only this user can open."""

CALLER: Final = "fleethook.caller"
"""The entry of an ASGI scope with the name of the caller's token."""

_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_BEARER: Final = "bearer "
_SUBPROTOCOL: Final = "fleethook.bearer."
_HOW: Final = "send `Authorization: Bearer TOKEN`; `fleethook tokens create NAME` makes a token"
_ON_SOCKET: Final[frozenset[Scope]] = frozenset({"publish"})
"""What a call through the unix socket may do without a token: the same as the hook commands of this user's agents."""


class Access:
    """The checks of one gateway."""

    def __init__(self, settings: Settings, tokens: TokenBook) -> None:
        self._tokens = tokens
        self._names = frozenset(
            name.lower()
            for name in (*_LOOPBACK, bracketed(settings.gateway_host), *settings.gateway_names.split(","))
            if name
        )

    async def check(self, request: HTTPConnection, scope: Scope | None) -> str:
        """The name of the caller's token, or `socket`; raises Problem if the caller may not have `scope` (None: anyone)."""
        local = bool(request.scope.get(LOCAL))
        if not local:
            _check_host(request, self._names)
        _check_origin(request)
        if scope is None:
            return ""
        secret = _bearer(request)
        if not secret and local and scope in _ON_SOCKET:
            return "socket"
        if not secret:
            raise Problem(401, "token-missing", f"this call needs a token; {_HOW}", {"WWW-Authenticate": "Bearer"})
        try:
            token = await self._tokens.find(secret)
        except FleethookError as error:
            raise Problem(503, "bus-away", f"tokens cannot be checked: {error}", {"Retry-After": "1"}) from error
        if token is None:
            detail = f"this token is unknown, revoked or expired; {_HOW}"
            raise Problem(401, "token-invalid", detail, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if not token.may(scope):
            detail = f"the token {token.name!r} lacks the scope {scope!r}; it has: {', '.join(token.scopes)}"
            raise Problem(403, "scope-missing", detail)
        return token.name


def is_loopback(host: str) -> bool:
    """Whether an address that a gateway listens on is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracketed(host: str) -> str:
    """A host as URLs and the `Host` header have it."""
    return f"[{host}]" if ":" in host else host


def _check_host(request: HTTPConnection, names: Collection[str]) -> None:
    host = request.headers.get("host", "").lower()
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdigit() else host
    if bare not in names:
        raise Problem(
            403,
            "host-refused",
            f"a gateway does not answer to the name {bare[:80]!r}; call it by one of its own names, "
            "or add the name to FLEETHOOK_GATEWAY_NAMES",
        )


def _check_origin(request: HTTPConnection) -> None:
    """Refuse what a page of another origin causes; programs send neither header."""
    origin, fetch = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    own = f"://{request.headers.get('host', '')}"
    if fetch not in {"none", "same-origin"} or (
        origin is not None and origin.lower() not in {f"http{own}".lower(), f"https{own}".lower()}
    ):
        raise Problem(403, "origin-refused", "a page of another origin may not call a gateway")


def _bearer(request: HTTPConnection) -> str:
    """The token of a call. The WebSocket of a browser sends no header of its own, but names subprotocols."""
    header = request.headers.get("authorization", "")
    if header.lower().startswith(_BEARER):
        return header[len(_BEARER) :].strip()
    offered: Sequence[str] = request.scope.get("subprotocols", ())
    return next((name[len(_SUBPROTOCOL) :] for name in offered if name.startswith(_SUBPROTOCOL)), "")
