"""One attempt of a delivery: the event as it was kept, the hook or endpoint as it is in force now, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from bus.errors import DecodeError
from bus.events import Event
from bus.hookfiles.command_results import SHOWN, failure, hook_name, log_failure, output
from bus.hooks import Endpoint, Hook
from bus.hooksets.in_force import POLL_SECONDS, HookSet, Watcher
from bus.hooksets.pins import ScriptChanged
from bus.http.client import Before, Reply
from bus.http.client_pool import ClientPool
from bus.http.timings import Phases
from bus.ids import delivery_id
from bus.pacing import BATCHED
from bus.requests import read_event, read_request
from bus.runners.background import later_text, wakes
from bus.runners.command import run_command
from bus.runners.per_file import calls
from bus.system.processes import Finished
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.keys import Keys
from bus.wire.streams import Entry
from workers.delivery.batches import batch_body, batch_id
from workers.delivery.deliveries import unpack_fields
from workers.delivery.later_context import Afterwords
from workers.delivery.outcomes import Says, says
from workers.delivery.responses import beginning, response_text
from workers.delivery.retries import AttemptFailed, GivenUp, schedule_of
from workers.delivery.webhook import judge, post, render_body

_SAME_SECONDS: Final = 0.25
"""How long the hooks in force for an event are taken for the same: less than the half second to the next look at them."""

_REMEMBER: Final = 256
_REMEMBER_BYTES: Final = 32 * 1024 * 1024

_T = TypeVar("_T", Hook, Endpoint)


class Member(NamedTuple):
    """Another delivery that goes out in the same body."""

    id: str
    event: str
    body: bytes


def members(parts: Sequence[bytes]) -> tuple[Member, ...]:
    """Those that take.lua names: id, event and body of each."""
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return tuple(Member(name.decode(), event.decode(), body) for name, event, body in triples)


class ClaimedDelivery(NamedTuple):
    """One delivery that this carrier may try now."""

    entry: Entry
    id: str
    body: bytes
    target: str
    timeout: float
    event: str
    tries: int
    kind: str
    hook: str
    version: str
    layer: str
    members: tuple[Member, ...] | None = None
    """The others of its batch; None where it is no batch."""

    @property
    def key(self) -> tuple[str, str]:
        """The entry as the group knows it."""
        return self.entry.stream, self.entry.id


class DecodedEvent:
    """An event as deliveries need it: decoded once, a webhook body rendered once a form of it and only if one is sent."""

    __slots__ = ("_webhook", "event", "in_force", "looked", "size", "verdict")

    def __init__(self, event: Event, verdict: Verdict | None, size: int) -> None:
        self.event, self.verdict, self.size = event, verdict, size
        self.in_force: HookSet | None = None
        self.looked = 0.0
        self._webhook: dict[tuple[str, ...], bytes] = {}

    def webhook(self, endpoint: Endpoint) -> bytes:
        """The body as an endpoint gets it; raises GivenUp where it cannot be written."""
        if endpoint.routing_key:  # a key stands in it, which may change at any time
            return render_body(self.event, self.verdict, endpoint)
        form = (endpoint.dialect, endpoint.format, endpoint.payload)
        body = self._webhook.get(form)
        if body is None:
            body = self._webhook[form] = render_body(self.event, self.verdict, endpoint)
        return body


class Result(NamedTuple):
    """How an attempt ended; `error` is None where it was delivered."""

    error: AttemptFailed | GivenUp | None
    schedule: tuple[float, ...] = ()
    status: int = 0
    output: str = ""
    head: str = ""
    phases: Phases | None = None
    sent: str = ""
    says: Says = ""
    """Of the receiver (`outcomes.py`); empty for a command."""
    later: str = ""
    """What a command has to say to the model of its session."""


class Attempts:
    """Makes attempts; keeps the events that it has read for their other deliveries."""

    def __init__(self, watcher: Watcher, keys: Keys, afterwords: Afterwords) -> None:
        self._watcher, self._keys, self._afterwords = watcher, keys, afterwords
        self._told: OrderedDict[str, DecodedEvent] = OrderedDict()
        self._told_bytes = 0

    async def make(self, taken: ClaimedDelivery, clients: ClientPool, before: Before) -> Result:
        """One attempt, and how it ended; raises GivenUp where none can be made, Unreachable where Redis is away.

        `before` is awaited at the last moment before something happens outside, and what it raises is raised.
        """
        told = self._tell(taken)
        if taken.kind == "webhook":
            endpoint, in_force = await self._find(taken, told, lambda one: one.endpoints.get(taken.hook))
            schedule = schedule_of(endpoint)
        else:
            hook, in_force = await self._find(taken, told, lambda one: one.hooks.get(taken.hook))
            if taken.kind != hook.kind:
                raise GivenUp(f"hook {taken.hook!r} is of kind {hook.kind} and no longer of kind {taken.kind}")
            if hook.http is None:
                await before()
                result = await run_hook(hook, told.event)
                if taken.id == delivery_id(taken.event, taken.hook):  # a replay speaks to no session
                    await self._afterwords.keep(told.event, result.later)
                return result
            schedule = hook.retry
            endpoint = Endpoint(
                id=hook.id,
                url=hook.http.url,
                headers=hook.http.headers,
                secret=hook.http.secret,
                timeout=hook.timeout,
                origin=hook.origin,
                dialect=hook.dialect,
                own=hook.own,
            )
        client = clients.get(in_force.network, in_force.proxy)
        if taken.members is not None:
            if endpoint.format not in BATCHED:
                raise GivenUp(f"endpoint {endpoint.id!r} has format {endpoint.format} by now, which has no batches")
            every = [told, *(self._tell(taken._replace(event=one.event, body=one.body)) for one in taken.members)]
            thin = msgspec.structs.replace(endpoint, payload="thin")
            full = [one.webhook(endpoint) for one in every]
            body = batch_body(endpoint.format, full, lambda: [one.webhook(thin) for one in every])
            name = batch_id([taken.id, *(one.id for one in taken.members)])
            reply = await post(client, endpoint, name, body, int(time.time()), before, batch=True)
            return _judged(endpoint, body, reply, schedule)
        body = told.webhook(endpoint)
        of = taken.event if taken.id != delivery_id(taken.event, taken.hook) else ""
        reply = await post(client, endpoint, taken.id, body, int(time.time()), before, replay_of=of)
        return _judged(endpoint, body, reply, schedule)

    async def _find(
        self, taken: ClaimedDelivery, told: DecodedEvent, look: Callable[[HookSet], _T | None]
    ) -> tuple[_T, HookSet]:
        """The hook or endpoint that the delivery is for; raises GivenUp where it is no longer in force.

        Whoever dispatched it may have seen a newer set than we have: so we look again before we say so.
        """
        now = time.monotonic()
        in_force = told.in_force
        if in_force is None or now - told.looked > _SAME_SECONDS:
            in_force = told.in_force = self._watcher.for_event(told.event)
            told.looked = now
        found = look(in_force)
        if found is None:
            await self._watcher.refresh(force=True)
            if taken.layer != "fleet":
                await asyncio.sleep(POLL_SECONDS)  # files are looked at so often
            in_force = told.in_force = self._watcher.for_event(told.event)
            found = look(in_force)
        if found is None:
            what = "endpoint" if taken.kind == "webhook" else "hook"
            raise GivenUp(f"{what} {taken.hook!r} was deleted or disabled since {taken.layer}@{taken.version}")
        return found, in_force

    def _tell(self, taken: ClaimedDelivery) -> DecodedEvent:
        known = self._told.get(taken.event)
        if known is None:
            known = _told(taken, self._keys)
            self._told[taken.event] = known
            self._told_bytes += known.size
            while len(self._told) > _REMEMBER or (self._told_bytes > _REMEMBER_BYTES and len(self._told) > 1):
                self._told_bytes -= self._told.popitem(last=False)[1].size
        return known


async def run_hook(hook: Hook, event: Event) -> Result:
    """The command's run, or its runs file by file (see `runners.calls`), all within its time; the first that fails ends it."""
    end = time.monotonic() + hook.timeout
    results: list[Result] = []
    for call in calls(hook, event):
        left = end - time.monotonic()
        if left <= 0:
            why = f"{hook_name(hook)}: its time was used up after {len(results)} files"
            log_failure(event, why)
            return Result(AttemptFailed(why), hook.retry)
        try:
            results.append(_ran(hook, await run_command(hook, call, left)))
        except ScriptChanged as error:
            raise GivenUp(str(error)) from error
        if results[-1].error is not None:
            break
    kept = "\n".join(one.output for one in results if one.output)[-SHOWN:]
    return results[-1]._replace(output=kept, later="\n".join(one.later for one in results if one.later))


def _judged(endpoint: Endpoint, body: bytes, reply: Reply, schedule: tuple[float, ...]) -> Result:
    logs = endpoint.own.get("log_deliveries")  # Gobby's alone: bodies of both ways, or none; ours keep what came back
    head, kept = response_text(reply) if logs is not False else ("", "")
    error = judge(reply, endpoint.format)
    sent = beginning(body) if logs else ""
    return Result(error, schedule, reply.status, kept, head, reply.phases, sent, says(reply, error))


def _ran(hook: Hook, done: Finished) -> Result:
    why = "" if wakes(hook, done) else failure(hook, done, hook.timeout)
    status = done.exit_code if done.exit_code is not None else -(done.signal or 0)
    error = AttemptFailed(why) if why else None
    return Result(error, hook.retry, status, output(done), later=later_text(hook, done))


def _told(taken: ClaimedDelivery, keys: Keys) -> DecodedEvent:
    """The event of a delivery; raises GivenUp where what was kept of it cannot be read."""
    try:
        fields = unpack_fields(taken.body)
        event = read_event(read_request(Entry(taken.entry.stream, fields[b"entry"].decode(), fields), keys))
        verdict = decode_verdict(fields[b"verdict"]) if b"verdict" in fields else None
    except (DecodeError, KeyError, ValueError) as error:
        raise GivenUp(f"its event cannot be read: {error}") from error
    return DecodedEvent(event, verdict, len(taken.body))
