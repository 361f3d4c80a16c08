"""One read of a worker that has nothing to do: it lasts until an entry comes, a look finds work, or the process has to end.

The loop that reads still writes the heartbeat itself, once a second, with what it looks at: one exchange and one wake-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from bus.errors import Unreachable
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.streams import StreamEntry
from workers.waiting.looks import Look, Members
from workers.waiting.pulses import next_pulse

log = logging.getLogger("fleethook.worker")

READ_SECONDS: Final = 30.0
"""The longest read. After it the worker does all that it does between reads, whatever its looks have found."""

_END_SECONDS: Final = 0.5
"""How long a read that was told to end may take, before its connection is closed."""


class LongRead:
    """The long reads of one worker; `always` is what it does once a second besides its looks.

    `first` are the looks that are made once more when an entry is handed out: the worker knows by them whether what it has
    read before still counts. `others`, and the looks at the other members of its groups, are made at the pulses alone.
    """

    def __init__(
        self,
        consumer: Consumer,
        reading: Connections,
        always: Sequence[Callable[[], Awaitable[object]]],
        first: Sequence[Look],
        others: Sequence[Callable[[], Look]],
    ) -> None:
        self._consumer, self._reading = consumer, reading
        self._first, self._others, self._always = first, others, always
        self._members = Members(consumer)
        self._seen: list[Any] | None = None
        self._is_allowed: bool | None = None
        self._is_quiet = False
        self.found = False
        """Whether the last read ended, or got its entries, with work to do besides them; a look does not find it again."""

    async def may_begin(self) -> bool:
        """Whether the last turn found nothing to do, and our role may end a read of ours early, which older ACLs do not allow.

        Raises Unreachable.
        """
        if self._is_quiet and self._is_allowed is None:
            with self._consumer.connections.lease() as connection:
                (reply,) = await connection.exchange([("CLIENT", "UNBLOCK", 0)])
            self._is_allowed = not isinstance(reply, Exception)
        return self._is_quiet and bool(self._is_allowed)

    def note_turn(self, *, quiet: bool) -> None:
        """Note a turn without a long read. After a busy one nothing counts as seen: it may have changed and changed back."""
        self._is_quiet, self.found = quiet, False
        if not quiet:
            self._seen = None

    async def report(self) -> None:
        """Do what is done once a second."""
        for work in self._always:
            await work()

    async def read(
        self,
        stop: asyncio.Event,
        count: int,
        *,
        seconds: float = READ_SECONDS,
        words: Sequence[asyncio.Future[Any]] = (),
    ) -> list[StreamEntry]:
        """New entries; none after `seconds`, when work was found, when one of `words` is done, or after `stop`.

        Raises Unreachable.
        """
        loop = asyncio.get_running_loop()
        until, looks, number = loop.time() + seconds, self._first, list[int]()
        connection, self.found, self._is_quiet = self._reading.take(), False, False
        reading = asyncio.ensure_future(
            self._consumer.wait(connection, count, seconds, [look.command for look in looks], number.append)
        )
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not reading.done():
                beat = next_pulse()
                waits: set[asyncio.Future[Any]] = {reading, stopping, beat, *words}
                await asyncio.wait(waits, timeout=max(0.0, until - loop.time()), return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    break
                if beat.done() and not stop.is_set():
                    await self.report()
                    self.found = await self._look()
                is_over = stop.is_set() or loop.time() >= until or any(word.done() for word in words)
                if (self.found or is_over) and not await self._end(reading, number):
                    self.found, self._seen = False, None  # nothing is known of what came meanwhile: the next read tells
                    return []
            entries, replies = await reading
            now = [look.found(reply) for look, reply in zip(looks, replies, strict=False)]
            self.found = self.found or self._seen is None or now != self._seen[: len(now)]
            self._is_quiet = not entries
            return entries
        finally:
            stopping.cancel()
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])
            elif not reading.cancelled():
                reading.exception()
            self._reading.give_back(connection)

    async def _look(self) -> bool:
        """Write the heartbeat, and whether something is not as it was, or is to be done."""
        looks = [*self._first, *self._members.looks(), *(look() for look in self._others)]
        replies = await self._consumer.look([look.command for look in looks])
        seen, self._seen = self._seen, [look.found(reply) for look, reply in zip(looks, replies, strict=True)]
        return seen != self._seen or self._consumer.must_recheck_pending

    async def _end(self, reading: asyncio.Future[Any], number: list[int]) -> bool:
        """End a read; returns False if its connection has to be closed for that, or Redis is away."""
        with contextlib.suppress(Unreachable):
            if number:
                with self._consumer.connections.lease() as connection:
                    await connection.exchange([("CLIENT", "UNBLOCK", number[0])])
            await asyncio.wait([reading], timeout=_END_SECONDS)
        return reading.done()
