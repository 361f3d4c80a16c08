"""Checks whether the worker processes of this machine (or container) are alive, for `fleethook worker --health`."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.config.settings import Settings
from bus.host_requests import GROUP as HOSTS
from bus.ids import host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import flat
from workers.records.registrations import registered_workers
from workers.records.status import live_gateways, started_on_demand

SECONDS: Final = 4.0
"""The longest that a probe takes, in seconds."""


class WorkerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One worker type on this machine, and the names of its live processes."""

    kind: str
    alive: tuple[str, ...]
    is_started_on_demand: bool = False
    """Whether this machine's `fleethook up` starts one when there is work, so that none has to be alive."""


async def worker_health(
    connections: Connections, rq: Connections, keys: Keys, settings: Settings
) -> tuple[WorkerHealth, ...]:
    """The live processes of each type on this machine; `rq` goes to RQ's server. Raises Unreachable.

    Evaluators, dispatchers, host workers and gateways are alive while they write a heartbeat; it ends 2 s after their loop
    hangs.
    RQ's workers are alive while their connection exists, which ends with the process, and RQ's heartbeat is recent.
    """
    host = settings.host or host_name()
    starts = await started_on_demand(connections, keys)
    return (
        WorkerHealth(
            kind="evaluator", alive=await _live_consumers(connections, keys, keys("requests"), "evaluators", host)
        ),
        WorkerHealth(
            kind="dispatcher", alive=await _live_consumers(connections, keys, keys("events"), "dispatchers", host)
        ),
        WorkerHealth(kind="host", alive=await _live_consumers(connections, keys, keys("requests", host), HOSTS, host)),
        *[
            WorkerHealth(
                kind=kind,
                alive=await _registered(rq, settings, kind, host),
                is_started_on_demand=host_of(starts.get(kind, "")) == host,
            )
            for kind in ("carrier", "chores")
        ],
        WorkerHealth(
            kind="gateway",
            alive=tuple(name for name in await live_gateways(connections, keys) if host_of(name) == host),
        ),
    )


async def _live_consumers(connections: Connections, keys: Keys, stream: str, group: str, host: str) -> tuple[str, ...]:
    """The members of a group on this machine whose heartbeat has not ended."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("XINFO", "CONSUMERS", stream, group)])
        known = [] if isinstance(rows, Exception) else [flat(row)[b"name"].decode() for row in rows]
        names = [name for name in known if host_of(name) == host]
        beats = await connection.exchange([("EXISTS", keys("beat", name)) for name in names]) if names else []
    return tuple(name for name, beat in zip(names, beats, strict=True) if beat == 1)


async def _registered(rq: Connections, settings: Settings, kind: str, host: str) -> tuple[str, ...]:
    """RQ's workers of one kind on this machine."""
    return tuple(name for name in await registered_workers(rq, settings, kind) or () if host_of(name) == host)


def host_of(name: str) -> str:
    """The host in a process name (`<kind>-<host>-<pid>-<random>`); a host name may have hyphens, too."""
    head, _, _ = name.rpartition("-")
    return head.rpartition("-")[0].partition("-")[2]
