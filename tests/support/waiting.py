"""Waiting for something to become true: by looking again soon, never by sleeping for a guess."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

PATIENCE = 40.0
"""Seconds after which something that was to happen has not happened; generous, the machine is shared."""
TIMED = os.environ.get("TIMED") == "1"
"""Whether this machine does nothing else, so that figures in seconds are promises: `make test TIMED=1`, `make chaos`."""
_NO_LIMIT = 100.0


def at_most(seconds: float) -> float:
    """The limit of a measured time: `seconds` where TIMED; else one below the 120 s of a wait that must not happen."""
    return seconds if TIMED else max(seconds, _NO_LIMIT)


def pause(looked: float) -> float:
    """Seconds until the next look, after one that took `looked`: three times that, so that looking takes no core."""
    return max(0.01, min(3 * looked, 0.25))


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
