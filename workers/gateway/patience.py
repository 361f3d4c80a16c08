"""Repeats reads while Redis is away for a moment, as hooks do, so that one broken connection fails no list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from bus.errors import Unreachable
from workers.gateway.problems import BUS_AWAY, Problem

OUTAGE_SECONDS: Final = 2.0
"""How long a call tries again after its first failure: work that takes long on a busy machine is no outage."""
_MARKED_SECONDS: Final = 0.25
"""How long it tries if Redis was away at the last call."""
_PAUSE_SECONDS: Final = 0.05
_TRIES: Final = 4
"""How often a call tries at least where Redis breaks the connection: on a busy machine two tries take longer than an outage."""

T = TypeVar("T")


class Patience:
    """The patience of one gateway's calls."""

    def __init__(self) -> None:
        self._away = False

    async def read(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which may run more than once; raises Unreachable once Redis was away for long enough."""
        until, tries = 0.0, 0
        while True:
            tries += 1
            try:
                result = await work()
            except (Unreachable, Problem) as error:
                if isinstance(error, Problem) and error.code != BUS_AWAY:  # a caller's mistake, which stays one
                    raise
                until = until or time.monotonic() + (_MARKED_SECONDS if self._away else OUTAGE_SECONDS)
                if time.monotonic() >= until and (tries >= _TRIES or _is_silence(error)):
                    self._away = True
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._away = False
                return result


def _is_silence(error: BaseException) -> bool:
    """Whether Redis did not answer at all: another try would take as long."""
    cause = error.__cause__
    return isinstance(error, TimeoutError) or (cause is not None and _is_silence(cause))
