"""Maintenance jobs: bulk retries, redrives, drops and replays, a page at a time.

The key `job:<id>` holds the job and its cursor; an RQ job only runs it for a while. After a kill the next worker starts at
the cursor and repeats at most one page. That is harmless, because the scripts skip what is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bus.errors import DecodeError, FleethookError, NotFound, Unreachable
from bus.hooksets.in_force import Watcher
from bus.ids import consumer_name
from bus.lazy.conversions import converted, from_json
from bus.secrets.redaction import redact
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, HEARTBEAT_MS, Keys
from bus.wire.streams import call, checked, flat, server_now
from workers.delivery.dead_letters import drop, redrive
from workers.delivery.deliveries import retry
from workers.delivery.filters import Filter, delivery_test, letter_test
from workers.records.replay import ReplaySpec, chunks, send, watched
from workers.records.selection import START, Position, read_deliveries, read_letters, walk

log = logging.getLogger("fleethook.bulk")

Kind = Literal["retry", "redrive", "drop", "replay"]

ACTS: Final = {"retry": retry, "redrive": redrive, "drop": drop}
"""The function of each kind of job that works on ids of deliveries or dead letters."""

SLICE_SECONDS: Final = 20.0
"""How long one RQ job works at maintenance jobs before it ends, so that other RQ jobs can run (`tidy` every 30 s)."""

_NAP_SECONDS: Final = 0.5


class BulkJob(msgspec.Struct, frozen=True, kw_only=True):
    """A maintenance job and its progress."""

    id: str
    kind: Kind
    state: str
    """`queued`, `running`, `done`, `stopped` or `failed`."""
    spec: dict[str, Any]
    """Its `Filter` or `ReplaySpec`."""
    created: int
    updated: int
    looked: int = 0
    """How many deliveries, dead letters or events it has read."""
    done: int = 0
    """How many deliveries it has retried, dropped or sent again."""
    total: int = 0
    """How many deliveries were selected when it began; 0 if they were not counted."""
    cursor: str = ""
    error: str = ""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state not in {"queued", "running"}


def shown(found: BulkJob) -> BulkJob:
    """The job as people see it, without secrets in its condition, which the worker needs as it is."""
    spec = {name: redact(value) for name, value in found.spec.items()}
    return msgspec.structs.replace(found, spec=spec)


class Step(NamedTuple):
    """The result of one page: the cursor after it, what to add to the counts, and seconds to wait before the next page."""

    cursor: str
    looked: int
    done: int = 0
    wait: float = 0.0


async def begin(connections: Connections, keys: Keys, kind: Kind, spec: Filter | ReplaySpec, total: int = 0) -> str:
    """Create a job; returns its id.

    `total` is how many deliveries are selected, 0 if they were not counted. Without `until` in its spec, the job covers what
    exists now.
    """
    name, now = os.urandom(4).hex(), await server_now(connections)
    if not spec.until:
        spec = msgspec.structs.replace(spec, until=now)
    fields = (
        "kind",
        kind,
        "spec",
        msgspec.json.encode(spec),
        "state",
        "queued",
        "created",
        now,
        "updated",
        now,
        "looked",
        0,
        "done",
        0,
        "total",
        total,
    )
    with connections.lease() as connection:
        replies = await connection.exchange(
            [("HSET", keys("job", name), *fields), ("PEXPIRE", keys("job", name), DONE_MS)]
            + [
                (command, keys(index), *more)
                for index in ("jobs", "jobs:open")
                for command, more in (("ZADD", (now, name)), ("PEXPIRE", (DONE_MS,)))
            ]
        )
        await connection.exchange([("XADD", keys("words"), "MAXLEN", 1, "*", "due", 1)])
    for reply in replies:
        checked(reply, "writing a job")
    return name


async def jobs(connections: Connections, keys: Keys) -> list[BulkJob]:
    """The stored jobs, newest first."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZREVRANGE", keys("jobs"), 0, -1)])
        names = [name.decode() for name in checked(rows, "listing jobs")]
        replies = await connection.exchange([("HGETALL", keys("job", name)) for name in names]) if names else []
        expired = [name for name, reply in zip(names, replies, strict=True) if reply == []]
        if expired:
            await connection.exchange([("ZREM", keys("jobs"), *expired)])
    read = [(name, flat(checked(reply, "reading a job"))) for name, reply in zip(names, replies, strict=True)]
    return [_job(name, fields) for name, fields in read if fields]


async def job(connections: Connections, keys: Keys, name: str) -> BulkJob:
    """One job; raises NotFound."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HGETALL", keys("job", name))])
    fields = flat(checked(reply, "reading a job"))
    if not fields:
        raise NotFound(f"no job is called {name!r}; see `fleethook jobs list`")
    return _job(name, fields)


async def stop_job(connections: Connections, keys: Keys, name: str) -> bool:
    """Stop a job after the page that is under way; False if it has ended already. Raises NotFound."""
    await job(connections, keys, name)
    now = await server_now(connections)
    return bool(await call(connections, "stop", (keys("job", name), keys("jobs:open")), (name, now)))


async def waiting_jobs(connections: Connections, keys: Keys) -> list[str]:
    """The ids of jobs that have not ended and that no worker runs."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("jobs:open"), 0, 99)])
        names = [name.decode() for name in checked(rows, "looking for jobs")]
        held = await connection.exchange([("EXISTS", keys("alive", f"job-{name}")) for name in names]) if names else []
    return [name for name, lives in zip(names, held, strict=True) if lives == 0]


async def run_waiting_jobs(
    connections: Connections, keys: Keys, watcher: Watcher, stop: asyncio.Event, *, seconds: float = SLICE_SECONDS
) -> int:
    """Work at the waiting jobs in turn, for this many seconds in all; returns how many deliveries were done."""
    until, done = time.monotonic() + seconds, 0
    await watcher.refresh(force=True)
    while not stop.is_set() and time.monotonic() < until:
        names = await waiting_jobs(connections, keys)
        if not names:
            break
        share = max(1.0, (until - time.monotonic()) / len(names))
        for name in names:
            done += await work_at(connections, keys, watcher, name, stop, seconds=share)
    return done


async def work_at(
    connections: Connections,
    keys: Keys,
    watcher: Watcher,
    name: str,
    stop: asyncio.Event,
    *,
    seconds: float = float("inf"),
) -> int:
    """Work at one job until it ends, or until `stop` or its time is up: then it waits for the next worker.

    Returns how many deliveries were done. Raises Unreachable; the job then waits for the next worker.
    """
    lease = _Lease(connections, keys, name)
    until, done = time.monotonic() + seconds, 0
    try:
        if await lease.write_progress("running") != "go":
            return 0
        async for step in _steps(connections, keys, watcher, await job(connections, keys, name)):
            done += step.done
            lease_state = await lease.write_progress("running", step)
            rest = step.wait
            while lease_state == "go" and rest > 0 and not stop.is_set():
                await asyncio.sleep(min(rest, _NAP_SECONDS))
                rest -= _NAP_SECONDS
                if rest > 0:
                    lease_state = await lease.write_progress("running")
            if lease_state != "go":
                log.warning(
                    "job %s: %s", name, "it was stopped" if lease_state == "stopped" else "another worker has it"
                )
                return done
            if stop.is_set() or time.monotonic() > until:
                await lease.write_progress("queued")
                return done
            await watcher.refresh()
        await lease.write_progress("done")
    except Unreachable:
        raise
    except FleethookError as error:
        log.error("job %s: %s", name, error)
        await lease.write_progress("failed", error=str(error))
    except Exception as error:  # a bug must not make the fleet repeat the job for ever
        log.exception("job %s", name)
        await lease.write_progress("failed", error=f"{type(error).__name__}: {error}")
    return done


class _Lease:
    """The lease of one job: writes its progress and keeps other workers away."""

    def __init__(self, connections: Connections, keys: Keys, name: str) -> None:
        self._connections, self._name, self._who = connections, name, consumer_name("job")
        self._keys = (keys("job", name), keys("jobs:open"), keys("alive", f"job-{name}"))

    async def write_progress(self, state: str, step: Step = Step("", 0), *, error: str = "") -> str:  # noqa: B008 - a value
        """Write the progress and renew the lease; returns `go`, `stopped` or `lost` (another worker has the job)."""
        args = (
            self._who,
            HEARTBEAT_MS,
            DONE_MS,
            self._name,
            await server_now(self._connections),
            state,
            step.looked,
            step.done,
            step.cursor,
            error,
        )
        lease_state: bytes = await call(self._connections, "progress", self._keys, args)
        return lease_state.decode()


def _steps(connections: Connections, keys: Keys, watcher: Watcher, bulk_job: BulkJob) -> AsyncIterator[Step]:
    try:
        if bulk_job.kind == "replay":
            return _replay(connections, keys, watcher, bulk_job, converted(bulk_job.spec, ReplaySpec))
        return _on_deliveries(connections, keys, bulk_job, converted(bulk_job.spec, Filter))
    except msgspec.ValidationError as error:
        raise DecodeError(f"job {bulk_job.id}: its filters cannot be read: {error}") from error


async def _replay(
    connections: Connections, keys: Keys, watcher: Watcher, bulk_job: BulkJob, spec: ReplaySpec
) -> AsyncIterator[Step]:
    async for chunk in chunks(connections, keys, spec, bulk_job.id, watched(watcher), after=bulk_job.cursor):
        start = time.monotonic()
        sent = await send(connections, keys, chunk)
        took = time.monotonic() - start
        yield Step(chunk.last, chunk.looked, sent, max(0.0, sent / spec.rate - took) if spec.rate else 0.0)


async def _on_deliveries(
    connections: Connections, keys: Keys, bulk_job: BulkJob, wanted: Filter
) -> AsyncIterator[Step]:
    """Retry, redrive or drop what passes the filter and has not changed since the job was created; the scripts count it."""
    fits_delivery, fits_letter = delivery_test(wanted), letter_test(wanted)
    index = "recent" if bulk_job.kind == "retry" else "dead"
    after: Position = from_json(bulk_job.cursor, tuple[float, str]) if bulk_job.cursor else START
    async for position, ids in walk(connections, keys, index, wanted, after):
        if bulk_job.kind == "retry":
            chosen = [
                delivery.id for delivery in await read_deliveries(connections, keys, ids) if fits_delivery(delivery)
            ]
        else:
            chosen = [letter.id for letter in await read_letters(connections, keys, ids) if fits_letter(letter)]
        await ACTS[bulk_job.kind](
            connections, keys, chosen, before=bulk_job.created, counted_by=keys("job", bulk_job.id)
        )
        yield Step(msgspec.json.encode(position).decode(), len(ids))


def _job(name: str, fields: dict[bytes, bytes]) -> BulkJob:
    def text(key: str) -> str:
        return fields.get(key.encode(), b"").decode("utf-8", "replace")

    return converted(
        {
            "id": name,
            "kind": text("kind"),
            "state": text("state"),
            "spec": msgspec.json.decode(text("spec") or "{}"),
            "created": int(text("created") or 0),
            "updated": int(text("updated") or 0),
            "looked": int(text("looked") or 0),
            "done": int(text("done") or 0),
            "total": int(text("total") or 0),
            "cursor": text("cursor"),
            "error": text("error"),
        },
        BulkJob,
    )
