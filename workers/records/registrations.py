"""Which of RQ's workers are alive, by their registrations at RQ's server; does not import RQ, which takes 150 ms."""

from __future__ import annotations

from typing import Final

from bus.config.settings import Settings
from bus.errors import Unreachable
from bus.ids import connection_name
from bus.wire.connections import Connections

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
