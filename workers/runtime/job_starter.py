"""Starts RQ jobs: carriers where deliveries wait and none is alive, and the jobs of housekeeping."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from bus.errors import FleethookError
from bus.ids import host_name
from bus.wire.connections import Command, Connections
from bus.wire.keys import DAY, Keys
from bus.wire.streams import checked, flat
from workers.waiting.on_demand import on_demand

log = logging.getLogger("fleethook.dispatcher")

LAG_PER_CARRIER: Final = 200
"""When this many deliveries wait for each live carrier, one more is started."""

CHORES_SECONDS: Final = 30.0
_AGE_SECONDS: Final = 600.0
"""How often to look for what is over its age while nothing happens, where a chores worker would be started for that alone."""

_LOG_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 10.0
"""How long deliveries wait for a first carrier before it is logged as an error."""

Enqueue = Callable[[str], Awaitable[int]]
"""Queues an RQ job by its name (`carry`, `carry here`, `tidy`, `maintain`), and returns how many RQ workers listen for it."""

OWN_CARRIERS: Final = "carry here"
"""The job for carriers on this host, where `carry` is for carriers on any host."""

CARRIERS: Final = "carriers"
"""The group of the carriers on the streams of deliveries."""
CARRIER_SECONDS: Final = 0.5
"""How often an idle worker looks whether a carrier is needed."""


def kind_of(job: str) -> str:
    """The kind of RQ worker that takes a job."""
    return "carrier" if job in ("carry", OWN_CARRIERS) else "chores"


class DeliveryStream(NamedTuple):
    """A stream of deliveries, and how a carrier is started for it."""

    stream: str
    job: str
    mark: str
    """The key that keeps two workers from starting a carrier for the same deliveries."""
    where: str
    """Where its carriers run, for messages."""


def uncarried_commands(keys: Keys) -> list[Command]:
    """Record that deliveries of this host's own files wait for a carrier, for those who look at the whole fleet."""
    key = keys("uncarried")
    return [("ZADD", key, time.time_ns() // 10**6, host_name()), ("PEXPIRE", key, DAY)]


class Intervals:
    """When each periodic task was last done, by its name."""

    def __init__(self) -> None:
        self._done_at: dict[str, float] = {}

    def due(self, task: str, seconds: float) -> bool:
        """Whether the task was last done `seconds` ago or more; if so, it counts as done now."""
        now = time.monotonic()
        if now - self._done_at.get(task, 0.0) < seconds:
            return False
        self._done_at[task] = now
        return True


class JobStarter:
    """Starts jobs on behalf of the worker `owner`."""

    def __init__(self, connections: Connections, keys: Keys, owner: str, enqueue: Enqueue) -> None:
        self._connections, self._keys, self._owner, self._enqueue = connections, keys, owner, enqueue
        host = host_name()
        self._own = DeliveryStream(keys("deliveries", host), OWN_CARRIERS, keys("wanted", host), f"on {host}")
        self._all = (DeliveryStream(keys("deliveries"), "carry", keys("wanted"), "anywhere"), self._own)
        self.has_carriers = self.are_alive = False
        """Whether each stream with deliveries had a live carrier at the last check, and whether there was any live one."""
        self._waiting_since: dict[str, float] = {}
        """The streams with deliveries and without a carrier."""
        self._starts: dict[str, asyncio.Task[None]] = {}
        self._log_intervals, self._intervals = Intervals(), Intervals()
        self._has_events = False
        if on_demand():  # what an earlier `up` has left is not urgent
            self._intervals.due("chores", 0.0)

    def note_events(self) -> None:
        """Note that events were dispatched, so that there may be something to tidy up."""
        self._has_events = True

    async def start_chores(self) -> None:
        """Start housekeeping if it is due; raises Unreachable."""
        if self._intervals.due("chores", CHORES_SECONDS) and await self._has_chores():
            self.start("tidy")

    async def _has_chores(self) -> bool:
        """Whether there may be something to tidy up. Where chores workers run anyway, they look for themselves."""
        if "chores" not in on_demand():
            return True
        had_events, self._has_events = self._has_events, False
        if had_events or self._intervals.due("age", _AGE_SECONDS):
            return True
        with self._connections.lease() as connection:
            (undecided,) = await connection.exchange([("ZCARD", self._keys("uncovered"))])
        return bool(checked(undecided, "counting calls without their pre-hook event"))

    def start(self, job: str) -> None:
        """Queue a job in a task of its own: RQ may use another server, which may be away."""
        task = self._starts.get(job)
        if task is None or task.done():
            self._starts[job] = asyncio.create_task(self._queue(job))

    async def finish(self) -> None:
        """Wait until every started job is queued, or has failed to be."""
        await asyncio.gather(*self._starts.values(), return_exceptions=True)

    async def start_carriers(self, *, own_only: bool = False) -> None:
        """Start a carrier if deliveries wait and none is alive, or if too many wait for those that are alive.

        `own_only`: look only at the deliveries of this host's own hook files, which carriers on other hosts do not attempt.
        """
        carried = [self._own] if own_only else self._all
        counts: list[tuple[int, int]] = []
        with self._connections.lease() as connection:
            commands = [
                part for one in carried for part in (("XLEN", one.stream), ("XINFO", "CONSUMERS", one.stream, CARRIERS))
            ]
            replies = await connection.exchange(commands)
            for length, rows in zip(replies[::2], replies[1::2], strict=True):
                names = [] if isinstance(rows, Exception) else [flat(row)[b"name"].decode() for row in rows]
                looks = [("EXISTS", self._keys("beat", name)) for name in names]
                beats = await connection.exchange(looks) if looks else []
                counts.append((int(checked(length, "counting waiting deliveries")), sum(beat == 1 for beat in beats)))
            self.are_alive = any(alive for _, alive in counts)
            self.has_carriers = self.are_alive and all(alive for work, alive in counts if work)
            wanted = []
            for one, (work, alive) in zip(carried, counts, strict=True):
                self._warn_if_waiting(one, work, alive)
                if work and (not alive or work >= alive * LAG_PER_CARRIER):
                    wanted.append(one)
            marks: list[Command] = [("SET", one.mark, self._owner, "NX", "PX", 1_000) for one in wanted]
            if self._own in wanted:
                marks += uncarried_commands(self._keys)
            marked = await connection.exchange(marks) if marks else []
        for one, mark in zip(wanted, marked, strict=False):
            if mark is not None:
                self.start(one.job)

    def _warn_if_waiting(self, one: DeliveryStream, work: int, alive: int) -> None:
        """Log an error if deliveries wait and no carrier starts; the deliveries of one host need a carrier on that host."""
        now = time.monotonic()
        if alive or not work:
            self._waiting_since.pop(one.stream, None)
            return
        waited = now - self._waiting_since.setdefault(one.stream, now)
        if waited > _PATIENCE_SECONDS and self._log_intervals.due(one.stream, _LOG_SECONDS):
            text = "%d deliveries wait and no carrier runs %s: `fleethook worker carrier` starts one"
            log.error(text, work, one.where)

    async def _queue(self, job: str) -> None:
        try:
            workers = await self._enqueue(job)
        except FleethookError as error:
            if self._log_intervals.due("rq", _LOG_SECONDS):
                log.error("%s: no job can be queued; deliveries wait", error)
            return
        if not workers and self._log_intervals.due(f"no {job}", _LOG_SECONDS):
            where = next((one.where for one in self._all if one.job == job), "anywhere")
            text = "a %s worker is needed and none runs %s: `fleethook worker %s` starts one"
            log.error(text, kind_of(job), where, kind_of(job))
