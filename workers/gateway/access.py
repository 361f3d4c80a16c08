"""Checks who may call a gateway: by the host name in the call, the origin of a page that causes it, and the token.

A web page can make a browser send requests to localhost. So a gateway answers only to its own names (against DNS
rebinding), refuses requests that a page of another origin caused, and sends no CORS headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from bus.config.settings import Settings
from bus.errors import FleethookError
from workers.gateway.limits import LATE
from workers.gateway.pages.sign_ins import Credentials, Rights, SignIns
from workers.gateway.problems import BUS_AWAY, Problem
from workers.gateway.sockets import bracketed
from workers.gateway.tokens import Scope, TokenBook

LOCAL: Final = "fleethook.local"
"""The entry of an ASGI scope for a call through the unix socket, which only this user can open."""

CALLER: Final = "fleethook.caller"
"""The entry of an ASGI scope with the name of the caller's token."""

RIGHTS: Final = "fleethook.rights"
"""The entry of an ASGI scope with the caller's Rights."""

REFUSED: Final = "fleethook.refused"
"""The entry of an ASGI scope with a coroutine function that returns the problem once the caller's token has lost its right."""

_RECHECK_SECONDS: Final = 1.0

_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_BEARER: Final = "bearer "
_SUBPROTOCOL: Final = "fleethook.bearer."
_PAGE_HEADER: Final = "fleethook-page"
_PAGE_SUBPROTOCOL: Final = "fleethook.page."
_HOW: Final = "send a token as the bearer token in the header `Authorization`; `fleethook tokens create NAME` makes one"
"""Not the header itself: what has the form of a secret is redacted in a problem."""
_ON_SOCKET: Final[frozenset[Scope]] = frozenset({"publish"})
"""The scopes of a call through the unix socket without a token: the rights that this user's hook commands have."""


class Access:
    """The checks of one gateway."""

    def __init__(self, settings: Settings, tokens: TokenBook, sign_ins: SignIns) -> None:
        self._tokens, self._sign_ins = tokens, sign_ins
        self._names = frozenset(
            name.lower()
            for name in (
                *_LOOPBACK,
                bracketed(settings.gateway_host),
                *settings.gateway_names.split(","),
                bracketed(urlsplit(settings.public_url).hostname or ""),
            )
            if name
        )
        self._public = _origin_of(settings.public_url)

    async def check(self, request: HTTPConnection, scope: Scope | None, *, from_anywhere: bool = False) -> str:
        """The name of the caller's token, or `socket`; raises Problem if the caller may not have `scope` (None: anyone).

        `from_anywhere`: pages of other sites may lead to it.
        """
        if LATE in request.scope:
            raise request.scope[LATE]
        local = bool(request.scope.get(LOCAL))
        if not local:
            _check_host(request, self._names)
        if not from_anywhere:
            _check_origin(request, self._public)
        if scope is None:
            return ""
        secret = _bearer(request)
        if not secret and local and scope in _ON_SOCKET:
            return "socket"
        shown = None if secret else _page_credentials(request)
        request.scope[REFUSED] = lambda: self._until_refused(secret, shown, scope)
        rights = await self._rights(secret, shown, scope)
        request.scope[RIGHTS] = rights
        return rights.name

    async def _until_refused(self, secret: str, shown: Credentials | None, scope: Scope) -> Problem:
        """Return the problem once the caller no longer has this scope; while Redis is away it keeps it."""
        while True:
            await asyncio.sleep(_RECHECK_SECONDS)
            try:
                await self._rights(secret, shown, scope)
            except Problem as problem:
                if problem.status != 503:
                    return problem

    async def _rights(self, secret: str, shown: Credentials | None, scope: Scope) -> Rights:
        if not secret and shown is None:
            raise Problem(401, "token-missing", f"this call needs a token; {_HOW}", {"WWW-Authenticate": "Bearer"})
        try:
            rights = await self._sign_ins.rights(shown) if shown is not None else await self._token_rights(secret)
        except FleethookError as error:
            raise Problem(503, BUS_AWAY, f"tokens cannot be checked: {error}", {"Retry-After": "1"}) from error
        if rights is None:
            what = (
                "this sign-in has ended" if shown is not None else f"this token is unknown, revoked or expired; {_HOW}"
            )
            raise Problem(401, "token-invalid", what, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if scope not in rights.scopes:
            detail = f"the token {rights.token!r} lacks the scope {scope!r}; it has: {', '.join(rights.scopes)}"
            raise Problem(403, "scope-missing", detail)
        return rights

    async def _token_rights(self, secret: str) -> Rights | None:
        token = await self._tokens.find(secret)
        return None if token is None else Rights(token.name, "token", token.name, token.scopes, token.expires)


async def until_refused(scope: Mapping[str, Any]) -> Problem:
    """Return the problem once the caller's token has lost its right; never, if the call needed none."""
    if REFUSED not in scope:
        await asyncio.Event().wait()
    problem: Problem = await scope[REFUSED]()
    return problem


def _check_host(request: HTTPConnection, names: Collection[str]) -> None:
    host = ",".join(request.headers.getlist("host")).lower()
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdigit() else host
    if bare not in names:
        raise Problem(
            403,
            "host-refused",
            f"a gateway does not answer to the name {bare[:80]!r}; call it by one of its own names, "
            "or add the name to FLEETHOOK_GATEWAY_NAMES",
        )


def _origin_of(url: str) -> str:
    """The origin of a URL as browsers send it; empty without a URL."""
    parts = urlsplit(url)
    port = "" if parts.port in {None, {"http": 80, "https": 443}.get(parts.scheme)} else f":{parts.port}"
    return f"{parts.scheme}://{bracketed(parts.hostname)}{port}".lower() if parts.hostname else ""


def _check_origin(request: HTTPConnection, public: str) -> None:
    """Raise Problem for a call that a page of another origin caused. Programs send neither of the two headers.

    `public` is an origin of our own too.
    """
    origin, fetch = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    own = f"://{request.headers.get('host', '')}"
    if fetch not in {"none", "same-origin"} or (
        origin is not None and origin.lower() not in {f"http{own}".lower(), f"https{own}".lower(), public}
    ):
        raise Problem(403, "origin-refused", "a page of another origin may not call a gateway")


def _bearer(request: HTTPConnection) -> str:
    """The token of a call. A browser's WebSocket cannot set headers, so its token is in a subprotocol's name."""
    header = request.headers.get("authorization", "")
    if header.lower().startswith(_BEARER):
        return header[len(_BEARER) :].strip()
    return _offered(request, _SUBPROTOCOL)


def _page_credentials(request: HTTPConnection) -> Credentials | None:
    """What a page of this gateway shows: its browser's cookie, and its own key. None where one of them is missing."""
    cookie = request.cookies.get(cookie_name(request), "")
    key = request.headers.get(_PAGE_HEADER, "") or _offered(request, _PAGE_SUBPROTOCOL)
    return Credentials(cookie, key) if cookie and key else None


def cookie_name(request: HTTPConnection) -> str:
    """The name of the sign-in's cookie: one for each port, because browsers share cookies among the ports of a host."""
    _, _, port = request.headers.get("host", "").rpartition(":")
    return f"fleethook-{port}" if port.isdigit() else "fleethook"


def _offered(request: HTTPConnection, beginning: str) -> str:
    """The rest of the first subprotocol that a WebSocket offers with this beginning; else empty."""
    names: Sequence[str] = request.scope.get("subprotocols", ())
    return next((name[len(beginning) :] for name in names if name.startswith(beginning)), "")
