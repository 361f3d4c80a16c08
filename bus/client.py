"""The bus as programs see it: `publish(event) -> id`, `request(event) -> Verdict`, and a synchronous face."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from bus.errors import FleethookError, NoEvaluator, RequestTimeout, Unreachable
from bus.event_folder import event_folder, folder_fields
from bus.events import Event
from bus.ids import event_id, host_name, reply_token
from bus.sdk.facade import AgentFace, SyncAgentFace
from bus.verdicts import Policy, Verdict, bus_policy, failed
from bus.wire.codec import decode_verdict, encode_event
from bus.wire.connections import CONNECT_SECONDS, Command, Connection, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, is_full

DEFAULT_BUDGET: Final = 10.0
"""Seconds within which a verdict must come, all in all."""

WAIT_SLICE: Final = 1.0
"""Seconds of one blocking wait: a reply lost on the wire is noticed after one slice and read again."""

_WIRE_SECONDS: Final = 0.25
_MOST_LOST: Final = 3

_T = TypeVar("_T")


class Bus(AgentFace):
    """One program's place on the bus.

    `url` is the server's (default: `FLEETHOOK_REDIS_URL`, else this machine's own server), `namespace` the fleet's.
    `on_failure` answers where no hook can; `spool`, a file, keeps what is published while Redis is away, and is sent on
    by the next call that reaches it. Where no `url` is given, the default is a spool that this machine's workers drain.
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
                spool = spool or _own_spool(url, namespace)
        self.keys = Keys(namespace)
        self.connections = Connections(url, connect=connect)
        self.on_failure: Policy = on_failure
        self._spool = spool
        self.kept = 0
        """How many events went to the spool, since Redis was away."""
        self._looks = spool is not None
        """Whether something may wait in the spool."""
        self._host = host_name()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()

    def sync(self) -> SyncBus:
        """The same bus for programs without an event loop."""
        return SyncBus(self)

    async def publish(self, event: Event) -> str:
        """Announce `event` and return its id, in one round trip; nobody waits for a hook.

        Where the reply was lost on the wire the event is added again, marked, and the dispatcher keeps one of the two.
        While Redis is away the event goes to the spool, where there is one; else raises Unreachable.
        """
        (published,) = await self.publish_many([event])
        return published

    async def publish_many(self, events: Sequence[Event]) -> list[str]:
        """Announce several events in one write, and return their ids in order; raises as `publish` does."""
        prepared = [self._prepared(event) for event in events]
        commands: dict[str, Command] = {
            event.id: ("XADD", self.keys("events"), "*", *self._fields(event)) for event in prepared
        }
        try:
            if self._looks:  # what came before goes before
                await self._drain()
            try:
                left = await self._add(commands)
            except Unreachable:
                # Whether the wire broke before or after Redis had them is not known. The mark makes the dispatcher
                # look for an earlier one of the same id, and remove this one where there is.
                left = await self._add({name: (*one, "spooled", "1") for name, one in commands.items()})
        except Unreachable as error:
            left = dict.fromkeys(commands, error)
        if left:
            if self._spool is None:
                raise next(iter(left.values()))
            self._keep("events", [event for event in prepared if event.id in left])
        return [event.id for event in prepared]

    async def _drain(self) -> None:
        """Send on what waits in the spool, in order; raises Unreachable, and what is not acknowledged stays."""
        from bus.shim.spool import Draining, add_commands

        if self._spool is not None and _waits(self._spool):
            with contextlib.suppress(BlockingIOError, TimeoutError), Draining(self._spool, _WIRE_SECONDS) as spool:
                for batch in spool.batches():
                    with self.connections.lease() as connection:
                        for reply in await connection.exchange(add_commands(self.keys.prefix, batch)):
                            checked(reply, "sending on what waited")
        self._looks = False

    async def _add(self, commands: Mapping[str, Command]) -> dict[str, Unreachable]:
        """Send the commands in one write; those that a full or read-only server refused, with its word for it."""
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

    def _keep(self, stream: str, events: Sequence[Event], *more: str) -> None:
        """Put events into the spool, from which a drainer sends each once."""
        if self._spool is None:
            return
        from bus.shim.spool import append

        self._looks = True
        self.kept += len(events)
        for event in events:
            fields = [field if isinstance(field, bytes) else str(field) for field in self._fields(event)]
            if not append(self._spool, stream, [*fields, *more]):
                raise Unreachable(f"redis is away and the spool {self._spool} takes no more; an event is lost")

    async def request(self, event: Event, *, budget: float = DEFAULT_BUDGET) -> Verdict:
        """Ask for the verdict on `event`, within `budget` seconds all in all.

        Where none can come (Redis away, no evaluator alive, the budget used up) the answer is the failure policy's,
        at once and with `fallback` saying why. A verdict whose reply was lost on the wire is read again.
        """
        event = self._prepared(event)
        deadline = time.monotonic() + budget
        reply = self.keys("reply", reply_token())
        try:
            return await self._ask(event, reply, deadline)
        except FleethookError as error:
            why = str(error)
            await self._report(event, why)
            return failed(bus_policy(self.on_failure, event.type), why, event=event.id)

    async def _ask(self, event: Event, reply: str, deadline: float) -> Verdict:
        """Add the request and wait, a slice at a time; after a broken wire look before adding it again.

        A repeated id joins the running evaluation or gets the kept verdict, so adding twice evaluates once.
        """
        add: Command = ("XADD", self.keys("requests"), "*", "reply", reply, *self._fields(event))
        alive: Command = ("EXISTS", self.keys("alive", "evaluator"))
        added, lost = False, 0
        while (left := deadline - time.monotonic()) > 0:
            wait = min(left, WAIT_SLICE)
            commands: list[Command] = [alive, ("BLMOVE", reply, reply, "LEFT", "LEFT", f"{wait:.3f}")]
            if not added:
                commands.insert(1, (*add, "budget", int(left * 1000)))
            try:
                with self.connections.lease() as connection:
                    raw = await _look(connection, reply) if lost else None
                    raw = raw or await _round_trip(connection, commands, wait + _WIRE_SECONDS)
            except NoEvaluator:
                raise
            except Unreachable:
                added, lost = False, lost + 1
                if lost == _MOST_LOST:
                    raise
                continue
            if raw is not None:
                return decode_verdict(raw)
            added = True
        raise RequestTimeout("no verdict came within the budget")

    def _prepared(self, event: Event) -> Event:
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

    async def _report(self, event: Event, why: str) -> None:
        """Say on the stream that this program fell back: what was recorded and what the program did may differ."""
        fields = (
            "id",
            event_id(),
            "of",
            event.id,
            "fallback",
            why,
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
            # The whole request: whether Redis has it already is not known, and it is recorded once by its id.
            with contextlib.suppress(
                Unreachable
            ):  # a full spool counts what it loses; the answer is given all the same
                self._keep("events", [event], "fallback", why)


def _waits(spool: Path) -> bool:
    return spool.exists() or spool.with_name(f"{spool.name}.draining").exists()


def _own_spool(url: str, namespace: str) -> Path:
    from bus.shim.answer_file import program_spool
    from bus.system.directories import directories

    return program_spool(directories(), url, Keys(namespace).prefix)


async def _look(connection: Connection, reply: str) -> bytes | None:
    (kept,) = await connection.exchange([("LINDEX", reply, 0)], seconds=_WIRE_SECONDS)
    return kept if isinstance(kept, bytes) else None


async def _round_trip(connection: Connection, commands: Sequence[Command], seconds: float) -> bytes | None:
    """The answer that came meanwhile, or None; raises NoEvaluator as soon as the first reply says so."""
    *sent, answer = await connection.exchange(commands, seconds=seconds, first=_somebody)
    for reply in sent:
        checked(reply, "asking for a verdict")
    if is_full(answer):  # it has the request, and takes BLPOP still
        _, reply, *_, wait = commands[-1]
        (row,) = await connection.exchange([("BLPOP", reply, wait)], seconds=seconds)
        if not isinstance(row, Exception):  # else our rights are older than this
            answer = row and row[1]
    answer = checked(answer, "waiting for a verdict")
    return None if answer is None else bytes(answer)


def _somebody(reply: Any) -> None:
    if checked(reply, "looking for an evaluator") == 0:
        raise NoEvaluator("no evaluator is alive; `fleethook up` or `fleethook worker evaluator` starts one")


class SyncBus(SyncAgentFace):
    """The synchronous face of a Bus: the same calls, on an event loop of its own in the calling thread."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._loop = asyncio.new_event_loop()

    @property
    def _face(self) -> Bus:
        return self._bus

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and the loop."""
        self._run(self._bus.close())
        self._loop.close()

    def publish(self, event: Event) -> str:
        """As Bus.publish."""
        return self._run(self._bus.publish(event))

    def publish_many(self, events: Sequence[Event]) -> list[str]:
        """As Bus.publish_many."""
        return self._run(self._bus.publish_many(events))

    def request(self, event: Event, *, budget: float = DEFAULT_BUDGET) -> Verdict:
        """As Bus.request."""
        return self._run(self._bus.request(event, budget=budget))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(work)
