"""Limits and facts as they are now, for an event that is only tried out: everything is read, and nothing is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bus.events import Event
from bus.matching.conditions import Condition
from bus.memory.charges import (
    LIMIT_ARGS,
    Reached,
    after_limits,
    counted_session,
    limit_args,
    with_counts,
)
from bus.memory.facts import Memory
from bus.verdicts import Charge, Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, server_now
from workers.memory.families import root_session
from workers.memory.limited_answers import with_spent_now
from workers.memory.recall import Recall

_SAME_MS: Final = 60_000
_LONGEST_WAIT: Final = 1.0


class LookedUpMemory:
    """Asks the server; `user` is the account that the event's agent would run as."""

    def __init__(self, connections: Connections, keys: Keys, user: str) -> None:
        self._connections, self._keys, self._user = connections, keys, user
        self._recall = Recall(connections, keys)

    async def recall(self, event: Event, conditions: Sequence[Condition], seconds: float | None) -> Memory:
        """What the event's session has done; raises Unreachable."""
        return await self._recall.read(event, conditions, min(seconds or 0.0, _LONGEST_WAIT))

    async def settled(self, event: Event, verdict: Verdict) -> Verdict:
        """The verdict after its limits, with the counts as they would be with this call; raises Unreachable."""
        if not verdict.charges:
            return verdict
        now = await server_now(self._connections)
        verdict = await with_spent_now(self._connections, self._keys, event, verdict, self._user, now)
        states = await self._states(event, verdict.charges, now)
        after = after_limits(verdict, lambda charge: states[charge.counter][0], now)
        return with_counts(after, [states[charge.counter][1] for charge in after.charges])

    async def _states(self, event: Event, charges: Sequence[Charge], now: int) -> dict[str, tuple[Reached, int]]:
        """For each charge the state of its limit, and its count with this call."""
        args = limit_args(charges, event, self._user)
        rows = [args[at : at + LIMIT_ARGS] for at in range(0, len(args), LIMIT_ARGS)]
        with self._connections.lease() as connection:
            root = await root_session(connection, self._keys, counted_session(event))
            names = [f"{row[0]}{root if row[1] else ''}" for row in rows]
            replies = await connection.exchange(
                [("ZRANGE", self._keys("limit", name), 0, -1, "WITHSCORES") for name in names]
            )
        found = {}
        for charge, row, reply in zip(charges, rows, replies, strict=True):
            members = checked(reply, "reading a limit")
            times = {members[at].decode(): int(float(members[at + 1])) for at in range(0, len(members), 2)}
            found[charge.counter] = _state(times, str(row[2]), int(row[5]), int(row[6]), now)
        return found


def _state(times: dict[str, int], call: str, most: int, window: int, now: int) -> tuple[Reached, int]:
    is_known = call in times and now - times[call] < _SAME_MS
    counted = sorted(ms for ms in times.values() if not window or ms > now - window)
    over = not is_known and len(counted) >= most
    free_at = counted[len(counted) - most] + window if over and window and most else 0
    return Reached(over, len(counted), free_at), len(counted) + (not is_known)
