"""Sends past events to endpoints again, as new deliveries.

The id of a replayed delivery is `<event>.<endpoint>.r<job>`. So its `webhook-id` is new while its body has the event's old
id, and a job that repeats a page after a crash makes no delivery twice.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

import msgspec

from bus.errors import ConditionError, DecodeError, OverBudget
from bus.events import Event
from bus.hooksets.in_force import HookSet, Watcher
from bus.matching.conditions import compile_condition
from bus.matching.findings import holds
from bus.requests import read_event, read_request
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, call_all, checked, server_now
from workers.delivery.deliveries import NewDelivery, deliveries_of, dispatch_call, now_ms, pack_fields
from workers.records.events import events_pages

_CHUNK_SECONDS: Final = 0.25
_CHUNK: Final = 100

InForce = Callable[[Event], HookSet]


class ReplaySpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which events to send again, and to which endpoint; times are milliseconds since 1970 by the server's clock."""

    since: int
    until: int
    where: str = ""
    """A CEL condition over `event` and `verdict`, as in a hook's `when:`; an event for which it fails is left out."""
    event: str = ""
    """The id of the only event to send again; empty for all."""
    endpoint: str = ""
    """The endpoint's id; empty for every endpoint that the event matches now."""
    rate: float = 0.0
    """The most deliveries a second; 0: as fast as they can be written."""


class ReplayedEvent(NamedTuple):
    """A past event and its new deliveries."""

    entry: StreamEntry
    event: Event
    deliveries: list[NewDelivery]


class Chunk(NamedTuple):
    """A part of the event stream: the id of its last entry, how many entries it has, and those to send again."""

    last: str
    looked: int
    replayed: list[ReplayedEvent]
    condition_errors: tuple[str, ...] = ()
    """For each event that was left out because the condition could not be evaluated: the reason."""

    @property
    def deliveries(self) -> int:
        """How many deliveries the chunk has."""
        return sum(len(event.deliveries) for event in self.replayed)


async def chunks(
    connections: Connections, keys: Keys, spec: ReplaySpec, job: str, in_force: InForce, *, after: str = ""
) -> AsyncIterator[Chunk]:
    """The chunks of a replay, oldest first, each for a quarter of a second at its rate; `after` is the last entry done."""
    choose = _chooser(spec, job, in_force, keys)
    most = _CHUNK if not spec.rate else max(1, min(_CHUNK, int(spec.rate * _CHUNK_SECONDS)))
    start = f"({after}" if after else str(spec.since)
    async for entries in events_pages(connections, keys, start=start, end=str(spec.until)):
        replayed: list[ReplayedEvent] = []
        condition_errors: list[str] = []
        looked = count = 0
        for entry in entries:
            looked += 1
            try:
                past_event = choose(entry)
            except ConditionError as error:
                past_event = None
                condition_errors.append(str(error))
            if past_event is not None:
                replayed.append(past_event)
                count += len(past_event.deliveries)
            if count >= most:
                yield Chunk(entry.id, looked, replayed, tuple(condition_errors))
                replayed, condition_errors, looked, count = [], [], 0, 0
        if looked:
            yield Chunk(entries[-1].id, looked, replayed, tuple(condition_errors))


class ReplayCount(NamedTuple):
    """What a replay would send."""

    looked: int
    """How many events were read."""
    events: int
    """How many of them would be sent again."""
    endpoints: Counter[str]
    """How many deliveries each endpoint would get."""
    condition_errors: Counter[str]
    """Why events were left out, because the condition could not be evaluated."""
    complete: bool
    """False if the time was over before all events were read."""


async def count_replay(
    connections: Connections,
    keys: Keys,
    spec: ReplaySpec,
    in_force: InForce,
    *,
    seconds: float = math.inf,
    on_progress: Callable[[int], None] | None = None,
) -> ReplayCount:
    """Count what a replay would send, for at most so many seconds. Raises Unreachable, and ConditionError."""
    end = time.monotonic() + seconds
    found = ReplayCount(0, 0, Counter(), Counter(), complete=True)
    whole = msgspec.structs.replace(spec, until=spec.until or await server_now(connections), rate=0.0)
    async for chunk in chunks(connections, keys, whole, "count", in_force):
        found.endpoints.update(delivery.hook for event in chunk.replayed for delivery in event.deliveries)
        found.condition_errors.update(chunk.condition_errors)
        found = found._replace(looked=found.looked + chunk.looked, events=found.events + len(chunk.replayed))
        if on_progress is not None:
            on_progress(found.looked)
        if time.monotonic() > end:
            return found._replace(complete=False)
        await asyncio.sleep(0)
    return found


async def send(connections: Connections, keys: Keys, chunk: Chunk) -> int:
    """Write the deliveries of a chunk; returns how many it has, including those that an earlier run wrote."""
    calls = [
        dispatch_call(past.entry, past.event, past.deliveries, keys, "", pack_fields(past.entry), now_ms(), "-")
        for past in chunk.replayed
    ]
    for reply in await call_all(connections, calls) if calls else ():
        checked(reply, "replaying")
    return chunk.deliveries


def watched(watcher: Watcher) -> InForce:
    """A function that returns the hook set in force for an event."""
    return watcher.for_event


def _chooser(
    spec: ReplaySpec, job: str, in_force: InForce, keys: Keys
) -> Callable[[StreamEntry], ReplayedEvent | None]:
    condition = compile_condition(spec.where) if spec.where else None

    def choose(entry: StreamEntry) -> ReplayedEvent | None:
        if b"of" in entry.fields or b"same" in entry.fields:
            return None  # reports of fallbacks and repeated calls were never delivered
        try:
            event = read_event(read_request(entry, keys))
            if spec.event not in {"", event.id}:
                return None
            verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
            if condition is not None and not holds(condition, event, _facts(verdict)):
                return None
        except OverBudget as error:
            raise ConditionError(str(error)) from error
        except DecodeError:
            return None
        if (
            verdict is not None
        ):  # without parts: an endpoint that took part in the verdict got no delivery then, but a replay sends it
            verdict = msgspec.structs.replace(verdict, parts=())
        replays = [
            msgspec.structs.replace(delivery, id=f"{delivery.id}.r{job}")
            for delivery in deliveries_of(event, verdict, in_force(event), keys)
            if delivery.kind == "webhook" and spec.endpoint in {"", delivery.hook}
        ]
        return ReplayedEvent(entry, event, replays) if replays else None

    return choose


def _facts(verdict: Verdict | None) -> dict[str, str]:
    return {"decision": verdict.decision, "reason": verdict.reason} if verdict else {"decision": "", "reason": ""}
