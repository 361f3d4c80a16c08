"""What every worker process has: settings, Redis connections, a log, a ready message, and a way to end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bus.config.settings import Settings
from bus.hooksets.in_force import Watcher
from bus.secrets.redaction import redact_text
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.runtime.consumer_loop import cancel_tasks
from workers.runtime.lifeline import die_with_parent

_T = TypeVar("_T")

Work = Callable[[Keys, Connections, Watcher], Awaitable[None]]
"""What a process does until it ends."""

SELDOM_THRESHOLDS: Final = (20_000, 20, 50)
"""Thresholds of the garbage collector. Most objects of a worker are freed without it, and with Python's own thresholds a
busy carrier spent 15 % of its time in it (measured)."""

DRAIN_SECONDS: Final = 8.0
"""How long work under way may take to end after a process got SIGTERM; `fleethook up` kills it after 10 s."""


@dataclass(frozen=True, slots=True)
class Process:
    """One worker process of the kind `kind`, on the server at `url`."""

    kind: str
    settings: Settings
    url: str
    rq_url: str

    @property
    def keys(self) -> Keys:
        """The key names of its namespace."""
        return Keys(self.settings.namespace)

    def watcher(self, connections: Connections) -> Watcher:
        """The hooks in force, as this host sees them."""
        return Watcher.here(connections, self.keys, directories(), judges=self.kind in {"evaluator", "host"})

    def report_ready(self) -> None:
        """Print that we are ready; the supervisor waits for this line."""
        print(f"fleethook {self.kind} ready", file=sys.stderr, flush=True)  # noqa: T201 - the supervisor reads it

    def run_async(self, work: Callable[[Keys, Connections, Watcher], Awaitable[_T]]) -> _T:
        """Run `work` on an event loop, with connections that are closed after it."""

        async def whole() -> _T:
            connections = Connections(self.url, connect=1.0)
            try:
                return await work(self.keys, connections, self.watcher(connections))
            finally:
                await connections.close()

        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(whole())


def with_task(work: Work, task: Callable[[Keys, Connections], Coroutine[Any, Any, None]]) -> Work:
    """The work of a process, plus a task that runs beside it and is cancelled at its end."""

    async def both(keys: Keys, connections: Connections, watcher: Watcher) -> None:
        running = asyncio.create_task(task(keys, connections))
        running.add_done_callback(_log_failure)
        try:
            await work(keys, connections, watcher)
        finally:
            await cancel_tasks([running])

    return both


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log why a task that runs for good has ended, because nobody waits for its result."""
    if not task.cancelled() and (error := task.exception()) is not None:
        name = getattr(task.get_coro(), "__name__", "a task")
        logging.getLogger("fleethook.worker").error("%s has ended", name, exc_info=error)


class _Redacting(logging.Formatter):
    """A formatter that redacts secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record))


def set_up(process: Process) -> None:
    """Set up logging to stderr (redacted), the host's name, and the lifeline."""
    if process.settings.host:
        os.environ["FLEETHOOK_HOST"] = process.settings.host  # `host_name` reads the environment
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(root, process.settings.log_level)
    set_level(logging.getLogger("rq"), "warning")
    die_with_parent()


def set_level(logger: logging.Logger, level: str) -> None:
    """Set a logger's level, unless it has it: what loggers know of it is cleared in each of them, 0.4 MB of a fork's own."""
    if logger.level != logging.getLevelNamesMapping()[level.upper()]:
        logger.setLevel(level.upper())


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of event loops: libuv's, which makes a request a sixth faster (measured), or None for asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def collect_garbage_seldom() -> None:
    """Run the garbage collector less often, and never on objects that exist now; call it when a process is ready.

    A fork of a process that did so has nearly no garbage, and a search for it would copy 0.8 MB that they share.
    """
    if not gc.get_freeze_count():
        gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM_THRESHOLDS)
