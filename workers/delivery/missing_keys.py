"""The keys of sealed secrets that deliveries wait for: which key, on which host, for which endpoint."""

from __future__ import annotations

import contextlib
import time
from typing import Final

import msgspec

from bus.errors import FleethookError
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

WAIT_MS: Final = 3_000
"""After this time any carrier retries a delivery whose key is missing; no attempt is counted."""

_SHOWN_MS: Final = 20_000
"""A key that no carrier missed for this long no longer counts as missing."""

_LOOK_SECONDS: Final = 1.0
"""At most this often a carrier looks whether keys that it has are recorded as missing; it ends after 2 s without work."""


class MissingKeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint whose secret cannot be opened on a host."""

    key: str
    host: str
    endpoint: str
    ms: int
    """When a carrier missed it last, in milliseconds since 1970."""

    @property
    def text(self) -> str:
        """Which deliveries wait for which key, and the command that copies it there."""
        return (
            f"deliveries of {self.endpoint!r} wait: host {self.host!r} does not have key {self.key}; on a machine that has "
            f"it: `fleethook key export | ssh {self.host} fleethook key import`"
        )


def missed_commands(keys: Keys, key: str, host: str, endpoint: str) -> list[Command]:
    """The commands that record a missing key, and delete the records of keys that are no longer missing."""
    name, now = keys("sealed"), time.time_ns() // 10**6
    return [
        ("ZADD", name, now, f"{key}\n{host}\n{endpoint}"),
        ("ZREMRANGEBYSCORE", name, "-inf", now - _SHOWN_MS),
        ("PEXPIRE", name, _SHOWN_MS),
    ]


class FoundKeys:
    """Deletes the records of missing keys of the endpoints whose secrets a carrier of this host has opened since."""

    def __init__(self, connections: Connections, keys: Keys, host: str) -> None:
        self._connections, self._name, self._host = connections, keys("sealed"), host
        self._opened = set[str]()
        self._looked_at = 0.0

    def opened(self, endpoint: str) -> None:
        """Take down that this endpoint's secret was opened here."""
        self._opened.add(endpoint)

    async def forget(self) -> None:
        """Delete what is recorded as missing here for these endpoints; at most once a second, for all of them together."""
        now = time.monotonic()
        if not self._opened or now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at, opened, self._opened = now, self._opened, set()
        with contextlib.suppress(FleethookError), self._connections.lease() as connection:
            (reply,) = await connection.exchange([("ZRANGE", self._name, 0, -1)])
            found = [
                name
                for name in checked(reply, "looking for missing keys")
                if (parts := name.decode("utf-8", "replace").split("\n", 2))[1] == self._host and parts[2] in opened
            ]
            if found:
                await connection.exchange([("ZREM", self._name, *found)])


async def missing_keys(connections: Connections, keys: Keys) -> list[MissingKeyUse]:
    """The keys that are missing now."""
    since = time.time_ns() // 10**6 - _SHOWN_MS
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("ZRANGEBYSCORE", keys("sealed"), since, "+inf", "WITHSCORES")])
    found = []
    for name, score in flat(checked(reply, "looking for missing keys")).items():
        key, host, endpoint = name.decode("utf-8", "replace").split("\n", 2)
        found.append(MissingKeyUse(key=key, host=host, endpoint=endpoint, ms=int(float(score))))
    return sorted(found, key=lambda use: (use.key, use.host, use.endpoint))
