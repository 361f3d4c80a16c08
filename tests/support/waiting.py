"""Waiting for something to become true: by looking again soon, never by sleeping for a guess."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")

PATIENCE = 60.0
"""Seconds after which something that was to happen has not happened; generous, the machine is shared."""
BUDGET = 60.0
"""Seconds that an agent waits for its verdict: a busy machine must not make a fallback of it."""
BUDGET_MS = int(BUDGET * 1000)
CONNECT = 10.0
"""Seconds for a connection to a server that runs."""
TIMED = os.environ.get("TIMED") == "1"
"""Whether this machine does nothing else, so that figures in seconds are promises: `make test TIMED=1`, `make chaos`."""
_NO_LIMIT = 100.0


def at_most(seconds: float) -> float:
    """The limit of a measured time: `seconds` where TIMED; else one below the 120 s of a wait that must not happen."""
    return seconds if TIMED else max(seconds, _NO_LIMIT)


@contextmanager
def cpu_at_most(seconds: float) -> Iterator[None]:
    """Fail if the block takes more of this process's CPU time; other work on the machine does not count."""
    start = time.process_time()
    yield
    took = time.process_time() - start
    assert took < seconds, f"{took:.1f} s of CPU time"


def pause(looked: float) -> float:
    """Seconds until the next look, after one that took `looked`: three times that, so that looking takes no core."""
    return max(0.01, min(3 * looked, 0.25))


def same_twice(one: Callable[[], T], other: Callable[[], U]) -> tuple[T, U]:
    """What both give of something that changes by itself: `one` gives the same before and after `other`."""
    found: list[tuple[T, U]] = []

    def unchanged() -> bool:
        before, seen = one(), other()
        found[:] = [(before, seen)]
        return one() == before

    wait_until(unchanged, "it is the same before and after")
    return found[0]


def wait_until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return as soon as `holds()` is true; fail with `what` when it never is."""
    tick = threading.Event()
    deadline = time.monotonic() + seconds
    start = time.monotonic()
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        tick.wait(pause(time.monotonic() - start))
        start = time.monotonic()


async def until(holds: Callable[[], Awaitable[object]], what: str, seconds: float = PATIENCE) -> None:
    """As wait_until, for a coroutine function."""
    tick = asyncio.Event()
    deadline = time.monotonic() + seconds
    start = time.monotonic()
    while not await holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        with suppress(TimeoutError):
            await asyncio.wait_for(tick.wait(), pause(time.monotonic() - start))
        start = time.monotonic()
