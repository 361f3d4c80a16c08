"""Writes settlements to Redis: one call writes many, and each is kept in memory until it is written."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError, Unreachable
from bus.wire.connections import Argument
from bus.wire.consumer import Consumer
from bus.wire.counts import field
from bus.wire.streams import Backoff, ScriptCall, checked
from workers.delivery.breakers import change_text
from workers.delivery.deliveries import KEPT_ATTEMPTS

log = logging.getLogger("fleethook.carrier")

SETTLE_SECONDS: Final = 0.005
"""How long a busy carrier lets settlements accumulate: one call for many costs a fraction of one call for each."""

_BUSY: Final = 8
_LAST_WRITE_SECONDS: Final = 3.0
_MOST_SETTLEMENTS: Final = 256
_MOST_DELIVERIES: Final = 1024
"""About how many deliveries one call settles: every verdict waits while the server runs the script."""

_UNCHANGED: Final = frozenset({0, 1})
"""The replies of settle.lua that report no change of the target."""


class Settlement(NamedTuple):
    """The outcome of one delivery, or of one batch, as settle.lua takes it."""

    key: tuple[str, str]
    """The stream and the id of the entry that it acknowledges."""
    args: tuple[Argument, ...]
    target: str
    reason: str
    deliveries: int = 1
    """How many deliveries it settles; more than one for a batch."""
    counts: str = ""
    """What it adds to the fleet's metrics (`bus/wire/counts.py`)."""
    label: str = ""
    """By which name its age is measured when it is delivered; empty: it is not."""

    def counted(self, counts: str, label: str = "") -> Settlement:
        """The same with counts and a name."""
        return self._replace(counts=counts, label=field(label) if label else "")


class SettlementWriter:
    """Writes the settlements of one carrier.

    `held` is the set of entries that the carrier works on; an entry is removed when its settlement is written. `busy`
    returns how many attempts are under way.
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
        self._waiting: list[Settlement] = []
        self._added = asyncio.Event()
        self._writing = asyncio.Lock()
        self._wrote_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, settlement: Settlement) -> None:
        """Queue a settlement; `run` or the next `flush` writes it."""
        self._waiting.append(settlement)
        self._added.set()

    async def run(self) -> None:
        """Write settlements as they are added, until cancelled."""
        backoff = Backoff("carrier outcomes")
        while True:
            await self._added.wait()
            if self._busy() > _BUSY or time.monotonic() - self._wrote_at < 2 * SETTLE_SECONDS:
                await asyncio.sleep(SETTLE_SECONDS)
            self._added.clear()
            try:
                await self.flush()
                backoff.back()
            except Unreachable as error:
                self._added.set()
                await backoff.wait(error)

    async def flush(self, *calls: ScriptCall) -> list[Any]:
        """Write all settlements, and make `calls` in the same round trip; returns the replies to `calls`.

        Writing a settlement twice is safe: only the first acknowledges the entry. Raises Unreachable.
        """
        call_replies: list[Any] = []
        async with self._writing:
            while self._waiting or calls:
                batch = _first_batch(self._waiting)
                settling = [self._call(batch)] if batch else []
                replies = await self._consumer.call([*settling, *calls])
                if calls:
                    call_replies, calls = replies[len(settling) :], ()
                if batch:
                    await self._finish(batch, replies[0])
        return call_replies

    async def write_last(self) -> None:
        """Write what is left when the carrier ends. If Redis stays away, other carriers repeat those attempts."""
        backoff, until = Backoff("carrier's last outcomes"), time.monotonic() + _LAST_WRITE_SECONDS
        while self._waiting:
            try:
                await self.flush()
            except Unreachable as error:
                if time.monotonic() > until:
                    log.error(
                        "%d outcomes could not be written (%s); these deliveries are attempted again", len(self), error
                    )
                    return
                await backoff.wait(error)

    async def _finish(self, batch: Sequence[Settlement], reply: object) -> None:
        """Release the entries of a batch that was written; raises Unreachable if Redis takes no writes."""
        written = batch
        try:
            _log_changes(batch, checked(reply, "writing outcomes"))
        except Unreachable:
            raise
        except FleethookError:
            written = await self._write_one_by_one(batch)
        del self._waiting[: len(batch)]
        self._held.difference_update(settlement.key for settlement in written)
        self._wrote_at = time.monotonic()

    async def _write_one_by_one(self, batch: Sequence[Settlement]) -> list[Settlement]:
        """Write each settlement in a separate call, so that the server's refusal of one does not stop the others.

        The entry of a refused settlement stays pending and held, so it is attempted again only after this carrier has ended.
        """
        written = []
        replies = await self._consumer.call([self._call([settlement]) for settlement in batch])
        for settlement, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Exception):
                delivery = settlement.args[2]
                log.error("the outcome of %s could not be written (%s); it is attempted again later", delivery, reply)
            else:
                _log_changes([settlement], reply)
                written.append(settlement)
        return written

    def _call(self, batch: Sequence[Settlement]) -> ScriptCall:
        keys, group = self._consumer.keys, self._consumer.group
        return ScriptCall(
            "settle",
            (keys("deliveries"),),
            (
                group,
                self._consumer.name,
                self._keep_ms,
                keys.prefix,
                KEPT_ATTEMPTS,
                *self._limits,
                *(part for one in batch for part in (*one.args, one.counts, one.label)),
            ),
        )


def _log_changes(batch: Sequence[Settlement], reply: Sequence[int | bytes]) -> None:
    """Log each change of a target that settle.lua reports."""
    if not _UNCHANGED.issuperset(reply):
        for settlement, change in zip(batch, reply, strict=True):
            if isinstance(change, bytes):
                log.warning("%s", change_text(settlement.target, change.decode(), settlement.reason))


def _first_batch(settlements: Sequence[Settlement]) -> list[Settlement]:
    """The first settlements, as many as one call may write."""
    batch, count = [], 0
    for settlement in settlements[:_MOST_SETTLEMENTS]:
        batch.append(settlement)
        count += settlement.deliveries
        if count >= _MOST_DELIVERIES:
            break
    return batch
