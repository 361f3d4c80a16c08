"""The evaluator: reads requests, runs their hooks, answers with verdicts (docs/architecture.md, "A blocking hook")."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from bus.chain import Evaluation, Run, evaluate
from bus.errors import FleethookError, OverBudget, Unreachable
from bus.events import Event
from bus.hooksets.host_hooks import HostRecorder
from bus.hooksets.in_force import Watcher
from bus.http.client_pool import ClientPool
from bus.ids import consumer_name, host_name
from bus.probe import PROBE, probe_call
from bus.requests import Request, defer_call, read_event, read_request, sent_by_now
from bus.runners.by_kind import Runners
from bus.runners.evaluation_spans import evaluation_span, note_verdict
from bus.runners.hook_spans import traced
from bus.verdicts import Policy, Verdict
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.streams import MOST_DELIVERIES, ScriptCall, StreamEntry
from workers.approvals.decided_requests import DecidedRequests
from workers.approvals.held_requests import HeldRequests
from workers.delivery.later_context import LateContexts
from workers.fleet_control.enforcement import Enforcement
from workers.fleet_control.messages import PostBoxes
from workers.fleet_control.reach import Reach, note_flag
from workers.memory.limited_answers import LimitedAnswers
from workers.memory.recall import Recall
from workers.plugins.when_enabled import PluginsWhenEnabled
from workers.runtime.claims import claim_request
from workers.runtime.clock import ServerClock
from workers.runtime.consumer_loop import cancel_tasks, consume, drain, with_heartbeat
from workers.runtime.counters import Counters
from workers.runtime.file_notices import FileNotices
from workers.runtime.hook_loops import lineage, without_loops
from workers.runtime.outbox import AfterHooks, Outbox
from workers.runtime.placement import Placement
from workers.runtime.process import DRAIN_SECONDS
from workers.runtime.request_hooks import HandledRequest, request_hooks
from workers.runtime.request_replies import Replies
from workers.runtime.rule_checks import RuleChecks
from workers.runtime.slow_hooks import Slots, extended_ms, hook_seconds, is_waited_for
from workers.runtime.stream_repair import Repairs
from workers.waiting.long_read import LongRead
from workers.waiting.looks import verdict_looks
from workers.waiting.on_demand import RequestLoad
from workers.workflows.at_work import Workflows

log = logging.getLogger("fleethook.evaluator")

GROUP: Final = "evaluators"
_MOST_READ: Final = 32
_LONG: Final = 256 * 1024  # a request with more bytes is read in a thread: 16 MB of lists take 0.3 s (measured)
_FULL_SECONDS: Final = 0.05  # how long a read waits while no slot is free; then a free one takes a deferred request
_MAINTAIN_SECONDS: Final = 0.25  # how often a busy loop does its periodic upkeep


class Evaluator:
    """One evaluator: reads requests as one of the group, runs their hooks, answers.

    The reading loop itself answers requests that need only rules. A request that needs a process or an HTTP call takes one
    of `slots`; if none is free, it is deferred to an evaluator that has one, so rules never queue behind processes.
    Heavy checks (of a long command line, or a costly condition) run in other processes and delay no other request.
    """

    def __init__(
        self,
        url: str,
        keys: Keys,
        watcher: Watcher,
        connections: Connections,
        *,
        slots: int = 8,
        policy: Policy = "allow",
        drain: float = DRAIN_SECONDS,
    ) -> None:
        self.name = consumer_name("evaluator")
        self._keys, self._watcher, self._connections = keys, watcher, connections
        self._reading = Connections(url, connect=1.0)
        self._consumer = Consumer(
            connections,
            keys,
            group=GROUP,
            name=self.name,
            streams=(keys("requests"), keys("decided"), keys("waiting")),
            role="evaluator",
            about=f"evaluator {host_name()}",
            watches=keys("stops"),
        )
        self._slots, self._drain, self.load, self._maintained_at = Slots(slots), drain, RequestLoad(), 0.0
        self._checking = Slots(0)  # the tasks that wait for heavy checks; they take no slot
        self._clients, self._late_contexts = ClientPool(), LateContexts(connections, keys)
        self.plugins = PluginsWhenEnabled(connections, keys, watcher, self.name, reads_published=True)
        self._flows = Workflows(connections, keys, watcher, self.name, self._clients, self.plugins)
        self._runners = Runners(watcher, self._clients, self._late_contexts.keep, self.plugins.run, self._flows.run)
        self._checks, self._clock = RuleChecks(), ServerClock(connections)
        self._placement, self._recorder = Placement(connections, keys), HostRecorder(connections, keys, watcher)
        self._notices, self._stops = FileNotices(connections, keys), Enforcement(connections, keys)
        self._repairs, self._counters = Repairs(connections, keys, self.name), Counters(connections, keys)
        self._messages, self._reach = PostBoxes(connections, keys), Reach(connections, keys)
        flag_of = partial(note_flag, self._stops, self._reach)
        self._replies = Replies(keys, GROUP, policy, self._clock, flag_of, self.plugins.observe)
        self._held = HeldRequests(connections, keys, GROUP, self.name, self._replies, self._clock, self._stops)
        self._facts = Recall(connections, keys, self._consumer)
        self._hooks_for = partial(request_hooks, watcher, self._runners.run, self._facts.read)
        self._outbox = Outbox(connections, self._consumer, self._settle)
        self._after_hooks = AfterHooks(keys, self._checking.start, self._outbox.send_or_keep, self._replies.broken)
        self._limited = LimitedAnswers(connections, keys, self._clock, self._replies, self._after_hooks.answer_later)
        means = (self._stops, self._hooks_for, self._checks, self._placement, self._limited.answer)
        self._decided = DecidedRequests(keys, self.name, self._replies, *means)
        reports = (partial(self._notices.publish, watcher), self._recorder.keep, self._counters.send, self._reach.send)
        always, looks = (self._clock.measure, *reports, self.plugins.maintain), (self._repairs.look,)
        self._long_read = LongRead(self._consumer, self._reading, always, verdict_looks(keys), looks)

    async def run(self, stop: asyncio.Event) -> None:
        """Evaluate until `stop`, then finish what is under way (at most the drain time) and leave the group."""
        async with self._clients, self._checks:
            watching = asyncio.create_task(self._held.watch())
            try:
                turn = partial(self._turn, stop)
                await consume(self._consumer, turn, stop, who="evaluator", prepare=self._consumer.create)
                await self._finish()
            finally:
                await cancel_tasks({watching} | self._slots.tasks | self._checking.tasks)
                await asyncio.gather(self._runners.end_background(), self.plugins.close(), self._flows.close())
                await self._reading.close()

    async def prepare(self) -> None:
        """Read the clock and the hook set, write the first heartbeat, and make the group; raises Unreachable."""
        await self._clock.measure()
        await self._watcher.refresh(force=True)
        await self._runners.warm(self._watcher.fleet())
        await self.plugins.prepare()
        await self._consumer.create()
        await self._consumer.beat()

    async def _turn(self, stop: asyncio.Event) -> bool:
        entries = await self._maintain() if time.monotonic() - self._maintained_at >= _MAINTAIN_SECONDS else []
        is_busy = entries or self._slots.tasks or self._checking.tasks or self._outbox.waits
        if not is_busy and (free := self._slots.free) > 0 and await self._long_read.may_begin():
            entries = await self._long_read.read(stop, min(_MOST_READ, free))
            entries += await self._maintain(entries) if self._long_read.found else []
        else:
            entries += await self._read(entries)
            self._long_read.note_turn(quiet=not entries)
        self._stops.note(self._consumer.watched)
        self._facts.note(entries)
        read_at = self.load.note(len(entries), len(self._slots.tasks))
        for entry in entries:
            self._outbox.add(await self._handle(entry))
            await self._consumer.beat_if_due(read_at)
        return True

    async def _read(self, entries: Sequence[StreamEntry]) -> list[StreamEntry]:
        free, names = self._slots.free, self._consumer.streams
        with self._reading.lease() as connection:
            answers, count = self._outbox.take(), min(_MOST_READ, free) if free > 0 else _MOST_READ
            block = 0 if entries or self._limited.awaits(answers) else 0.5 if free > 0 else _FULL_SECONDS
            try:
                found = await self._consumer.read(connection, count, block, names if free > 0 else names[:-1], answers)
            except Unreachable:
                self._outbox.put_back(answers)
                raise
        self._outbox.add(await self._settle(answers, self._consumer.results))
        return found

    async def _maintain(self, read: Sequence[StreamEntry] = ()) -> list[StreamEntry]:
        """Periodic upkeep. Returns pending entries to resume besides those just `read`: ours or those of a dead evaluator."""
        self._maintained_at = time.monotonic()
        await self._outbox.flush()  # agents do not wait for our upkeep
        await self._repairs.repair_if_due()
        await with_heartbeat(self._consumer, self._watcher.refresh(at_once=self._long_read.found))
        await with_heartbeat(self._consumer, self._runners.warm(self._watcher.fleet()))
        await self._late_contexts.refresh()
        await self._messages.refresh()
        await self._long_read.report()
        self._held.look(at_hand=bool(read))
        held = self._slots.held | self._checking.held | self._outbox.entries() | {(one.stream, one.id) for one in read}
        return await self._consumer.pending_to_resume(held)

    async def _handle(self, entry: StreamEntry) -> list[ScriptCall]:
        """Start a request in a slot, or answer it now if it needs only rules, by the calls that go out with the next read.

        An error in one request gives it an error verdict, and does not reach the other requests.
        """
        if entry.stream == self._keys("decided"):
            self._checking.start(self._answer_held(entry), entry.stream, entry.id)
            return []
        request = sent_by_now(read_request(entry, self._keys), self._clock.now())
        if request.handed > MOST_DELIVERIES:  # checked before its payload is read: reading it may end the process
            return self._replies.bury(request, f"handed out {request.handed} times: its evaluators die")
        if len(request.body) > _LONG:
            self._checking.start(self._handle_long(request), entry.stream, entry.id)
            return []
        try:
            event = read_event(request)
        except Exception as error:  # noqa: BLE001 - logged in Replies.unreadable
            return self._replies.unreadable(request, error)
        return await self._handle_event(request, event)

    async def _handle_long(self, request: Request) -> None:
        """Read a long request in a thread, then handle it like any other."""
        try:
            event = await asyncio.to_thread(read_event, request)
            answers = await self._handle_event(request, event, is_beside=True)
        except Exception as error:  # noqa: BLE001 - logged in Replies.unreadable
            answers = self._replies.unreadable(request, error)
        await self._outbox.send_or_keep(request.id, answers)

    async def _handle_event(self, request: Request, event: Event, *, is_beside: bool = False) -> list[ScriptCall]:
        """Handle a request that was read, as `_handle` does; `is_beside`: a task beside the loop does it."""
        if event.type == PROBE:
            return [probe_call(request, self._keys, GROUP, self.name)]
        try:
            if self._after_hooks.resume(request, event):
                return []
            stopped = None if request.fallback else self._stops.verdict(event)
            if stopped is not None:
                return await self._held.answer(request, event, stopped)
            if (verdict := await self._verdict_without_hooks(request, event)) is not None:
                return [await self._held.again(request) or self._replies.answer(request, event, verdict)]
            handled = HandledRequest(request, event, self._hooks_for(event))
            try:
                return await self._answer_or_start(handled)
            except OverBudget:  # other processes check its heavy rules, beside this loop
                if is_beside:
                    await self._answer_heavy(handled)
                else:
                    self._checking.start(self._answer_heavy(handled), request.entry.stream, request.entry.id)
                return []
        except Unreachable as error:  # no hook with effects has run
            self._resume_later(request, error)
            return []
        except Exception as error:  # noqa: BLE001 - logged in Replies.broken
            return self._replies.broken(request, event, error)

    async def _verdict_without_hooks(self, request: Request, event: Event) -> Verdict | None:
        """The verdict of a request that runs no hook, because it has a fallback already or is out of time; else None."""
        reason, now = request.fallback, self._clock.now()
        if not reason and now >= request.deadline and not await is_waited_for(self._connections, request, now):
            reason = "the budget was used up before an evaluator was free"
        return self._replies.failed(request, event, reason) if reason else None

    async def _answer_or_start(self, handled: HandledRequest) -> list[ScriptCall]:
        """Answer a request that needs only rules, or start it in a slot; returns the calls to send.

        Raises OverBudget if its rules are heavy and nothing waits for them yet.
        """
        handled = await handled.with_fitting_hooks()
        if not await handled.needs_slot(self._placement):
            return await self._conclude(handled)
        light, entry = handled.is_light and not self._placement.is_remote(handled.event), handled.request.entry
        if not self._slots.has_room(light=light):
            return [defer_call(handled.request, self._keys, GROUP)]
        handled.in_force.wait_for(self._checks, self._hook_seconds(handled.request))
        self._slots.start(self._run_in_slot(handled), entry.stream, entry.id, light=light)
        return []

    async def _answer_heavy(self, handled: HandledRequest) -> None:
        """Answer a request with heavy rules; if it also needs a slot, it goes on in one."""
        handled.in_force.wait_for(self._checks, self._hook_seconds(handled.request))
        await self._answer(handled.request, handled.event, self._answer_or_start(handled))

    async def _run_in_slot(self, handled: HandledRequest) -> None:
        """Run the hooks and answer. While they run beyond the budget, the hook command is notified that it must wait."""
        request, event = handled.request, handled.event
        now, budget_end = self._clock.now(), request.deadline
        remote = self._placement.is_remote(event) and request.latest > budget_end  # only that host knows its hooks
        deadline = request.latest if remote else extended_ms(event, handled.hooks, now, budget_end, request.latest)
        if (deadline == budget_end and request.handed == 1) or not request.reply:
            await self._run_hooks(handled, budget_end)
            return
        handled = handled._replace(request=msgspec.structs.replace(request, deadline=deadline))
        handled.in_force.wait_for(self._checks, self._hook_seconds(handled.request))
        async with self._slots.slow(self._connections, request.reply, (budget_end - now) / 1000):
            await self._run_hooks(handled, budget_end)

    async def _run_hooks(self, handled: HandledRequest, budget_end: int) -> None:
        await self._answer(handled.request, handled.event, self._answers_of_hooks(handled, budget_end))

    async def _answers_of_hooks(self, handled: HandledRequest, budget_end: int) -> list[ScriptCall]:
        is_rerun, answers = await self._claim(handled)
        if is_rerun is None:
            return answers
        event = handled.event
        run = without_loops(handled.in_force.run, event, await lineage(self._connections, self._keys, event))
        with self._after_hooks.running(handled.request):
            return await self._conclude(handled, run, is_rerun=is_rerun, budget_end=budget_end)

    async def _answer_held(self, entry: StreamEntry) -> None:
        held = self._decided.read(entry)
        await self._answer(*held, self._decided.finish(*held))

    async def _answer(self, request: Request, event: Event | None, answers: Awaitable[list[ScriptCall]]) -> None:
        """Send the calls that answer a request, when they are made."""
        try:
            calls = await answers
        except FleethookError as error:  # Redis went away before a hook ran: see AfterHooks
            self._resume_later(request, error)
            return
        except Exception as error:  # noqa: BLE001 - logged in Replies.broken and Replies.unreadable
            replies = self._replies
            calls = replies.broken(request, event, error) if event else replies.unreadable(request, error)
        await self._outbox.send_or_keep(request.id, calls)

    def _resume_later(self, request: Request, error: FleethookError) -> None:
        """Leave the request's entry pending; it is resumed when Redis is back."""
        self._consumer.must_recheck_pending = True
        log.error("request %s: %s; it is resumed later", request.id, error)

    async def _settle(self, calls: Sequence[ScriptCall], replies: Sequence[Any]) -> list[ScriptCall]:
        self._after_hooks.note(calls, replies)
        return await self._limited.settle(calls, replies)

    async def _claim(self, handled: HandledRequest) -> tuple[bool | None, list[ScriptCall]]:
        """Claims the request. Returns (whether its hooks may have started before, []), or (None, calls that answer it)."""
        request, event = handled.request, handled.event
        claim = await claim_request(
            self._connections, self._keys, self._clock, request, event, handled.hooks, GROUP, self.name
        )
        if claim.word == "wait":
            reason = "the budget was used up while the same hook call was being evaluated"
            return None, [self._replies.answer(request, event, self._replies.failed(request, event, reason))]
        if claim.known is not None:
            return None, [self._replies.answer(request, event, claim.known, known=True)]
        if claim.word == "lost":  # another evaluator has the entry, or a repair gave it a new id
            self._consumer.must_recheck_pending = True
        return (claim.word == "again", []) if claim.word in {"run", "again"} else (None, [])

    async def _conclude(
        self, handled: HandledRequest, run: Run | None = None, *, is_rerun: bool = False, budget_end: int = 0
    ) -> list[ScriptCall]:
        """The calls that answer a request with the verdict of its hooks, or hold it; `run` runs one hook of a claimed one."""
        request, policy = handled.request, self._replies.strictest_policy(handled.request)
        with evaluation_span(request, handled.event, GROUP, policy) as (request, event, span):
            placed = HandledRequest(request, event, handled.in_force, handled.hooks)
            verdict = await self._evaluate(placed, run or placed.in_force.run, is_rerun, budget_end)
            note_verdict(span, verdict)

        def make(request: Request) -> Awaitable[list[ScriptCall]]:
            conclude = partial(self._held.conclude, request, event, owner="" if run is None else self.name)
            return self._limited.answer(request, event, verdict, conclude) if verdict.charges else conclude(verdict)

        return await (make(request) if run is None else self._after_hooks.answer(request, make))

    async def _evaluate(self, handled: HandledRequest, run: Run, is_rerun: bool, budget_end: int) -> Verdict:
        """The verdict of the request's hooks; `run` runs one hook."""
        request, event, in_force, hooks = handled
        ask_host, hooks_for = None, in_force.fitting
        if self._placement.is_remote(event):
            budget_end = max(budget_end, min(request.deadline, self._clock.now()))
            policy = self._replies.strictest_policy(request)
            limits = (request.folder, policy, budget_end, request.deadline, self._clock)
            ask_host = await self._placement.host_part(event, hooks, *limits)
            hooks, hooks_for = [hook for hook in hooks if not hook.on_host], in_force.fitting_here
        verdict = await evaluate(
            Evaluation(
                event=event,
                hooks=hooks,
                run=traced(run),
                seconds=self._hook_seconds(request),
                version=in_force.hook_set.version,
                layers=in_force.hook_set.layers,
                hooks_for=hooks_for,
                ask_host=ask_host,
                notes=in_force.notes(event, hooks),
                is_rerun=is_rerun,
            )
        )
        verdict = await self._late_contexts.add_to(event, request.native, verdict)
        verdict = await self._messages.add_to(request, event, verdict)
        verdict = await self._notices.add_notes(request, event, verdict, in_force.hook_set)
        self._replies.counts.note_kinds(hooks)
        self._counters.count_checks(verdict)
        return verdict

    def _hook_seconds(self, request: Request) -> float:
        return hook_seconds((request.deadline - self._clock.now()) / 1000)

    async def _finish(self) -> None:
        try:
            await self._outbox.flush()
            groups = (self._checking.tasks, self._slots.tasks, self._runners.background)
            log.info("finishing %d requests, %d hooks in the background", *map(len, groups[1:]))
            await drain(self._consumer, groups, self._drain)
            await self._outbox.flush()
            await self._counters.send(now=True)
        except Unreachable as error:
            log.error("leaving while redis is away: %s; other evaluators resume what is pending", error)
        await self._consumer.leave()
