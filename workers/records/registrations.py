"""Which of RQ's workers are alive, and where one is missing; does not import RQ, which takes 150 ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bus.config.settings import Settings
from bus.errors import Unreachable
from bus.ids import connection_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.runtime.wording import counted

STALE_SECONDS: Final = 120.0
"""RQ's workers write a heartbeat every 45 s; a worker without a heartbeat for this long (seconds) counts as dead."""


async def registered_workers(rq: Connections, settings: Settings, kind: str) -> tuple[str, ...] | None:
    """The names of RQ's live workers of one kind; None if its server cannot be asked."""
    try:
        with rq.lease() as connection:
            (members,) = await connection.exchange([("SMEMBERS", f"rq:workers:fleethook-{settings.namespace}-{kind}")])
            if isinstance(members, Exception):
                return None
            names = sorted(name.decode("utf-8", "replace") for name in members)
            beats = await connection.exchange([("HGET", name, "last_heartbeat") for name in names]) if names else []
            (clients,) = await connection.exchange([("CLIENT", "LIST")]) if names else [None]
    except Unreachable:
        return None
    connected = _connected(clients)
    alive = [
        name.removeprefix("rq:worker:")
        for name, beat in zip(names, beats, strict=True)
        if isinstance(beat, bytes) and _age(beat) < STALE_SECONDS
    ]
    return tuple(name for name in alive if connected is None or connection_name(name) in connected)


async def uncarried(
    connections: Connections, rq: Connections, keys: Keys, settings: Settings, starts: Mapping[str, str]
) -> list[str]:
    """A message for each host whose own deliveries wait while no carrier runs there, where alone they are attempted.

    Raises Unreachable. `starts` has the dispatcher whose `fleethook up` starts carriers on demand, on its own host.
    """
    with connections.lease() as connection:
        (names,) = await connection.exchange([("ZRANGE", keys("uncarried"), 0, -1)])
        hosts = sorted(name.decode("utf-8", "replace") for name in checked(names, "listing hosts"))
        lengths = await connection.exchange([("XLEN", keys("deliveries", host)) for host in hosts])
    waiting = {
        host: int(checked(length, f"counting deliveries for {host}"))
        for host, length in zip(hosts, lengths, strict=True)
        if length and f"dispatcher-{host}-" not in starts.get("carrier", "")
    }
    found = []
    for host, number in waiting.items():
        carriers = await registered_workers(rq, settings, f"carrier-on-{host}")
        if carriers is None:
            return []  # RQ's server is away, which other lines say
        if not carriers:
            deliveries = counted(number, "delivery waits", "deliveries wait")
            found.append(
                f"{deliveries} for a carrier on {host!r}, where background hooks of its own files run: start "
                "`fleethook up` or `fleethook worker carrier` there"
            )
    return found


def _connected(clients: object) -> frozenset[str] | None:
    """The names of the server's connections; None if we may not ask.

    A killed process loses its connection at once, long before its heartbeat is missed.
    """
    if isinstance(clients, bytes | str):
        text = clients if isinstance(clients, str) else clients.decode("utf-8", "replace")
        return frozenset(word[5:] for line in text.splitlines() for word in line.split() if word.startswith("name="))
    if isinstance(clients, list):  # redis-py may have read it already
        return frozenset(str(client.get("name", "")) for client in clients if isinstance(client, dict))
    return None


def _age(stamp: bytes) -> float:
    """Seconds since a time in RQ's notation."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(stamp.decode("ascii"))
    except ValueError:
        return STALE_SECONDS
    return (datetime.now(UTC) - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()
