"""What a worker does at its start for the process that it replaces: a supervisor knows that that one has ended.

The heartbeats of a killed process last for another two seconds. Meanwhile it would count as alive, with each kind of work that
was in it, and nobody would take over what it had in work.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from bus.errors import Unreachable
from bus.host_requests import GROUP as HOSTS
from bus.ids import host_name
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import flat

VARIABLE: Final = "FLEETHOOK_REPLACES"
"""The process id of the process that a new one replaces, in the environment of the new one."""

_taken: list[int] = []


def take_predecessor() -> None:
    """Take the process id that our supervisor gave us out of the environment; it is remembered."""
    number = os.environ.pop(VARIABLE, "")
    if number.isdigit():
        _taken[:] = [int(number)]


async def end_heartbeats(connections: Connections, keys: Keys) -> None:
    """Remove the heartbeats of the process that we replace, and its lease. While Redis is away, they end by themselves."""
    while _taken:
        with suppress(Unreachable):
            await _end_heartbeats(connections, keys, f"{host_name()}-{_taken.pop()}")


async def _end_heartbeats(connections: Connections, keys: Keys, process: str) -> None:
    groups = {
        keys("requests"): "evaluators",
        keys("events"): "dispatchers",
        keys("requests", host_name()): HOSTS,
    }
    asked: list[Command] = [("XINFO", "CONSUMERS", stream, group) for stream, group in groups.items()]
    lease = keys("alive", "dispatcher")
    with connections.lease() as connection:
        asked += [("ZRANGE", keys("gateways"), 0, -1), ("GET", lease)]
        *members, gateways, holder = await connection.exchange(asked)
        names = [flat(row)[b"name"] for rows in members if isinstance(rows, list) for row in rows]
        names += gateways if isinstance(gateways, list) else []
        ended = [keys("beat", name) for name in map(bytes.decode, names) if _process(name) == process]
        if isinstance(holder, bytes) and _process(holder.decode()) == process:
            ended.append(lease)
        if ended:
            await connection.exchange([("DEL", key) for key in ended])


def _process(name: str) -> str:
    """The host and the process id in a name that `consumer_name` made."""
    return name.partition("-")[2].rpartition("-")[0]
