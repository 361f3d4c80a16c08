"""Adds events and requests to their streams and waits for replies, for `Bus` and for the gateway.

It works on the fields of stream entries, so it carries canonical events and agents' own payloads alike. The first two
fields are always `id` and the event's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bus.agents.reporter import reporter
from bus.errors import FleethookError, NoEvaluator, NoFleet, RequestTimeout, Unanswered, Unreachable
from bus.event_folder import UNKNOWN_FOLDER, EventFolder, folder_fields
from bus.events import Event
from bus.ids import event_id, reply_token
from bus.verdicts import Policy
from bus.wire.codec import encode_event, within_depth
from bus.wire.connections import COMMAND_SECONDS, CONNECT_SECONDS, Command, Connection, Connections
from bus.wire.keys import NOTE, Keys, note_key
from bus.wire.outages import MARKED_SECONDS, outage_seconds
from bus.wire.streams import checked, is_error, is_full

WAIT_SLICE: Final = 1.0
"""Seconds of one blocking wait: a reply lost on the wire is noticed after one slice and read again."""

_WIRE_SECONDS: Final = 0.25
_ADD_SECONDS: Final = 1.0
"""How long a publish waits for the server's reply before its events go to the spool, if it has one."""
_WIRE_BYTES: Final = 4 << 20
"""A large entry may take a second more for so many bytes."""
_MOST_FAILURES: Final = 3
_PAUSE_SECONDS: Final = 0.05
_HELD_PAUSE_SECONDS: Final = 0.25
_AT_ONCE: Final = 0.001
_AGAIN_SECONDS: Final = 5.0
"""How long after an outage an evaluator may take until it says that it works at a request, or that the request is held."""

_GAP_SECONDS: Final = 2.0
"""How long a note may be missing that was there: a server that lost its data gets it again within a second."""
_START: Final = "`fleethook up` or `fleethook worker evaluator` starts one"

Fields = tuple[str | bytes | int, ...]
"""The fields of a stream entry: names and values in turn."""


class Transport:
    """The sender's side of one fleet's streams, with a spool for events while Redis is away."""

    def __init__(self, connections: Connections, keys: Keys, spool: Path | None = None, *, drains: bool = True) -> None:
        """With `drains`, a publish first sends the spooled events; a process with its own drainer switches that off."""
        self.connections, self.keys = connections, keys
        self.spool, self._drains = spool, drains
        self.kept = 0
        """The number of events that went to the spool because Redis was away."""
        self.ends = False
        """Whether this process ends soon: calls that wait for a person are not waited for any more."""
        self._may_have_spooled = drains and spool is not None
        """Whether a publish has to send spooled events first."""

    async def publish(self, entries: Sequence[Fields]) -> None:
        """Add events in one write; while Redis is away they go to the spool. Raises Unreachable without one."""
        commands: dict[str, Command] = {_id(entry): ("XADD", self.keys("events"), "*", *entry) for entry in entries}
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
            if self.spool is None:
                raise next(iter(left.values()))
            self._keep([entry for entry in entries if _id(entry) in left])

    async def ask(self, entry: Fields, deadline: float, *, longest: float = 0.0, outage: float = 0.0) -> bytes:
        """The reply to the request with these fields, by `deadline` (monotonic seconds).

        If hooks declare more time, waits while an evaluator says that they run, until `longest`. A server that is away is
        tried for `outage` seconds, since a restart must let no call pass, and so are evaluators that are not back yet after it;
        a call that waits for a person is tried until its end. Raises NoEvaluator, NoFleet, RequestTimeout, Unreachable, and
        Unanswered instead of them if the call waits for a person.
        """
        held = _HeldCall(self.keys("reply", reply_token()))
        try:
            raw = await self._wait(entry, held, deadline, longest, outage)
            if raw is None and longest > deadline:
                raw = await self._wait_longer(entry, held, longest, outage)
            if raw is None:
                raise RequestTimeout("no verdict came within the budget")
        except FleethookError as error:
            if not held.answer:
                raise
            raise Unanswered(str(error), held.answer) from error
        return raw

    async def report_fallback(self, entry: Fields, about: Fields, error: FleethookError) -> None:
        """Record that the sender of `entry` fell back, since it may have acted differently from the recorded verdict.

        `about` are the fields that identify the sender. After an Unreachable it goes to the spool at once.
        """
        reason = str(error)
        fields = ("id", event_id(), "of", _id(entry), "fallback", reason, *about)
        try:
            if isinstance(error, Unreachable) and not isinstance(error, NoEvaluator):
                raise error
            with self.connections.lease() as connection:
                (reply,) = await connection.exchange(
                    [("XADD", self.keys("events"), "*", *fields)], seconds=CONNECT_SECONDS
                )
            checked(reply, "reporting a fallback")
        except FleethookError:
            # Keep the whole request, because we cannot know whether Redis has it. It has an id, so it counts once.
            with contextlib.suppress(Unreachable):  # a full spool counts what it loses
                self._keep([entry], "fallback", reason)
        if isinstance(error, NoFleet) and self._may_have_spooled:  # the server answers, so the record need not wait
            with contextlib.suppress(Unreachable):
                await self._drain()

    async def _drain(self) -> None:
        """Send the spooled events in order; raises Unreachable, and keeps what is not acknowledged."""
        from bus.shim.spool import Draining, add_commands

        if self.spool is not None and _has_entries(self.spool):
            with contextlib.suppress(BlockingIOError, TimeoutError), Draining(self.spool, _WIRE_SECONDS) as spool:
                for batch in spool.batches():
                    with self.connections.lease() as connection:
                        for reply in await connection.exchange(add_commands(self.keys.prefix, batch), _ADD_SECONDS):
                            checked(reply, "sending spooled events")
        self._may_have_spooled = False

    async def _add(self, commands: Mapping[str, Command]) -> dict[str, Unreachable]:
        """Send the commands in one write; returns those that a full or read-only server refused, with its error."""
        refused: dict[str, Unreachable] = {}
        if not commands:
            return refused
        large = sum(map(_bytes, commands.values())) / _WIRE_BYTES
        seconds = COMMAND_SECONDS if self.spool is None else _ADD_SECONDS
        with self.connections.lease() as connection:
            replies = await connection.exchange(list(commands.values()), seconds + large)
        for name, reply in zip(commands, replies, strict=True):
            try:
                checked(reply, "publishing")
            except Unreachable as error:
                refused[name] = error
        return refused

    def _keep(self, entries: Sequence[Fields], *more: str) -> None:
        """Append events to the spool; a drainer sends each once. Raises Unreachable if the spool is full."""
        if self.spool is None:
            return
        from bus.shim.spool import append

        self._may_have_spooled = self._drains
        self.kept += len(entries)
        for entry in entries:
            fields = [field if isinstance(field, bytes) else str(field) for field in entry]
            if not append(self.spool, "events", [*fields, *more]):
                raise Unreachable(f"redis is away and the spool {self.spool} takes no more; an event is lost")

    async def _wait(
        self, entry: Fields, held: _HeldCall, deadline: float, longest: float, outage: float
    ) -> bytes | None:
        """Add the request and wait, one slice at a time; after a broken connection look for a reply before adding it again.

        A request with a known id joins the running evaluation or gets the kept verdict, so it is evaluated once. A server that
        lost its data has no stream for it until an evaluator is back.
        """
        reply = held.reply
        add: Command = ("XADD", self.keys("requests"), "NOMKSTREAM", "*", "reply", reply, *entry)
        # A held call needs no evaluator while it waits.
        alive: Command = ("EXISTS", self.keys("alive", "evaluator"), note_key(reply))
        added, failures, in_a_row, unserved = False, 0, 0, False
        marked, return_seconds, lost = outage == MARKED_SECONDS, outage, None
        tried_until = time.monotonic() + outage if marked else 0.0
        while (left := deadline - time.monotonic()) > 0:
            self._check_end(held)
            large = 0 if added else _bytes(entry) / _WIRE_BYTES
            try:
                with self.connections.lease() as connection:
                    if marked:
                        await connection.open(min(left, outage))
                        await connection.exchange([("PING",)], seconds=outage)
                        marked, failures, return_seconds = False, 1, outage_seconds(left)
                    raw = await _read_reply(connection, reply) if failures else None
                    if not added:  # the time to connect is not the hooks': their failure policy has to answer in time
                        await connection.open(min(left, WAIT_SLICE) + _WIRE_SECONDS + large)
                        left = deadline - time.monotonic()
                    wait = max(_AT_ONCE, min(left, WAIT_SLICE))
                    commands: list[Command] = [alive, ("BLMOVE", reply, reply, "LEFT", "LEFT", f"{wait:.3f}")]
                    if not added:
                        patience = longest - deadline
                        more = ("patience", int((left + patience) * 1000)) if patience > 0 else ()
                        commands.insert(1, (*add, "budget", max(1, int(left * 1000)), *more))
                    raw = raw or await _round_trip(connection, commands, wait + _WIRE_SECONDS + large)
                    if raw is None:
                        await held.look(connection)
            except (NoEvaluator, NoFleet) as error:
                added, now = isinstance(error, NoEvaluator), time.monotonic()
                failures += not added
                if failures and not unserved:  # after an outage the evaluators come back in a moment
                    unserved, tried_until = True, max(tried_until, now + return_seconds)
                if not held.answer and (not failures or now >= tried_until):
                    raise
                await asyncio.sleep(held.pause)
                continue
            except Unreachable as error:
                added, failures, in_a_row, lost = False, failures + 1, in_a_row + 1, error
                if in_a_row == 1 and not marked:
                    tried_until = time.monotonic() + outage
                if in_a_row >= _MOST_FAILURES or marked:
                    if not held.answer and time.monotonic() >= tried_until:
                        raise
                    await asyncio.sleep(held.pause)
                continue
            if raw is not None:
                return raw
            added, in_a_row = True, 0
        if lost is not None and in_a_row:
            raise lost
        return None

    async def _wait_longer(self, entry: Fields, held: _HeldCall, longest: float, outage: float) -> bytes | None:
        """The reply of hooks that take longer than the budget, or of a held call; None once no note says that it comes.

        After an outage the request is added again, since a server may have lost it; its id makes it count once.
        """
        reply, tried_until, again_until, unserved = held.reply, 0.0, 0.0, False
        while (left := longest - time.monotonic()) > 0:
            self._check_end(held)
            try:
                with self.connections.lease() as connection:
                    if tried_until:
                        fields = ("reply", reply, *entry, "budget", int(left * 1000))
                        add: Command = ("XADD", self.keys("requests"), "NOMKSTREAM", "*", *fields)
                        (added,) = await connection.exchange([add])
                        _check_added(checked(added, "asking again after an outage"))
                        tried_until, again_until = 0.0, time.monotonic() + _AGAIN_SECONDS
                    runs = await held.look(connection)
                    again_until = max(again_until, time.monotonic() + _GAP_SECONDS) if runs else again_until
                    runs = runs or time.monotonic() < again_until
                    wait = min(left, WAIT_SLICE) if runs else _AT_ONCE
                    command: Command = ("BLMOVE", reply, reply, "LEFT", "LEFT", f"{wait:.3f}")
                    raw = await _answer(connection, command, wait + 2 * WAIT_SLICE)
            except Unreachable as error:
                if isinstance(error, NoFleet) and not unserved:
                    unserved, tried_until = True, max(tried_until, time.monotonic() + outage)
                tried_until = tried_until or (longest if held.answer else time.monotonic() + outage)
                if time.monotonic() >= tried_until:
                    raise
                await asyncio.sleep(held.pause)
                continue
            if raw is not None or not runs:
                return raw
        return None

    def _check_end(self, held: _HeldCall) -> None:
        if self.ends and held.answer:
            raise Unreachable("the process that waited for the answer ends")


class _HeldCall:
    """What the note beside a reply key has said so far: whether the call waits for a person, and what counts until then."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.answer = b""
        """The answer that counts if no other one comes in time; empty if the call is not held, as far as is known."""

    @property
    def pause(self) -> float:
        """Seconds between two tries to reach a server that is away; a person's answer may take minutes."""
        return _HELD_PAUSE_SECONDS if self.answer else _PAUSE_SECONDS

    async def look(self, connection: Connection) -> bool:
        """Whether there is a note: hooks still run, or the call is held."""
        note = note_key(self.reply)
        exists, first = await connection.exchange([("EXISTS", note), ("LINDEX", note, 0)])
        if isinstance(first, bytes) and first != NOTE:  # an error: the user of another role may not read it
            self.answer = first
        return bool(checked(exists, "asking whether hooks still run") == 1)


def _bytes(entry: Fields | Command) -> int:
    """The size of an entry's largest field."""
    return max(len(part) for part in entry if isinstance(part, str | bytes))


def event_entry(
    event: Event, folder: EventFolder = UNKNOWN_FOLDER, policy: Policy = "allow", by: str = "python"
) -> Fields:
    """The fields of a canonical event; `folder` is its folder where its machine knows it, `by` names the sender."""
    entry: Fields = (
        "id",
        event.id,
        "source",
        event.source,
        "event",
        event.type,
        "host",
        event.host,
        "body",
        encode_event(within_depth(event)),
        *folder_fields(folder),
        "by",
        reporter(by),
        *(("user", str(os.getuid())) if by == "python" else ()),
    )
    if policy != "allow":
        entry += ("policy", policy)
    return (*entry, "parent", event.parent) if event.parent else entry


def _id(entry: Fields) -> str:
    return str(entry[1])


def _has_entries(spool: Path) -> bool:
    return spool.exists() or spool.with_name(f"{spool.name}.draining").exists()


async def _read_reply(connection: Connection, reply: str) -> bytes | None:
    (kept,) = await connection.exchange([("LINDEX", reply, 0)], seconds=_WIRE_SECONDS)
    return kept if isinstance(kept, bytes) else None


async def _answer(connection: Connection, wait: Command, seconds: float) -> bytes | None:
    """The reply that one blocking command brings, or None if none came."""
    (answer,) = await connection.exchange([wait], seconds=seconds)
    return await _read_answer(connection, wait, answer, seconds)


async def _round_trip(connection: Connection, commands: Sequence[Command], seconds: float) -> bytes | None:
    """The answer, or None if none came; raises NoEvaluator or NoFleet as soon as a reply says so.

    The last command waits for the answer; before it one looks for an evaluator, and one may add the request.
    """
    count = len(commands) - 1
    *sent, answer = await connection.exchange(commands, seconds=seconds, first=_checks(count), firsts=count)
    for reply in sent:
        checked(reply, "asking for a verdict")
    return await _read_answer(connection, commands[-1], answer, seconds)


async def _read_answer(connection: Connection, wait: Command, answer: Any, seconds: float) -> bytes | None:
    if is_full(answer):  # a full server has the request, and still accepts BLPOP
        _, reply, *_, patience = wait
        (row,) = await connection.exchange([("BLPOP", reply, patience)], seconds=seconds)
        if not isinstance(row, Exception):  # an error: our ACL is older than this command
            answer = row and row[1]
    answer = checked(answer, "waiting for a verdict")
    return None if answer is None else bytes(answer)


def _checks(count: int) -> Callable[[Any], None]:
    """What looks at the replies that come before the wait for an answer: is an evaluator alive, and was the request added?"""
    replies: list[Any] = []

    def check(reply: Any) -> None:
        replies.append(reply)
        if len(replies) < count:
            return
        for added in replies[1:]:
            _check_added(added)
        if checked(replies[0], "looking for an evaluator") == 0:
            raise NoEvaluator(f"no evaluator is alive; {_START}")

    return check


def _check_added(reply: Any) -> None:
    if is_error(reply, "exhausted"):  # at once: nothing was added, so no answer comes
        checked(reply, "asking for a verdict")
    if reply is None:
        raise NoFleet(f"no evaluator is alive, and the server has no data of the fleet; {_START}")
