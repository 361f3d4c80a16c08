"""The answers of one consumer on their way to Redis: they wait while it is away, since hooks must not run a second time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bus.errors import Unreachable
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.streams import ScriptCall, call_all

log = logging.getLogger("fleethook.evaluator")


Settle = Callable[[Sequence[ScriptCall], Sequence[Any]], Awaitable[list[ScriptCall]]]
"""Gets calls and the replies to them; returns the calls that are to be sent next."""


class Outbox:
    """The answers that are not sent yet. The reading loop takes them along with its next read."""

    def __init__(self, connections: Connections, consumer: Consumer, settle: Settle) -> None:
        self._connections, self._consumer, self._settle = connections, consumer, settle
        self._calls: list[ScriptCall] = []

    def add(self, calls: Sequence[ScriptCall]) -> None:
        """Keep calls until the next read takes them along."""
        self._calls += calls

    def take(self) -> list[ScriptCall]:
        """Every call that waits; give it back with `put_back` if it could not be sent."""
        calls, self._calls = self._calls, []
        return calls

    def put_back(self, calls: Sequence[ScriptCall]) -> None:
        """Keep calls that could not be sent, before those that came later.

        Safe to send again: an answer that arrived acknowledged its entry, so Redis ignores the second one.
        """
        self._calls = [*calls, *self._calls]

    @property
    def waits(self) -> bool:
        """Whether a call waits."""
        return bool(self._calls)

    def entries(self) -> set[tuple[str, str]]:
        """The entries whose answers are not sent yet, by stream and id."""
        return {(str(answer.keys[0]), str(answer.args[1])) for answer in self._calls}

    async def flush(self) -> None:
        """Send what waits; raises Unreachable, and keeps it."""
        calls = self.take()
        try:
            await self.send(calls)
        except Unreachable:
            self.put_back(calls)
            raise

    async def send(self, calls: Sequence[ScriptCall]) -> bool:
        """Send calls; returns whether each of them counted. If one did not, the pending entries are rechecked.

        An answer does not count if Redis refused it, or if another consumer has the request. One that a limit refused is
        made again and sent. Raises Unreachable.
        """
        if not calls:
            return True
        replies = await call_all(self._connections, calls)
        more = await self._settle(calls, replies)
        try:
            counted = await self.send(more)
        except Unreachable:
            self.add(more)
            counted = False
        if any(isinstance(reply, Exception) or reply == 0 for reply in replies):
            self._consumer.must_recheck_pending = True
            return False
        return counted

    async def send_or_keep(self, name: str, calls: Sequence[ScriptCall]) -> bool:
        """Send the calls that answer request `name`; while Redis is away they wait for the next read."""
        try:
            return await self.send(calls)
        except Unreachable as error:
            self.add(calls)  # the hooks have run and must not run again
            log.error("the answer to request %s: %s; it is sent again", name, error)
            return False
