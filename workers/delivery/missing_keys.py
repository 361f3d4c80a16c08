"""Deliveries that wait for the key of a sealed secret: which key, on which host, for which endpoint."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

WAIT_MS: Final = 3_000
"""A delivery whose key is missing is tried again so soon, by whichever carrier; no attempt is counted."""

_SHOWN_MS: Final = 20_000
"""A key that nobody has missed for so long has come."""


class MissingKeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint whose secret cannot be opened on one host."""

    key: str
    host: str
    endpoint: str
    ms: int
    """When that was seen last, in milliseconds since 1970."""

    @property
    def text(self) -> str:
        """What waits for which key, and the command that brings it."""
        return (
            f"deliveries of {self.endpoint!r} wait: host {self.host!r} does not have key {self.key}; on a machine that has "
            f"it: `fleethook key export | ssh {self.host} fleethook key import`"
        )


def missed_commands(keys: Keys, key: str, host: str, endpoint: str) -> list[Command]:
    """Say that a key is missed now, and forget what nobody has missed for long."""
    name, now = keys("sealed"), time.time_ns() // 10**6
    return [
        ("ZADD", name, now, f"{key}\n{host}\n{endpoint}"),
        ("ZREMRANGEBYSCORE", name, "-inf", now - _SHOWN_MS),
        ("PEXPIRE", name, _SHOWN_MS),
    ]


async def missing_keys(connections: Connections, keys: Keys) -> list[MissingKeyUse]:
    """What waits for a key now."""
    since = time.time_ns() // 10**6 - _SHOWN_MS
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("ZRANGEBYSCORE", keys("sealed"), since, "+inf", "WITHSCORES")])
    found = []
    for name, score in flat(checked(reply, "looking for missing keys")).items():
        key, host, endpoint = name.decode("utf-8", "replace").split("\n", 2)
        found.append(MissingKeyUse(key=key, host=host, endpoint=endpoint, ms=int(float(score))))
    return sorted(found, key=lambda one: (one.key, one.host, one.endpoint))
