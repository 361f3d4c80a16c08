"""How endpoints stand, and pausing, resuming, disabling and enabling them.

Paused: its deliveries wait parked, and go on with `resume`. Disabled (by hand, by the receiver's 410, or after days of
nothing but failures): deliveries that wait become dead letters with that reason, and later events are owed it no more;
`enable` begins with a clean slate and says what can be recovered. A `target` is what `deliveries.endpoint_target` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from bus.errors import FleethookError
from bus.secrets.redaction import redact_text
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import call, checked, flat
from workers.delivery.breakers import Breaker, read_breakers
from workers.delivery.dead_letters import dead_letters, redrive

Standing = Literal["active", "open", "paused", "disabled"]
"""`open`: its breaker is open, so only probes go out."""

DISABLED: Final = "disabled: "
"""How the reason of every delivery begins that became a dead letter since its endpoint was disabled."""

_ALL: Final = 1_000_000
_PAGE: Final = 500


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that has done nothing but fail; times in milliseconds since 1970."""

    since: int
    last: int
    count: int
    reason: str = ""
    percent: int = 0
    """What was last said of it: 50, 70, 90 or 100 % of the time after which it is disabled; 0 for nothing yet."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How one endpoint stands."""

    target: str
    standing: Standing = "active"
    reason: str = ""
    """Why it is paused, disabled or open."""
    by: str = ""
    """Who paused or disabled it: a person's word, `receiver` (410) or `failing`."""
    at: int = 0
    """Since when, in milliseconds since 1970; 0 for an active one."""
    missed: int = 0
    """Events that a disabled one was not owed."""
    parked: int = 0
    """Deliveries that wait: paused, over its cap or rate, or behind its breaker."""
    breaker: Breaker | None = None
    failing: Failing | None = None


class Enabled(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint has missed while it was disabled, and what of it was tried again at once."""

    since: int
    """When it had been disabled, in milliseconds since 1970: `replay --since` sends what it missed."""
    missed: int
    dead: int
    """Dead letters that it left, which can be tried again."""
    recovered: int = 0


class NotHalted(FleethookError):
    """An endpoint that is not in the state which is to end."""


async def pause(connections: Connections, keys: Keys, target: str, *, reason: str = "", by: str = "") -> bool:
    """Park an endpoint's deliveries from now on; False where it was paused or disabled already."""
    return await _halt(connections, keys, target, "paused", reason or "paused", by) == ""


async def resume(connections: Connections, keys: Keys, target: str) -> None:
    """Let a paused endpoint's deliveries go on; raises NotHalted where it is not paused."""
    await _resume(connections, keys, target, "paused", "resumed")


async def disable(connections: Connections, keys: Keys, target: str, *, reason: str = "", by: str = "") -> bool:
    """Owe an endpoint nothing more, and make dead letters of what waits; False where it was disabled already."""
    why = DISABLED + (reason or f"by {by or 'hand'}")
    return await _halt(connections, keys, target, "disabled", why, by) != "disabled"


async def enable(connections: Connections, keys: Keys, target: str, *, recover: bool = False) -> Enabled:
    """Enable a disabled endpoint with a clean slate; `recover` also tries its dead letters of that time again.

    Raises NotHalted where it is not disabled.
    """
    since, missed = await _resume(connections, keys, target, "disabled", "enabled")
    dead = await recoverable(connections, keys, target)
    again = 0
    if recover:
        for start in range(0, len(dead), _PAGE):
            again += await redrive(connections, keys, dead[start : start + _PAGE])
    return Enabled(since=since, missed=missed, dead=len(dead), recovered=again)


async def forget(connections: Connections, keys: Keys, target: str) -> None:
    """Keep nothing of how an endpoint did that was taken out, and let what waits for it go its way: to the dead letters.

    To be called when the workers know that it is gone; until then they would send it what waits.
    """
    was = await _halt(connections, keys, target, "paused", "taken out", "")
    await _resume(connections, keys, target, was or "paused", "forgotten")


async def recoverable(connections: Connections, keys: Keys, target: str) -> list[str]:
    """The ids of an endpoint's dead letters that died of its being disabled, newest first."""
    letters = await dead_letters(connections, keys, reason=DISABLED, target=target, most=_ALL)
    return [one.id for one in letters if one.target == target and one.reason.startswith(DISABLED)]


async def read_health(connections: Connections, keys: Keys, targets: Sequence[str]) -> dict[str, Health]:
    """How each target stands."""
    if not targets:
        return {}
    breakers = {one.target: one for one in await read_breakers(connections, keys, targets)}
    with connections.lease() as connection:
        halts = await connection.exchange([("HGETALL", keys("halted", target)) for target in targets])
        fails = await connection.exchange([("HGETALL", keys("failing", target)) for target in targets])
        waits = await connection.exchange([("LLEN", keys("parked", target)) for target in targets])
    found = {}
    for target, halted, failed, parked in zip(targets, halts, fails, waits, strict=True):
        found[target] = _health(
            target,
            _text(halted, "reading an endpoint"),
            _failing(_text(failed, "reading its failures")),
            int(checked(parked, "counting the parked")),
            breakers.get(target),
        )
    return found


def _health(target: str, halt: dict[str, str], failing: Failing | None, parked: int, breaker: Breaker | None) -> Health:
    standing: Standing = "active"
    reason, at = "", 0
    if halt.get("state") == "paused":
        standing = "paused"
    elif halt.get("state") == "disabled":
        standing = "disabled"
    elif breaker is not None:
        standing, reason, at = "open", breaker.reason, breaker.since
    return Health(
        target=target,
        standing=standing,
        reason=redact_text(halt.get("reason", reason)),
        by=halt.get("by", ""),
        at=int(halt.get("at", at)),
        missed=int(halt.get("missed", 0)),
        parked=parked,
        breaker=breaker,
        failing=failing,
    )


def _failing(fields: dict[str, str]) -> Failing | None:
    if "since" not in fields:
        return None
    return Failing(
        since=int(fields["since"]),
        last=int(fields.get("last", 0)),
        count=int(fields.get("count", 0)),
        reason=redact_text(fields.get("reason", "")),
        percent=int(fields.get("said", 0)),
    )


def _text(reply: object, doing: str) -> dict[str, str]:
    return {name.decode(): value.decode("utf-8", "replace") for name, value in flat(checked(reply, doing)).items()}


async def _halt(connections: Connections, keys: Keys, target: str, state: str, reason: str, by: str) -> str:
    was = await call(connections, "halt", (keys("halted", target), keys("openings")), (target, state, reason, by))
    return bytes(was).decode()


async def _resume(connections: Connections, keys: Keys, target: str, state: str, done: str) -> tuple[int, int]:
    names = (keys("halted", target), keys("breaker", target), keys("failing", target), keys("openings"))
    was, since, missed = await call(connections, "resume", names, (target, state))
    if was.decode() != state:
        raise NotHalted(f"{target} is not {state} ({was.decode() or 'active'}): it cannot be {done}")
    return int(since), int(missed)
