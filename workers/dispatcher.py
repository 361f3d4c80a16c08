"""The dispatcher: makes deliveries of events, moves due retries back to their streams, and starts carriers.

One dispatcher is active at a time, and the others wait. The Lua call that adds an event's deliveries also acknowledges the
event, so two dispatchers that both believe they are active add nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import Final

from bus.config.settings import Settings
from bus.errors import DecodeError, FleethookError, Unreachable
from bus.event_folder import EventFolder
from bus.events import Event, EventType
from bus.hooksets.guard_changes import list_spooled
from bus.hooksets.host_hooks import KnownRecords
from bus.hooksets.in_force import Watcher
from bus.host_requests import Hosts
from bus.ids import consumer_name, host_name
from bus.requests import read_event, read_request
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import HEARTBEAT_MS, Keys
from bus.wire.streams import MOST_DELIVERIES, ScriptCall, StreamEntry, call, call_all, checked
from workers.coverage.marks import CallMarks
from workers.coverage.open_sessions import OpenSessions
from workers.coverage.reports import Reports
from workers.delivery.dead_letters import poison_call
from workers.delivery.deliveries import MAY_PUBLISH, dispatch_call, now_ms, pack_fields, plan_deliveries
from workers.delivery.parked_targets import ParkedTargets
from workers.memory.fact_marks import FactMarks
from workers.plugins.published_events import PublishedRelay
from workers.records.bounds import MemoryRelief
from workers.records.bulk_jobs import waiting_jobs
from workers.runtime.consumer_loop import TURN_SECONDS, cancel_tasks, consume, let_entries_accumulate
from workers.runtime.counters import Counters, agent_fallback_counts, event_counts
from workers.runtime.hook_loops import lineage, loop_text
from workers.runtime.job_starter import CARRIER_SECONDS, CARRIERS, Enqueue, Intervals, JobStarter
from workers.runtime.spooled_once import keep_if_first
from workers.runtime.stream_repair import Repairs
from workers.waiting.long_read import READ_SECONDS, LongRead
from workers.waiting.looks import dispatcher_looks
from workers.waiting.words import Words

log = logging.getLogger("fleethook.dispatcher")

GROUP: Final = "dispatchers"
WAKE_SECONDS: Final = 0.2
"""A due retry starts at most this much late."""

STANDBY_SECONDS: Final = 0.5
_LEASE_SECONDS: Final = 0.25
"""How often the lease is renewed while it is ours; it lasts eight times as long."""

_WAKE_PAUSE_SECONDS: Final = 0.02
"""The shortest time between two checks for due retries. A new retry may be due earlier than the last check showed."""

_IDLE_TURN_SECONDS: Final = 0.02
"""How often a busy dispatcher reads events that become no delivery. Most are events of requests. Reading each by itself
delayed its agent by a third of a millisecond, because it took a core while the agent needed it (measured on two cores)."""

_BUSY_CHECK_SECONDS: Final = 0.1
"""How often a busy dispatcher checks whether a carrier is alive. To check carriers, the lease and due retries at each of
500 events a second took a fifth of its time (measured)."""

_MOST_READ: Final = 128
_FIRST_READ: Final = 16
_READ_BYTES: Final = 16 * 1024 * 1024
"""About how much is read at once: 128 of the largest bodies would be 2 GiB of memory."""
_MOST_WOKEN: Final = 500
_UNPARK_SECONDS: Final = 2.0
_SOON_SECONDS: Final = 2.0
"""What is due sooner keeps the dispatcher from a long read."""
_CATCH_UP_SECONDS: Final = 3.0
"""For at most this long a new active dispatcher reads no new events while another one still holds older ones
(`order: fifo`)."""
_LOOK_SECONDS: Final = 0.05
_JOBS_SECONDS: Final = 1.0
"""How often to look for maintenance jobs to resume: those whose worker died, or that let other jobs go first."""


class Dispatcher:
    """One dispatcher; it is active while it holds the lease."""

    def __init__(
        self,
        url: str,
        keys: Keys,
        watcher: Watcher,
        connections: Connections,
        enqueue: Enqueue,
        *,
        grace: float = Settings().coverage_grace,
    ) -> None:
        self.name = consumer_name("dispatcher")
        self._keys, self._watcher, self._connections = keys, watcher, connections
        self._reading = Connections(url, connect=1.0)
        self._consumer = Consumer(
            connections,
            keys,
            group=GROUP,
            name=self.name,
            streams=(keys("events"),),
            role="dispatching",
            about=f"dispatcher {host_name()}",
        )
        self._host = host_name()
        self._streams = (keys("deliveries"), keys("deliveries", self._host))
        self._jobs = JobStarter(connections, keys, self.name, enqueue)
        self._intervals = Intervals()
        self._hosts, self._records = Hosts(connections, keys), KnownRecords()
        self._repairs = Repairs(connections, keys, self.name)
        self._relief = MemoryRelief(connections, keys)
        self._parked = ParkedTargets(connections, keys)
        self._count = _FIRST_READ
        self._active = False
        self._counters, self._reports = Counters(connections, keys), Reports(connections, keys)
        self._sessions = OpenSessions(connections, keys)
        self._marks, self._facts = CallMarks(keys, grace), FactMarks(keys)
        self._relay = PublishedRelay(connections, keys)
        self._counts: dict[str, str] = {}
        """What the script that dispatches an entry adds to the metrics."""
        self._next_due = self._wake_at = self._read_at = self._catch_up_until = 0.0
        self._work_added = self._deliveries_added = False
        always = (self._counters.send, self._reports.send, self._sessions.send)
        others = (self._parked.look, self._repairs.look)
        self._long_read = LongRead(
            self._consumer, self._reading, always, dispatcher_looks(keys, self.name, self._streams), others
        )
        self._words = Words(url, keys, self._streams)

    async def prepare(self) -> None:
        """Make the groups and read the hook set; raises Unreachable."""
        await self._relief.make_room()  # a full server makes no groups
        await self._consumer.create()
        with self._connections.lease() as connection:
            await connection.exchange([("XGROUP", "CREATE", name, CARRIERS, "0", "MKSTREAM") for name in self._streams])
        await self._watcher.refresh(force=True)

    async def run(self, stop: asyncio.Event) -> None:
        """Dispatch while we hold the lease and wait otherwise, until `stop`; also makes room on a full server."""
        relief = asyncio.create_task(self._relief.run(stop))
        try:
            await consume(self._consumer, partial(self._turn, stop), stop, who="dispatcher")
        finally:
            await cancel_tasks([relief])
        await self._leave()

    async def _turn(self, stop: asyncio.Event) -> bool:
        if await self._holds_lease():
            if not self._active:
                self._active = True
                self._parked.begin()
                self._catch_up_until = time.monotonic() + _CATCH_UP_SECONDS
                log.info("%s is the active dispatcher", self.name)
            await self._work(stop)
        else:
            self._active = False
            await self._consumer.beat()  # so that `fleethook worker --health` sees it
            await self._dispatch_own()
            await self._jobs.start_carriers(own_only=True)
            await _pause(stop, STANDBY_SECONDS)
        return True

    async def _holds_lease(self) -> bool:
        if not self._intervals.due("lease", _LEASE_SECONDS if self._active else 0.0):
            return True
        lease = (self._keys("alive", "dispatcher"),)
        return bool(await call(self._connections, "lease", lease, (self.name, HEARTBEAT_MS)))

    async def _dispatch_own(self) -> None:
        """Dispatch what was handed to us in an outage in which we lost the lease: nobody else takes it while we live."""
        if entries := await self._consumer.own_pending():
            await self._watcher.refresh()
            await self._dispatch(entries)
            await self._long_read.report()

    async def _leave(self) -> None:
        try:
            with self._connections.lease() as connection:
                (holder,) = await connection.exchange([("GET", self._keys("alive", "dispatcher"))])
                if holder == self.name.encode():
                    await connection.exchange([("DEL", self._keys("alive", "dispatcher"))])
        except Unreachable:
            log.warning("redis is away; the lease ends by itself")
        await self._jobs.finish()
        with suppress(Unreachable):
            await self._counters.send(now=True)
            await self._reports.send(now=True)
            await self._sessions.send(now=True)
        await self._consumer.leave()
        await self._reading.close()
        await self._words.close()

    async def _work(self, stop: asyncio.Event) -> None:
        if self._long_read.found:  # what it found is not found again, so no interval may put this off
            self._wake_at = 0.0
        await self._watcher.refresh(at_once=self._long_read.found)
        await self._long_read.report()
        await self._repairs.repair_if_due()
        woken = time.monotonic() >= self._wake_at and await self._wake()
        entries = await self._consumer.pending_to_resume()
        most_wait = _BUSY_CHECK_SECONDS if self._work_added else WAKE_SECONDS
        wait = 0 if entries else max(0.001, min(most_wait, self._next_due - time.monotonic()))
        if self._catch_up_until and await self._is_behind():
            await asyncio.sleep(min(wait, _LOOK_SECONDS))
        elif not (entries or woken) and self._may_sleep() and await self._long_read.may_begin():
            entries = await self._read_for_long(stop)
        else:
            await let_entries_accumulate(self._read_at, TURN_SECONDS if self._deliveries_added else _IDLE_TURN_SECONDS)
            with self._reading.lease() as connection:
                entries += await self._consumer.read(connection, self._count, wait)
            self._long_read.note_turn(quiet=not (entries or woken))
        self._read_at = time.monotonic() if entries else 0.0
        if entries:
            self._jobs.note_events()
            size = sum(len(entry.fields.get(b"body", b"")) for entry in entries)
            self._count = max(1, min(_MOST_READ, 2 * self._count, _READ_BYTES * len(entries) // max(1, size)))
            await self._dispatch(entries)
        self._work_added = self._work_added or bool(entries) or woken
        busy_interval = _BUSY_CHECK_SECONDS if self._jobs.has_carriers else 0.0
        if self._intervals.due("carriers", busy_interval if self._work_added else CARRIER_SECONDS):
            await self._jobs.start_carriers()
            self._work_added = False
        await self._parked.find()
        if self._parked and self._intervals.due("unpark", _UNPARK_SECONDS):
            await self._parked.release()
        await self._jobs.start_chores()
        if self._intervals.due("jobs", _JOBS_SECONDS) and await waiting_jobs(self._connections, self._keys):
            self._jobs.start("maintain")

    def _may_sleep(self) -> bool:
        """Whether nothing is under way and nothing is due soon, so that a look once a second is enough."""
        is_busy = self._work_added or self._catch_up_until or self._jobs.are_alive or not self._parked.are_found
        return not is_busy and self._next_due - time.monotonic() > _SOON_SECONDS

    async def _read_for_long(self, stop: asyncio.Event) -> list[StreamEntry]:
        """New events. Ends too when something is due, when a look finds work, and when somebody gives a word."""
        word = self._words.heard()
        seconds = min(READ_SECONDS, self._next_due - time.monotonic())
        entries = await self._long_read.read(stop, self._count, seconds=seconds, words=(word,))
        self._work_added = self._work_added or word.done()
        if entries:
            await self._watcher.refresh(at_once=self._long_read.found)
        return entries

    async def _is_behind(self) -> bool:
        """Whether another dispatcher still holds events, which are older than ours: its heartbeat may outlive its lease."""
        with self._connections.lease() as connection:
            pending, *_ = await connection.exchange(
                [("XPENDING", self._keys("events"), GROUP), *self._consumer.beat_commands()]
            )
        holders = [] if isinstance(pending, Exception) else [row[0] for row in pending[3] or ()]
        if set(holders) <= {self.name.encode()} or time.monotonic() > self._catch_up_until:
            self._catch_up_until = 0.0
        return bool(self._catch_up_until)

    async def _dispatch(self, entries: list[StreamEntry]) -> None:
        calls: dict[str, ScriptCall] = {}
        self._counts.clear()
        without_deliveries: list[str] = []
        for entry in entries:
            try:
                script_call = await self._call(entry)
            except (Unreachable, FleethookError):
                raise
            except Exception as error:  # an error in one event must not stop the others
                log.exception("event %s cannot be dispatched; dead letter", entry.id)
                reason = f"cannot be dispatched: {type(error).__name__}: {error}"
                script_call = poison_call(self._keys, entry, reason, acknowledge=GROUP)
            if script_call is None:
                without_deliveries.append(entry.id)
            else:
                calls[entry.id] = script_call
        for start in range(0, len(without_deliveries), _MOST_READ):  # Lua cannot unpack more at once
            page, keys = without_deliveries[start : start + _MOST_READ], (self._keys("events"), self._keys("stats"))
            counted = (part for name in page for part in (name, self._counts.get(name, "")))
            calls[f"{page[0]} to {page[-1]}"] = ScriptCall("pass", keys, (GROUP, self._keys.prefix, *counted))
        self._deliveries_added = False
        marks, facts = self._marks.take(), self._facts.take()
        replies = await call_all(self._connections, [*marks, *facts, *calls.values()])
        self._marks.keep_refused(marks, replies[: len(marks)])
        self._facts.keep_refused(facts, replies[len(marks) : len(marks) + len(facts)])
        await self._relay.send()
        del replies[: len(marks) + len(facts)]
        for (what, script_call), reply in zip(calls.items(), replies, strict=True):
            added = checked(reply, f"dispatching {what}")  # raises if refused: the entry stays pending and is rechecked
            self._deliveries_added = self._deliveries_added or (script_call.name != "pass" and added > 0)
            # Another dispatcher has the entry, or a repair gave it a new id and it is still pending for us.
            if added < (len(script_call.args) // 2 - 1 if script_call.name == "pass" else 0):
                self._consumer.must_recheck_pending = True

    async def _call(self, entry: StreamEntry) -> ScriptCall | None:
        """The script call that dispatches one event; None if it becomes no delivery."""
        if b"spooled" in entry.fields and not await keep_if_first(self._connections, self._keys, entry):
            return None
        if b"of" in entry.fields:
            log.warning("the agent's own fallback for %s: %s", _text(entry, b"of"), _text(entry, b"fallback"))
            self._counts[entry.id] = agent_fallback_counts(_text(entry, b"fallback"))
            request = read_request(entry, self._keys)
            sender, of = request.reporter, _text(entry, b"of")
            self._reports.add_fallback(entry, request.source, request.host, sender, request.fallback, of)
            return None
        if b"same" in entry.fields or b"dispatched" in entry.fields:
            return None
        if entry.delivered > MOST_DELIVERIES:
            return poison_call(
                self._keys, entry, f"dispatched {entry.delivered} times without success", acknowledge=GROUP
            )
        try:
            request = read_request(entry, self._keys)
            event = read_event(request)
            verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
            counts = self._counts[entry.id] = event_counts(event.source, event.type, blocking=verdict is not None)
            self._marks.add(entry, event, verdict, request.reporter)
            self._facts.add(entry, event, verdict, request.user)
            self._reports.add(entry, event, verdict, request.reporter)
            self._sessions.add(entry, event)
        except DecodeError as error:
            self._reports.add_unreadable(entry, request.source, request.host, request.reporter)
            if b"verdict" in entry.fields:
                return None  # an undecodable request: its evaluator made a dead letter of it
            log.warning("event %s cannot be read: %s; dead letter", entry.id, error)
            return poison_call(self._keys, entry, f"undecodable event: {error}", acknowledge=GROUP)
        spooled_change = (
            event.type == EventType.GUARD_CHANGED and event.source == "fleethook" and b"spooled" in entry.fields
        )
        if spooled_change and not await self._list_change(entry, event):
            return None
        hook_set = self._watcher.for_event(event)
        deliveries = await plan_deliveries(event, verdict, hook_set, self._keys)
        if event.parent and any(delivery.kind in MAY_PUBLISH for delivery in deliveries):
            running = await lineage(self._connections, self._keys, event)
            looped = [
                delivery
                for delivery in deliveries
                if delivery.kind in MAY_PUBLISH and any(delivery.hook in hooks for _, hooks in running)
            ]
            for delivery in looped:
                log.error("%s", loop_text(delivery.hook, event, running))
            deliveries = [delivery for delivery in deliveries if delivery not in looped]
        self._parked.add(delivery.target for delivery in deliveries)
        for_host = await self._is_for_host(event, verdict, request.folder)
        if verdict is None:
            self._relay.add(entry, event, hook_set, for_host=for_host)
        if not (deliveries or for_host):
            return None
        host = self._keys("events", event.host) if for_host else ""
        return dispatch_call(entry, event, deliveries, self._keys, GROUP, pack_fields(entry), now_ms(), host, counts)

    async def _list_change(self, entry: StreamEntry, event: Event) -> bool:
        """Whether to dispatch a spooled change of guards; removes its event if a worker announced the change before."""
        try:
            if await list_spooled(self._connections, self._keys, event):
                return True
        except DecodeError as error:
            log.warning("%s", error)
            return True
        with self._connections.lease() as connection:
            await connection.exchange([("XDEL", self._keys("events"), entry.id)])
        return False

    async def _is_for_host(self, event: Event, verdict: Verdict | None, folder: EventFolder) -> bool:
        """Whether the event's own machine dispatches it too: its worker runs, or it has background hooks that wait for it."""
        if event.host in {"", self._host}:
            return False
        state = await self._hosts.state(event.host)
        known = None if state.alive else self._records.read(state.background)
        return state.alive or (
            known is not None and await asyncio.to_thread(known.has_background, event, verdict, folder)
        )

    async def _wake(self) -> bool:
        """Move due retries back to the carriers, and note when the next is due; returns whether any were due."""
        now = time.monotonic()
        keys = (self._keys("due"), self._keys("openings"))
        moved, left = await call(self._connections, "wake", keys, (_MOST_WOKEN, self._keys.prefix))
        self._next_due = now + (READ_SECONDS if left == b"" else int(left) / 1000)
        self._wake_at = now if moved >= _MOST_WOKEN else min(self._next_due, now + _WAKE_PAUSE_SECONDS)
        return bool(moved)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


def _text(entry: StreamEntry, name: bytes) -> str:
    return entry.fields.get(name, b"").decode("utf-8", "replace")[:512]
