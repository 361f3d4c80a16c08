"""The carrier: many deliveries at once, from their streams to their targets, for as long as there is work.

It runs inside an RQ job (`jobs.py`): RQ starts it and stops it; what is owed, tried and settled stands in Redis.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.codec import decode_verdict
from bus.connections import Links
from bus.errors import DecodeError, FleethookError, Unreachable
from bus.events import Event
from bus.hooks import Endpoint, Hook
from bus.ids import consumer_name, host_name
from bus.inforce import Watcher
from bus.keys import DONE_MS, Keys
from bus.redaction import redact_text
from bus.requests import read_event, read_request
from bus.runners.command import failure, run_command
from bus.streams import MOST_DELIVERIES, Backoff, Call, Consumer, Entry, call_all, checked
from bus.verdicts import Verdict
from workers.deliveries import KEPT_ATTEMPTS, Attempt, attempt_record, now_ms, unpack_fields
from workers.posters import Posters
from workers.retries import DEFAULT_SCHEDULE, AttemptFailed, GivenUp, next_delay
from workers.webhooks import post, render_body, shown

log = logging.getLogger("fleethook.carrier")

GROUP: Final = "carriers"
LEASE_MARGIN_MS: Final = 5_000
"""How much longer than its own timeout an attempt may keep its target's place, before the place is given away."""

_REMEMBER: Final = 256


class Taken(NamedTuple):
    """One delivery that this carrier may try now."""

    entry: Entry
    id: str
    body: bytes
    target: str
    timeout: float
    event: str
    attempts: int
    tries: int
    kind: str
    hook: str
    version: str
    layer: str


class Told(NamedTuple):
    """An event as deliveries need it: decoded once, its webhook body rendered once."""

    event: Event
    verdict: Verdict | None
    webhook: bytes


class Carrier:
    """One carrier: a lease, a consumer name, and up to `in_flight` attempts at a time."""

    def __init__(self, url: str, keys: Keys, links: Links, watcher: Watcher, *, in_flight: int = 100) -> None:
        self.name = consumer_name("carrier")
        self._keys, self._links, self._watcher = keys, links, watcher
        self._reading = Links(url, connect=1.0)
        host = host_name()
        self._consumer = Consumer(
            links, keys, group=GROUP, name=self.name, role="carrier", about=f"carrier {host}",
            streams=(keys("deliveries"), keys("deliveries", host)),
        )  # fmt: skip
        self._in_flight = in_flight
        self._busy: set[asyncio.Task[None]] = set()
        self._settled: list[Call] = []
        self._settling = asyncio.Event()
        self._told: OrderedDict[str, Told | None] = OrderedDict()
        self.carried = 0

    async def run(self, stop: asyncio.Event, *, idle: float = 2.0, most: float = 240.0) -> int:
        """Carry until `stop`, until there was nothing to do for `idle` seconds, or for `most` seconds; then drain.

        Returns the number of attempts. RQ's own book-keeping wants its jobs to end now and then, hence `most`.
        """
        backoff = Backoff("carrier")
        started = last = time.monotonic()
        await self._consumer.create()
        await self._watcher.refresh(force=True)
        settler = asyncio.create_task(self._settle_all())
        try:
            async with Posters() as posters:
                while not stop.is_set() and time.monotonic() - started < most:
                    try:
                        if await self._turn(posters) or self._busy:
                            last = time.monotonic()
                        elif time.monotonic() - last > idle:
                            break
                        backoff.back()
                    except (Unreachable, FleethookError) as error:
                        last = time.monotonic()
                        await backoff.wait(error)
                if self._busy:
                    await self._drain()
        finally:
            for task in self._busy:
                task.cancel()
            await asyncio.gather(*self._busy, return_exceptions=True)
            self._settling.set()
            await self._flush()
            settler.cancel()
            await self._consumer.leave()
            await self._reading.close()
        return self.carried

    async def _turn(self, posters: Posters) -> bool:
        """Read what there is room for, and start it; whether there was anything."""
        await self._watcher.refresh()
        room = self._in_flight - len(self._busy)
        if room <= 0:
            await asyncio.wait(self._busy, return_when=asyncio.FIRST_COMPLETED, timeout=0.25)
            async with self._links.link() as link:
                await link.exchange(self._consumer.beat_commands())
            return True
        entries = await self._consumer.adopt(room)
        async with self._reading.link() as link:
            entries += await self._consumer.read(link, room, 0 if entries else 0.25)
        for taken in await self._take(entries):
            task = asyncio.create_task(self._attempt(taken, posters))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return bool(entries)

    async def _take(self, entries: Sequence[Entry]) -> list[Taken]:
        if not entries:
            return []
        ids = [entry.fields.get(b"d", b"").decode("utf-8", "replace") for entry in entries]
        args = [part for entry, name in zip(entries, ids, strict=True) for part in (entry.stream, entry.id, name)]
        call = Call("take", (self._keys("deliveries"),),
                    (GROUP, now_ms(), LEASE_MARGIN_MS, self._keys.prefix, self.name, *args))  # fmt: skip
        rows = checked((await call_all(self._links, [call]))[0], "taking deliveries")
        taken = []
        for entry, name, row in zip(entries, ids, rows, strict=True):
            if row[0] != b"run":
                continue
            text = [part.decode("utf-8", "replace") for part in row[2:]]
            taken.append(
                Taken(
                    entry, name, row[1], text[0], int(text[1]) / 1000, text[2], int(text[3]), int(text[4]), *text[5:9]
                )
            )
        return taken

    async def _attempt(self, taken: Taken, posters: Posters) -> None:
        start = time.monotonic()
        status, output, error = 0, "", None
        schedule: tuple[float, ...] = ()
        try:
            if taken.entry.delivered > MOST_DELIVERIES:
                raise GivenUp(f"handed out {taken.entry.delivered} times: whoever carries it dies")
            told = self._tell(taken)
            if not self._consumer.fresh:
                # We were stopped for so long that others may have taken this over: they carry it, nothing goes twice.
                log.warning("delivery %s: this carrier was stopped; leaving it to others", taken.id)
                return
            if taken.kind == "command":
                hook = self._hook(taken, told)
                schedule = hook.retry
                status, output = await self._run(hook, told.event)
            else:
                endpoint = self._endpoint(taken, told)
                schedule = endpoint.retry or DEFAULT_SCHEDULE
                poster = posters.under(self._watcher.for_event(told.event).network)
                reply = await post(poster, endpoint, taken.id, told.webhook, int(time.time()))
                status, output = reply.status, shown(reply)
        except (AttemptFailed, GivenUp) as problem:
            error = problem
        self.carried += 1
        self._settle(taken, error, schedule, status, output, (time.monotonic() - start) * 1000)

    async def _run(self, hook: Hook, event: Event) -> tuple[int, str]:
        done = await run_command(hook, event, hook.timeout)
        tail = redact_text((done.stdout + done.stderr)[-4096:].decode("utf-8", "replace"))
        why = failure(hook, done, hook.timeout)
        if why:
            raise AttemptFailed(why)
        return 0, tail

    def _tell(self, taken: Taken) -> Told:
        if taken.event in self._told:
            known = self._told[taken.event]
        else:
            known = self._told[taken.event] = _told(taken, self._keys)
            if len(self._told) > _REMEMBER:
                self._told.popitem(last=False)
        if known is None:
            raise GivenUp("the body of its event cannot be read")
        return known

    def _hook(self, taken: Taken, told: Told) -> Hook:
        hook = self._watcher.for_event(told.event).hooks.get(taken.hook)
        if hook is None:
            raise GivenUp(f"hook {taken.hook!r} was deleted or disabled since {taken.layer}@{taken.version}")
        return hook

    def _endpoint(self, taken: Taken, told: Told) -> Endpoint:
        in_force = self._watcher.for_event(told.event)
        endpoint = in_force.endpoints.get(taken.hook)
        if endpoint is None:
            hook = in_force.hooks.get(taken.hook)
            if hook is None or hook.http is None:
                raise GivenUp(f"endpoint {taken.hook!r} was deleted or disabled since {taken.layer}@{taken.version}")
            endpoint = Endpoint(
                id=hook.id, url=hook.http.url, headers=hook.http.headers, secret=hook.http.secret,
                timeout=hook.timeout, retry=hook.retry, origin=hook.origin,
            )  # fmt: skip
        return endpoint

    def _settle(
        self, taken: Taken, error: AttemptFailed | GivenUp | None, schedule: tuple[float, ...], status: int,
        output: str, took: float,
    ) -> None:  # fmt: skip
        now, due, outcome, reason = now_ms(), 0, "delivered", ""
        if error is not None:
            reason = redact_text(error.reason)
            delay = next_delay(schedule, taken.tries + 1, error)
            outcome = "dead" if delay is None else "retry"
            due = now + int((delay or 0) * 1000)
        record = attempt_record(
            Attempt(ms=now, took=round(took, 3), outcome=outcome, status=status, error=reason, output=output,
                    carrier=self.name)
        )  # fmt: skip
        keys = self._keys
        self._settled.append(
            Call(
                "settle",
                (taken.entry.stream, keys("delivery", taken.id), keys("body", taken.event), keys("due"), keys("dead"),
                 keys("flight", taken.target), keys("parked", taken.target)),
                (GROUP, taken.entry.id, taken.id, outcome, now, due, reason, record, DONE_MS, keys.prefix,
                 KEPT_ATTEMPTS),
            )
        )  # fmt: skip
        self._settling.set()

    async def _settle_all(self) -> None:
        """Write the outcomes down, as many in one write as have come together meanwhile."""
        backoff = Backoff("carrier outcomes")
        while True:
            await self._settling.wait()
            self._settling.clear()
            try:
                await self._flush()
                backoff.back()
            except Unreachable as error:
                self._settling.set()
                await backoff.wait(error)

    async def _flush(self) -> None:
        calls, self._settled = self._settled, []
        if not calls:
            return
        try:
            replies = await call_all(self._links, calls)
        except Unreachable:
            # Whatever of it was carried out acknowledges nothing a second time, so all of it may be sent again.
            self._settled = calls + self._settled
            raise
        for reply in replies:
            if isinstance(reply, Exception):
                log.error("an outcome could not be written (%s); its delivery stays pending and is tried again", reply)

    async def _drain(self) -> None:
        """Let what is under way end, beating so that nobody takes it over meanwhile."""
        until = time.monotonic() + 30
        while self._busy and time.monotonic() < until:
            async with self._links.link() as link:
                await link.exchange(self._consumer.beat_commands()[:1])
            await asyncio.wait(self._busy, timeout=0.5)


def _told(taken: Taken, keys: Keys) -> Told | None:
    try:
        fields = unpack_fields(taken.body)
        request = read_request(Entry(taken.entry.stream, fields[b"entry"].decode(), fields), keys)
        event = read_event(request)
        verdict = decode_verdict(fields[b"verdict"]) if b"verdict" in fields else None
    except (DecodeError, KeyError, ValueError):
        return None
    return Told(event, verdict, render_body(event, verdict))
