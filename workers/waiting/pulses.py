"""The pulse of a process: the moment, once a second, at which it does all that it does from time to time.

Each timer of its own would wake the process once more. The processes of one machine have their pulses at different moments, so
that what each of them looks for (a stop, a spool) is found sooner than after a second.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final
from weakref import WeakKeyDictionary

PULSE_SECONDS: Final = 1.0

_SHORTEST: Final = 0.1
"""A timer may fire a little early; the part of a second after it does not count as the next pulse."""
_GOLDEN: Final = 0.6180339887498949
"""Multiples of the golden ratio leave even gaps, and processes that start together have neighbouring ids."""

_next: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[None]] = WeakKeyDictionary()


def next_pulse() -> asyncio.Future[None]:
    """A future that is done at the next pulse. Many wait for it, so nobody may cancel it: await `pulse` instead."""
    loop = asyncio.get_running_loop()
    known = _next.get(loop)
    if known is None or known.done():
        known = _next[loop] = loop.create_future()
        loop.call_later(seconds_left(time.monotonic(), os.getpid()), _fire, known)
    return known


async def pulse() -> None:
    """Wait for the next pulse."""
    await asyncio.shield(next_pulse())


def seconds_left(now: float, pid: int) -> float:
    """The seconds from `now`, by the monotonic clock, to the next pulse of a process."""
    left = PULSE_SECONDS - (now - pid * _GOLDEN) % PULSE_SECONDS
    return left if left >= _SHORTEST else left + PULSE_SECONDS


def _fire(pulse: asyncio.Future[None]) -> None:
    if not pulse.done():
        pulse.set_result(None)
