"""Limits how many attempts a carrier has under way, without letting slow attempts block others."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from typing import Final

SLOW_SECONDS: Final = 0.1
"""A request that takes longer frees its place, because it costs only memory; so silent endpoints cannot occupy all places."""

MOST: Final = 1_000
"""The most attempts under way, slow ones included: they need 90 MiB (measured)."""

_GATHER_SECONDS: Final = 0.01


class InFlight:
    """Up to `places` attempts, plus slow requests, up to `MOST` in all. A command occupies its place to its end."""

    def __init__(self, places: int) -> None:
        self._places, self._most = places, max(places, MOST)
        self._enough_room = max(1, places // 4)
        self._tasks: dict[asyncio.Task[None], float] = {}
        """Tasks in the order of their starts, each with the time from which it is slow."""
        self._waiter: asyncio.Future[None] | None = None

    @property
    def tasks(self) -> Collection[asyncio.Task[None]]:
        """The attempts under way; shrinks as they end."""
        return self._tasks.keys()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: asyncio.Task[None], *, command: bool) -> None:
        """Add an attempt, until its task is done."""
        self._tasks[task] = math.inf if command else time.monotonic() + SLOW_SECONDS
        task.add_done_callback(self._done)

    async def room(self) -> int:
        """How many attempts may start; waits a short time until a quarter of the places is free. May return 0.

        Without the wait, each single place that becomes free would cost a round trip to Redis.
        """
        room = self._count_room()
        if room >= self._enough_room:
            return room
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(_GATHER_SECONDS if room > 0 else SLOW_SECONDS, _wake, self._waiter)
        try:
            await self._waiter
        finally:
            self._waiter = None
            timer.cancel()
        return self._count_room()

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if self._waiter is not None and self._count_room() >= self._enough_room:
            _wake(self._waiter)

    def _count_room(self) -> int:
        room = self._places - len(self._tasks)
        if room >= self._enough_room:
            return room
        now, slow = time.monotonic(), 0
        for since in self._tasks.values():
            if now < since < math.inf:
                break
            slow += since <= now
        return max(0, min(room + slow, self._most - len(self._tasks)))


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
