"""What every worker process has: settings, its place in Redis, a log, a word when it is ready, and a way to end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from bus.config.settings import Settings
from bus.hooksets.in_force import Watcher
from bus.secrets.redaction import redact_text
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.runtime.lifeline import die_with_parent

_T = TypeVar("_T")

SELDOM: Final = (20_000, 20, 50)
"""Thresholds of the garbage collector: what workers make by the thousand is freed without it, and with Python's own
thresholds 15 % of a busy carrier's time went into looking through what it keeps (measured)."""

DRAIN_SECONDS: Final = 8.0
"""What is under way gets to end when a process is told to stop; `fleethook up` ends it by force after 10."""


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
        return Watcher.here(connections, self.keys, directories())

    def say_ready(self) -> None:
        """Tell whoever started us (the supervisor waits for this line)."""
        print(f"fleethook {self.kind} ready", file=sys.stderr, flush=True)  # noqa: T201 - the supervisor reads it

    def run_async(self, work: Callable[[Keys, Connections, Watcher], Awaitable[_T]]) -> _T:
        """Run `work` on an event loop with connections of its own, closed after it."""

        async def whole() -> _T:
            connections = Connections(self.url, connect=1.0)
            try:
                return await work(self.keys, connections, self.watcher(connections))
            finally:
                await connections.close()

        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            return runner.run(whole())


class _Redacting(logging.Formatter):
    """A formatter through which no secret passes."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record))


def set_up(process: Process) -> None:
    """Logging to stderr (redacted), the host's name as it is set, and an end when whoever started us ends."""
    if process.settings.host:
        os.environ["FLEETHOOK_HOST"] = process.settings.host  # a name from a file or flag has to reach `host_name` too
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(process.settings.log_level.upper())
    logging.getLogger("rq").setLevel("WARNING")
    die_with_parent()


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop: libuv's, with which a request takes a sixth less time (measured), or asyncio's on Windows."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def spare_the_collector() -> None:
    """Look for garbage in cycles less often, and not at all among what is there by now; once a process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)
