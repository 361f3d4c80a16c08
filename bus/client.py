"""The bus for programs: `publish(event) -> id` and `request(event) -> Verdict`, asynchronous and synchronous."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.errors import FleethookError, NoEvaluator, RequestTimeout, Unreachable
from bus.event_folder import event_folder, folder_fields
from bus.events import Event
from bus.ids import event_id, host_name, reply_token
from bus.sdk.facade import DEFAULT_BUDGET, AgentFacade, SyncAgentFacade
from bus.verdicts import Policy, Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict, encode_event
from bus.wire.connections import CONNECT_SECONDS, Command, Connection, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, is_full

WAIT_SLICE: Final = 1.0
"""Seconds of one blocking wait: a reply lost on the wire is noticed after one slice and read again."""

_WIRE_SECONDS: Final = 0.25
_MOST_FAILURES: Final = 3


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
        self._spool = spool
        self.kept = 0
        """How many events went to the spool because Redis was away."""
        self._may_have_spooled = spool is not None
        """Whether the spool may have entries."""
        self._host = host_name()

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
        commands: dict[str, Command] = {
            event.id: ("XADD", self.keys("events"), "*", *self._fields(event)) for event in events_with_ids
        }
        try:
            if self._may_have_spooled:  # earlier events go first
                await self._drain()
            try:
                left = await self._add(commands)
            except Unreachable:
                # The connection broke before or after Redis had the events: we cannot know. The mark makes the dispatcher
                # look for an earlier event of the same id, and remove this one if there is one.
                left = await self._add({name: (*command, "spooled", "1") for name, command in commands.items()})
        except Unreachable as error:
            left = dict.fromkeys(commands, error)
        if left:
            if self._spool is None:
                raise next(iter(left.values()))
            self._spool_events("events", [event for event in events_with_ids if event.id in left])
        return [event.id for event in events_with_ids]

    async def _drain(self) -> None:
        """Send the spooled events in order; raises Unreachable, and keeps what is not acknowledged."""
        from bus.shim.spool import Draining, add_commands

        if self._spool is not None and _has_entries(self._spool):
            with contextlib.suppress(BlockingIOError, TimeoutError), Draining(self._spool, _WIRE_SECONDS) as spool:
                for batch in spool.batches():
                    with self.connections.lease() as connection:
                        for reply in await connection.exchange(add_commands(self.keys.prefix, batch)):
                            checked(reply, "sending spooled events")
        self._may_have_spooled = False

    async def _add(self, commands: Mapping[str, Command]) -> dict[str, Unreachable]:
        """Send the commands in one write; returns those that a full or read-only server refused, with its error."""
        refused: dict[str, Unreachable] = {}
        if not commands:
            return refused
        with self.connections.lease() as connection:
            replies = await connection.exchange(list(commands.values()))
        for name, reply in zip(commands, replies, strict=True):
            try:
                checked(reply, "publishing")
            except Unreachable as error:
                refused[name] = error
        return refused

    def _spool_events(self, stream: str, events: Sequence[Event], *more: str) -> None:
        """Append events to the spool; a drainer sends each once."""
        if self._spool is None:
            return
        from bus.shim.spool import append

        self._may_have_spooled = True
        self.kept += len(events)
        for event in events:
            fields = [field if isinstance(field, bytes) else str(field) for field in self._fields(event)]
            if not append(self._spool, stream, [*fields, *more]):
                raise Unreachable(f"redis is away and the spool {self._spool} takes no more; an event is lost")

    async def request(self, event: Event, *, budget: float = DEFAULT_BUDGET) -> Verdict:
        """The verdict on `event`, within `budget` seconds.

        If none can come (Redis is away, no evaluator is alive, the budget is used up), the failure policy answers, and the
        verdict's `fallback` says why. A verdict whose reply was lost is read again.
        """
        event = self._with_ids(event)
        deadline = time.monotonic() + budget
        reply = self.keys("reply", reply_token())
        try:
            return await self._ask(event, reply, deadline)
        except FleethookError as error:
            reason = str(error)
            await self._report(event, reason)
            return failed(bus_policy(self.on_failure, event.type), reason, event=event.id)

    async def _ask(self, event: Event, reply: str, deadline: float) -> Verdict:
        """Add the request and wait, one slice at a time; after a broken connection look for a reply before adding it again.

        A request with a known id joins the running evaluation or gets the kept verdict, so it is evaluated once.
        """
        add: Command = ("XADD", self.keys("requests"), "*", "reply", reply, *self._fields(event))
        alive: Command = ("EXISTS", self.keys("alive", "evaluator"))
        added, failures = False, 0
        while (left := deadline - time.monotonic()) > 0:
            wait = min(left, WAIT_SLICE)
            commands: list[Command] = [alive, ("BLMOVE", reply, reply, "LEFT", "LEFT", f"{wait:.3f}")]
            if not added:
                commands.insert(1, (*add, "budget", int(left * 1000)))
            try:
                with self.connections.lease() as connection:
                    raw = await _read_reply(connection, reply) if failures else None
                    raw = raw or await _round_trip(connection, commands, wait + _WIRE_SECONDS)
            except NoEvaluator:
                raise
            except Unreachable:
                added, failures = False, failures + 1
                if failures == _MOST_FAILURES:
                    raise
                continue
            if raw is not None:
                return decode_verdict(raw)
            added = True
        raise RequestTimeout("no verdict came within the budget")

    def _with_ids(self, event: Event) -> Event:
        parent = event.parent or os.environ.get("FLEETHOOK_PARENT", "")
        if event.id and event.host and parent == event.parent:
            return event
        return msgspec.structs.replace(event, id=event.id or event_id(), host=event.host or self._host, parent=parent)

    def _fields(self, event: Event) -> tuple[str | bytes, ...]:
        fields: tuple[str | bytes, ...] = (
            "id",
            event.id,
            "source",
            event.source,
            "event",
            event.type,
            "host",
            event.host,
            "body",
            encode_event(event),
        )
        if event.host == self._host:
            fields += folder_fields(event_folder(event.cwd))
        if self.on_failure != "allow":
            fields += ("policy", self.on_failure)
        return (*fields, "parent", event.parent) if event.parent else fields

    async def _report(self, event: Event, reason: str) -> None:
        """Record that this program fell back: the recorded verdict and what the program did may differ."""
        fields = (
            "id",
            event_id(),
            "of",
            event.id,
            "fallback",
            reason,
            "source",
            event.source,
            "event",
            event.type,
            "host",
            event.host,
        )
        try:
            with self.connections.lease() as connection:
                (reply,) = await connection.exchange(
                    [("XADD", self.keys("events"), "*", *fields)], seconds=CONNECT_SECONDS
                )
            checked(reply, "reporting a fallback")
        except FleethookError:
            # The whole request, because we cannot know whether Redis has it; its id makes it count once.
            with contextlib.suppress(Unreachable):  # a full spool counts what it loses
                self._spool_events("events", [event], "fallback", reason)


def _has_entries(spool: Path) -> bool:
    return spool.exists() or spool.with_name(f"{spool.name}.draining").exists()


def _machine_spool(url: str, namespace: str) -> Path:
    from bus.shim.answer_file import program_spool
    from bus.system.directories import directories

    return program_spool(directories(), url, Keys(namespace).prefix)


async def _read_reply(connection: Connection, reply: str) -> bytes | None:
    (kept,) = await connection.exchange([("LINDEX", reply, 0)], seconds=_WIRE_SECONDS)
    return kept if isinstance(kept, bytes) else None


async def _round_trip(connection: Connection, commands: Sequence[Command], seconds: float) -> bytes | None:
    """The answer, or None if none came; raises NoEvaluator as soon as the first reply says so."""
    *sent, answer = await connection.exchange(commands, seconds=seconds, first=_check_evaluator)
    for reply in sent:
        checked(reply, "asking for a verdict")
    if is_full(answer):  # a full server has the request, and still accepts BLPOP
        _, reply, *_, wait = commands[-1]
        (row,) = await connection.exchange([("BLPOP", reply, wait)], seconds=seconds)
        if not isinstance(row, Exception):  # an error: our ACL is older than this command
            answer = row and row[1]
    answer = checked(answer, "waiting for a verdict")
    return None if answer is None else bytes(answer)


def _check_evaluator(reply: Any) -> None:
    if checked(reply, "looking for an evaluator") == 0:
        raise NoEvaluator("no evaluator is alive; `fleethook up` or `fleethook worker evaluator` starts one")


class SyncBus(SyncAgentFacade[Bus]):
    """A Bus for synchronous programs."""
