"""Pause, resume, disable and enable an endpoint.

The deliveries of a paused endpoint are parked until `resume`. A person, the receiver's 410 or days without a success
disable an endpoint: its waiting deliveries become dead letters with that reason, and later events make no deliveries.
`enable` resets the failures and returns what can be recovered. `deliveries.endpoint_target` returns an endpoint's `target`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bus.errors import FleethookError
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import call
from workers.delivery.dead_letters import dead_letters, redrive
from workers.delivery.filters import Filter

DISABLED: Final = "disabled: "
"""The beginning of the reason of every dead letter whose endpoint was disabled."""

_ALL: Final = 1_000_000
_PAGE: Final = 500


class Enabled(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint missed while it was disabled, and how many of its dead letters are retried now."""

    since: int
    """When it was disabled, in milliseconds since 1970; `replay --since` with this time sends what it missed."""
    missed: int
    dead: int
    """Its dead letters of that time, which can be retried."""
    recovered: int = 0


class NotHalted(FleethookError):
    """The endpoint is not paused, so it cannot be resumed; or not disabled, so it cannot be enabled."""


async def pause(connections: Connections, keys: Keys, target: str, *, reason: str = "", by: str = "") -> bool:
    """Park an endpoint's deliveries from now on; False if it is paused or disabled already."""
    return await _halt(connections, keys, target, "paused", reason or "paused", by) == ""


async def resume(connections: Connections, keys: Keys, target: str) -> None:
    """Send the deliveries of a paused endpoint; raises NotHalted if it is not paused."""
    await _resume(connections, keys, target, "paused", "resumed")


async def disable(connections: Connections, keys: Keys, target: str, *, reason: str = "", by: str = "") -> bool:
    """Stop sending to an endpoint; its pending deliveries become dead letters. False if it is disabled already."""
    why = DISABLED + (reason or f"by {by or 'hand'}")
    return await _halt(connections, keys, target, "disabled", why, by) != "disabled"


async def enable(connections: Connections, keys: Keys, target: str, *, recover: bool = False) -> Enabled:
    """Send to a disabled endpoint again, and reset its failures; `recover` also retries its dead letters of that time.

    Raises NotHalted if it is not disabled.
    """
    since, missed = await _resume(connections, keys, target, "disabled", "enabled")
    dead = await recoverable(connections, keys, target)
    redriven = 0
    if recover:
        for start in range(0, len(dead), _PAGE):
            redriven += await redrive(connections, keys, dead[start : start + _PAGE])
    return Enabled(since=since, missed=missed, dead=len(dead), recovered=redriven)


async def forget(connections: Connections, keys: Keys, target: str) -> None:
    """Delete the health of an endpoint that was removed; the deliveries that wait for it become dead letters.

    Call this after the workers have read the hook set without it. Before that, they would send it the waiting deliveries.
    """
    was = await _halt(connections, keys, target, "paused", "taken out", "")
    await _resume(connections, keys, target, was or "paused", "forgotten")


async def recoverable(connections: Connections, keys: Keys, target: str) -> list[str]:
    """The ids of the dead letters that an endpoint has because it was disabled, newest first."""
    letters = await dead_letters(connections, keys, Filter(reason=DISABLED, target=target), most=_ALL)
    return [letter.id for letter in letters if letter.target == target and letter.reason.startswith(DISABLED)]


async def _halt(connections: Connections, keys: Keys, target: str, state: str, reason: str, by: str) -> str:
    was = await call(connections, "halt", (keys("halted", target), keys("openings")), (target, state, reason, by))
    return bytes(was).decode()


async def _resume(connections: Connections, keys: Keys, target: str, state: str, done: str) -> tuple[int, int]:
    names = (keys("halted", target), keys("breaker", target), keys("failing", target), keys("openings"))
    was, since, missed = await call(connections, "resume", names, (target, state))
    if was.decode() != state:
        raise NotHalted(f"{target} is not {state} ({was.decode() or 'active'}): it cannot be {done}")
    return int(since), int(missed)
