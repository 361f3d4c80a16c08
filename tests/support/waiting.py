"""Waiting for something to become true: by looking again soon, never by sleeping for a guess."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

PATIENCE = 20.0
"""Seconds after which something that was to happen has not happened; generous, the machine is shared."""


def wait_until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return as soon as `holds()` is true; fail with `what` when it never is."""
    tick = threading.Event()
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        tick.wait(0.01)


async def until(holds: Callable[[], Awaitable[object]], what: str, seconds: float = PATIENCE) -> None:
    """As wait_until, for a coroutine function."""
    tick = asyncio.Event()
    deadline = time.monotonic() + seconds
    while not await holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        try:
            await asyncio.wait_for(tick.wait(), 0.01)
        except TimeoutError:
            continue
