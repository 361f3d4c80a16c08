"""The few functions that RQ may call, and the Job class that lets it call nothing else.

Whoever can write to RQ's keys could otherwise name `os.system` in a job, under any serializer (measured on RQ 3.0).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from rq import Queue, SimpleWorker
from rq import Worker as _RegisteredWorkers
from rq.job import Job
from rq.serializers import JSONSerializer

from bus.config.settings import Settings
from bus.connections import Links, sync_client
from bus.errors import FleethookError
from bus.inforce import Watcher
from bus.keys import Keys
from workers.carrier import Carrier
from workers.chores import redrive_all, tidy_all
from workers.process import Process

log = logging.getLogger("fleethook.jobs")

CARRIER: Final = "carrier"
CHORES: Final = "chores"

_WORKER_TTL: Final = 60
_FAILURE_TTL: Final = 3_600
_PROCESS: list[Process] = []
"""The process that this RQ worker runs in: its settings come from its own environment, never out of a job."""

_stop = threading.Event()


class UnknownJob(FleethookError):
    """A job that names a function which RQ may not call here."""


def carry() -> int:
    """Carry deliveries for as long as there is work; returns the number of attempts."""
    process = _PROCESS[0]

    async def work(keys: Keys, links: Links, watcher: Watcher) -> int:
        carrier = Carrier(process.url, keys, links, watcher, in_flight=process.settings.carrier_in_flight)
        return await carrier.run(_watch_stop())

    return process.run_async(work)


def tidy() -> dict[str, int]:
    """Trim, sweep and forget what is over its age; returns how much of each."""
    process = _PROCESS[0]

    async def work(_keys: Keys, links: Links, _watcher: Watcher) -> dict[str, int]:
        return await tidy_all(links, process.keys, process.settings)

    return process.run_async(work)


def redrive(reason: str = "", target: str = "") -> int:
    """Try again every dead letter of which reason and target contain the given words; returns how many."""
    process = _PROCESS[0]

    async def work(_keys: Keys, links: Links, _watcher: Watcher) -> int:
        return await redrive_all(links, process.keys, reason=reason, target=target)

    return process.run_async(work)


ALLOWED: Final[dict[str, Callable[..., Any]]] = {
    "workers.jobs.carry": carry,
    "workers.jobs.tidy": tidy,
    "workers.jobs.redrive": redrive,
}


class AllowedJob(Job):
    """A job that calls only what is on the list, and has no callbacks, webhooks, repeats or retries of RQ's own."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function on the list; raises UnknownJob for any other."""
        if self.instance is not None or self.func_name not in ALLOWED:
            raise UnknownJob(f"job {self.id} names {self.func_name!r}, which RQ may not call here")
        return ALLOWED[self.func_name]

    def restore(self, raw_data: Any) -> Any:  # noqa: ANN401 - RQ's own types
        """Read the job, without whatever of RQ's extras would import or call something."""
        result = super().restore(raw_data)
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
        self.webhooks = []
        self.repeats_left = None
        self.retries_left = None
        return result


class _Stoppable(SimpleWorker):
    """A SimpleWorker that tells the job under way to end when it is told to stop itself."""

    job_class = AllowedJob

    def handle_warm_shutdown_request(self) -> None:
        _stop.set()
        super().handle_warm_shutdown_request()  # type: ignore[no-untyped-call]  # RQ leaves it untyped


def queue_name(settings: Settings, kind: str) -> str:
    """The RQ queue of one kind of job; each worker listens to one (a worker on two can lose a job, measured)."""
    return f"fleethook-{settings.namespace}-{kind}"


def queue(settings: Settings, url: str, kind: str) -> Queue:
    """The RQ queue of one kind, with a connection of its own."""
    return Queue(
        queue_name(settings, kind), connection=sync_client(url), serializer=JSONSerializer, job_class=AllowedJob
    )


def enqueue(on: Queue, name: str, **kwargs: str) -> int:
    """Queue a job unless as many wait as there are RQ workers to take them; returns how many workers there are."""
    workers = int(_RegisteredWorkers.count(queue=on))
    if on.count < max(1, workers):
        on.enqueue(
            f"workers.jobs.{name}", kwargs=kwargs, result_ttl=0, failure_ttl=_FAILURE_TTL, job_timeout=-1, ttl=60
        )
    return workers


def rq_worker(process: Process, kind: str) -> None:
    """Be an RQ worker of one kind until SIGTERM; a job under way is drained first."""
    _PROCESS[:] = [process]
    on = queue(process.settings, process.rq_url, kind)
    worker = _Stoppable(
        [on], connection=sync_client(process.rq_url, seconds=_WORKER_TTL), serializer=JSONSerializer,
        job_class=AllowedJob, worker_ttl=_WORKER_TTL, maintenance_interval=60, log_job_description=False,
    )  # fmt: skip
    process.say_ready()
    worker.work(logging_level="WARNING")


def _watch_stop() -> asyncio.Event:
    """The stop event of the running loop, set soon after RQ's worker was told to stop."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look() -> None:
        if _stop.is_set():
            event.set()
        else:
            loop.call_later(0.1, look)

    look()
    return event
