"""Starts RQ jobs: carriers where deliveries wait and none is alive, and the jobs of housekeeping."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bus.errors import FleethookError
from bus.ids import host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
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
"""Queues an RQ job by its name (`carry`, `tidy`, `maintain`) and returns how many RQ workers listen for it."""


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
    """Starts jobs on behalf of the dispatcher `owner`; `group` is the carriers' group on the `streams` of deliveries."""

    def __init__(
        self, connections: Connections, keys: Keys, owner: str, streams: Sequence[str], group: str, enqueue: Enqueue
    ) -> None:
        self._connections, self._keys, self._owner = connections, keys, owner
        self._streams, self._group, self._enqueue = streams, group, enqueue
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

    async def start_carriers(self) -> None:
        """Start a carrier if deliveries wait and none is alive, or if too many wait for those that are alive."""
        counts: list[tuple[int, int]] = []
        with self._connections.lease() as connection:
            commands = [
                part for name in self._streams for part in (("XLEN", name), ("XINFO", "CONSUMERS", name, self._group))
            ]
            replies = await connection.exchange(commands)
            for length, rows in zip(replies[::2], replies[1::2], strict=True):
                names = [] if isinstance(rows, Exception) else [flat(row)[b"name"].decode() for row in rows]
                looks = [("EXISTS", self._keys("beat", name)) for name in names]
                beats = await connection.exchange(looks) if looks else []
                counts.append((int(checked(length, "counting waiting deliveries")), sum(beat == 1 for beat in beats)))
            self.are_alive = any(alive for _, alive in counts)
            self.has_carriers = self.are_alive and all(alive for work, alive in counts if work)
            for stream, (work, alive) in zip(self._streams, counts, strict=True):
                self._warn_if_waiting(stream, work, alive)
            if not any(work and (not alive or work >= alive * LAG_PER_CARRIER) for work, alive in counts):
                return
            # This key keeps two dispatchers from starting a carrier for the same deliveries.
            (marked,) = await connection.exchange([("SET", self._keys("wanted"), self._owner, "NX", "PX", 1_000)])
        if marked is not None:
            self.start("carry")

    def _warn_if_waiting(self, stream: str, work: int, alive: int) -> None:
        """Log an error if deliveries wait and no carrier starts; the deliveries of one host need a carrier on that host."""
        now = time.monotonic()
        if alive or not work:
            self._waiting_since.pop(stream, None)
            return
        waited = now - self._waiting_since.setdefault(stream, now)
        if waited > _PATIENCE_SECONDS and self._log_intervals.due(stream, _LOG_SECONDS):
            where = "anywhere" if stream == self._streams[0] else f"on {host_name()}"
            log.error("%d deliveries wait and no carrier runs %s: `fleethook worker carrier` starts one", work, where)

    async def _queue(self, job: str) -> None:
        try:
            workers = await self._enqueue(job)
        except FleethookError as error:
            if self._log_intervals.due("rq", _LOG_SECONDS):
                log.error("%s: no job can be queued; deliveries wait", error)
            return
        if not workers and self._log_intervals.due(f"no {job}", _LOG_SECONDS):
            kind = "carrier" if job == "carry" else "chores"
            log.error("a %s worker is needed and none runs: `fleethook worker %s` starts one", kind, kind)
