"""Deletes finished work that is over its limits: by number, by bytes, or because the server's memory is nearly full.

Unfinished deliveries are never deleted.
"""

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
from workers.waiting.pulses import pulse

log = logging.getLogger("fleethook.bounds")

FULL: Final = 0.85
"""When this share of the server's memory is in use, finished work is deleted, oldest first, until `ROOM` is reached."""
ROOM: Final = 0.75
"""Deletion ends when only this share is in use. At 1.0 the server refuses every write."""

_AT_ONCE: Final = 500
_ROUNDS: Final = 400
_SAMPLE: Final = 40
_NO_LIMIT: Final = 10**15


async def bound_deliveries(connections: Connections, keys: Keys, settings: Settings) -> int:
    """Delete the oldest finished deliveries if there are too many or they take too many bytes; returns how many."""
    names = await _sampled(connections, keys, "recent")
    return await delete_finished(
        connections,
        keys,
        await _excess(connections, keys, "recent", names, settings.deliveries_max_count, settings.deliveries_max_bytes),
    )


async def bound_dead_letters(connections: Connections, keys: Keys, settings: Settings) -> int:
    """Delete the oldest dead letters if there are too many or they take too many bytes; returns how many."""
    names = await _sampled(connections, keys, "dead")
    excess = await _excess(connections, keys, "dead", names, settings.dead_max_count, settings.dead_max_bytes)
    dropped = 0
    while dropped < excess:
        most = min(_AT_ONCE, excess - dropped)
        with connections.lease() as connection:
            (reply,) = await connection.exchange([("ZRANGE", keys("dead"), 0, most - 1)])
        ids = [name.decode() for name in checked(reply, "listing dead letters")]
        deleted = await drop(connections, keys, ids)
        if not deleted:
            break
        dropped += deleted
    return dropped


async def delete_finished(connections: Connections, keys: Keys, most: int) -> int:
    """Delete up to `most` finished deliveries, oldest first; returns how many."""
    deleted, start = 0, 0
    for _ in range(_ROUNDS):
        page = min(_AT_ONCE, most - deleted)
        if page <= 0:
            break
        with connections.lease() as connection:
            (reply,) = await connection.exchange([("ZRANGE", keys("recent"), start, start + page - 1)])
        ids = [name.decode() for name in checked(reply, "listing deliveries")]
        if not ids:
            break
        done = int(await call(connections, "forget", (keys("recent"),), (keys.prefix, *ids)))
        deleted += done
        start += len(ids) - done  # unfinished deliveries stay, and are skipped
    return deleted


async def _sampled(connections: Connections, keys: Keys, name: str) -> list[str]:
    """A random sample of the ids in a list."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("ZRANDMEMBER", keys(name), _SAMPLE)])
    return [member.decode() for member in checked(reply, f"looking at {name}")]


async def _excess(
    connections: Connections, keys: Keys, name: str, sample: Sequence[str], most: int, most_bytes: int
) -> int:
    """By how many records a list is over its limits of number or bytes; estimates bytes by the mean size of the sample."""
    if not sample:
        return 0
    commands: list[Command] = [("ZCARD", keys(name))]
    for member in sample:  # the id of a delivery has a dot (`event.hook`), the id of a dead letter may have none
        record = keys("delivery" if "." in member else "deadletter", member)
        commands += [("MEMORY", "USAGE", record), ("MEMORY", "USAGE", keys("body", member.partition(".")[0]))]
    with connections.lease() as connection:
        count, *sizes = await connection.exchange(commands)
    total = int(checked(count, f"counting {name}"))
    if name == "recent":
        del sizes[1::2]  # without the bodies: several deliveries share one, and it is deleted with the last of them
    size = sum(int(size) for size in sizes if isinstance(size, int)) / len(sample)
    limit = min(most or _NO_LIMIT, int(most_bytes / size) if most_bytes and size else _NO_LIMIT)
    return max(0, total - limit)


class MemoryRelief:
    """Makes room on a server that is nearly full: deletes finished deliveries first, then events that all groups have read."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._warned = False

    async def run(self, stop: asyncio.Event) -> None:
        """Check the memory once a second until `stop`. The check writes nothing, so a full server does not refuse it."""
        while not stop.is_set():
            try:
                await self.make_room()
            except FleethookError as error:  # other parts that need the server report it
                log.debug("checking the server's memory: %s", error)
            await pulse()

    async def make_room(self) -> int:
        """Delete finished work until enough memory is free; returns how many records and events."""
        used, limit = await memory_in_use(self._connections)
        if not limit or used < limit * FULL:
            self._warned = False
            return 0
        deleted = 0
        while used > limit * ROOM:
            batch = await delete_finished(self._connections, self._keys, 4 * _AT_ONCE) or await self._trim()
            if not batch:
                if not self._warned:
                    self._warned = True
                    log.error(
                        "the server has %d of %d bytes in use, and no finished work is left to delete: raise maxmemory",
                        used,
                        limit,
                    )
                break
            deleted += batch
            used, limit = await memory_in_use(self._connections)
        if deleted:
            log.warning("the server was nearly full: %d finished deliveries and events were deleted early", deleted)
        return deleted

    async def _trim(self) -> int:
        """Delete at most a thousand of the oldest events that every group has acknowledged; the newer half stays."""
        stream = self._keys("events")
        with self._connections.lease() as connection:
            (length,) = await connection.exchange([("XLEN", stream)])
        keep = int(checked(length, "counting events")) // 2
        _, removed = await call(self._connections, "trim", (stream,), ("0-0", keep, 2 * _AT_ONCE, 100))
        return int(removed)


async def memory_in_use(connections: Connections) -> tuple[int, int]:
    """Bytes in use, and the server's limit (0: none); raises FleethookError."""
    (reply,) = await connections.together([("INFO", "memory")])
    fields = _fields(checked(reply, "asking for the memory in use"))
    return int(fields.get("used_memory", 0)), int(fields.get("maxmemory", 0))


async def memory_problem(connections: Connections) -> tuple[str, ...]:
    """A sentence if the server's memory is full or nearly full: it then refuses requests, or soon will."""
    try:
        used, limit = await memory_in_use(connections)
    except FleethookError:  # our rights do not allow it; the doctor says so
        return ()
    if not limit or used < limit * FULL:
        return ()
    in_use = f"{used / 2**20:.1f} of {limit / 2**20:.1f} MiB of the server's memory are in use"
    if used < limit:
        return (f"{in_use}: at the limit it refuses requests, and hook calls fall back; raise maxmemory",)
    return (f"{in_use}: it refuses requests and records, and hook calls fall back; raise maxmemory",)


def _fields(reply: Any) -> dict[str, str]:
    if isinstance(reply, dict):
        return {str(name): str(value) for name, value in reply.items()}
    return dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
