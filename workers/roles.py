"""Runs one process type from start to end, for `fleethook worker <type>`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from bus.config.settings import Settings
from bus.errors import ConfigError, FleethookError, Unreachable
from bus.hooksets.in_force import Watcher
from bus.ids import host_name
from bus.system.directories import directories
from bus.tracing import spans
from bus.wire.connections import Connections, import_redis
from bus.wire.embedded_server import bus_url
from bus.wire.keys import Keys
from bus.wire.streams import Backoff
from workers.gateway.door import DoorKeeper, may_wait
from workers.runtime.child_processes import Pauses
from workers.runtime.consumer_loop import cancel_tasks
from workers.runtime.job_starter import OWN_CARRIERS, Enqueue, kind_of
from workers.runtime.lifeline import stop_event
from workers.runtime.process import Process, Work, collect_garbage_seldom, set_up, with_task
from workers.supervision.predecessor import end_heartbeats
from workers.supervision.watchdog import keep_responding
from workers.waiting.on_demand import (
    EVALUATOR,
    KINDS,
    PLUGIN_SECONDS,
    RequestLoad,
    evaluator_commands,
    lives,
    need,
    needs_evaluator,
    on_demand,
    say_commands,
)
from workers.waiting.pulses import pulse

_STARTING_SECONDS: Final = 15.0
"""How long the first evaluator may take to start, before another one is needed because it does not answer."""
_SETTLING_SECONDS: Final = 3.0
"""How long after its start requests that waited for it do not count."""

log = logging.getLogger("fleethook.worker")


def run_role(kind: str, settings: Settings, *, also: Sequence[str] = (), most_idle: float = math.inf) -> None:
    """Run one process of `kind` until SIGTERM; raises Unreachable if no server can be found.

    `also`: kinds whose work is done in the same process. `most_idle`: an evaluator ends when it had no request for so many
    seconds.
    """
    import_redis()
    url = bus_url(settings)
    process = Process(kind, settings, url, settings.rq_url or url)
    set_up(process)
    spans.configure(kind, settings.namespace, settings.otlp_endpoint)
    try:
        _run(process, kind, url, also=also, most_idle=most_idle)
    finally:
        spans.shut_down()


def _run(process: Process, kind: str, url: str, *, also: Sequence[str], most_idle: float) -> None:
    if kind in {"carrier", "chores"}:
        from workers.jobs import rq_worker

        rq_worker(process, kind)
        return
    from workers.fleet_control.flags import keeping_flags  # an RQ worker has no use for them
    from workers.runtime.spool_drain import draining

    if kind == "evaluator":
        work = _evaluator(process, most_idle)
    else:
        work = reporting_installs(_roles(process, also), process.settings.coverage_grace)
    process.run_async(_supervised(draining(url, keeping_flags(url, work))))


def _supervised(work: Work) -> Work:
    """The work of a process, which removes first what another one has left, and shows its supervisor that it responds."""

    async def both(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        responding = asyncio.create_task(keep_responding())
        try:
            await end_heartbeats(connections, keys)
            await work(keys, connections, watcher)
        finally:
            await cancel_tasks([responding])

    return both


def reporting_installs(work: Work, grace: float) -> Work:
    """The work of a process, plus a task that writes which hooks of agents are installed on this machine."""
    from workers.coverage.installs import keep_installs  # an RQ worker has no use for it

    async def report(keys: Keys, connections: Connections) -> None:
        await keep_installs(connections, keys, directories().state, grace)

    return with_task(work, report)


def _evaluator(process: Process, most_idle: float) -> Work:
    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        from workers.evaluator import Evaluator

        stop = stop_event()
        settings = process.settings
        evaluator = Evaluator(process.url, keys, watcher, connections, slots=settings.slots, policy=settings.on_failure)
        if await _prepare_with_retries(evaluator.prepare, stop, "evaluator"):
            process.report_ready()
        watching = asyncio.create_task(
            watch_load(evaluator.load, stop, most_idle, lambda: evaluator.plugins.is_started)
        )
        try:
            await evaluator.run(stop)
        finally:
            await cancel_tasks([watching])

    return work


async def watch_load(
    load: RequestLoad, stop: asyncio.Event, most_idle: float, has_plugins: Callable[[], bool] = bool
) -> None:
    """Say when several requests are in work here, and set `stop` when there was none for `most_idle` seconds.

    With Python plugins no other evaluator is wanted, whose instances of them know nothing: an evaluator that is not the
    first one, which ends when it is idle, ends soon.
    """
    began = time.monotonic()
    while EVALUATOR in on_demand():
        await pulse()
        now = time.monotonic()
        ends_soon = has_plugins() and most_idle < math.inf and now - began > PLUGIN_SECONDS
        if now - load.last > most_idle or ends_soon:
            stop.set()
        elif load.take_was_high() and not has_plugins():
            need(EVALUATOR)


class _Role(NamedTuple):
    """What the work of one kind is done with; `report_ready` is called when it has begun."""

    process: Process
    keys: Keys
    connections: Connections
    watcher: Watcher
    stop: asyncio.Event
    report_ready: Callable[[], None]


@contextlib.contextmanager
def _asking(process: Process) -> Iterator[Enqueue]:
    """What queues a job of RQ by its name, and has its supervisor start a process for it where it does that on demand."""
    queues = {}

    def enqueued(job: str) -> int:
        from workers.jobs import enqueue, queue  # a host without deliveries of its own needs no RQ (8 MB)

        if job not in queues:
            host = host_name() if job == OWN_CARRIERS else ""
            queues[job] = queue(process.settings, process.rq_url, kind_of(job), host)
        return enqueue(queues[job], "carry" if job == OWN_CARRIERS else job)

    async def ask(job: str) -> int:
        workers = await asyncio.to_thread(enqueued, job)
        if kind_of(job) not in on_demand():
            return workers
        if not workers:
            need(kind_of(job))
        return max(1, workers)

    try:
        yield ask
    finally:
        for job_queue in queues.values():
            job_queue.connection.close()


async def _be_host(role: _Role) -> None:
    from workers.coverage.waiting import keep_waiting
    from workers.host import HostWorker

    process, keys, connections, watcher, stop, report_ready = role
    with _asking(process) as ask:
        host = HostWorker(
            process.url,
            keys,
            watcher,
            connections,
            ask,
            slots=process.settings.slots,
            # Where all evaluators are on this machine, they run its plugins; ours would be a second one that nothing calls.
            plugins_at_once=not on_demand(),
        )
        if await _prepare_with_retries(host.prepare, stop, "host worker"):
            report_ready()
        waiting = asyncio.create_task(keep_waiting(watcher, directories()))
        try:
            await host.run(stop)
        finally:
            waiting.cancel()


async def _be_gateway(role: _Role) -> None:
    process, keys, connections, watcher, stop, report_ready = role
    settings, door = process.settings, None
    if process.kind != "gateway" and may_wait(settings):
        keeper = DoorKeeper(connections, keys, watcher, settings, directories())
        with contextlib.suppress(OSError):  # another program has the port: the gateway says so, and waits for it
            if not await _prepare_with_retries(keeper.prepare, stop, "gateway"):
                return
            if (door := await keeper.run(stop, report_ready)) is None:
                return
    server = await asyncio.to_thread(importlib.import_module, "workers.gateway.server")
    rq = Connections(process.rq_url, connect=1.0)
    gateway = server.Gateway(process.url, rq, keys, connections, watcher, settings, directories(), door)
    try:
        if await _prepare_with_retries(gateway.prepare, stop, "gateway"):
            await gateway.run(stop, report_ready)
    finally:
        if door is not None:
            door.close()
        await rq.close()


async def _be_dispatcher(role: _Role) -> None:
    from workers.dispatcher import Dispatcher

    process, keys, connections, watcher, stop, report_ready = role
    with _asking(process) as ask:
        dispatcher = Dispatcher(process.url, keys, watcher, connections, ask, grace=process.settings.coverage_grace)
        saying = asyncio.create_task(_say_on_demand(process, keys, connections, dispatcher.name))
        if await _prepare_with_retries(dispatcher.prepare, stop, "dispatcher"):
            report_ready()
        try:
            await dispatcher.run(stop)
        finally:
            await cancel_tasks([saying])


_ROLES: Final = {"host": _be_host, "gateway": _be_gateway, "dispatcher": _be_dispatcher}


def _roles(process: Process, also: Sequence[str]) -> Work:
    """The process's own work and that of other kinds on one event loop, each with its own name and heartbeat.

    They end together. An error in the work of another kind does not end the process: it is begun again after a pause.
    """

    async def work(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        stop, unready = stop_event(), {process.kind, *also}

        def note_ready(kind: str) -> None:
            was_ready = not unready
            unready.discard(kind)
            if not (unready or was_ready):
                process.report_ready()

        async def keep(kind: str) -> None:
            pauses, own = Pauses(), replace(process, kind=kind).watcher(connections)
            while not stop.is_set():
                began = time.monotonic()
                try:
                    await _ROLES[kind](_Role(process, keys, connections, own, stop, partial(note_ready, kind)))
                except FleethookError as error:
                    log.error("%s: %s", kind, error)
                except Exception:
                    log.exception("%s", kind)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pauses.after(time.monotonic() - began))

        others = [asyncio.create_task(keep(kind)) for kind in also]
        own_role = _Role(process, keys, connections, watcher, stop, partial(note_ready, process.kind))
        try:
            await _ROLES[process.kind](own_role)
            await asyncio.gather(*others)
        finally:
            await cancel_tasks(others)

    return work


async def _say_on_demand(process: Process, keys: Keys, connections: Connections, who: str) -> None:
    """Say for the fleet what our supervisor starts on demand, and to it what is needed; until cancelled."""
    from workers.jobs import waiting_commands

    kinds = sorted(on_demand().intersection(KINDS))
    about_evaluators = EVALUATOR in on_demand()
    need_counts_from = time.monotonic() + _STARTING_SECONDS
    while kinds or about_evaluators:
        with contextlib.suppress(FleethookError):  # the dispatcher itself reports what is wrong with the server
            asks = evaluator_commands(keys) if about_evaluators else []
            waits = [(kind, command) for kind in kinds for command in waiting_commands(process.settings, kind)]
            replies = await connections.together([*asks, *(command for _, command in waits), *say_commands(keys, who)])
            now = time.monotonic()
            if asks and now > need_counts_from and needs_evaluator(*replies[: len(asks)]):
                need(EVALUATOR)
            elif asks and lives(replies[1]):
                need_counts_from = min(need_counts_from, now + _SETTLING_SECONDS)
            jobs = zip(waits, replies[len(asks) :], strict=False)
            for kind in {kind for (kind, _), length in jobs if isinstance(length, int) and length}:
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
