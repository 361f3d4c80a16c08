"""What rules have counted for their limits: listed, and reset by a person (docs/limits.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bus.errors import PatternError
from bus.matching.limits import read_limit
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, server_now

_MOST: Final = 10_000


class LimitCounter(msgspec.Struct, frozen=True, kw_only=True):
    """One counter: a rule's limit, for one session, agent, user, host or the fleet."""

    id: str
    """The name of its key."""
    hook: str
    layer: str
    limit: str
    """The limit as its rule has it."""
    scope: str
    whose: str
    """The session, agent, user or host; empty for the fleet."""
    names: tuple[str, ...]
    """Every session, agent, user or host that it is listed for: a session and the subagents that count for it."""
    source: str
    """The agent of the last call."""
    count: int
    """How many calls count now."""
    most: float
    last: int
    """When the last call was counted, in milliseconds."""
    free_at: int = 0
    """When a call fits again, in milliseconds; 0: one fits now, or none fits in this session."""

    @property
    def is_reached(self) -> bool:
        """Whether the next call does not fit."""
        return self.count >= self.most


async def read_counters(connections: Connections, keys: Keys) -> list[LimitCounter]:
    """The counters that count anything now, the last used first. Raises Unreachable."""
    now = await server_now(connections)
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZREVRANGE", keys("limits"), 0, _MOST, "WITHSCORES")])
        items = iter(checked(rows, "listing limits"))
        known: dict[str, tuple[list[Any], int]] = {}
        names: dict[str, list[str]] = {}
        for member, last in zip(items, items, strict=True):
            name, _, text = member.decode("utf-8", "replace").partition(" ")
            row = msgspec.json.decode(text)
            known.setdefault(name, (row, int(float(last))))
            names.setdefault(name, []).append(row[-1])
        times = await connection.exchange([("ZRANGE", keys("limit", name), 0, -1, "WITHSCORES") for name in known])
    found = [
        _counter(name, *row, tuple(dict.fromkeys(names[name])), checked(reply, "reading a limit"), now)
        for (name, row), reply in zip(known.items(), times, strict=True)
    ]
    counters = [counter for counter in found if counter is not None and counter.count]
    return sorted(counters, key=lambda counter: (-counter.last, counter.hook, counter.whose))


def _counter(
    name: str, row: list[Any], last: int, names: tuple[str, ...], members: list[bytes], now: int
) -> LimitCounter | None:
    layer, hook, text, source, whose = row
    try:
        limit = read_limit(text)
    except PatternError:
        return None
    times = [int(float(score)) for score in members[1::2]]
    if limit.period:
        times = [ms for ms in times if ms > now - limit.period]
    over = len(times) - int(limit.most)
    free_at = times[over] + limit.period if over >= 0 and limit.period and limit.most >= 1 else 0
    return LimitCounter(
        id=name,
        hook=hook,
        layer=layer,
        limit=text,
        scope=limit.scope,
        whose=whose,
        names=names,
        source=source,
        count=len(times),
        most=limit.most,
        last=max([last, *times[-1:]]),  # it is listed once a second
        free_at=free_at,
    )


async def reset_counters(connections: Connections, keys: Keys, counters: Sequence[LimitCounter]) -> int:
    """Set counters to nothing; returns how many there were. Raises Unreachable."""
    if not counters:
        return 0
    wanted = {counter.id for counter in counters}
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("limits"), 0, -1)])
        listed = [row for row in checked(rows, "listing limits") if row.partition(b" ")[0].decode() in wanted]
        replies = await connection.exchange(
            [
                *(("DEL", keys("limit", name)) for name in sorted(wanted)),
                *([("ZREM", keys("limits"), *listed)] if listed else []),
            ]
        )
    return sum(int(checked(reply, "resetting limits")) for reply in replies[: len(wanted)])
