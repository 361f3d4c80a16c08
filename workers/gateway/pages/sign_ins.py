"""Sign-ins of browsers: a one-time code or a token becomes a sign-in, which Redis keeps by hashes.

A sign-in has two secrets. The cookie is out of reach of scripts; the page's key is in the storage of one origin. Both are
needed, because browsers send the cookies of `127.0.0.1` to every port of it: to a development server of an agent, too.

A sign-in always belongs to a token, whose scopes limit it and whose revocation ends it. Processes of the fleet may write
sign-ins but no tokens, so they cannot give themselves rights.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from bus.errors import ConfigError
from bus.lazy.conversions import from_json
from bus.wire.connections import Connections
from bus.wire.keys import CODE_MS, DAY, SIGN_IN_IDLE_MS, Keys
from bus.wire.streams import checked
from workers.gateway.tokens import SCOPES, Scope, Token, TokenBook

SIGN_IN_MS: Final = 7 * DAY
"""How long a sign-in lasts at most."""

PAGE_SCOPES: Final[tuple[Scope, ...]] = ("observe", "operate")
"""What the pages need."""

_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._@-]")


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """What a one-time code is exchanged for."""

    token: str
    """The name of a token."""
    made: int
    """When this token was created: a later one of the same name is another."""
    scopes: tuple[Scope, ...]


class SignIn(Code, frozen=True, kw_only=True):
    """A browser's sign-in as Redis keeps it, by the hash of its cookie."""

    key: str
    """The hash of the page's key."""
    expires: int
    """Milliseconds since 1970."""


class Credentials(NamedTuple):
    """What a browser shows."""

    cookie: str
    key: str


class Rights(NamedTuple):
    """What a caller may do."""

    name: str
    """A token's name; `user@host` for a browser that a one-time code signed in."""
    via: Literal["token", "user"]
    token: str
    scopes: tuple[Scope, ...]
    expires: int
    """Milliseconds since 1970; 0: never."""


class SignIns:
    """The sign-ins of one gateway's fleet."""

    def __init__(self, connections: Connections, keys: Keys, tokens: TokenBook) -> None:
        self._connections, self._keys, self._tokens = connections, keys, tokens

    async def rights(self, shown: Credentials) -> Rights | None:
        """What a browser may do; None if its sign-in or the token behind it has ended. Raises FleethookError."""
        found = await find_sign_in(self._connections, self._keys, shown)
        token = await self._tokens.named(found.token) if found is not None else None
        if found is None or token is None or token.created != found.made:
            return None
        scopes = tuple(scope for scope in found.scopes if scope in token.scopes)
        return rights_of(token, scopes, found.expires)


def rights_of(token: Token, scopes: tuple[Scope, ...], expires: int) -> Rights:
    """The rights of a sign-in that belongs to a token."""
    if token.digest:
        return Rights(token.name, "token", token.name, scopes, expires)
    return Rights(token.by, "user", token.name, scopes, expires)


def sign_in_token(by: str) -> str:
    """The name of the token to which the sign-ins of a person (`user@host`) belong."""
    return f"page-{_UNNAMEABLE.sub('-', by)}"[:64]


async def create_code(connections: Connections, keys: Keys, *, by: str, scopes: Iterable[Scope] = PAGE_SCOPES) -> str:
    """A code that signs one browser in, once, within ten minutes; needs the rights of an admin.

    Raises Unreachable, and ConfigError if another token has the name of the sign-ins.
    """
    now, name = int(time.time() * 1000), sign_in_token(by)
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("HGET", keys("tokens"), name)])
        old = from_json(found, Token) if (found := checked(raw, "reading a token")) else None
        if old is not None and old.digest:
            hint = f"`fleethook tokens revoke {name}` removes it"
            raise ConfigError(f"the token {name!r} has the name that the sign-ins of {by} need", hint=hint)
        alive = old is not None and old.expires > now
        made = old.created if old is not None and alive else now
        token = Token(name=name, digest="", scopes=PAGE_SCOPES, created=made, by=by, expires=now + SIGN_IN_MS)
        secret = secrets.token_urlsafe(16)  # 128 random bits for ten minutes; the address fits a line of a terminal
        chosen = tuple(scope for scope in SCOPES if scope in set(scopes))
        code = Code(token=name, made=made, scopes=chosen)
        for reply in await connection.exchange(
            [
                ("HSET", keys("tokens"), name, msgspec.json.encode(token)),
                ("SET", keys("signincode", hashed(secret)), msgspec.json.encode(code), "PX", CODE_MS),
            ]
        ):
            checked(reply, "keeping a one-time code")
    return secret


async def take_code(connections: Connections, keys: Keys, secret: str) -> Code | None:
    """What a code is exchanged for. This call uses it up; None for a code that is unknown, used or too old."""
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("GETDEL", keys("signincode", hashed(secret)))])
    found = checked(raw, "looking for a one-time code")
    return from_json(found, Code) if found else None


async def sign_in(connections: Connections, keys: Keys, code: Code, expires: int) -> tuple[Credentials, SignIn]:
    """A new sign-in; `expires` in ms since 1970, 0: none of its own. Raises Unreachable."""
    credentials = Credentials(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
    latest = int(time.time() * 1000) + SIGN_IN_MS
    record = SignIn(
        token=code.token,
        made=code.made,
        scopes=code.scopes,
        key=hashed(credentials.key),
        expires=min(expires or latest, latest),
    )
    name = keys("signin", hashed(credentials.cookie))
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("SET", name, msgspec.json.encode(record), "PX", SIGN_IN_IDLE_MS)])
    checked(reply, "keeping a sign-in")
    return credentials, record


async def find_sign_in(connections: Connections, keys: Keys, shown: Credentials) -> SignIn | None:
    """The sign-in of a browser, or None; the use keeps it for twelve more hours. Raises Unreachable."""
    name = keys("signin", hashed(shown.cookie))
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("GET", name)])
        if not (found := checked(raw, "looking for a sign-in")):
            return None
        record = from_json(found, SignIn)
        if not secrets.compare_digest(record.key, hashed(shown.key)) or record.expires <= time.time() * 1000:
            return None
        (kept,) = await connection.exchange([("PEXPIRE", name, SIGN_IN_IDLE_MS)])
    checked(kept, "keeping a sign-in")
    return record


async def sign_out(connections: Connections, keys: Keys, cookie: str) -> None:
    """End a sign-in; raises Unreachable."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("DEL", keys("signin", hashed(cookie)))])
    checked(reply, "ending a sign-in")


def hashed(secret: str) -> str:
    """The hash by which Redis knows a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
