"""The bus for programs: `publish(event) -> id` and `request(event) -> Verdict`, asynchronous and synchronous."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bus.errors import FleethookError, Unanswered
from bus.event_folder import UNKNOWN_FOLDER, event_folder
from bus.events import Event
from bus.ids import event_id, host_name
from bus.sdk.facade import DEFAULT_BUDGET, AgentFacade, SyncAgentFacade
from bus.tracing.context import at_trace, trace_of
from bus.tracing.spans import ambient
from bus.transport import Fields, Transport, event_entry
from bus.verdicts import Policy, Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict
from bus.wire.connections import CONNECT_SECONDS, Connections
from bus.wire.keys import Keys
from bus.wire.outages import Outages, outage_seconds

_MOST_OUTAGE = 10.0
"""The longest time (seconds) for which a request tries a server that is away."""


class Bus(AgentFacade):
    """A program's client of the bus.

    `url` names the Redis server (default: `FLEETHOOK_REDIS_URL`, else this machine's own server), `namespace` the fleet.
    `on_failure` is the decision if no verdict comes. `spool` is a file that keeps events published while Redis is away;
    the next call that reaches Redis sends them. Without a `url`, it is a spool that this machine's workers drain too.
    Use it as an asynchronous context manager, or through `sync()`.
    """

    def __init__(
        self,
        url: str = "",
        *,
        namespace: str = "",
        on_failure: Policy = "allow",
        spool: Path | None = None,
        connect: float = CONNECT_SECONDS,
    ) -> None:
        if not url or not namespace:
            from bus.hooksets.settings_files import load_settings
            from bus.wire.embedded_server import bus_url

            settings = load_settings().settings
            namespace = namespace or settings.namespace
            if not url:
                url = bus_url(settings)
                spool = spool or _machine_spool(url, namespace)
        self.keys = Keys(namespace)
        self.connections = Connections(url, connect=connect)
        self.on_failure: Policy = on_failure
        self._transport, self._outages = Transport(self.connections, self.keys, spool), Outages()
        self._host = host_name()

    @property
    def kept(self) -> int:
        """How many events went to the spool because Redis was away."""
        return self._transport.kept

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()

    def sync(self) -> SyncBus:
        """The same bus for programs without an event loop."""
        return SyncBus(self)

    async def publish(self, event: Event) -> str:
        """Publish `event` and return its id, in one round trip; no hook is waited for.

        If the reply is lost, the event is added again with a mark, and the dispatcher keeps one of the two. While Redis is
        away, the event goes to the spool. Without a spool, raises Unreachable.
        """
        (published,) = await self.publish_many([event])
        return published

    async def publish_many(self, events: Sequence[Event]) -> list[str]:
        """Publish several events in one write, and return their ids in order; raises as `publish` does."""
        events_with_ids = [self._with_ids(event) for event in events]
        await self._transport.publish([self._fields(event) for event in events_with_ids])
        return [event.id for event in events_with_ids]

    async def request(self, event: Event, *, budget: float = DEFAULT_BUDGET) -> Verdict:
        """The verdict on `event`, within `budget` seconds.

        If none can come (Redis is away, no evaluator is alive, the budget is used up), the failure policy answers, and the
        verdict's `fallback` says why. A verdict whose reply was lost is read again. A server that is away for a moment is tried
        again for a fifth of the budget, at most 2 s, and for 0.25 s after a request that found it away. A caller that waits
        for longer than usual may wait for a person: it also waits for a server that restarts, up to 10 s.
        """
        deadline = time.monotonic() + budget
        event = self._with_ids(event)
        fields = self._fields(event)
        outage = self._outages.seconds(_outage(budget)) if budget <= DEFAULT_BUDGET else _outage(budget)
        try:
            raw = await self._transport.ask(fields, deadline, outage=outage)
            self._outages.note()
            return decode_verdict(raw)
        except FleethookError as error:
            self._outages.note(error)
            reason = str(error)
            about = ("source", event.source, "event", event.type, "host", event.host)
            await self._transport.report_fallback(fields, about, error)
            if isinstance(error, Unanswered):
                return decode_verdict(error.answer)
            return failed(bus_policy(self.on_failure, event.type), reason, event=event.id)

    def _with_ids(self, event: Event) -> Event:
        parent = event.parent or os.environ.get("FLEETHOOK_PARENT", "")
        context = trace_of(event) if event.traceparent else ambient()
        if event.id and event.host and parent == event.parent and context.traceparent == event.traceparent:
            return event
        event = at_trace(event, context)
        return msgspec.structs.replace(event, id=event.id or event_id(), host=event.host or self._host, parent=parent)

    def _fields(self, event: Event) -> Fields:
        folder = event_folder(event.cwd) if event.host == self._host else UNKNOWN_FOLDER
        return event_entry(event, folder, self.on_failure)


def _outage(budget: float) -> float:
    """The seconds for which a request tries a server that is away."""
    return max(outage_seconds(budget), min(_MOST_OUTAGE, (budget - DEFAULT_BUDGET) / 5))


def _machine_spool(url: str, namespace: str) -> Path:
    from bus.shim.answer_file import program_spool
    from bus.system.directories import directories

    return program_spool(directories(), url, Keys(namespace).prefix)


class SyncBus(SyncAgentFacade[Bus]):
    """A Bus for synchronous programs."""
