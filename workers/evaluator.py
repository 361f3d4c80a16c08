"""The evaluator: requests -> chain -> verdict -> reply (design, section 3)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from bus.chain import Run, evaluate
from bus.connections import Links
from bus.errors import DecodeError, FleethookError, Unreachable
from bus.events import Event
from bus.hooks import Hook
from bus.ids import consumer_name, host_name
from bus.inforce import HookSet, Watcher
from bus.keys import Keys
from bus.requests import Request, answer_call, call_key, claim_call, defer_call, read_event, read_request, render
from bus.runners import Outcome, Runner
from bus.runners.command import CommandRunner
from bus.runners.http import HttpRunner
from bus.runners.rule import RuleRunner
from bus.streams import MOST_DELIVERIES, Backoff, Call, Consumer, Entry, call, call_all, server_now
from bus.verdicts import Policy, Verdict, failed
from workers.deadletters import poison_call
from workers.posters import Posters

log = logging.getLogger("fleethook.evaluator")

GROUP: Final = "evaluators"
_READ: Final = 32
_CLOCK_SECONDS: Final = 30.0
_STATS_SECONDS: Final = 1.0
_WARMED: Final = 500
_SAMPLE: Final = Event(type="tool:pre_execute", tool="bash", input={"command": "true && ls -la", "path": "/"})
MOST_STEPS: Final = 16
"""How far FLEETHOOK_PARENT is followed upward."""


class Evaluator:
    """One evaluator: reads requests as one of the group, runs their chains, answers.

    Requests that need only rules are answered in the reading loop; those that need a process or an http call take one
    of `slots`. Without a free slot they are put aside for whoever has one, so rules never queue behind processes.
    """

    def __init__(
        self, url: str, keys: Keys, watcher: Watcher, links: Links, *, slots: int = 8, policy: Policy = "allow",
        drain: float = 10.0,
    ) -> None:  # fmt: skip
        self.name = consumer_name("evaluator")
        self._keys, self._watcher, self._links = keys, watcher, links
        self._reading = Links(url, connect=1.0)
        self._consumer = Consumer(
            links, keys, group=GROUP, name=self.name, streams=(keys("requests"), keys("waiting")),
            role="evaluator", about=f"evaluator {host_name()}",
        )  # fmt: skip
        self._slots, self._policy, self._drain = slots, policy, drain
        self._busy: set[asyncio.Task[None]] = set()
        self._posters = Posters()
        self._rules: Runner = RuleRunner()
        self._commands: Runner = CommandRunner()
        self._answers: list[Call] = []
        self._reconnect = False
        self._warmed: HookSet | None = None
        self._clock = 0
        self._clock_read = 0.0
        self._stats: Counter[str] = Counter()
        self._stats_sent = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Evaluate until `stop`, then finish what is under way (at most the drain time) and leave the group."""
        backoff = Backoff("evaluator")
        async with self._posters:
            try:
                while not stop.is_set():
                    try:
                        await self._turn()
                        backoff.back()
                    except (Unreachable, FleethookError) as error:
                        self._reconnect = True
                        await backoff.wait(error)
                await self._finish()
            finally:
                for task in self._busy:
                    task.cancel()
                await asyncio.gather(*self._busy, return_exceptions=True)
                await self._reading.close()

    async def prepare(self) -> None:
        """Make the group, read the clock and the hook set, and say that we are alive; raises Unreachable."""
        await self._consumer.create()
        await self._read_clock()
        await self._watcher.refresh(force=True)
        await self._warm()
        async with self._links.link() as link:
            await link.exchange(self._consumer.beat_commands())

    async def _warm(self) -> None:
        """Let the rules meet an event before an agent waits: their libraries and patterns take half a second once."""
        in_force = self._watcher.fleet()
        if in_force is self._warmed:
            return
        self._warmed = in_force
        for hook in [one for one in in_force.hooks.values() if one.kind == "rule"][:_WARMED]:
            await self._rules.run(hook, _SAMPLE, 1.0)
        if any(hook.kind == "http" for hook in in_force.hooks.values()):
            self._posters.under(in_force.network).open()

    async def _turn(self) -> None:
        if self._reconnect:
            await self._consumer.create()  # a server that was restarted knows our scripts no more
            self._reconnect = False
        if time.monotonic() - self._clock_read > _CLOCK_SECONDS:
            await self._read_clock()
        await self._watcher.refresh()
        await self._warm()
        await self._send_stats()
        free = self._slots - len(self._busy)
        requests, waiting = self._consumer.streams
        entries = await self._consumer.adopt(max(1, free))
        async with self._reading.link() as link:
            count = min(_READ, free) if free > 0 else _READ
            answers, self._answers = self._answers, []
            block = 0 if entries else 0.5
            try:
                entries += await self._consumer.read(
                    link, count, block, (requests, waiting) if free > 0 else (requests,), answers
                )
            except Unreachable:
                self._answers = answers  # whoever was acknowledged meanwhile is not answered a second time
                raise
        if entries:
            self._answers += await self._handle(entries)

    async def _handle(self, entries: Sequence[Entry]) -> list[Call]:
        """The answers that rules can give at once, for one write together with the next read; a slot for the rest."""
        calls: list[Call] = []
        for entry in entries:
            request = read_request(entry, self._keys)
            verdict: Verdict | None = None
            event: Event | None = None
            try:
                event = read_event(request)
            except DecodeError as error:
                verdict = failed(self._policy, f"payload could not be read: {error}", event=request.id)
                calls.append(poison_call(self._keys, entry, f"undecodable request: {error}", acknowledge=""))
                log.warning("request %s of %s cannot be read: %s; dead letter", request.id, request.source, error)
            if event is not None:
                verdict = self._at_once(request)
                if verdict is None:
                    hooks_in_force = self._watcher.for_event(event)
                    hooks = hooks_in_force.blocking(event)
                    if any(hook.kind != "rule" for hook in hooks):
                        await self._slot(request, event, hooks, hooks_in_force)
                        continue
                    verdict = await self._evaluate(request, event, hooks, hooks_in_force, self._rules.run)
            if verdict is not None:
                calls.append(self._answer(request, event, verdict))
        return calls

    def _at_once(self, request: Request) -> Verdict | None:
        """The verdict of a request that runs no hook: it fell back before, is out of time, or is a poison entry."""
        why = ""
        if request.fallback:
            why = request.fallback
        elif self._now() >= request.deadline:
            why = "the budget was used up before an evaluator was free"
        elif request.entry.delivered > MOST_DELIVERIES:
            why = f"handed out {request.entry.delivered} times: whoever evaluates it dies"
        return failed(self._policy, why, event=request.id) if why else None

    async def _slot(self, request: Request, event: Event, hooks: Sequence[Hook], hooks_in_force: HookSet) -> None:
        if len(self._busy) >= self._slots:
            await self._send([defer_call(request, self._keys, GROUP)])
            return
        task = asyncio.create_task(self._with_effects(request, event, hooks, hooks_in_force))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _with_effects(
        self, request: Request, event: Event, hooks: Sequence[Hook], hooks_in_force: HookSet
    ) -> None:
        try:
            call_name = call_key(event, self._keys)
            effects = [hook.id for hook in hooks if hook.kind != "rule"]
            claim = claim_call(request, self._keys, GROUP, self.name, call_name, effects)
            (reply,) = await call_all(self._links, [claim])
            if isinstance(reply, Exception):
                raise FleethookError(f"claiming {request.id}: {reply}")
            word = reply[0].decode()
            if word == "same":
                await self._send(
                    [answer_call(request, self._keys, GROUP, Verdict(event=request.id), reply[1], call_name)]
                )
            if word not in {"run", "again"}:
                return
            chain = await self._lineage(event)
            run = _without_loops(self._run, event, chain)
            verdict = await self._evaluate(request, event, hooks, hooks_in_force, run, again=word == "again")
            await self._send([self._answer(request, event, verdict)])
        except (Unreachable, FleethookError) as error:
            log.error("request %s: %s; it stays pending and is carried on", request.id, error)

    async def _evaluate(
        self, request: Request, event: Event, hooks: Sequence[Hook], hooks_in_force: HookSet, run: Run, *,
        again: bool = False,
    ) -> Verdict:  # fmt: skip
        seconds = max(0.0, (request.deadline - self._now()) / 1000)
        verdict = await evaluate(
            event,
            hooks,
            run,
            seconds=seconds,
            version=hooks_in_force.version,
            layers=hooks_in_force.layers,
            again=again,
        )
        self._stats[f"verdicts:{verdict.decision}"] += 1
        self._stats["fallbacks"] += sum(1 for part in verdict.parts if part.fallback)
        return verdict

    async def _run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        if hook.kind == "rule":
            return await self._rules.run(hook, event, seconds)
        if hook.kind == "command":
            return await self._commands.run(hook, event, seconds)
        poster = self._posters.under(self._watcher.for_event(event).network)
        return await HttpRunner(poster).run(hook, event, seconds)

    async def _lineage(self, event: Event) -> list[tuple[str, frozenset[str]]]:
        if not event.parent:
            return []
        flat_chain = await call(
            self._links, "lineage", (self._keys("lineage", event.parent),), (self._keys("lineage", ""), MOST_STEPS)
        )
        return read_lineage(flat_chain)

    def _answer(self, request: Request, event: Event | None, verdict: Verdict) -> Call:
        if verdict.fallback:
            self._stats["fallbacks"] += 1
            log.warning(
                "request %s of %s: fallback %s: %s", request.id, request.source, verdict.decision, verdict.fallback
            )
        answer = render(request, verdict, event)
        return answer_call(request, self._keys, GROUP, verdict, answer, call_key(event, self._keys))

    async def _send(self, calls: Sequence[Call]) -> None:
        await call_all(self._links, calls)

    async def _read_clock(self) -> None:
        self._clock = await server_now(self._links) - int(time.time() * 1000)
        self._clock_read = time.monotonic()

    def _now(self) -> int:
        return int(time.time() * 1000) + self._clock

    async def _send_stats(self) -> None:
        if not self._stats or time.monotonic() - self._stats_sent < _STATS_SECONDS:
            return
        self._stats_sent = time.monotonic()
        counted, self._stats = self._stats, Counter()
        async with self._links.link() as link:
            await link.exchange([("HINCRBY", self._keys("stats"), name, n) for name, n in counted.items()])

    async def _finish(self) -> None:
        if self._busy:
            log.info("finishing %d requests", len(self._busy))
            beat = asyncio.create_task(self._beat_while_draining())
            await asyncio.wait(self._busy, timeout=self._drain)
            beat.cancel()
        if self._answers:
            await self._send(self._answers)
        await self._send_stats()
        await self._consumer.leave()

    async def _beat_while_draining(self) -> None:
        while True:
            async with self._links.link() as link:
                await link.exchange(self._consumer.beat_commands()[:1])
            await asyncio.sleep(0.5)


def read_lineage(chain: Sequence[Any]) -> list[tuple[str, frozenset[str]]]:
    """The events up the chain with their hooks, from the script's flat list; nearest first."""
    found, place = [], 0
    while place < len(chain):
        count = int(chain[place + 1])
        hooks = frozenset(name.decode() for name in chain[place + 2 : place + 2 + count])
        found.append((chain[place].decode(), hooks))
        place += 2 + count
    return found


def _without_loops(run: Run, event: Event, chain: Sequence[tuple[str, frozenset[str]]]) -> Run:
    """`run`, except for a hook that already runs up the chain of events: that is refused, and the chain shown (F-12)."""
    if not chain:
        return run

    async def guarded(hook: Hook, seen: Event, seconds: float) -> Outcome:
        if hook.kind != "rule" and any(hook.id in hooks for _, hooks in chain):
            return Outcome(note=loop_text(hook.id, event, chain))
        return await run(hook, seen, seconds)

    return guarded


def loop_text(hook: str, event: Event, chain: Sequence[tuple[str, frozenset[str]]]) -> str:
    """What is said of a refused loop: the chain of events and hooks, oldest first."""
    steps = " -> ".join(f"{name} ({', '.join(sorted(hooks))})" for name, hooks in reversed(chain))
    return f"hook {hook!r} was not run: it triggered itself through {steps} -> {event.id}"
