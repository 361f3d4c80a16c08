"""Repairs streams with a made-up last id, to which nothing can be added: moves their entries to a new stream.

A client with the right to XADD can choose the id of its entry. No entry can follow the largest possible id, and after an id of
next year every deadline is in next year. The check is made twice a second; a repair takes less than two seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from bus.errors import FleethookError, Unreachable
from bus.events import Event, EventType
from bus.ids import event_id, host_name
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import KEPT_MS, MINUTE, Keys
from bus.wire.streams import ScriptCall, call, checked, flat
from workers.waiting.looks import Look, work_if

log = logging.getLogger("fleethook.repairs")

AHEAD_MS: Final = MINUTE
"""How far ahead of the server's clock an id may be, so that a server's clock set back by seconds causes no repair."""

LOOK_SECONDS: Final = 0.5
STREAMS: Final = ("requests", "events")
"""The streams that agents may add to. Requests come first: agents wait for them, and events take longer, being many."""

_LEASE_MS: Final = 2_000
_PAGE_BYTES: Final = 2 * 1024 * 1024
_MOST_PAGE: Final = 1_000
_ALL: Final = 10**9


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """The last time that a stream was repaired."""

    stream: str
    ms: int
    """By the server's clock."""
    made_up: int
    """How many entries had an id from the future."""
    times: int
    """How often it was repaired in all."""

    @property
    def text(self) -> str:
        """The message for a person."""
        return (
            f"{self.stream} had a last id from the future, and was moved to a fresh stream ({self.times} times in all): "
            "a program with an agent's rights sends invented ids"
        )


class Repairs:
    """Checks the streams that agents may add to, and repairs them; evaluators and dispatchers have one each."""

    def __init__(self, connections: Connections, keys: Keys, who: str) -> None:
        self._connections, self._keys, self._who = connections, keys, who
        self._looked = float("-inf")
        self._last_good_ms: dict[str, int] = {}

    async def repair_if_due(self) -> bool:
        """Check, at most every half second, and repair; returns whether a stream was repaired. Raises Unreachable."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        names = [self._keys(name) for name in STREAMS]
        now, late, *ahead = await call(self._connections, "ahead", (self._keys("late"), *names), (AHEAD_MS,))
        repaired = False
        for name, bad in zip(STREAMS, ahead, strict=True):
            if bad:
                repaired = await self._repair(name) or repaired
            else:
                self._last_good_ms[name] = int(now)
        if late and not ahead[STREAMS.index("events")]:  # the worker that repaired it died before the last step
            await self._add_late()
        return repaired

    def look(self) -> Look:
        """What an idle worker looks at: whether a stream needs a repair."""
        call = ScriptCall("ahead", (self._keys("late"), *map(self._keys, STREAMS)), (AHEAD_MS,))
        return Look(call.command(), work_if(self._needs_repair))

    def _needs_repair(self, reply: Sequence[int]) -> bool:
        now, late, *ahead = reply
        self._last_good_ms |= {name: int(now) for name, bad in zip(STREAMS, ahead, strict=True) if not bad}
        return bool(late or any(ahead))

    async def _repair(self, name: str) -> bool:
        """Replace a stream by a new one with its entries; returns False if another worker does."""
        if not await self._has_lease():
            return False
        log.error("the last id of %s is from the future: moving its entries to a fresh stream", self._keys(name))
        try:
            moved, ms = await self._move(name)
        except Unreachable:
            raise
        except FleethookError as error:
            log.error("%s could not be repaired: %s; trying again", self._keys(name), error)
            return False
        finally:
            with self._connections.lease() as connection:
                await connection.exchange([("DEL", self._keys("alive", "repair"))])
        log.warning("%s is repaired: %d entries had an id from the future", self._keys(name), moved)
        if name == "events":
            await self._add_late()
        await self._report(name, moved, ms)
        return True

    async def _add_late(self) -> None:
        while await call(self._connections, "late", (self._keys("late"), self._keys("events")), (_MOST_PAGE,)):
            pass

    async def _has_lease(self) -> bool:
        return bool(await call(self._connections, "lease", (self._keys("alive", "repair"),), (self._who, _LEASE_MS)))

    async def _move(self, name: str) -> tuple[int, int]:
        """Move the entries of a stream; returns how many ids were made up, and the time of the move.

        Requests move in one step: some are answered meanwhile, and a page copied earlier would add these again.
        """
        keys, names = self._keys, (self._keys(name), self._keys("fresh", name))
        about = (keys.prefix, AHEAD_MS, self._last_good_ms.get(name, 0))
        cursor, count, pairs = "", 64, list[bytes]()
        while name == "events" and await self._has_lease():
            after, number, size, more = await call(
                self._connections, "copy", names, (*about, cursor, count, _LEASE_MS * 5)
            )
            cursor = after.decode()
            pairs += more
            if number < count:
                break
            count = max(1, min(_MOST_PAGE, count * 2, _PAGE_BYTES * int(number) // max(1, int(size))))
        most = _MOST_PAGE if name == "events" else _ALL
        done, *rest = await call(
            self._connections, "swap", (*names, keys("moved", name)), (*about, cursor, most, 2 * KEPT_MS, *pairs)
        )
        if not done:
            raise FleethookError("entries come faster than they can be moved")
        return int(rest[0]), int(rest[1])

    async def _report(self, name: str, moved: int, ms: int) -> None:
        """Record the repair for `status` and `doctor`, and publish `bus:repaired`."""
        event = Event(
            type=EventType.BUS_REPAIRED,
            id=event_id(),
            source="generic",
            host=host_name(),
            data={"stream": name, "entries": moved, "worker": self._who},
        )
        fields = ("id", event.id, "source", event.source, "event", event.type, "host", event.host)
        about = (*fields, "body", encode_event(event))
        with self._connections.lease() as connection:
            *replies, added = await connection.exchange(
                [
                    ("HSET", self._keys("repaired"), f"{name}:ms", ms, f"{name}:made_up", moved),
                    ("HINCRBY", self._keys("repaired"), f"{name}:times", 1),
                    ("XADD", self._keys("events"), "*", *about),
                ]
            )
            if isinstance(added, Exception):  # another worker is repairing the event stream
                (added,) = await connection.exchange([("XADD", self._keys("late"), "*", *about)])
        for reply in (*replies, added):
            checked(reply, "reporting a repaired stream")


async def read_repairs(connections: Connections, keys: Keys) -> list[Repair]:
    """The last repair of each stream that ever had one."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HGETALL", keys("repaired"))])
    known = {name.decode(): int(value) for name, value in flat(checked(reply, "reading repairs")).items()}
    return [
        Repair(stream=name, ms=ms, made_up=known.get(f"{name}:made_up", 0), times=known.get(f"{name}:times", 1))
        for name in STREAMS
        if (ms := known.get(f"{name}:ms", 0))
    ]
