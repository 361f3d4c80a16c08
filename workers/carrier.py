"""The carrier: many deliveries at once, from their streams to their targets, for as long as there is work.

It runs inside an RQ job (`jobs.py`): RQ starts it and stops it; what is owed, tried and settled stands in Redis.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bus.connections import Argument, Links
from bus.errors import FleethookError, Unreachable
from bus.ids import consumer_name, host_name
from bus.inforce import Watcher
from bus.keys import DONE_MS, KEPT_MS, Keys
from bus.redaction import redact_text
from bus.streams import MOST_DELIVERIES, Backoff, Call, Consumer, Entry, call_all, checked
from workers.attempts import Attempts, Result, Taken, members
from workers.breakers import Failures, Limits, change_text
from workers.deliveries import KEPT_ATTEMPTS, Attempt, attempt_record, now_ms
from workers.inflight import InFlight
from workers.posters import Posters
from workers.process import SELDOM, drained
from workers.retries import AttemptFailed, GivenUp, next_delay

log = logging.getLogger("fleethook.carrier")

GROUP: Final = "carriers"
LEASE_MARGIN_MS: Final = 5_000
"""How much longer than its own timeout an attempt may keep its target's place, before the place is given away."""

DRAIN_SECONDS: Final = 8.0
"""What attempts under way get to end when the carrier is told to stop; `fleethook up` ends it by force after 10."""

SETTLE_SECONDS: Final = 0.005
"""How long a busy carrier lets outcomes come together: one write for many costs it a fraction of one for each."""

TURN_SECONDS: Final = 0.003
"""Who is busy reads no more often, and what came meanwhile at once: with 500 events a second on one core, 95 % are at
their receiver within half the time that they need when each is read for itself (measured)."""

MOST_TAKEN: Final = 32 * 1024 * 1024
"""Bytes of events' bodies that come in one reply: a hundred of the largest would be 1.6 GiB."""

_BUSY: Final = 8
_READ_SECONDS: Final = 0.25
_LAST_WORDS_SECONDS: Final = 3.0
_OUTAGE_SECONDS: Final = 2.5
_MOST_OUTCOMES: Final = 256
_MOST_DELIVERIES: Final = 1024
"""How many deliveries are written down in one call, about: every verdict waits while the server is at it."""

_PLAIN: Final = frozenset({0, 1})


class Overtaken(FleethookError):
    """Another carrier has what this one was about to send."""


class Outcome(NamedTuple):
    """One attempt to be written down."""

    key: tuple[str, str]
    args: tuple[Argument, ...]
    target: str
    deliveries: int = 1
    """How many it is the outcome of; more than one for a batch."""


class Carrier:
    """One carrier: a heartbeat, a consumer name, and up to `in_flight` attempts at a time."""

    def __init__(
        self, url: str, keys: Keys, links: Links, watcher: Watcher, *, in_flight: int = 100, keep_ms: int = DONE_MS,
        drain: float = DRAIN_SECONDS, limits: Limits | None = None, failures: Failures | None = None,
    ) -> None:  # fmt: skip
        self.name = consumer_name("carrier")
        self._keys, self._links, self._watcher = keys, links, watcher
        self._reading = Links(url, connect=1.0)
        host = host_name()
        self._consumer = Consumer(
            links, keys, group=GROUP, name=self.name, role="carrier", about=f"carrier {host}",
            streams=(keys("deliveries"), keys("deliveries", host)),
        )  # fmt: skip
        self._keep_ms, self._drain = keep_ms, drain
        self._busy = InFlight(in_flight)
        self._held: set[tuple[str, str]] = set()
        self._outcomes: list[Outcome] = []
        self._settling = asyncio.Event()
        self._writing = asyncio.Lock()
        self._attempts = Attempts(watcher, keys)
        self._failures = failures if failures is not None else Failures()
        self._limits = (limits or Limits()).args
        self._adopt_from = self._read_at = self._wrote_at = 0.0
        self.carried = 0

    async def work(self) -> int:
        """How many deliveries lie in the streams that this carrier reads, under way or not; raises Unreachable."""
        with self._links.link() as link:
            lengths = await link.exchange([("XLEN", stream) for stream in self._consumer.streams])
        return sum(int(checked(length, "measuring the work")) for length in lengths)

    async def run(self, stop: asyncio.Event, *, idle: float = 2.0) -> int:
        """Carry until `stop`, or until there was nothing to do for `idle` seconds; then drain.

        Returns the number of attempts.
        """
        gc.set_threshold(*SELDOM)
        settler = asyncio.create_task(self._settle_all())
        try:
            async with Posters() as posters:
                try:
                    await self._carry(stop, idle, posters)
                    await drained(self._busy.tasks, self._drain, self._beat)
                finally:  # before the connections go: an attempt that is broken off has no outcome
                    for task in self._busy.tasks:
                        task.cancel()
                    await asyncio.gather(*self._busy.tasks, return_exceptions=True)
        finally:
            settler.cancel()
            await asyncio.gather(settler, return_exceptions=True)
            await self._last_words()
            await self._consumer.leave()
            await self._reading.close()
        return self.carried

    async def _carry(self, stop: asyncio.Event, idle: float, posters: Posters) -> None:
        backoff = Backoff("carrier")
        last, prepared = time.monotonic(), False
        while not stop.is_set():
            try:
                if not prepared:
                    await self._consumer.create()
                    await self._watcher.refresh(force=True)
                    prepared = True
                if await self._turn(posters) or self._busy or self._outcomes:
                    last = time.monotonic()
                elif time.monotonic() - last > idle:
                    return
                backoff.back()
            except (Unreachable, FleethookError) as error:
                last = time.monotonic()
                self._consumer.doubtful = True
                # After an outage nobody's heartbeat is left; who lives gets the time to beat again.
                self._adopt_from = last + _OUTAGE_SECONDS
                await backoff.wait(error)

    async def _turn(self, posters: Posters) -> bool:
        """Read what there is room for, and start it; whether there was anything."""
        await self._watcher.refresh()
        room = await self._busy.room()
        if not room:
            with self._links.link() as link:
                await link.exchange(self._consumer.beat_commands())
            return True
        entries = await self._consumer.strays(self._held)
        if time.monotonic() >= self._adopt_from:
            entries += await self._consumer.adopt(room)
        await gather(self._read_at)
        with self._reading.link() as link:
            entries += await self._consumer.read(link, room, 0 if entries else _READ_SECONDS)
        self._read_at = time.monotonic() if entries else 0.0
        for taken in await self._take(entries):
            self._held.add(taken.key)
            task = asyncio.create_task(self._attempt(taken, posters))
            self._busy.add(task, command=taken.kind == "command")
        return bool(entries)

    async def _take(self, entries: Sequence[Entry]) -> list[Taken]:
        if not entries:
            return []
        ids = [entry.fields.get(b"d", b"").decode("utf-8", "replace") for entry in entries]
        rows = await self._ask([(entry.stream, entry.id, name) for entry, name in zip(entries, ids, strict=True)])
        taken: list[Taken] = []
        bodies: dict[bytes, bytes] = {}
        for entry, name, row in zip(entries, ids, rows, strict=True):
            if row[0] == b"later":
                self._consumer.doubtful = True  # it is ours and pending; so it is found again, soon
            if row[0] != b"run":
                if len(row) > 1:  # parked, since its target's breaker is open
                    self._failures.forget(row[1].decode("utf-8", "replace"))
                continue
            body = bodies.setdefault(row[4], row[1])
            target, timeout, event, tries, kind, hook, version, layer = (
                part.decode("utf-8", "replace") for part in row[2:10]
            )
            others = members(row[10]) if len(row) > 10 else None
            taken.append(
                Taken(entry, name, body, target, int(timeout) / 1000, event, int(tries), kind, hook, version, layer,
                      others)
            )  # fmt: skip
        return taken

    async def _ask(self, rows: Sequence[tuple[str, str, str]]) -> list[list[Any]]:
        """What the fleet says to our trying these (stream, entry, delivery): `run` with what is needed, or why not."""
        call = Call("take", (self._keys("deliveries"),),
                    (GROUP, self.name, LEASE_MARGIN_MS, self._keys.prefix, KEPT_MS, MOST_TAKEN,
                     *(part for row in rows for part in row)))  # fmt: skip
        (reply,) = await call_all(self._links, [call])
        taken: list[list[Any]] = checked(reply, "taking deliveries")
        return taken

    async def _attempt(self, taken: Taken, posters: Posters) -> None:
        start = time.monotonic()
        try:
            if taken.entry.delivered > MOST_DELIVERIES:
                raise GivenUp(f"handed out {taken.entry.delivered} times: whoever carries it dies")
            result = await self._attempts.make(taken, posters, lambda: self._still_ours(taken))
        except Overtaken as error:
            log.warning("%s", error)
            self._held.discard(taken.key)
            return
        except GivenUp as error:
            result = Result(error)
        except Unreachable as error:
            log.warning("delivery %s: %s; it is taken up again", taken.id, error)
            self._held.discard(taken.key)
            self._consumer.doubtful = True
            return
        except Exception as error:  # an error of ours or a library's must not keep the delivery pending for ever
            log.exception("delivery %s", taken.id)
            result = Result(GivenUp(f"the attempt broke off: {type(error).__name__}: {error}"))
        self.carried += 1
        self._settle(taken, result, (time.monotonic() - start) * 1000)

    async def _still_ours(self, taken: Taken) -> None:
        """After our heartbeat had ended (we were stopped): raises Overtaken where another has the delivery meanwhile.

        We beat first, so from then on nobody takes over anything of ours.
        """
        if self._consumer.fresh:
            return
        with self._links.link() as link:
            await link.exchange(self._consumer.beat_commands())
        (row,) = await self._ask([(*taken.key, taken.id)])
        if row[0] != b"run":
            raise Overtaken(f"delivery {taken.id}: this carrier was stopped; another has taken it over")

    def _settle(self, taken: Taken, result: Result, took: float) -> None:
        outcome, reason, wait = "delivered", "", 0
        if result.error is not None:
            reason = redact_text(result.error.reason)
            delay = next_delay(result.schedule, taken.tries + 1, result.error)
            outcome, wait = ("dead", 0) if delay is None else ("retry", int(delay * 1000))
        now = now_ms()
        record = attempt_record(
            Attempt(ms=now, took=round(took, 3), outcome=outcome, status=result.status, error=reason,
                    output=result.output, carrier=self.name, head=result.head, phases=result.phases,
                    next=now + wait if outcome == "retry" else 0)
        )  # fmt: skip
        said = self._said(taken.target, result)
        self._outcomes.append(
            Outcome(taken.key, (*taken.key, taken.id, outcome, wait, reason, record, said), taken.target,
                    1 + len(taken.members or ()))
        )  # fmt: skip
        self._settling.set()

    def _said(self, target: str, result: Result) -> str:
        """What settle.lua is told of the target; its failures are counted here."""
        if result.says == "failed":
            word = "open" if self._failures.failed(target) else "failed"
            wanted = result.error.retry_after if isinstance(result.error, AttemptFailed) else 0.0
            return f"{word} {int(wanted * 1000)}" if wanted else word
        if result.says:
            self._failures.answered(target)
        return result.says

    async def _settle_all(self) -> None:
        """Write the outcomes down, as many in one write as have come together meanwhile."""
        backoff = Backoff("carrier outcomes")
        while True:
            await self._settling.wait()
            if len(self._busy) > _BUSY or time.monotonic() - self._wrote_at < 2 * SETTLE_SECONDS:
                await asyncio.sleep(SETTLE_SECONDS)
            self._settling.clear()
            try:
                await self._flush()
                self._wrote_at = time.monotonic()
                backoff.back()
            except Unreachable as error:
                self._settling.set()
                await backoff.wait(error)

    async def _flush(self) -> None:
        """Write down what there is; sending it again is safe, since an entry is acknowledged once."""
        async with self._writing:
            while self._outcomes:
                batch = _together(self._outcomes)
                (reply,) = await call_all(self._links, [self._settle_call(batch)])
                written = batch
                try:
                    self._tell(batch, checked(reply, "writing outcomes"))
                except Unreachable:
                    raise
                except FleethookError:
                    written = await self._flush_singly(batch)
                del self._outcomes[: len(batch)]
                self._held.difference_update(one.key for one in written)

    def _tell(self, batch: Sequence[Outcome], reply: Sequence[int | bytes]) -> None:
        """Log what changed for targets, where the reply says more than that each outcome was written."""
        if not _PLAIN.issuperset(reply):
            for one, changed in zip(batch, reply, strict=True):
                if isinstance(changed, bytes):
                    log.warning("%s", change_text(one.target, changed.decode(), str(one.args[5])))

    async def _flush_singly(self, batch: Sequence[Outcome]) -> list[Outcome]:
        """Those that were written: one that the server refuses must not hold up the others.

        It stays pending and in our hands, so that it is not tried again at once and for ever, but after our end.
        """
        written = []
        replies = await call_all(self._links, [self._settle_call([one]) for one in batch])
        for one, reply in zip(batch, replies, strict=True):
            if isinstance(reply, Exception):
                log.error("the outcome of %s could not be written (%s); it is tried again later", one.args[2], reply)
            else:
                self._tell([one], reply)
                written.append(one)
        return written

    def _settle_call(self, batch: Sequence[Outcome]) -> Call:
        return Call("settle", (self._keys("deliveries"),),
                    (GROUP, self.name, self._keep_ms, self._keys.prefix, KEPT_ATTEMPTS, *self._limits,
                     *(part for one in batch for part in one.args)))  # fmt: skip

    async def _beat(self) -> None:
        try:
            with self._links.link() as link:
                await link.exchange(self._consumer.beat_commands())
        except Unreachable:
            log.warning("redis is away while %d deliveries end", len(self._busy))

    async def _last_words(self) -> None:
        """Write the last outcomes down; what cannot be written is tried again by others."""
        backoff, until = Backoff("carrier's last outcomes"), time.monotonic() + _LAST_WORDS_SECONDS
        while self._outcomes:
            try:
                await self._flush()
            except Unreachable as error:
                if time.monotonic() > until:
                    log.error(
                        "%d outcomes could not be written (%s); these are tried again", len(self._outcomes), error
                    )
                    return
                await backoff.wait(error)


def _together(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The first ones, as many as one call writes down."""
    first, count = [], 0
    for one in outcomes[:_MOST_OUTCOMES]:
        first.append(one)
        count += one.deliveries
        if count >= _MOST_DELIVERIES:
            break
    return first


async def gather(last: float) -> None:
    """Let entries come together where the last ones were read, at `last` by the monotonic clock, only just now."""
    left = last + TURN_SECONDS - time.monotonic()
    if left > 0:
        await asyncio.sleep(left)
