"""Outcomes on their way to Redis: as many in one write as have come together, each until it is written down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError, Unreachable
from bus.wire.connections import Argument
from bus.wire.streams import Backoff, Call, Consumer, checked
from workers.delivery.breakers import change_text
from workers.delivery.deliveries import KEPT_ATTEMPTS

log = logging.getLogger("fleethook.carrier")

SETTLE_SECONDS: Final = 0.005
"""How long a busy carrier lets outcomes come together: one write for many costs it a fraction of one for each."""

_BUSY: Final = 8
_LAST_WORDS_SECONDS: Final = 3.0
_MOST_OUTCOMES: Final = 256
_MOST_DELIVERIES: Final = 1024
"""How many deliveries are written down in one call, about: every verdict waits while the server is at it."""

_PLAIN: Final = frozenset({0, 1})


class SettledOutcome(NamedTuple):
    """One attempt to be written down."""

    key: tuple[str, str]
    args: tuple[Argument, ...]
    target: str
    deliveries: int = 1
    """How many it is the outcome of; more than one for a batch."""


class Settler:
    """The outcomes of one carrier that are not written down yet.

    `held` are the entries in the carrier's hands, which leave it when their outcomes stand in Redis; `busy` says how many
    attempts are under way.
    """

    def __init__(
        self,
        consumer: Consumer,
        held: set[tuple[str, str]],
        busy: Callable[[], int],
        *,
        keep_ms: int,
        limits: tuple[int, ...],
    ) -> None:
        self._consumer, self._held, self._busy = consumer, held, busy
        self._keep_ms, self._limits = keep_ms, limits
        self._outcomes: list[SettledOutcome] = []
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self._wrote_at = 0.0

    def __len__(self) -> int:
        return len(self._outcomes)

    def add(self, outcome: SettledOutcome) -> None:
        """One more; it is written down soon."""
        self._outcomes.append(outcome)
        self._some.set()

    async def run(self) -> None:
        """Write outcomes down as they come, until cancelled."""
        backoff = Backoff("carrier outcomes")
        while True:
            await self._some.wait()
            if self._busy() > _BUSY or time.monotonic() - self._wrote_at < 2 * SETTLE_SECONDS:
                await asyncio.sleep(SETTLE_SECONDS)
            self._some.clear()
            try:
                await self.flush()
                backoff.back()
            except Unreachable as error:
                self._some.set()
                await backoff.wait(error)

    async def flush(self, *more: Call) -> list[Any]:
        """Write down what there is, and make the calls of `more` in the same write; the replies to those.

        Sending an outcome again is safe, since an entry is acknowledged once. Raises Unreachable.
        """
        said: list[Any] = []
        async with self._writing:
            while self._outcomes or more:
                batch = _together(self._outcomes)
                settling = [self._call(batch)] if batch else []
                replies = await self._consumer.call([*settling, *more])
                if more:
                    said, more = replies[len(settling) :], ()
                if batch:
                    await self._written(batch, replies[0])
        return said

    async def last_words(self) -> None:
        """Write the last outcomes down; what cannot be written is tried again by others."""
        backoff, until = Backoff("carrier's last outcomes"), time.monotonic() + _LAST_WORDS_SECONDS
        while self._outcomes:
            try:
                await self.flush()
            except Unreachable as error:
                if time.monotonic() > until:
                    log.error("%d outcomes could not be written (%s); these are tried again", len(self), error)
                    return
                await backoff.wait(error)

    async def _written(self, batch: Sequence[SettledOutcome], reply: object) -> None:
        """What the reply to a batch says; raises Unreachable where it says that Redis takes no writes."""
        written = batch
        try:
            _tell(batch, checked(reply, "writing outcomes"))
        except Unreachable:
            raise
        except FleethookError:
            written = await self._singly(batch)
        del self._outcomes[: len(batch)]
        self._held.difference_update(one.key for one in written)
        self._wrote_at = time.monotonic()

    async def _singly(self, batch: Sequence[SettledOutcome]) -> list[SettledOutcome]:
        """Those that were written: one that the server refuses must not hold up the others.

        It stays pending and in our hands, so that it is not tried again at once and for ever, but after our end.
        """
        written = []
        replies = await self._consumer.call([self._call([one]) for one in batch])
        for one, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Exception):
                log.error("the outcome of %s could not be written (%s); it is tried again later", one.args[2], reply)
            else:
                _tell([one], reply)
                written.append(one)
        return written

    def _call(self, batch: Sequence[SettledOutcome]) -> Call:
        keys, group = self._consumer.keys, self._consumer.group
        return Call(
            "settle",
            (keys("deliveries"),),
            (
                group,
                self._consumer.name,
                self._keep_ms,
                keys.prefix,
                KEPT_ATTEMPTS,
                *self._limits,
                *(part for one in batch for part in one.args),
            ),
        )


def _tell(batch: Sequence[SettledOutcome], reply: Sequence[int | bytes]) -> None:
    """Log what changed for targets, where the reply says more than that each outcome was written."""
    if not _PLAIN.issuperset(reply):
        for one, changed in zip(batch, reply, strict=True):
            if isinstance(changed, bytes):
                log.warning("%s", change_text(one.target, changed.decode(), str(one.args[5])))


def _together(outcomes: Sequence[SettledOutcome]) -> list[SettledOutcome]:
    """The first ones, as many as one call writes down."""
    first, count = [], 0
    for one in outcomes[:_MOST_OUTCOMES]:
        first.append(one)
        count += one.deliveries
        if count >= _MOST_DELIVERIES:
            break
    return first
