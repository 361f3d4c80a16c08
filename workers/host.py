"""`fleethook worker host`: runs the blocking hooks that only this machine has, and dispatches the background ones (X-02).

Evaluators and dispatchers on other machines do not have this machine's user and project files. They add our part of a
request to one stream of this host, and the events of its agents to another. A part is run once, even if its worker dies.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

import msgspec

from bus.chain import Evaluation, evaluate
from bus.errors import DecodeError, FleethookError, Unreachable
from bus.hooks import Hook
from bus.hooksets.host_hooks import HostRecorder
from bus.hooksets.in_force import Watcher
from bus.host_requests import GROUP, HostPart, answer_commands, begin_call, joined_key, read_part, remove_commands, role
from bus.http.client_pool import ClientPool
from bus.ids import consumer_name, host_name
from bus.requests import read_event, read_request
from bus.runners.by_kind import Runners
from bus.runners.evaluation_spans import note_verdict, process_span
from bus.runners.hook_spans import traced
from bus.tracing.context import at_trace
from bus.verdicts import Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import KEPT_MS, Keys
from bus.wire.streams import StreamEntry, call, call_all, checked
from workers.approvals.held_verdicts import held_parts
from workers.delivery.deliveries import dispatch_call, now_ms, pack_fields, plan_deliveries, unpack_fields
from workers.delivery.later_context import LateContexts
from workers.memory.recall import Recall
from workers.plugins.when_enabled import PluginsWhenEnabled
from workers.runtime.clock import ServerClock
from workers.runtime.consumer_loop import cancel_tasks, consume, drain, with_heartbeat
from workers.runtime.counters import Counters
from workers.runtime.file_notices import FileNotices
from workers.runtime.hook_loops import lineage, without_loops
from workers.runtime.job_starter import CARRIER_SECONDS, Enqueue, Intervals, JobStarter
from workers.runtime.process import DRAIN_SECONDS
from workers.runtime.request_hooks import RequestHooks
from workers.runtime.rule_checks import RuleChecks
from workers.runtime.slow_hooks import Slots, extended_ms
from workers.waiting.long_read import LongRead
from workers.waiting.looks import Look, work_if
from workers.workflows.at_work import Workflows

log = logging.getLogger("fleethook.host")

_MOST_READ: Final = 32
_RULES_SECONDS: Final = 2.0
"""The time for a question for the rules alone. They hold no process, and its asker waits no longer."""


class HostWorker:
    """A worker for the hooks that only this machine has; several workers share the work."""

    def __init__(
        self,
        url: str,
        keys: Keys,
        watcher: Watcher,
        connections: Connections,
        enqueue: Enqueue,
        *,
        slots: int = 8,
        drain: float = DRAIN_SECONDS,
        plugins_at_once: bool = True,
    ) -> None:
        self.name, self._host = consumer_name("host"), host_name()
        self._keys, self._watcher, self._connections = keys, watcher, connections
        self._reading = Connections(url, connect=1.0)
        self._consumer = Consumer(
            connections,
            keys,
            group=GROUP,
            name=self.name,
            streams=(keys("requests", self._host), keys("events", self._host)),
            role=role(self._host),
            about=f"host {self._host}",
        )
        self._clients = ClientPool()
        self._notices, self._recall = FileNotices(connections, keys), Recall(connections, keys)
        self._plugins = PluginsWhenEnabled(connections, keys, watcher, self.name, at_once=plugins_at_once)
        self._flows = Workflows(connections, keys, watcher, self.name, self._clients, self._plugins)
        keep = LateContexts(connections, keys).keep
        self._runners = Runners(watcher, self._clients, keep, self._plugins.run, self._flows.run)
        self._checks = RuleChecks()
        self._recorder = HostRecorder(connections, keys, watcher)
        self._clock = ServerClock(connections)
        self._slots, self._drain = Slots(slots), drain
        self._counters = Counters(connections, keys)
        self._jobs, self._intervals = JobStarter(connections, keys, self.name, enqueue), Intervals()
        self._deliveries_added = False
        reports = (partial(self._notices.publish, watcher), self._recorder.keep, self._counters.send)
        always, looks = (
            (self._clock.measure, *reports, self._plugins.maintain),
            [Look(("GET", keys("hookset", "current"))), Look(("XLEN", keys("deliveries", self._host)), work_if(bool))],
        )
        self._long_read = LongRead(self._consumer, self._reading, always, looks, ())

    async def prepare(self) -> None:
        """Make the groups, read the clock and the hook set, and write the first heartbeat; raises Unreachable."""
        await self._consumer.create()
        await self._clock.measure()
        await self._watcher.refresh(force=True)
        await self._recorder.keep()
        await self._consumer.beat()

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop`, then finish what is under way (at most the drain time) and leave the group."""
        async with self._clients, self._checks:
            try:
                await consume(self._consumer, partial(self._turn, stop), stop, who="host worker")
                await drain(self._consumer, (self._slots.tasks, self._runners.background), self._drain)
                await self._jobs.finish()
                await self._consumer.leave()
            finally:
                await cancel_tasks(self._slots.tasks)
                await self._runners.end_background()
                await asyncio.gather(self._plugins.close(), self._flows.close())
                await self._reading.close()

    async def _turn(self, stop: asyncio.Event) -> bool:
        await with_heartbeat(self._consumer, self._watcher.refresh())
        await self._long_read.report()
        requests, events = self._consumer.streams
        entries = await self._consumer.pending_to_resume(self._slots.held)
        free = self._slots.free
        if not (entries or self._slots.tasks) and free > 0 and await self._long_read.may_begin():
            entries = await self._long_read.read(stop, min(_MOST_READ, free))
            if self._long_read.found:
                await with_heartbeat(self._consumer, self._watcher.refresh(at_once=True))
        else:
            with self._reading.lease() as connection:
                entries += await self._consumer.read(
                    connection,
                    min(_MOST_READ, free) if free > 0 else _MOST_READ,
                    0 if entries else 0.5 if free > 0 else 0.05,
                    (requests, events) if free > 0 else (events,),
                )
            self._long_read.note_turn(quiet=not entries)
        await self._dispatch([entry for entry in entries if entry.stream == events])
        if self._intervals.due("carriers", 0.0 if self._deliveries_added or self._long_read.found else CARRIER_SECONDS):
            self._deliveries_added = False
            await self._jobs.start_carriers(own_only=True)
        for entry in entries:
            if entry.stream == requests:
                self._slots.start(self._answer(entry), entry.stream, entry.id)
        return True

    async def _answer(self, entry: StreamEntry) -> None:
        try:
            host_part = read_part(entry, self._keys)
        except DecodeError as error:
            log.error("%s of %s: %s; it is dropped", entry.id, entry.stream, error)
            await self._send(remove_commands(entry))
            return
        try:
            verdict = await self._evaluate(host_part)
            if verdict is None:
                return
        except Exception as error:  # an error in one request becomes its verdict, and does not reach the others
            log.exception("the part of %s", host_part.event.id)
            reason = f"the worker of host {self._host} failed on this request: {type(error).__name__}"
            verdict = failed(bus_policy(host_part.policy, host_part.event.type), reason, event=host_part.event.id)
        await self._send(answer_commands(host_part, verdict, self._keys))

    async def _send(self, commands: list[tuple[bytes | str | int | float, ...]]) -> None:
        try:
            with self._connections.lease() as connection:
                for reply in await connection.exchange(commands):
                    checked(reply, "answering for this host")
        except FleethookError as error:  # the evaluator applies its failure policy; the hooks are not run again
            log.error("an answer could not be sent: %s", error)

    async def _evaluate(self, host_part: HostPart) -> Verdict | None:
        """The verdict; None if the hooks already run for the same call of the agent: that run answers this part too."""
        event = host_part.event
        if host_part.entry.delivered > 1 and not host_part.rules_only:
            return self._dead_worker_verdict(host_part)
        in_force = self._watcher.for_event(event)
        request_hooks = RequestHooks(in_force, self._runners.run, self._recall.read)
        if host_part.rules_only:
            request_hooks.wait_for(self._checks, _RULES_SECONDS)
            rules = [hook for hook in await request_hooks.fitting_there(event) if hook.rule is not None]
            return await self._run_hooks(host_part, request_hooks, rules, _RULES_SECONDS)
        request_hooks.wait_for(self._checks, max(0.0, (host_part.deadline - self._clock.now()) / 1000))
        hooks = await request_hooks.fitting_there(event)
        if any(hook.kind != "rule" for hook in hooks):
            reply = await call(self._connections, *begin_call(host_part, self._keys, self.name))
            if reply[0] == b"joined":
                return None
            if reply[0] != b"run":
                return decode_verdict(reply[1]) if reply[0] == b"done" else self._dead_worker_verdict(host_part)
        now = self._clock.now()
        deadline = extended_ms(event, hooks, now, host_part.deadline, host_part.latest)
        if deadline == host_part.deadline:
            return await self._run_hooks(host_part, request_hooks, hooks, (deadline - now) / 1000)
        joined = joined_key(host_part, self._keys)
        async with self._slots.slow(self._connections, host_part.reply, (host_part.deadline - now) / 1000, joined):
            return await self._run_hooks(host_part, request_hooks, hooks, (deadline - now) / 1000)

    def _dead_worker_verdict(self, host_part: HostPart) -> Verdict:
        reason = (
            f"a worker of host {self._host} died during this request; its hooks may have started and are not run again"
        )
        return failed(bus_policy(host_part.policy, host_part.event.type), reason, event=host_part.event.id)

    async def _run_hooks(
        self, host_part: HostPart, request_hooks: RequestHooks, hooks: list[Hook], seconds: float
    ) -> Verdict:
        event = host_part.event
        in_force = request_hooks.hook_set
        run = without_loops(request_hooks.run, event, await lineage(self._connections, self._keys, event))
        effects = [hook.id for hook in hooks if hook.kind != "rule"]
        await self._record_lineage(event.id, event.parent, effects, "1")
        try:
            left = max(0, host_part.deadline - self._clock.now())
            with process_span(event, GROUP, left, host_part.policy) as span:
                event = at_trace(event, span.context)
                verdict = await evaluate(
                    Evaluation(
                        event=event,
                        hooks=hooks,
                        run=traced(run),
                        seconds=max(0.0, seconds * 0.9),
                        policy=host_part.policy,
                        version=in_force.version,
                        layers=[layer for layer in in_force.layers if layer != "fleet"],
                        changes=host_part.changes,
                        hooks_for=request_hooks.fitting_there,
                        notes=request_hooks.notes(event, hooks),
                    )
                )
                note_verdict(span, verdict)
            if not host_part.rules_only and not held_parts(verdict):
                self._plugins.observe(event, verdict, on_host=True)
        finally:
            await self._record_lineage(event.id, event.parent, effects, str(self._clock.now()))
        version = " ".join(part for part in in_force.version.split(" ") if not part.startswith("fleet@"))
        return msgspec.structs.replace(verdict, version="" if version == "none" else version, waiting=in_force.waiting)

    async def _record_lineage(self, event_id: str, parent: str, hooks: list[str], state: str) -> None:
        """Record which hooks run for an event, or when they ended: events that they cause are its children (F-12)."""
        if not hooks:
            return
        key = self._keys("lineage", event_id)
        fields = [part for hook in hooks for part in (f"hook:{hook}", state)]
        try:
            with self._connections.lease() as connection:
                await connection.exchange([("HSET", key, "parent", parent, *fields), ("PEXPIRE", key, KEPT_MS)])
        except Unreachable as error:
            log.warning("hook loops that start at event %s cannot be detected: %s", event_id, error)

    async def _dispatch(self, entries: list[StreamEntry]) -> None:
        """Add the deliveries that this machine's own hook files ask for; each event is dispatched once."""
        if not entries:
            return
        calls = []
        for entry in entries:
            try:
                fields = unpack_fields(entry.fields[b"data"])
                original = StreamEntry(self._keys("events"), fields[b"entry"].decode(), fields)
                event = read_event(read_request(original, self._keys))
                verdict = decode_verdict(fields[b"verdict"]) if b"verdict" in fields else None
                if verdict is None or verdict.stop or verdict.approval is not None:  # others were seen with their part
                    self._plugins.observe(event, verdict, on_host=True)
                planned = await plan_deliveries(event, verdict, self._watcher.for_event(event), self._keys)
                for_host = [delivery for delivery in planned if delivery.layer != "fleet"]
                body = pack_fields(original) if for_host else b""
                calls.append(dispatch_call(entry, event, for_host, self._keys, GROUP, body, now_ms(), "-"))
            except Exception:  # an error in one event must not stop the others
                log.exception("event %s cannot be dispatched on its host", entry.id)
                calls.append(dispatch_call(entry, None, [], self._keys, GROUP, b"", now_ms(), "-"))
        for entry, reply in zip(entries, await call_all(self._connections, calls), strict=True):
            self._deliveries_added = checked(reply, f"dispatching {entry.id}") > 0 or self._deliveries_added
        await self._send([command for entry in entries for command in remove_commands(entry)])
