"""The functions that RQ may call, and the Job class that lets it call nothing else.

Without that class, anyone who can write to RQ's keys could run `os.system` by a job, with any serializer (RQ 3.0).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from rq import Queue, SimpleWorker
from rq import Worker as _RegisteredWorkers
from rq.exceptions import StopRequested
from rq.executions import Execution
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker_registration import register

from bus.config.settings import Settings
from bus.errors import FleethookError, Unreachable
from bus.hooksets.in_force import Watcher
from bus.ids import connection_name, host_name
from bus.wire.connections import Command, Connections, sync_client, unreachable_text
from bus.wire.keys import Keys
from workers.carrier import Carrier
from workers.delivery.breakers import BreakerLimits, FailureCounts
from workers.runtime.process import Process, collect_garbage_seldom
from workers.waiting.on_demand import IDLE_SECONDS, on_demand

log = logging.getLogger("fleethook.jobs")

CARRIER: Final = "carrier"
CHORES: Final = "chores"

_WORKER_TTL: Final = 25
"""Seconds. RQ waits for a job for this time less 15 s, and for a reply of its server for this time less 5 s."""

_FAILURE_TTL: Final = 3_600
_QUEUED_TTL: Final = 60
_BEAT_SECONDS: Final = 30.0
_MOST_PAUSE: Final = 5.0
_PROCESS: list[Process] = []
"""The process of this RQ worker. Its settings come from its environment, never from a job."""

_FAILURES: Final = FailureCounts()
"""Kept longer than a carrier: on a quiet bus each delivery has a new carrier."""

_stop = threading.Event()
_ready = threading.Event()


class UnknownJob(FleethookError):
    """A job names a function that RQ may not call here."""


def carry() -> int:
    """Run a carrier while there is work; returns the number of attempts. Without work, the job ends at once."""
    process = _PROCESS[0]
    settings = process.settings

    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> int:
        carrier = Carrier(
            process.url,
            keys,
            connections,
            watcher,
            in_flight=settings.carrier_in_flight,
            keep_ms=max(1, int(settings.deliveries_keep * 1000)),
            failures=_FAILURES,
            limits=BreakerLimits(settings.breaker_first, settings.breaker_most, settings.disable_after),
            public_url=settings.public_url,
        )
        return await carrier.run(_watch_stop()) if await carrier.count_work() else 0

    return process.run_async(work)


def tidy() -> dict[str, int]:
    """Delete what is over its retention; returns how much of each kind."""
    from workers.housekeeping import tidy_all  # a carrier has no use for it

    process = _PROCESS[0]

    async def work(_keys: Keys, connections: Connections, _watcher: Watcher) -> dict[str, int]:
        return await tidy_all(connections, process.keys, process.settings)

    return process.run_async(work)


def maintain() -> int:
    """Work for a while at maintenance jobs that no worker is at; returns the number of deliveries processed."""
    from workers.records.bulk_jobs import run_waiting_jobs  # as above

    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> int:
        return await run_waiting_jobs(connections, keys, watcher, _watch_stop())

    return _PROCESS[0].run_async(work)


ALLOWED: Final[dict[str, Callable[..., Any]]] = {
    "workers.jobs.carry": carry,
    "workers.jobs.tidy": tidy,
    "workers.jobs.maintain": maintain,
}


class AllowedJob(Job):
    """A job that calls only what is on the list, and has no callbacks, webhooks, repeats or retries of RQ's own."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function on the list; raises UnknownJob for any other."""
        if self.instance is not None or self.func_name not in ALLOWED:
            raise UnknownJob(f"job {self.id} names {self.func_name!r}, which RQ may not call here")
        return ALLOWED[self.func_name]

    def restore(self, raw_data: Any) -> Any:
        """Read the job without RQ's callbacks, webhooks, repeats, retries, rate limits, timeouts and kept results."""
        result = super().restore(raw_data)
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
        self.webhooks = []
        self.repeats_left = self.retries_left = None
        self.rate_limit_key = None
        self.timeout, self.result_ttl, self.failure_ttl = -1, 0, _FAILURE_TTL
        return result


def _needs_no_trace(error: object) -> bool:
    """Whether the text of an error is enough without a stack trace: errors of Fleethook, of RQ and of its client."""
    return isinstance(error, FleethookError) or type(error).__module__.partition(".")[0] in {"redis", "rq"}


class _NoTraces(logging.Filter):
    """RQ's log without the stack traces of expected errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if _needs_no_trace(error):
            record.msg, record.args = f"{record.getMessage()}: {str(error) or type(error).__name__}", None
            record.exc_info = None
        return True


class _Stoppable(SimpleWorker):
    """A SimpleWorker that passes its stop signal to the job under way, and renews its registration with RQ."""

    max_connection_wait_time = 2.0
    """Seconds. By default RQ waits up to a minute between attempts to reach its server."""

    def perform_job(self, job: Job, queue: Queue, execution: Execution) -> bool:
        """Run the job while a thread sends RQ's heartbeats: a carrier may run for days, and RQ gives it up after 7 minutes."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(_BEAT_SECONDS):
                try:
                    self.maintain_heartbeats(job, execution)
                except Exception as error:  # noqa: BLE001 - whatever the client raises while the server is away
                    log.warning("RQ's heartbeat: %s", error)

        thread = threading.Thread(target=beat, name="rq-heartbeat", daemon=True)
        thread.start()
        try:
            return bool(super().perform_job(job, queue, execution))
        finally:
            done.set()
            thread.join()

    def _install_signal_handlers(self) -> None:
        """Report that this process is ready: it is registered with RQ, it has reached the bus, and a signal ends it in order.

        RQ calls this after `register_birth`. A SIGTERM before this would kill the process and leave its registration.
        """
        super()._install_signal_handlers()  # type: ignore[no-untyped-call]  # RQ leaves it untyped
        try:
            if not _ready.is_set():
                with sync_client(_PROCESS[0].url) as bus:  # RQ's server may be another one
                    bus.ping()
                _ready.set()
                _PROCESS[0].report_ready()
        except (
            StopRequested
        ):  # a signal came here; RQ's loop then ends as its first step, and takes the registration away
            self._stop_requested = True

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Write the heartbeat, and register again: a server that came back without its data does not know this worker."""
        super().heartbeat(timeout, pipeline)
        register(self, pipeline)

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Log why a job failed."""
        if _needs_no_trace(exc_info[1]):
            log.error("%s", str(exc_info[1]) or f"job {job.id}: {type(exc_info[1]).__name__}")
        else:
            super().handle_exception(job, *exc_info)

    def handle_warm_shutdown_request(self) -> None:
        """On SIGTERM or SIGINT, let the job finish what is under way."""
        _stop.set()

    def set_shutdown_requested_date(self) -> None:
        """Do nothing: RQ calls this in the signal handler, where a connection error would break off the job."""

    def subscribe(self) -> None:
        """Do nothing: RQ's remote commands are not used, and would cost a thread and a connection."""


def queue_name(settings: Settings, kind: str, host: str = "") -> str:
    """The RQ queue of one kind of job, or of those that only workers on one host take."""
    return f"fleethook-{settings.namespace}-{kind}{'-on-' if host else ''}{host}"


def queue(settings: Settings, url: str, kind: str, host: str = "") -> Queue:
    """The RQ queue of one kind, with a connection of its own; with `host` that of its workers alone."""
    return Queue(
        queue_name(settings, kind, host), connection=sync_client(url), serializer=JSONSerializer, job_class=AllowedJob
    )


def waiting_commands(settings: Settings, kind: str) -> list[Command]:
    """The commands that count the jobs of one kind, for any host and for this one, that no worker has taken yet."""
    return [
        ("LLEN", f"{Queue.redis_queue_namespace_prefix}{queue_name(settings, kind, host)}")
        for host in ("", *([host_name()] if kind == CARRIER else []))
    ]


def enqueue(on: Queue, name: str, **kwargs: str) -> int:
    """Queue a job, unless as many jobs wait as there are RQ workers; returns the number of RQ workers.

    Raises Unreachable if RQ's server is away.
    """
    try:
        workers = int(_RegisteredWorkers.count(queue=on))
        if on.count < max(1, workers):
            on.enqueue(
                f"workers.jobs.{name}",
                kwargs=kwargs,
                result_ttl=0,
                failure_ttl=_FAILURE_TTL,
                job_timeout=-1,
                ttl=_QUEUED_TTL,
            )
    except Exception as error:  # RQ passes on whatever its client raises
        raise Unreachable(f"RQ: {unreachable_text(error)}") from error
    return workers


def rq_worker(process: Process, kind: str) -> None:
    """Run an RQ worker of one kind until SIGTERM; a job under way finishes first.

    RQ's worker may end when its server is away; another one starts as soon as the server is back.
    """
    _PROCESS[:] = [process]
    logging.getLogger("rq.worker").addFilter(_NoTraces())
    collect_garbage_seldom()
    pause = 0.0
    while not _stop.is_set():
        name = f"{kind}-{host_name()}-{os.getpid()}-{os.urandom(3).hex()}"
        # RQ workers are counted by connections of this name, which end with the process.
        client = sync_client(process.rq_url, seconds=_WORKER_TTL, name=connection_name(name))
        try:
            worker = _worker(process, kind, client, name)
            pause = 0.0
            idle = IDLE_SECONDS if kind in on_demand() else None
            worker.work(logging_level="WARNING", max_idle_time=idle)
            if idle:  # there was no work, or RQ's server is away: the supervisor starts a process when one is needed
                return
            reason = "RQ's worker ended"
        except StopRequested:
            return
        except Exception as error:  # noqa: BLE001 - RQ passes on whatever its client raises
            reason = unreachable_text(error)
        finally:
            client.close()
        if _stop.is_set():
            return
        if not pause:
            log.error("%s; trying again until it works", reason)
        pause = min(_MOST_PAUSE, pause * 2 or 0.2)
        try:
            _stop.wait(pause)
        except StopRequested:  # raised by the signal handler of the worker that ended
            return


def _worker(process: Process, kind: str, client: Any, name: str) -> _Stoppable:
    """A worker of one kind. A carrier listens to its host's own queue too.

    A worker on two queues that is killed can lose a job that it has just taken (measured). A lost job of a carrier is queued
    again within a second, while deliveries wait and no carrier is alive.
    """
    hosts = [host_name(), ""] if kind == CARRIER else [""]
    queues = [
        Queue(
            queue_name(process.settings, kind, host),
            connection=client,
            serializer=JSONSerializer,
            job_class=AllowedJob,
        )
        for host in hosts
    ]
    return _Stoppable(
        queues,
        connection=client,
        serializer=JSONSerializer,
        job_class=AllowedJob,
        worker_ttl=_WORKER_TTL,
        maintenance_interval=60,
        log_job_description=False,
        name=name,
    )


def _watch_stop() -> asyncio.Event:
    """An event of the running loop that is set at most 0.1 s after RQ's worker got a stop signal."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look() -> None:
        if _stop.is_set():
            event.set()
        else:
            loop.call_later(0.1, look)

    look()
    return event
