"""The evaluator: requests -> chain -> verdict -> reply (docs/architecture.md, "A blocking hook")."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from bus.chain import Evaluation, Run, evaluate
from bus.errors import DecodeError, FleethookError, OverBudget, Unreachable
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.host_hooks import HostRecorder
from bus.hooksets.in_force import HookSet, Watcher
from bus.http.client_pool import ClientPool
from bus.ids import consumer_name, host_name
from bus.probe import PROBE, probe_call
from bus.requests import (
    Request,
    defer_call,
    read_event,
    read_request,
    sent_by_now,
)
from bus.runners.by_kind import Runners
from bus.verdicts import Policy, Verdict
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.streams import MOST_DELIVERIES, Call, Entry, call_all
from workers.delivery.later_context import Afterwords
from workers.runtime.claims import claim_request
from workers.runtime.clock import ServerClock
from workers.runtime.consumer_loop import cancel_tasks, consume, drain
from workers.runtime.counters import Counters
from workers.runtime.file_notices import Notices
from workers.runtime.hook_loops import lineage, without_loops
from workers.runtime.placement import Placement
from workers.runtime.process import DRAIN_SECONDS
from workers.runtime.replies import Replies
from workers.runtime.request_hooks import RequestHooks
from workers.runtime.rule_checks import RuleChecks
from workers.runtime.slow_hooks import Slots, extended_ms, hook_seconds, is_waited_for
from workers.runtime.stream_repair import Repairs

log = logging.getLogger("fleethook.evaluator")

GROUP: Final = "evaluators"
_READ: Final = 32
_FULL_SECONDS: Final = 0.05
"""How long a read waits while no slot is free, so that one that becomes free takes up what was put aside."""
_KEEP_SECONDS: Final = 0.25
_SAME_SECONDS: Final = 0.02


class Evaluator:
    """One evaluator: reads requests as one of the group, runs their chains, answers.

    Requests that need only rules are answered in the reading loop; those that need a process or an http call take one
    of `slots`. Without a free slot they are put aside for whoever has one, so rules never queue behind processes.
    What is heavy to check (a long command line, a costly condition) is checked by `checks`, and delays nobody else.
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
            streams=(keys("requests"), keys("waiting")),
            role="evaluator",
            about=f"evaluator {host_name()}",
        )
        self._slots, self._drain = Slots(slots), drain
        self._checking = Slots(0)
        """The tasks that wait for heavy checks; they take no slot."""
        self._clients = ClientPool()
        self._afterwords = Afterwords(connections, keys)
        self._runners = Runners(watcher, self._clients, self._afterwords.keep)
        self._checks = RuleChecks()
        self._placement, self._recorder = Placement(connections, keys), HostRecorder(connections, keys, watcher)
        self._notices = Notices(connections, keys)
        self._answers: list[Call] = []
        self._begun: set[str] = set()
        self._kept = 0.0
        self._warmed: HookSet | None = None
        self._clock = ServerClock(connections)
        self._repairs, self._counters = Repairs(connections, keys, self.name), Counters(connections, keys)
        self._replies = Replies(keys, GROUP, policy, self._counters)

    async def run(self, stop: asyncio.Event) -> None:
        """Evaluate until `stop`, then finish what is under way (at most the drain time) and leave the group."""
        async with self._clients, self._checks:
            try:
                await consume(self._consumer, self._turn, stop, who="evaluator", prepare=self._consumer.create)
                await self._finish()
            finally:
                await cancel_tasks(self._slots.tasks | self._checking.tasks)
                await self._runners.end_background()
                await self._reading.close()

    async def prepare(self) -> None:
        """Make the group, read the clock and the hook set, and say that we are alive; raises Unreachable."""
        await self._consumer.create()
        await self._clock.keep()
        await self._watcher.refresh(force=True)
        await self._warm()
        await self._consumer.beat()

    async def _warm(self) -> None:
        """Let the rules meet an event before an agent waits: their libraries and patterns take half a second once."""
        in_force = self._watcher.fleet()
        if in_force is self._warmed:
            return
        self._warmed = in_force
        await self._runners.warm(in_force)

    async def _turn(self) -> bool:
        entries = await self._keep() if time.monotonic() - self._kept >= _KEEP_SECONDS else []
        free = self._slots.free
        requests, waiting = self._consumer.streams
        with self._reading.lease() as connection:
            count = min(_READ, free) if free > 0 else _READ
            block = 0 if entries else 0.5 if free > 0 else _FULL_SECONDS
            answers, self._answers = self._answers, []
            try:
                entries += await self._consumer.read(
                    connection, count, block, (requests, waiting) if free > 0 else (requests,), answers
                )
            except Unreachable:
                self._answers = answers + self._answers  # whoever was acknowledged meanwhile is not answered again
                raise
        for entry in entries:
            self._answers += await self._handle(entry)
        return True

    async def _keep(self) -> list[Entry]:
        """What is to be done now and then, and the entries of others, or of our own, that it finds to carry on."""
        self._kept = time.monotonic()
        if self._answers:  # nobody waits for our housekeeping
            answers, self._answers = self._answers, []
            try:
                await self._send(answers)
            except Unreachable:
                self._answers = answers + self._answers
                raise
        await self._clock.keep()
        await self._repairs.keep()
        await self._watcher.refresh()
        await self._warm()
        await self._notices.announce(self._watcher.rejected())
        await self._afterwords.look()
        await self._notices.report(self._watcher.guards)
        await self._recorder.keep()
        await self._counters.send()
        held = self._slots.held | self._checking.held | {(str(one.keys[0]), str(one.args[1])) for one in self._answers}
        return await self._consumer.pending_to_resume(held)

    async def _handle(self, entry: Entry) -> list[Call]:
        """The calls that rules can make at once, for one write together with the next read; a slot for the rest.

        Whatever goes wrong with one request is an error verdict for it, and nothing to the others.
        """
        request = sent_by_now(read_request(entry, self._keys), self._clock.now())
        if request.handed > MOST_DELIVERIES:  # before anything of it is read: that may be what kills
            return self._replies.bury(request, f"handed out {request.handed} times: whoever evaluates it dies")
        try:
            event = read_event(request)
        except DecodeError as error:
            return self._replies.bury(request, f"payload could not be read: {error}")
        except Exception as error:
            log.exception("request %s", request.id)
            return self._replies.bury(request, f"payload could not be read: {type(error).__name__}")
        if event.type == PROBE:
            return [probe_call(request, self._keys, GROUP, self.name)]
        try:
            verdict = await self._at_once(request, event)
            if verdict is None:
                own = RequestHooks(self._watcher.for_event(event), self._runners.run)
                hooks = await own.fitting(event)
                if await self._needs_slot(request, event, hooks):
                    return self._slot(request, event, hooks, own)
                verdict = await self._evaluate(request, event, hooks, own, own.run)
            return [self._replies.answer(request, event, verdict)]
        except OverBudget:
            return self._aside(request, event, own)
        except Exception as error:  # noqa: BLE001 - logged in Replies.broken
            return self._replies.broken(request, event, error)

    async def _at_once(self, request: Request, event: Event) -> Verdict | None:
        """The verdict of a request that runs no hook: it fell back before, or is out of time."""
        why, now = request.fallback, self._clock.now()
        if not why and now >= request.deadline and not await is_waited_for(self._connections, request, now):
            why = "the budget was used up before an evaluator was free"
        return self._replies.failed(request, event, why) if why else None

    async def _needs_slot(self, request: Request, event: Event, hooks: Sequence[Hook]) -> bool:
        return any(hook.kind != "rule" for hook in hooks) or (
            self._placement.is_remote(event) and await self._placement.needs_host(event, hooks, request.folder)
        )

    def _slot(self, request: Request, event: Event, hooks: Sequence[Hook], own: RequestHooks) -> list[Call]:
        """Start it in a slot; without a free one, the call that puts it aside."""
        if self._slots.free <= 0:
            return [defer_call(request, self._keys, GROUP)]
        own.wait_for(self._checks, self._seconds(request))
        self._slots.start(self._with_effects(request, event, hooks, own), request.entry.stream, request.entry.id)
        return []

    def _aside(self, request: Request, event: Event, own: RequestHooks) -> list[Call]:
        """Let what is heavy to check be checked aside."""
        self._checking.start(self._check(request, event, own), request.entry.stream, request.entry.id)
        return []

    async def _check(self, request: Request, event: Event, own: RequestHooks) -> None:
        """Answer a request that is heavy to check; where it also needs a slot, it goes on in one."""
        try:
            own.wait_for(self._checks, self._seconds(request))
            hooks = await own.fitting(event)
            if await self._needs_slot(request, event, hooks):
                answers = self._slot(request, event, hooks, own)
            else:
                verdict = await self._evaluate(request, event, hooks, own, own.run)
                answers = [self._replies.answer(request, event, verdict)]
        except FleethookError as error:
            self._consumer.must_recheck_pending = True
            log.error("request %s: %s; it is carried on", request.id, error)
            return
        except Exception as error:  # noqa: BLE001 - logged in Replies.broken
            answers = self._replies.broken(request, event, error)
        await self._deliver(request, answers)

    async def _with_effects(self, request: Request, event: Event, hooks: Sequence[Hook], own: RequestHooks) -> None:
        """Run the hooks and answer; where they may take longer than the budget, who asked is told that they run."""
        now, early = self._clock.now(), request.deadline
        remote = self._placement.is_remote(event) and request.latest > early  # what that host has, only it knows
        deadline = request.latest if remote else extended_ms(event, hooks, now, early, request.latest)
        if (deadline == early and request.handed == 1) or not request.reply:
            await self._run_hooks(request, event, hooks, own, early)
            return
        request = msgspec.structs.replace(request, deadline=deadline)
        own.wait_for(self._checks, self._seconds(request))
        async with self._slots.slow(self._connections, request.reply, (early - now) / 1000):
            await self._run_hooks(request, event, hooks, own, early)

    async def _run_hooks(
        self, request: Request, event: Event, hooks: Sequence[Hook], own: RequestHooks, early: int
    ) -> None:
        try:
            again, calls = await self._claim(request, event, hooks)
            if again is None:
                answers = calls
            else:
                run = without_loops(own.run, event, await lineage(self._connections, self._keys, event))
                again = again or request.id in self._begun
                self._begun.add(request.id)
                verdict = await self._evaluate(request, event, hooks, own, run, again=again, early=early)
                answers = [self._replies.answer(request, event, verdict, owner=self.name)]
        except FleethookError as error:
            # Redis went away before a hook ran: it is still pending, and `own_pending` finds it when Redis is back.
            self._consumer.must_recheck_pending = True
            log.error("request %s: %s; it is carried on", request.id, error)
            return
        except Exception as error:  # noqa: BLE001 - logged in Replies.broken
            answers = self._replies.broken(request, event, error)
        await self._deliver(request, answers)

    async def _deliver(self, request: Request, answers: Sequence[Call]) -> None:
        """Send what a task has to say; where Redis is away, with the next read."""
        try:
            if await self._send(answers):
                self._begun.discard(request.id)
        except Unreachable as error:
            self._answers += answers  # with the next read: the hooks have run, and must not run again
            log.error("the answer to request %s: %s; it is sent again", request.id, error)

    async def _claim(self, request: Request, event: Event, hooks: Sequence[Hook]) -> tuple[bool | None, list[Call]]:
        """Claims the request: (whether its hooks may have begun before, []), or (None, calls that answer it)."""
        claim = await claim_request(self._connections, self._keys, self._clock, request, event, hooks, GROUP, self.name)
        if claim.word == "wait":
            why = "the budget was used up while the same hook call was being evaluated"
            return None, [self._replies.answer(request, event, self._replies.failed(request, event, why))]
        if claim.known is not None:
            return None, [self._replies.answer(request, event, claim.known)]
        if claim.word == "lost":  # another has it, or it has another id since a repair
            self._consumer.must_recheck_pending = True
        return (claim.word == "again", []) if claim.word in {"run", "again"} else (None, [])

    async def _evaluate(
        self,
        request: Request,
        event: Event,
        hooks: Sequence[Hook],
        own: RequestHooks,
        run: Run,
        *,
        again: bool = False,
        early: int = 0,
    ) -> Verdict:
        ask_host, hooks_for = None, own.fitting
        if self._placement.is_remote(event):
            early = max(early, min(request.deadline, self._clock.now()))
            limits = (request.folder, self._replies.strictest_policy(request), early, request.deadline, self._clock)
            ask_host = await self._placement.host_part(event, hooks, *limits)
            hooks, hooks_for = [hook for hook in hooks if not hook.on_host], own.fitting_here
        verdict = await evaluate(
            Evaluation(
                event=event,
                hooks=hooks,
                run=run,
                seconds=self._seconds(request),
                version=own.in_force.version,
                layers=own.in_force.layers,
                hooks_for=hooks_for,
                ask_host=ask_host,
                notes=own.notes(event, hooks),
                is_rerun=again,
            )
        )
        verdict = await self._afterwords.tell(event, request.native, verdict)
        verdict = await self._notices.tell(request, event, verdict, own.in_force)
        self._counters.count_verdict(verdict)
        return verdict

    def _seconds(self, request: Request) -> float:
        """What is left of a request's budget for its hooks."""
        return hook_seconds((request.deadline - self._clock.now()) / 1000)

    async def _send(self, calls: Sequence[Call]) -> bool:
        """Whether every one of them counted; where Redis refused one, its entry is looked for again.

        An answer that another has given, or will give, counts for nothing: its request may still come back to us.
        """
        replies = await call_all(self._connections, calls) if calls else []
        if any(isinstance(reply, Exception) or reply == 0 for reply in replies):
            self._consumer.must_recheck_pending = True
            return False
        return True

    async def _finish(self) -> None:
        try:
            await self._send(self._answers)
            self._answers = []
            groups = (self._checking.tasks, self._slots.tasks, self._runners.background)
            log.info("finishing %d requests, %d hooks in the background", *map(len, groups[1:]))
            await drain(self._consumer, groups, self._drain)
            await self._send(self._answers)
            await self._counters.send()
        except Unreachable as error:
            log.error("leaving while redis is away: %s; others carry on what is pending", error)
        await self._consumer.leave()
