"""A running gateway's entry in Redis: its heartbeat and its addresses, for `status` and `worker --health`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from bus.errors import FleethookError
from bus.wire.connections import Connections
from bus.wire.keys import IDLE_BEAT_MS, MINUTE, Keys
from bus.wire.streams import Backoff, ScriptCall, checked
from workers.waiting.pulses import pulse

_GONE_MS: Final = MINUTE
"""The milliseconds after which a killed gateway is removed from the list."""


async def beat(connections: Connections, keys: Keys, name: str, addresses: Callable[[], str]) -> None:
    """Write the heartbeat until cancelled; a failure is logged once and tried again."""
    backoff = Backoff("gateway")
    while True:
        try:
            await beat_once(connections, keys, name, addresses())
            backoff.back()
        except FleethookError as error:
            await backoff.wait(error)
        else:
            await pulse()


async def beat_once(connections: Connections, keys: Keys, name: str, addresses: str) -> None:
    """Write the heartbeat once; raises Unreachable."""
    now = int(time.time() * 1000)
    for reply in await connections.together(
        [
            ScriptCall("beat", (keys("beat", name),), (addresses, IDLE_BEAT_MS)).whole_command(),
            ("ZADD", keys("gateways"), now, name),
            ("ZREMRANGEBYSCORE", keys("gateways"), 0, now - _GONE_MS),
        ]
    ):
        checked(reply, "writing the gateway's heartbeat")


async def leave(connections: Connections, keys: Keys, name: str) -> None:
    """Remove this gateway from the list. Errors are ignored, because the heartbeat expires by itself."""
    try:
        with connections.lease() as connection:
            await connection.exchange([("ZREM", keys("gateways"), name), ("DEL", keys("beat", name))])
    except FleethookError:
        pass
