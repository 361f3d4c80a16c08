"""The carrier: claims deliveries from their streams and attempts many at the same time, for as long as there is work.

It runs inside an RQ job (`jobs.py`): RQ starts it and stops it; deliveries, attempts and outcomes are kept in Redis.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bus.errors import FleethookError, Unreachable
from bus.hooksets.in_force import Watcher
from bus.http.client_pool import ClientPool
from bus.ids import consumer_name, host_name
from bus.secrets.sealing import MissingKey
from bus.wire.connections import Connections
from bus.wire.consumer import OUTAGE_SECONDS, Consumer
from bus.wire.keys import DONE_MS, KEPT_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry, checked
from workers.delivery.answer_links import LinkMaker
from workers.delivery.attempts import Attempts, ClaimedDelivery, batch_members, wait_for_key
from workers.delivery.breakers import BreakerLimits, FailureCounts
from workers.delivery.later_context import LateContexts
from workers.delivery.missing_keys import WAIT_MS, FoundKeys, missed_commands
from workers.delivery.results import AttemptResult, attempt_label
from workers.delivery.settlements import SettlementWriter
from workers.delivery.takeovers import Takeovers
from workers.plugins.when_enabled import PluginsWhenEnabled
from workers.runtime.consumer_loop import cancel_tasks, consume, drain, let_entries_accumulate
from workers.runtime.counters import Counters, Names, attempt_counts, background_counts
from workers.runtime.in_flight import InFlight
from workers.runtime.job_starter import CARRIERS
from workers.runtime.process import DRAIN_SECONDS, SELDOM_THRESHOLDS
from workers.workflows.at_work import Workflows
from workers.workflows.deliveries import WorkflowDeliveries

log = logging.getLogger("fleethook.carrier")

GROUP: Final = CARRIERS
LEASE_MARGIN_MS: Final = 5_000
"""For this long after its timeout, an attempt without an outcome still counts as in flight for its target."""

MOST_TAKEN: Final = 32 * 1024 * 1024
"""The most bytes of event bodies in one reply of take.lua: a hundred of the largest events would be 1.6 GiB."""

_READ_SECONDS: Final = 0.25


class Overtaken(FleethookError):
    """Another carrier has claimed the delivery that this one was about to attempt."""


class Carrier:
    """One carrier: a heartbeat, a consumer name, and up to `in_flight` attempts at a time."""

    def __init__(
        self,
        url: str,
        keys: Keys,
        connections: Connections,
        watcher: Watcher,
        *,
        in_flight: int = 100,
        keep_ms: int = DONE_MS,
        drain: float = DRAIN_SECONDS,
        limits: BreakerLimits | None = None,
        failures: FailureCounts | None = None,
        public_url: str = "",
    ) -> None:
        self.name = consumer_name("carrier")
        self._keys, self._connections, self._watcher = keys, connections, watcher
        self._reading = Connections(url, connect=1.0)
        host = host_name()
        self._consumer = Consumer(
            connections,
            keys,
            group=GROUP,
            name=self.name,
            role="carrier",
            about=f"carrier {host}",
            streams=(keys("deliveries"), keys("deliveries", host)),
        )
        self._drain = drain
        self._busy = InFlight(in_flight)
        self._held: set[tuple[str, str]] = set()
        self._settlements = SettlementWriter(
            self._consumer, self._held, self._busy.__len__, keep_ms=keep_ms, limits=(limits or BreakerLimits()).args
        )
        self._failures = failures if failures is not None else FailureCounts()
        links = LinkMaker(connections, keys, public_url)
        self._late_contexts = LateContexts(connections, keys)
        self._attempts = Attempts(self.name, watcher, keys, self._late_contexts, self._failures, links)
        self._plugins = PluginsWhenEnabled(connections, keys, watcher, self.name)
        self._takeovers = Takeovers(self._consumer.beat, self._take)
        self._found_keys = FoundKeys(connections, keys, host)
        self._counters, self._names = Counters(connections, keys), Names()
        self._active_at = self._read_at = 0.0
        self.carried = 0

    async def count_work(self) -> int:
        """Count the deliveries in the streams that this carrier reads, also those under way; raises Unreachable."""
        with self._connections.lease() as connection:
            lengths = await connection.exchange([("XLEN", stream) for stream in self._consumer.streams])
        return sum(int(checked(length, "measuring the work")) for length in lengths)

    async def run(self, stop: asyncio.Event, *, idle: float = 2.0) -> int:
        """Attempt deliveries until `stop`, or until there was nothing to do for `idle` seconds; then finish those under way.

        Returns the number of attempts.
        """
        gc.set_threshold(*SELDOM_THRESHOLDS)
        self._active_at = time.monotonic()
        writing = asyncio.create_task(self._settlements.run())
        try:
            async with ClientPool() as clients:
                flows = Workflows(self._connections, self._keys, self._watcher, self.name, clients, self._plugins)
                self._attempts.workflows = WorkflowDeliveries(self._connections, self._keys, flows, self._late_contexts)
                try:
                    turn = partial(self._turn, clients, idle)
                    await consume(self._consumer, turn, stop, who="carrier", prepare=self._prepare)
                    await drain(self._consumer, (self._busy.tasks,), self._drain)
                finally:  # before the connections close: a cancelled attempt has no outcome
                    await cancel_tasks([*self._busy.tasks, *self._takeovers.tasks])
                    await asyncio.gather(self._plugins.close(), flows.close())
        finally:
            await cancel_tasks([writing])
            await self._settlements.write_last()
            with contextlib.suppress(Unreachable):
                await self._counters.send(now=True)
            await self._consumer.leave()
            await self._reading.close()
        return self.carried

    async def _prepare(self) -> None:
        await self._consumer.create()
        await self._watcher.refresh(force=True)

    async def _turn(self, clients: ClientPool, idle: float) -> bool:
        """Start as many attempts as there is room for; returns False after `idle` seconds without anything to do."""
        if await self._start_new(clients) or self._busy or self._settlements:
            self._active_at = time.monotonic()
        return time.monotonic() - max(self._active_at, self._consumer.failed_at) <= idle

    async def _start_new(self, clients: ClientPool) -> bool:
        """Claim as many deliveries as there is room for and start them; returns whether there were any."""
        await self._watcher.refresh()
        await self._counters.send()
        await self._found_keys.forget()
        if self._plugins.is_started:
            await self._plugins.maintain()
        room = await self._busy.room()
        if not room:
            await self._consumer.beat()
            return True
        missed_heartbeats = self._consumer.missed_heartbeats
        entries = await self._consumer.pending_to_resume(self._held, room, OUTAGE_SECONDS)
        rows = await self._take(entries) if entries else []
        if self._read_at:  # more entries are likely: one call takes them and writes the settlements that wait
            await let_entries_accumulate(self._read_at)
            (reply,) = await self._settlements.flush(self._take_call((), room))
            rows += checked(reply, "taking deliveries")
        if not rows:
            with self._reading.lease() as connection:
                rows = await self._take(await self._consumer.read(connection, room, _READ_SECONDS))
        self._read_at = time.monotonic() if rows else 0.0
        for claimed in self._read_claims(rows, {(entry.stream, entry.id): entry.delivered for entry in entries}):
            self._held.add(claimed.key)
            task = asyncio.create_task(self._attempt(claimed, clients, missed_heartbeats))
            self._busy.add(task, command=claimed.kind in {"command", "workflow"})
        return bool(rows)

    async def _take(self, entries: Sequence[StreamEntry]) -> list[list[Any]]:
        """The rows of take.lua for these entries."""
        if not entries:
            return []
        (reply,) = await self._consumer.call([self._take_call([(entry.stream, entry.id) for entry in entries])])
        rows: list[list[Any]] = checked(reply, "taking deliveries")
        return rows

    def _take_call(self, entries: Sequence[tuple[str, str]], room: int = 0) -> ScriptCall:
        """The script call that claims the deliveries of these entries, and up to `room` new ones of each stream."""
        return ScriptCall(
            "take",
            self._consumer.streams,
            (
                GROUP,
                self.name,
                LEASE_MARGIN_MS,
                self._keys.prefix,
                KEPT_MS,
                MOST_TAKEN,
                room,
                *(part for entry in entries for part in entry),
            ),
        )

    def _read_claims(
        self, rows: Sequence[Sequence[Any]], times_delivered: Mapping[tuple[str, str], int]
    ) -> Iterator[ClaimedDelivery]:
        """The claimed deliveries in the rows; `times_delivered` counts how often Redis delivered each entry that is not new."""
        bodies: dict[bytes, bytes] = {}
        for word, *row in rows:
            if word == b"later":
                self._consumer.must_recheck_pending = True  # the entry is pending for us, and the recheck finds it
            elif word == b"parked" and row:  # its target's breaker is open
                self._failures.forget(row[0].decode("utf-8", "replace"))
            if word != b"run":
                continue
            body = bodies.setdefault(row[6], row[3])
            stream, entry, name, target, timeout, event, tries, kind, hook, version, layer = [
                str(part, "utf-8", "replace") for part in (*row[:3], *row[4:12])
            ]
            others = batch_members(row[12]) if len(row) > 12 else None
            stream_entry = StreamEntry(stream, entry, {}, times_delivered.get((stream, entry), 1))
            yield ClaimedDelivery(
                stream_entry,
                name,
                body,
                target,
                int(timeout) / 1000,
                event,
                int(tries),
                kind,
                hook,
                version,
                layer,
                others,
            )

    async def _attempt(self, claimed: ClaimedDelivery, clients: ClientPool, missed_heartbeats: int) -> None:
        start = time.monotonic()
        try:
            result = await self._attempts.make(claimed, clients, lambda: self._check_ours(claimed, missed_heartbeats))
        except Overtaken as error:
            log.warning("%s", error)
            self._held.discard(claimed.key)
            return
        except MissingKey as error:
            await self._wait_for_key(claimed, error)
            return
        except Unreachable as error:
            log.warning("delivery %s: %s; it is attempted again", claimed.id, error)
            self._held.discard(claimed.key)
            self._consumer.must_recheck_pending = True
            return
        except Exception as error:  # a bug, here or in a library, must not keep the delivery pending for ever
            log.exception("delivery %s", claimed.id)
            result = AttemptResult("dead", f"the attempt ended with an internal error: {type(error).__name__}: {error}")
        self.carried += 1
        took = time.monotonic() - start
        settlement = self._attempts.settle(claimed, result, took * 1000)
        if claimed.kind == "webhook":
            name = self._names.label(claimed.hook)
            settlement = settlement.counted(attempt_counts(name, attempt_label(result), took), name)
        else:
            name = self._names.label(claimed.hook)
            settlement = settlement.counted(background_counts(name, result.outcome, took))
        self._settlements.add(settlement)
        if claimed.kind == "webhook" and result.outcome == "delivered":
            self._found_keys.opened(claimed.hook)

    async def _check_ours(self, claimed: ClaimedDelivery, missed_heartbeats: int) -> None:
        """Raise Overtaken if our heartbeat stopped for a while and another carrier has claimed the delivery.

        `missed_heartbeats` is the count at the time of the claim.
        """
        if self._consumer.fresh and self._consumer.missed_heartbeats == missed_heartbeats:
            return
        if not await self._takeovers.is_ours(claimed.entry):
            raise Overtaken(f"delivery {claimed.id}: this carrier was suspended; another carrier has taken it over")

    async def _wait_for_key(self, claimed: ClaimedDelivery, error: MissingKey) -> None:
        """Retry a delivery later whose secret cannot be opened here: another carrier may have the key, or we may get it."""
        log.warning("delivery %s waits for key %s: %s", claimed.id, error.key, error.message)
        self._settlements.add(wait_for_key(claimed, error.message, WAIT_MS))
        try:
            with self._connections.lease() as connection:
                await connection.exchange(missed_commands(self._keys, error.key, host_name(), claimed.hook))
        except Unreachable as away:
            log.warning("the missing key %s cannot be recorded: %s", error.key, away)
