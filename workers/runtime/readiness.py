"""When `fleethook up` is ready: one of its own evaluators has answered a request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from bus.errors import FleethookError
from bus.ids import host_name
from bus.probe import answering_evaluator, is_process
from bus.wire.connections import Connections
from bus.wire.keys import Keys

log = logging.getLogger("fleethook.readiness")

_PAUSE_SECONDS: Final = 0.05
_SAY_SECONDS: Final = 10.0


async def until_answered(url: str, keys: Keys, pids: Callable[[], Collection[int]], say: Callable[[str], None]) -> None:
    """Send test requests until an evaluator with one of `pids` on this host has answered.

    Evaluators of other machines may answer too; then it sends another one. After 10 s `say` is called with the reason.
    """
    began, has_said = time.monotonic(), False
    connections = Connections(url, connect=1.0)
    try:
        while True:
            try:
                who = await answering_evaluator(connections, keys)
                why = f"{who} answered, which this `fleethook up` did not start" if who else "no evaluator answered"
            except FleethookError as error:
                who, why = "", str(error)
            if who and is_process(who, host_name(), pids()):
                return
            if not has_said and time.monotonic() - began > _SAY_SECONDS:
                has_said = True
                say(f"not ready yet, because none of these evaluators has answered a test request: {why}")
            if not who:
                await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        await connections.close()
