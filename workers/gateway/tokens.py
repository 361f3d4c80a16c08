"""Bearer tokens: a token is shown once, when it is created. Redis has only its hash and its scopes.

A token has 256 random bits. Nobody can guess it, so SHA-256 protects it as well as a slow hash would.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

from bus.errors import ConfigError, FleethookError, NotFound
from bus.lazy.conversions import from_json
from bus.wire.connections import COMMAND_SECONDS, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

Scope = Literal["publish", "observe", "operate", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
"""The rights: send events and ask for verdicts; read; retry, pause and answer; publish hooks and manage tokens."""

PREFIX: Final = "fht_"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_FRESH_SECONDS: Final = 1.0
"""Seconds after which a gateway reads the tokens again: then it refuses a revoked one."""
_READ_SECONDS: Final = 2.0
_OLD_SECONDS: Final = 10.0
"""How long a gateway waits for them, since a call waits too; and after a failure, how old its copy may be for calls that do not
wait for the next reading."""


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One token as Redis keeps it."""

    name: str
    digest: str
    """The SHA-256 of the token, in hex; empty if only sign-ins of browsers belong to it (pages/sign_ins.py)."""
    scopes: tuple[Scope, ...]
    created: int
    """Milliseconds since 1970."""
    by: str = ""
    """The user and host that created it."""
    expires: int = 0
    """Milliseconds since 1970; 0: never."""

    def may(self, scope: Scope) -> bool:
        """Whether the token has this scope."""
        return scope in self.scopes


async def create_token(
    connections: Connections, keys: Keys, name: str, scopes: Iterable[Scope], *, by: str, seconds: float = 0.0
) -> tuple[str, Token]:
    """A new token, which cannot be read again, and its record; raises ConfigError for an invalid or taken name."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name[:80]!r} cannot name a token", hint="letters, digits, '.', '_', '@' and '-', 64 at most"
        )
    secret, now = PREFIX + secrets.token_urlsafe(32), int(time.time() * 1000)
    chosen = tuple(scope for scope in SCOPES if scope in set(scopes))
    token = Token(
        name=name,
        digest=_digest(secret),
        scopes=chosen,
        created=now,
        by=by,
        expires=now + int(seconds * 1000) if seconds else 0,
    )
    with connections.lease() as connection:
        (added,) = await connection.exchange([("HSETNX", keys("tokens"), name, msgspec.json.encode(token))])
    if checked(added, "keeping the token") == 0:
        raise ConfigError(f"there is a token {name!r} already", hint=f"`fleethook tokens revoke {name}` removes it")
    return secret, token


async def list_tokens(connections: Connections, keys: Keys, seconds: float = COMMAND_SECONDS) -> tuple[Token, ...]:
    """Every token, oldest first; an entry that cannot be read is left out. Raises Unreachable after `seconds`, too."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("HGETALL", keys("tokens"))], seconds)
    found = []
    for raw in flat(checked(rows, "reading the tokens")).values():
        try:
            found.append(from_json(raw, Token))
        except msgspec.DecodeError:
            continue
    return tuple(sorted(found, key=lambda token: (token.created, token.name)))


async def revoke_token(connections: Connections, keys: Keys, name: str) -> None:
    """Remove a token; gateways refuse it within a second. Raises NotFound."""
    with connections.lease() as connection:
        (removed,) = await connection.exchange([("HDEL", keys("tokens"), name)])
    if checked(removed, "removing the token") == 0:
        raise NotFound(f"there is no token {name!r}; `fleethook tokens list` shows them")


class TokenBook:
    """One gateway's copy of the tokens. It is read again once a second, and when a call has a token that is not in it.

    While Redis is away the gateway uses the old copy. A token that is not in it cannot be checked then: it may be new.
    """

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._tokens: tuple[Token, ...] | None = None
        self._read_at = 0.0
        self._failure: FleethookError | None = None
        self._reading = asyncio.Lock()
        self._beside: asyncio.Task[None] | None = None

    async def tokens(self) -> tuple[Token, ...]:
        """The tokens; raises FleethookError if none could ever be read."""
        return await self._since(time.monotonic() - _FRESH_SECONDS)

    async def find(self, secret: str) -> Token | None:
        """The valid token with this secret, or None; raises FleethookError if it is not known and Redis is away."""
        asked, digest = time.monotonic(), _digest(secret)
        found = _match(await self.tokens(), digest) or _match(await self._surely_since(asked), digest)
        return None if found is None or 0 < found.expires <= time.time() * 1000 else found

    async def named(self, name: str) -> Token | None:
        """The valid token with this name, or None; raises FleethookError if it is not known and Redis is away."""
        asked = time.monotonic()
        found = _named(await self.tokens(), name) or _named(await self._surely_since(asked), name)
        return None if found is None or 0 < found.expires <= time.time() * 1000 else found

    async def _since(self, moment: float) -> tuple[Token, ...]:
        """The tokens as they were at `moment` or later, or an old copy if reading failed since then.

        Only one call reads them at a time, and those that waited for it use its result, so wrong tokens cause no flood. Soon
        after a failure no call waits for the next reading: a server that hangs takes its whole time.
        """
        if self._tokens is not None and self._failure is not None and self._read_at >= moment - _OLD_SECONDS:
            if not self._reading.locked():
                self._beside = asyncio.create_task(self._read(moment))
        elif self._tokens is None or self._read_at < moment:
            await self._read(moment)
        assert self._tokens is not None  # noqa: S101 - else reading raised
        return self._tokens

    async def _read(self, moment: float) -> None:
        """Read the tokens, if they were not read since `moment`; raises FleethookError if there is no older copy."""
        async with self._reading:
            if self._tokens is None or self._read_at < moment:
                began = time.monotonic()
                try:
                    self._tokens = await list_tokens(self._connections, self._keys, _READ_SECONDS)
                    self._failure = None
                except FleethookError as error:
                    if self._tokens is None:
                        raise
                    self._failure = error
                self._read_at = began

    async def _surely_since(self, moment: float) -> tuple[Token, ...]:
        """The tokens as they were at `moment` or later; raises FleethookError if they could not be read since then."""
        tokens = await self._since(moment)
        if self._failure is not None:
            raise self._failure
        return tokens


def _match(tokens: Iterable[Token], digest: str) -> Token | None:
    """The token with this digest; compares all of them, each in constant time."""
    found = None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest):
            found = token
    return found


def _named(tokens: Iterable[Token], name: str) -> Token | None:
    return next((token for token in tokens if token.name == name), None)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
