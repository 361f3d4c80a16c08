"""`/v1/sign-in` and `/v1/sign-out`: a browser exchanges a one-time code, or a token, for a cookie and a key."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import DecodeError
from bus.lazy.conversions import from_json
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.gateway.access import RIGHTS, cookie_name
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.bodies import read_body
from workers.gateway.pages.sign_ins import (
    SIGN_IN_MS,
    Code,
    Credentials,
    Rights,
    rights_of,
    sign_in,
    sign_out,
    take_code,
)
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response
from workers.gateway.records.queries import NoQuery, read_query
from workers.gateway.tokens import Scope, TokenBook

_MOST_BODY: Final = 4 * 1024
_REFUSED: Final = "this one-time address was used before or is too old; `fleethook open` makes a new one"
_WRONG: Final = "this token is unknown, revoked or expired"


class SignInWith(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a browser signs in with: a one-time code or a token, and not both."""

    code: Annotated[str, Meta(max_length=200, description="A one-time code of `fleethook open` or `fleethook up`.")] = (
        ""
    )
    token: Annotated[str, Meta(max_length=200, description="A token that may observe.")] = ""


class WhoIsSignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A caller and its rights."""

    name: str
    """A token's name; `user@host` after a one-time code."""
    scopes: tuple[Scope, ...]
    expires: int
    """Milliseconds since 1970; 0: never."""


class SignedIn(WhoIsSignedIn, frozen=True, kw_only=True):
    """A new sign-in. Its cookie is in the header `Set-Cookie`."""

    key: str
    """What every call has to show beside the cookie: in the header `Fleethook-Page`, or as the subprotocol
    `fleethook.page.KEY` of a WebSocket."""


class SignInPaths:
    """The calls of one gateway's pages."""

    def __init__(self, connections: Connections, keys: Keys, tokens: TokenBook) -> None:
        self._connections, self._keys, self._tokens = connections, keys, tokens

    async def who(self, request: Request) -> Response:
        """Who the caller is, and its rights."""
        read_query(request, NoQuery)
        rights: Rights = request.scope[RIGHTS]
        return json_response(
            msgspec.to_builtins(WhoIsSignedIn(name=rights.name, scopes=rights.scopes, expires=rights.expires))
        )

    async def begin(self, request: Request) -> Response:
        """Sign a browser in by a one-time code, which this call uses up, or by a token."""
        try:
            said = from_json(await read_body(request, _MOST_BODY) or b"{}", SignInWith)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"the body cannot be read: {error}") from error
        if bool(said.code) == bool(said.token):
            raise Problem(400, "body-invalid", "send either `code` or `token`")
        credentials, rights = await (self._by_code(said.code) if said.code else self._by_token(said.token))
        body = SignedIn(name=rights.name, scopes=rights.scopes, expires=rights.expires, key=credentials.key)
        response = json_response(msgspec.to_builtins(body))
        response.set_cookie(
            cookie_name(request),
            credentials.cookie,
            max_age=SIGN_IN_MS // 1000,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https:"),  # a proxy before the gateway speaks TLS
        )
        return response

    async def end(self, request: Request) -> Response:
        """End the browser's sign-in."""
        cookie = request.cookies.get(cookie_name(request), "")
        if cookie:
            await sign_out(self._connections, self._keys, cookie)
        response = json_response({})
        response.delete_cookie(cookie_name(request), httponly=True, samesite="strict")
        return response

    async def _by_code(self, secret: str) -> tuple[Credentials, Rights]:
        code = await take_code(self._connections, self._keys, secret)
        token = await self._tokens.named(code.token) if code is not None else None
        if code is None or token is None or token.created != code.made:
            raise Problem(401, "code-invalid", _REFUSED)
        credentials, record = await sign_in(self._connections, self._keys, code, token.expires)
        return credentials, rights_of(token, code.scopes, record.expires)

    async def _by_token(self, secret: str) -> tuple[Credentials, Rights]:
        token = await self._tokens.find(secret)
        if token is None:
            raise Problem(401, "token-invalid", _WRONG)
        if not token.may("observe"):
            detail = f"the token {token.name!r} lacks the scope 'observe'; it has: {', '.join(token.scopes)}"
            raise Problem(403, "scope-missing", detail)
        code = Code(token=token.name, made=token.created, scopes=token.scopes)
        credentials, record = await sign_in(self._connections, self._keys, code, token.expires)
        return credentials, rights_of(token, token.scopes, record.expires)


def sign_in_paths(connections: Connections, keys: Keys, tokens: TokenBook) -> tuple[ApiPath, ...]:
    """The paths for the pages' own calls."""
    here = SignInPaths(connections, keys, tokens)
    return (
        ApiPath("GET", "/v1/sign-in", "observe", here.who, (Content(WhoIsSignedIn),), query=NoQuery),
        ApiPath(
            "POST",
            "/v1/sign-in",
            None,
            here.begin,
            (Content(SignedIn),),
            body=(Content(SignInWith),),
            refusals=(401,),
        ),
        ApiPath("POST", "/v1/sign-out", None, here.end, (Content(dict[str, str]),)),
    )
