"""Runs one process type from start to end, for `fleethook worker <type>`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from bus.config.settings import Settings
from bus.errors import ConfigError, FleethookError, Unreachable
from bus.hooksets.in_force import Watcher
from bus.system.directories import directories
from bus.tracing import spans
from bus.wire.connections import Connections, import_redis
from bus.wire.embedded_server import bus_url
from bus.wire.keys import Keys
from bus.wire.streams import Backoff
from workers.runtime.consumer_loop import cancel_tasks
from workers.runtime.lifeline import stop_event
from workers.runtime.process import Process, Work, collect_garbage_seldom, set_up, with_task
from workers.waiting.on_demand import need, on_demand, say_commands
from workers.waiting.pulses import pulse

log = logging.getLogger("fleethook.worker")


def run_role(kind: str, settings: Settings) -> None:
    """Run one process of `kind` until SIGTERM; raises Unreachable if no server can be found."""
    import_redis()
    url = bus_url(settings)
    process = Process(kind, settings, url, settings.rq_url or url)
    set_up(process)
    spans.configure(kind, settings.namespace, settings.otlp_endpoint)
    try:
        _run(process, kind, url)
    finally:
        spans.shut_down()


def _run(process: Process, kind: str, url: str) -> None:
    if kind in {"carrier", "chores"}:
        from workers.jobs import rq_worker

        rq_worker(process, kind)
        return
    from workers.fleet_control.flags import keeping_flags  # an RQ worker has no use for them
    from workers.runtime.spool_drain import draining

    if kind == "evaluator":
        process.run_async(draining(url, keeping_flags(url, _evaluator(process))))
    else:
        works = {"host": _host, "gateway": _gateway, "dispatcher": _dispatcher}
        work = reporting_installs(works[kind](process), process.settings.coverage_grace)
        process.run_async(draining(url, keeping_flags(url, work)))


def reporting_installs(work: Work, grace: float) -> Work:
    """The work of a process, plus a task that writes which hooks of agents are installed on this machine."""
    from workers.coverage.installs import keep_installs  # an RQ worker has no use for it

    async def report(keys: Keys, connections: Connections) -> None:
        await keep_installs(connections, keys, directories().state, grace)

    return with_task(work, report)


def _evaluator(process: Process) -> Callable[[Keys, Connections, Watcher], Awaitable[None]]:
    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        from workers.evaluator import Evaluator

        stop = stop_event()
        settings = process.settings
        evaluator = Evaluator(process.url, keys, watcher, connections, slots=settings.slots, policy=settings.on_failure)
        if await _prepare_with_retries(evaluator.prepare, stop, "evaluator"):
            process.report_ready()
        await evaluator.run(stop)

    return work


def _host(process: Process) -> Callable[[Keys, Connections, Watcher], Awaitable[None]]:
    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        from workers.coverage.waiting import keep_waiting
        from workers.host import HostWorker

        stop = stop_event()
        host = HostWorker(process.url, keys, watcher, connections, slots=process.settings.slots)
        if await _prepare_with_retries(host.prepare, stop, "host worker"):
            process.report_ready()
        waiting = asyncio.create_task(keep_waiting(watcher, directories()))
        try:
            await host.run(stop)
        finally:
            waiting.cancel()

    return work


def _gateway(process: Process) -> Callable[[Keys, Connections, Watcher], Awaitable[None]]:
    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        from workers.gateway.server import Gateway

        stop, settings, rq = stop_event(), process.settings, Connections(process.rq_url, connect=1.0)
        gateway = Gateway(process.url, rq, keys, connections, watcher, settings, directories())
        try:
            if await _prepare_with_retries(gateway.prepare, stop, "gateway"):
                await gateway.run(stop, process.report_ready)
        finally:
            await rq.close()

    return work


def _dispatcher(process: Process) -> Callable[[Keys, Connections, Watcher], Awaitable[None]]:
    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        from workers.dispatcher import Dispatcher
        from workers.jobs import CARRIER, CHORES, enqueue, queue

        stop = stop_event()
        kinds = {"carry": CARRIER, "tidy": CHORES, "maintain": CHORES}
        queues = {name: queue(process.settings, process.rq_url, kind) for name, kind in kinds.items()}

        async def ask(name: str) -> int:
            workers = await asyncio.to_thread(enqueue, queues[name], name)
            if kinds[name] not in on_demand():
                return workers
            if not workers:
                need(kinds[name])
            return max(1, workers)

        grace = process.settings.coverage_grace
        dispatcher = Dispatcher(process.url, keys, watcher, connections, ask, grace=grace)
        saying = asyncio.create_task(_say_on_demand(process, keys, connections, dispatcher.name))
        if await _prepare_with_retries(dispatcher.prepare, stop, "dispatcher"):
            process.report_ready()
        try:
            await dispatcher.run(stop)
        finally:
            await cancel_tasks([saying])
            for job_queue in queues.values():
                job_queue.connection.close()

    return work


async def _say_on_demand(process: Process, keys: Keys, connections: Connections, who: str) -> None:
    """Say for the fleet what our supervisor starts on demand, and to it what a queue of RQ waits for; until cancelled."""
    from workers.jobs import waiting_command

    kinds = sorted(on_demand())
    while kinds:
        with contextlib.suppress(FleethookError):  # the dispatcher itself reports what is wrong with the server
            waits = [waiting_command(process.settings, kind) for kind in kinds]
            replies = await connections.together([*waits, *say_commands(keys, who)])
            for kind, length in zip(kinds, replies, strict=False):
                if isinstance(length, int) and length:
                    need(kind)
        await pulse()


async def _prepare_with_retries(prepare: Callable[[], Awaitable[None]], stop: asyncio.Event, who: str) -> bool:
    """Prepare, and try again while Redis is away or the fleet's hook set cannot be read.

    Returns False if the process got a stop signal before it was prepared.
    """
    backoff = Backoff(who)
    while not stop.is_set():
        try:
            await prepare()
        except (Unreachable, ConfigError) as error:
            await backoff.wait(error)
        else:
            collect_garbage_seldom()
            return True
    return False
