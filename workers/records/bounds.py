"""How much of what is finished is kept: by number, by bytes, and by how full the server is; never work that is owed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from bus.config.settings import Settings
from bus.errors import FleethookError
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import call, checked
from workers.delivery.dead_letters import drop

log = logging.getLogger("fleethook.bounds")

FULL: Final = 0.85
"""From this part of the server's memory on, what is finished goes, oldest first ..."""
ROOM: Final = 0.75
"""... until so much is left; at its limit the server takes nothing new from anybody."""

LOOK_SECONDS: Final = 1.0
_AT_ONCE: Final = 500
_ROUNDS: Final = 400
_SAMPLE: Final = 40
_NO_LIMIT: Final = 10**15


async def bound_deliveries(connections: Connections, keys: Keys, settings: Settings) -> int:
    """Forget the oldest deliveries that are done, where there are too many or they take too much; returns how many."""
    names = await _sampled(connections, keys, "recent")
    return await forget_done(
        connections,
        keys,
        await _excess(connections, keys, "recent", names, settings.deliveries_max_count, settings.deliveries_max_bytes),
    )


async def bound_dead_letters(connections: Connections, keys: Keys, settings: Settings) -> int:
    """Drop the oldest dead letters where there are too many or they take too much; returns how many."""
    names = await _sampled(connections, keys, "dead")
    excess = await _excess(connections, keys, "dead", names, settings.dead_max_count, settings.dead_max_bytes)
    dropped = 0
    while dropped < excess:
        most = min(_AT_ONCE, excess - dropped)
        with connections.lease() as connection:
            (reply,) = await connection.exchange([("ZRANGE", keys("dead"), 0, most - 1)])
        ids = [name.decode() for name in checked(reply, "listing dead letters")]
        gone = await drop(connections, keys, ids)
        if not gone:
            break
        dropped += gone
    return dropped


async def forget_done(connections: Connections, keys: Keys, most: int) -> int:
    """Forget up to so many deliveries that are done, oldest first; returns how many."""
    gone, start = 0, 0
    for _ in range(_ROUNDS):
        page = min(_AT_ONCE, most - gone)
        if page <= 0:
            break
        with connections.lease() as connection:
            (reply,) = await connection.exchange([("ZRANGE", keys("recent"), start, start + page - 1)])
        ids = [name.decode() for name in checked(reply, "listing deliveries")]
        if not ids:
            break
        done = int(await call(connections, "forget", (keys("recent"),), (keys.prefix, *ids)))
        gone += done
        start += len(ids) - done  # what is owed stays, and is passed over
    return gone


async def _sampled(connections: Connections, keys: Keys, name: str) -> list[str]:
    """Some of the records in a list, from all over it."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("ZRANDMEMBER", keys(name), _SAMPLE)])
    return [one.decode() for one in checked(reply, f"looking at {name}")]


async def _excess(
    connections: Connections, keys: Keys, name: str, sample: Sequence[str], most: int, most_bytes: int
) -> int:
    """How many records are too many, by number or by what they take: as much as the sample does, one with another."""
    if not sample:
        return 0
    asked: list[Command] = [("ZCARD", keys(name))]
    for one in sample:
        record = keys("delivery" if "." in one else "deadletter", one)
        asked += [("MEMORY", "USAGE", record), ("MEMORY", "USAGE", keys("body", one.partition(".")[0]))]
    with connections.lease() as connection:
        count, *sizes = await connection.exchange(asked)
    total = int(checked(count, f"counting {name}"))
    if name == "recent":
        del sizes[1::2]  # a body goes with its last delivery
    size = sum(int(one) for one in sizes if isinstance(one, int)) / len(sample)
    limit = min(most or _NO_LIMIT, int(most_bytes / size) if most_bytes and size else _NO_LIMIT)
    return max(0, total - limit)


class Relief:
    """Makes room on a server that is nearly full: deliveries that are done first, then events that everybody has read."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._said = False

    async def run(self, stop: asyncio.Event) -> None:
        """Look every second until `stop`. It writes nothing, so that a full server cannot hold it up."""
        while not stop.is_set():
            try:
                await self.make_room()
            except FleethookError as error:  # whoever needs the server says so
                log.debug("looking at the server's memory: %s", error)
            try:
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue

    async def make_room(self) -> int:
        """Free what is needed, where it is; returns how many records and events went."""
        used, limit = await memory_in_use(self._connections)
        if not limit or used < limit * FULL:
            self._said = False
            return 0
        gone = 0
        while used > limit * ROOM:
            some = await forget_done(self._connections, self._keys, 4 * _AT_ONCE) or await self._trim()
            if not some:
                if not self._said:
                    self._said = True
                    log.error(
                        "the server has %d of %d bytes in use, and nothing finished is left to forget: raise maxmemory",
                        used,
                        limit,
                    )
                break
            gone += some
            used, limit = await memory_in_use(self._connections)
        if gone:
            log.warning("the server was nearly full: %d finished deliveries and events were forgotten early", gone)
        return gone

    async def _trim(self) -> int:
        """The older half of the events that every group has acknowledged, a thousand at most at once."""
        stream = self._keys("events")
        with self._connections.lease() as connection:
            (length,) = await connection.exchange([("XLEN", stream)])
        keep = int(checked(length, "counting events")) // 2
        _, removed = await call(self._connections, "trim", (stream,), ("0-0", keep, 2 * _AT_ONCE, 100))
        return int(removed)


async def memory_in_use(connections: Connections) -> tuple[int, int]:
    """Bytes in use, and the server's limit (0: none); raises FleethookError."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("INFO", "memory")])
    said = _fields(checked(reply, "asking for the memory in use"))
    return int(said.get("used_memory", 0)), int(said.get("maxmemory", 0))


def _fields(reply: Any) -> dict[str, str]:
    if isinstance(reply, dict):
        return {str(name): str(value) for name, value in reply.items()}
    return dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
