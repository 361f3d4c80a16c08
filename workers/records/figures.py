"""The fleet's figures for metrics that `status` does not have: labelled counters, queues, endpoints, ages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bus.config.settings import Settings
from bus.errors import Unreachable
from bus.hooks import Endpoint
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.delivery.deliveries import endpoint_target
from workers.delivery.endpoint_health import Standing, read_health
from workers.records.registrations import registered_workers
from workers.records.run_figures import counts

_REGISTRIES: Final = (("started", "wip"), ("failed", "failed"), ("deferred", "deferred"), ("scheduled", "scheduled"))
"""RQ's names of a job's states, and of the keys that list the jobs in them."""
MOST_DEAD: Final = 20_000
_PAGE: Final = 5_000
_DEAD_SOURCES: Final = ("deliveries", "requests", "events", "hosts")
"""Deliveries that were given up, and the streams whose entries could not be read; `hosts` are those of single hosts."""


class QueueJobs(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs and workers of one RQ queue are in each state."""

    queue: str
    jobs: dict[str, int]
    workers: dict[str, int]
    """How many of its workers are in each state."""


class DeadFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters from one source."""

    count: int = 0
    oldest_s: float = 0.0
    """The age of the oldest; 0 if there is none."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted and measured."""

    counts: dict[str, int]
    """By fields as `bus/wire/counts.py` has them."""
    queues: tuple[QueueJobs, ...]
    """Empty if RQ's server cannot be asked."""
    endpoints: dict[str, Standing]
    """The endpoints in force."""
    approvals: int
    """How many questions wait for an answer."""
    dead: dict[str, DeadFigures]
    """The dead letters by what they come from."""


async def read_figures(
    connections: Connections, rq: Connections, keys: Keys, settings: Settings, targets: Mapping[str, str]
) -> Figures:
    """The figures; `targets` are those of the endpoints in force, by their ids. Raises Unreachable."""
    with connections.lease() as connection:
        counted, questions = await connection.exchange([("HGETALL", keys("metrics")), ("ZCARD", keys("questions"))])
    health = await read_health(connections, keys, list(targets.values())) if targets else {}
    return Figures(
        counts=counts(counted),
        queues=await read_queues(rq, settings),
        endpoints={name: health[target].standing for name, target in targets.items()},
        approvals=int(checked(questions, "counting questions")),
        dead=await read_dead(connections, keys),
    )


def endpoint_targets(endpoints: Iterable[Endpoint], host: str) -> dict[str, str]:
    """The targets of endpoints by their ids; `host` has those of its user's file."""
    return {endpoint.id: endpoint_target(endpoint, host) for endpoint in endpoints}


async def read_queues(rq: Connections, settings: Settings) -> tuple[QueueJobs, ...]:
    """RQ's queues by the keys that RQ keeps; empty if its server cannot be asked."""
    found = []
    try:
        with rq.lease() as connection:
            for kind in ("carrier", "chores"):
                name = f"fleethook-{settings.namespace}-{kind}"
                queued, *listed = await connection.exchange(
                    [("LLEN", f"rq:queue:{name}"), *(("ZCARD", f"rq:{key}:{name}") for _, key in _REGISTRIES)]
                )
                jobs = {"queued": int(checked(queued, "counting jobs"))}
                for (job_state, _), count in zip(_REGISTRIES, listed, strict=True):
                    jobs[job_state] = int(checked(count, "counting jobs"))
                names = await registered_workers(rq, settings, kind) or ()
                asked = [("HGET", f"rq:worker:{worker}", "state") for worker in names]
                states = Counter({"busy": 0, "idle": 0})
                for state in await connection.exchange(asked) if asked else ():
                    states["busy" if state == b"busy" else "idle"] += 1
                found.append(QueueJobs(queue=kind, jobs=jobs, workers=dict(states)))
    except Unreachable:
        return ()
    return tuple(found)


async def read_dead(connections: Connections, keys: Keys) -> dict[str, DeadFigures]:
    """The dead letters by what they come from, also where there is none; raises Unreachable.

    At most MOST_DEAD are looked at, the oldest first; a fleet that keeps more has the others under `uncounted`.
    """
    found = {source: DeadFigures() for source in _DEAD_SOURCES}
    start = total = 0
    while start < MOST_DEAD:
        with connections.lease() as connection:
            rows, total = await connection.exchange(
                [("ZRANGE", keys("dead"), start, start + _PAGE - 1, "WITHSCORES"), ("ZCARD", keys("dead"))]
            )
        page = checked(rows, "counting dead letters")
        for name, ms in zip(page[::2], page[1::2], strict=True):
            source = _dead_source(name)
            known = found[source]
            age = known.oldest_s if known.count else max(0.0, time.time() - float(ms) / 1000)
            found[source] = DeadFigures(count=known.count + 1, oldest_s=age)
        start += _PAGE
        if len(page) < 2 * _PAGE:
            return found
    rest = int(checked(total, "counting dead letters")) - MOST_DEAD
    return {**found, "uncounted": DeadFigures(count=rest)} if rest > 0 else found


def _dead_source(name: bytes) -> str:
    """What a dead letter comes from, by its id: a delivery has its hook after a dot, an entry its stream before a hyphen."""
    if b"." in name:
        return "deliveries"
    stream = name.partition(b"-")[0].decode("utf-8", "replace")
    return stream if stream in _DEAD_SOURCES else "hosts"
