"""The dispatcher: events -> deliveries; due retries back to their streams; carriers where leases are missing.

One is active at a time and others stand by; what it does is gated by the entries' own acknowledgement, so two that
both believe to be active do nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

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
from bus.wire.connections import Command, Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import HEARTBEAT_MS, Keys
from bus.wire.streams import MOST_DELIVERIES, Call, Entry, call, call_all, checked, flat
from workers.carrier import GROUP as CARRIERS
from workers.delivery.dead_letters import poison_call
from workers.delivery.deliveries import dispatch_call, now_ms, pack_fields, plan_deliveries
from workers.records.bounds import Relief
from workers.records.bulk_jobs import waiting
from workers.runtime.consumer_loop import TURN_SECONDS, cancel_tasks, consume, let_entries_accumulate
from workers.runtime.hook_loops import lineage, loop_text
from workers.runtime.spooled_once import counts
from workers.runtime.stream_repair import Repairs

log = logging.getLogger("fleethook.dispatcher")

GROUP: Final = "dispatchers"
WAKE_SECONDS: Final = 0.2
"""Due retries start at most so much late."""

STANDBY_SECONDS: Final = 0.5
_LEASE_SECONDS: Final = 0.25
"""How often the lease is asked for anew while it is ours; it lasts eight times as long."""

_WAKE_BETWEEN: Final = 0.02
"""A busy dispatcher looks no more often for what has become due unforeseen."""

_IDLE_TURN_SECONDS: Final = 0.02
"""How often a busy dispatcher reads events of which nobody is told: most are of requests, and each that is read for itself
took its agent a third of a millisecond longer, by taking a core at the wrong time (measured on two)."""

_SEEN_SECONDS: Final = 0.1
"""For so long a carrier that was alive counts as alive: asking for this, the lease and what is due at each of 500 events
a second took a fifth of our time (measured)."""

_READ: Final = 128
_READ_FIRST: Final = 16
_READ_BYTES: Final = 16 * 1024 * 1024
"""About so much is read at once: a heap of the largest bodies would otherwise be 2 GiB in our memory."""
_WAKE_MOST: Final = 500
_UNPARK_SECONDS: Final = 2.0
_SCAN: Final = 1_000
_MOST_TARGETS: Final = 10_000
_CARRIER_SECONDS: Final = 0.5
_SAY_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 10.0
_CATCH_UP_SECONDS: Final = 3.0
"""How long, at most, nothing new is read while a dispatcher before us still holds older events (`order: fifo`)."""
_LOOK_SECONDS: Final = 0.05
CHORES_SECONDS: Final = 30.0
_JOBS_SECONDS: Final = 1.0
"""How soon a maintenance job whose worker died, or that lets others have their turn, is taken up again."""
LAG_PER_CARRIER: Final = 200
"""One more carrier is asked for when so many deliveries wait for each that there is."""

Enqueue = Callable[[str], Awaitable[int]]
"""Queues an RQ job by its name (`carry`, `tidy`, `maintain`) and returns how many RQ workers listen there."""


class Dispatcher:
    """One dispatcher; stands by until it holds the lease."""

    def __init__(self, url: str, keys: Keys, watcher: Watcher, connections: Connections, enqueue: Enqueue) -> None:
        self.name = consumer_name("dispatcher")
        self._keys, self._watcher, self._connections, self._enqueue = keys, watcher, connections, enqueue
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
        self._hosts, self._records = Hosts(connections, keys), KnownRecords()
        self._repairs = Repairs(connections, keys, self.name)
        self._relief = Relief(connections, keys)
        self._did: dict[str, float] = {}
        self._targets: set[str] = set()
        self._scan: bytes | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._count = _READ_FIRST
        self._waiting: dict[str, float] = {}
        self._active = False
        self._next_due = self._wake_at = self._read_at = self._behind = 0.0
        self._carried = self._owed = self._pays = False

    async def prepare(self) -> None:
        """Make the groups and read the hook set; raises Unreachable."""
        await self._relief.make_room()  # a full server makes no groups
        await self._consumer.create()
        with self._connections.lease() as connection:
            await connection.exchange([("XGROUP", "CREATE", name, CARRIERS, "0", "MKSTREAM") for name in self._streams])
        await self._watcher.refresh(force=True)

    async def run(self, stop: asyncio.Event) -> None:
        """Dispatch while the lease is ours, stand by while it is not, until `stop`; makes room on a full server, too."""
        relief = asyncio.create_task(self._relief.run(stop))
        try:
            await consume(self._consumer, partial(self._turn, stop), stop, who="dispatcher")
        finally:
            await cancel_tasks([relief])
        await self._leave()

    async def _turn(self, stop: asyncio.Event) -> bool:
        if await self._holds_lease():
            if not self._active:
                self._active, self._scan = True, b"0"
                self._behind = time.monotonic() + _CATCH_UP_SECONDS
                log.info("%s is the active dispatcher", self.name)
            await self._work()
        else:
            self._active = False
            await self._show_standby()
            await _pause(stop, STANDBY_SECONDS)
        return True

    async def _holds_lease(self) -> bool:
        if not self._due("lease", _LEASE_SECONDS if self._active else 0.0):
            return True
        lease = (self._keys("alive", "dispatcher"),)
        return bool(await call(self._connections, "lease", lease, (self.name, HEARTBEAT_MS)))

    async def _show_standby(self) -> None:
        """Beat as a member of the group that reads nothing: `fleethook worker --health` sees us by that."""
        member: Command = ("XGROUP", "CREATECONSUMER", self._keys("events"), GROUP, self.name)
        with self._connections.lease() as connection:
            await connection.exchange([member, *self._consumer.beat_commands()])

    async def _leave(self) -> None:
        try:
            with self._connections.lease() as connection:
                (holder,) = await connection.exchange([("GET", self._keys("alive", "dispatcher"))])
                if holder == self.name.encode():
                    await connection.exchange([("DEL", self._keys("alive", "dispatcher"))])
        except Unreachable:
            log.warning("redis is away; the lease ends by itself")
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._consumer.leave()
        await self._reading.close()

    async def _work(self) -> None:
        await self._watcher.refresh()
        await self._repairs.keep()
        woken = time.monotonic() >= self._wake_at and await self._wake()
        entries = await self._consumer.pending_to_resume()
        longest = _SEEN_SECONDS if self._owed else WAKE_SECONDS
        wait = 0 if entries else max(0.001, min(longest, self._next_due - time.monotonic()))
        if self._behind and await self._is_behind():
            await asyncio.sleep(min(wait, _LOOK_SECONDS))
        else:
            await let_entries_accumulate(self._read_at, TURN_SECONDS if self._pays else _IDLE_TURN_SECONDS)
            with self._reading.lease() as connection:
                entries += await self._consumer.read(connection, self._count, wait)
        self._read_at = time.monotonic() if entries else 0.0
        if entries:
            size = sum(len(entry.fields.get(b"body", b"")) for entry in entries)
            self._count = max(1, min(_READ, 2 * self._count, _READ_BYTES * len(entries) // max(1, size)))
            await self._dispatch(entries)
        self._owed = self._owed or bool(entries) or woken
        often = _SEEN_SECONDS if self._carried else 0.0
        if self._due("carriers", often if self._owed else _CARRIER_SECONDS):
            await self._start_carriers()
            self._owed = False
        if self._scan is not None:
            await self._find_parked(self._scan)
        if self._targets and self._due("unpark", _UNPARK_SECONDS):
            await self._unpark()
        if self._due("chores", CHORES_SECONDS):
            self._ask("tidy")
        if self._due("jobs", _JOBS_SECONDS) and await waiting(self._connections, self._keys):
            self._ask("maintain")

    async def _is_behind(self) -> bool:
        """Whether another dispatcher holds events still: ours will be newer. Its heartbeat may outlive its lease a little."""
        with self._connections.lease() as connection:
            pending, *_ = await connection.exchange(
                [("XPENDING", self._keys("events"), GROUP), *self._consumer.beat_commands()]
            )
        holders = [] if isinstance(pending, Exception) else [row[0] for row in pending[3] or ()]
        if set(holders) <= {self.name.encode()} or time.monotonic() > self._behind:
            self._behind = 0.0
        return bool(self._behind)

    def _due(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - self._did.get(what, 0.0) < seconds:
            return False
        self._did[what] = now
        return True

    async def _dispatch(self, entries: list[Entry]) -> None:
        calls: dict[str, Call] = {}
        passed: list[str] = []
        for entry in entries:
            try:
                made = await self._call(entry)
            except (Unreachable, FleethookError):
                raise
            except Exception as error:  # one event that breaks us must not stop the others
                log.exception("event %s cannot be dispatched; dead letter", entry.id)
                why = f"cannot be dispatched: {type(error).__name__}: {error}"
                made = poison_call(self._keys, entry, why, acknowledge=GROUP)
            if made is None:
                passed.append(entry.id)
            else:
                calls[entry.id] = made
        for start in range(0, len(passed), _READ):  # of our own that come back there may be more than Lua unpacks
            some, keys = passed[start : start + _READ], (self._keys("events"), self._keys("stats"))
            calls[f"{some[0]} to {some[-1]}"] = Call("pass", keys, (GROUP, *some))
        self._pays = False
        replies = await call_all(self._connections, list(calls.values()))
        for (what, made), reply in zip(calls.items(), replies, strict=True):
            added = checked(reply, f"dispatching {what}")  # what was refused stays pending, and is looked at again
            self._pays = self._pays or (made.name != "pass" and added > 0)
            # Another has it, or it has another id since a repair: then it is ours still, and in nobody's hands.
            if added < (len(made.args) - 1 if made.name == "pass" else 0):
                self._consumer.must_recheck_pending = True

    async def _call(self, entry: Entry) -> Call | None:
        """What is to be done for one event: None where nobody is owed anything; nothing is ever delivered twice."""
        if b"spooled" in entry.fields and not await counts(self._connections, self._keys, entry):
            return None
        if b"of" in entry.fields:
            log.warning("the agent's own fallback for %s: %s", _text(entry, b"of"), _text(entry, b"fallback"))
            return None
        if b"same" in entry.fields or b"dispatched" in entry.fields:
            return None
        if entry.delivered > MOST_DELIVERIES:
            return poison_call(self._keys, entry, f"dispatched {entry.delivered} times in vain", acknowledge=GROUP)
        try:
            request = read_request(entry, self._keys)
            event = read_event(request)
            verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
        except DecodeError as error:
            if b"verdict" in entry.fields:
                return None  # an undecodable request: its evaluator buried it already
            log.warning("event %s cannot be read: %s; dead letter", entry.id, error)
            return poison_call(self._keys, entry, f"undecodable event: {error}", acknowledge=GROUP)
        if b"spooled" in entry.fields and event.type == EventType.GUARD_CHANGED and event.source == "fleethook":
            await self._list_change(event)
        deliveries = await plan_deliveries(event, verdict, self._watcher.for_event(event), self._keys)
        if event.parent and any(one.kind == "command" for one in deliveries):
            running = await lineage(self._connections, self._keys, event)
            looped = [
                one for one in deliveries if one.kind == "command" and any(one.hook in hooks for _, hooks in running)
            ]
            for one in looped:
                log.error("%s", loop_text(one.hook, event, running))
            deliveries = [one for one in deliveries if one not in looped]
        if len(self._targets) < _MOST_TARGETS:
            self._targets.update(one.target for one in deliveries)
        for_host = await self._is_for_host(event, verdict, request.folder)
        if not (deliveries or for_host):
            return None
        host = self._keys("events", event.host) if for_host else ""
        return dispatch_call(entry, event, deliveries, self._keys, GROUP, pack_fields(entry), now_ms(), host)

    async def _list_change(self, event: Event) -> None:
        try:
            await list_spooled(self._connections, self._keys, event)
        except DecodeError as error:
            log.warning("%s", error)

    async def _is_for_host(self, event: Event, verdict: Verdict | None, folder: EventFolder) -> bool:
        """Whether the event's own machine has it to dispatch, too: its worker runs, or hooks in its own files wait for that."""
        if event.host in {"", self._host}:
            return False
        state = await self._hosts.state(event.host)
        known = None if state.alive else self._records.read(state.background)
        return state.alive or (
            known is not None and await asyncio.to_thread(known.has_background, event, verdict, folder)
        )

    async def _wake(self) -> bool:
        """Move what is due back to the carriers; whether anything was. Notes when the next one is."""
        now = time.monotonic()
        keys = (self._keys("due"), self._keys("openings"))
        moved, left = await call(self._connections, "wake", keys, (_WAKE_MOST, self._keys.prefix))
        self._next_due = now + (WAKE_SECONDS if left == b"" else int(left) / 1000)
        self._wake_at = now if moved >= _WAKE_MOST else min(self._next_due, now + _WAKE_BETWEEN)
        return bool(moved)

    async def _find_parked(self, cursor: bytes) -> None:
        """Look once, a page a turn, for targets with parked deliveries that a dispatcher before us knew."""
        prefix = self._keys("parked", "")
        with self._connections.lease() as connection:
            (reply,) = await connection.exchange([("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _SCAN)])
        after, names = checked(reply, "looking for parked deliveries")
        self._targets.update(name.decode().removeprefix(prefix) for name in names)
        self._scan = None if after == b"0" else after

    async def _unpark(self) -> None:
        """Give back parked deliveries of targets with nothing in flight; usually each freed place has called the next."""
        keys, targets = self._keys, sorted(self._targets)
        with self._connections.lease() as connection:
            parked = await connection.exchange([("EXISTS", keys("parked", target)) for target in targets])
        calls = [
            Call("unpark", (keys("flight", target),), (keys.prefix, target))
            for target, waits in zip(targets, parked, strict=True)
            if waits == 1
        ]
        for reply in await call_all(self._connections, calls) if calls else ():
            checked(reply, "unparking")
        if len(targets) >= _MOST_TARGETS:
            self._targets = {target for target, waits in zip(targets, parked, strict=True) if waits}

    async def _start_carriers(self) -> None:
        """Ask RQ for carriers: one where there is any work and none is alive, more while the lag grows."""
        streams, found, wanted = self._streams, [], False
        with self._connections.lease() as connection:
            asked = [part for name in streams for part in (("XLEN", name), ("XINFO", "CONSUMERS", name, CARRIERS))]
            replies = await connection.exchange(asked)
            for length, rows in zip(replies[::2], replies[1::2], strict=True):
                names = [] if isinstance(rows, Exception) else [flat(row)[b"name"].decode() for row in rows]
                asked = [("EXISTS", self._keys("beat", name)) for name in names]
                beats = await connection.exchange(asked) if asked else []
                found.append((int(checked(length, "measuring the work")), sum(1 for beat in beats if beat == 1)))
            self._carried = any(alive for _, alive in found) and all(alive for work, alive in found if work)
            for stream, (work, alive) in zip(streams, found, strict=True):
                self._watch(stream, work, alive)
                wanted = wanted or bool(work and (not alive or work >= alive * LAG_PER_CARRIER))
            if not wanted:
                return
            (marked,) = await connection.exchange([("SET", self._keys("wanted"), self.name, "NX", "PX", 1_000)])
        if marked is not None:
            self._ask("carry")

    def _watch(self, stream: str, work: int, alive: int) -> None:
        """Say so where deliveries wait and nobody comes: for a host's own ones only its own carriers will do."""
        now = time.monotonic()
        if alive or not work:
            self._waiting.pop(stream, None)
        elif now - self._waiting.setdefault(stream, now) > _PATIENCE_SECONDS and self._due(stream, _SAY_SECONDS):
            where = "anywhere" if stream == self._streams[0] else f"on {host_name()}"
            log.error("%d deliveries wait and no carrier comes %s: `fleethook worker carrier` starts one", work, where)

    def _ask(self, name: str) -> None:
        """Ask RQ for a job, beside the loop: its server may be another one, and away."""
        known = self._asking.get(name)
        if known is None or known.done():
            self._asking[name] = asyncio.create_task(self._enqueued(name))

    async def _enqueued(self, name: str) -> None:
        try:
            workers = await self._enqueue(name)
        except FleethookError as error:
            if self._due("rq", _SAY_SECONDS):
                log.error("%s: no job can be queued; deliveries wait", error)
            return
        if not workers and self._due(f"no {name}", _SAY_SECONDS):
            kind = "carrier" if name == "carry" else "chores"
            log.error("a %s is needed and none runs: `fleethook worker %s` starts one", kind, kind)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


def _text(entry: Entry, name: bytes) -> str:
    return entry.fields.get(name, b"").decode("utf-8", "replace")[:512]
