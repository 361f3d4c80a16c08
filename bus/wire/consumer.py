"""One member of a consumer group: reads entries, writes its heartbeat, and finds pending entries to resume."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from bus.errors import Unreachable
from bus.wire.connections import COMMAND_SECONDS, MARGIN_SECONDS, Argument, Command, Connection, Connections
from bus.wire.counts import field
from bus.wire.keys import EVALUATORS_MS, HEARTBEAT_MS, IDLE_BEAT_MS, Keys, declared
from bus.wire.scripts import every_script
from bus.wire.streams import ScriptCall, StreamEntry, call, checked, flat, is_error, repeat_unknown

log = logging.getLogger("fleethook.streams")

BEAT_SECONDS: Final = 0.5
"""How often a reading loop writes its heartbeat (TTL 2 s)."""

CLAIM_SECONDS: Final = 0.5
"""How often a reading loop looks for members whose heartbeat is gone, and for pending entries that it never saw."""

OUTAGE_SECONDS: Final = 2.5
"""How long after an outage nothing is claimed from others: it ended their heartbeats too, and living members need time to write
theirs again. A loop pauses up to 2 s between its tries (`Backoff`)."""

_MOST_PENDING: Final = 10_000
"""How many of its own pending entries a consumer rechecks at once."""

_MOST_CLAIMED: Final = 64
"""How many entries of one dead member are claimed at once, per stream."""


class Consumer:
    """One member of a group over some streams.

    The reading loop itself writes the heartbeat, so a loop that is stuck counts as dead.
    Source: docs/architecture.md, "Time and failure".
    """

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        *,
        group: str,
        name: str,
        streams: Sequence[str],
        role: str,
        about: str = "",
        watches: str = "",
    ) -> None:
        """`watches` is a hash that every read brings along, as it is when the entries are handed out: see `watched`."""
        self.connections, self.keys, self.group, self.name = connections, keys, group, name
        self.streams = tuple(streams)
        self._role, self._about, self._watches = role, about, watches
        self._role_ms = EVALUATORS_MS if role == "evaluator" else HEARTBEAT_MS
        self.watched: tuple[bytes, ...] = ()
        """The names and values of the watched hash in turn, as they were at the last read."""
        self.beside: Callable[[], Sequence[Command]] = tuple
        """The commands that each read brings along besides, as of when its entries are handed out."""
        self.brought: Sequence[Any] = ()
        """Their replies at the last read."""
        self.results: Sequence[Any] = ()
        """The replies to the calls that went out with the last read."""
        self._beat_at = 0.0
        self._claimed_at = 0.0
        self._rechecked_at = 0.0
        self.missed_heartbeats = 0
        """How often our heartbeat had expired before we wrote it again: others may have claimed our entries then."""
        self.must_recheck_pending = False
        """A reply was lost or a script refused, so we may have pending entries that we never saw: see `own_pending`."""
        self.failed_at = float("-inf")
        """When a turn of the loop last failed, by the monotonic clock."""
        self._lapsed_at = float("-inf")
        """When we last saw that our heartbeat had expired, at most once in four times OUTAGE_SECONDS.

        So entries of the dead are claimed also on a machine that is so busy that it expires all the time.
        """

    @property
    def fresh(self) -> bool:
        """Whether our heartbeat has not expired. If it has (this process was stopped), others may have claimed our entries."""
        return (time.monotonic() - self._beat_at) * 1000 < HEARTBEAT_MS - 250

    def _note_lapse(self) -> bool:
        """Whether our heartbeat has expired and was not written again."""
        has_lapsed, now = bool(self._beat_at) and not self.fresh, time.monotonic()
        if has_lapsed and now - self._lapsed_at > 4 * OUTAGE_SECONDS:
            self._lapsed_at = now
        return has_lapsed

    def beat_commands(self, ms: int = HEARTBEAT_MS) -> list[Command]:
        """The commands that write two heartbeats: our own for `ms`, and the role's, which shows that the role has a worker.

        They also make us a member of the groups again: other workers remove a member whose heartbeat expired in an outage, and
        a server before 7.2 lists only members that got an entry (observed on Redis 7.0.15), while `status` and
        `worker --health` count idle members too.
        """
        if self._note_lapse():
            self.missed_heartbeats += 1
        self._beat_at = time.monotonic()
        return [
            ScriptCall("beat", (self.keys("beat", self.name),), (self._about or self._role, ms)).whole_command(),
            self._role_beat(max(ms, self._role_ms)),
            *(("XGROUP", "CREATECONSUMER", stream, self.group, self.name) for stream in self.streams),
        ]

    def _role_beat(self, ms: int) -> Command:
        return ScriptCall("beat", (self.keys("alive", self._role),), (self.name, ms)).whole_command()

    async def beat(self, *, with_role: bool = True) -> None:
        """Write our heartbeat, and by default the role's; raises Unreachable."""
        commands = self.beat_commands()
        with self.connections.lease() as connection:
            await connection.exchange(commands if with_role else commands[:1])

    async def beat_if_due(self, read_at: float = 0.0) -> None:
        """Write the heartbeat if it is due, for a loop that handles what it read at `read_at` for a long time.

        Raises Unreachable.
        """
        if time.monotonic() - max(self._beat_at, read_at) >= BEAT_SECONDS:
            await self.beat()

    def note_failure(self) -> None:
        """Note that a turn of the loop failed: the entries that it read or answered have to be checked again."""
        self.must_recheck_pending = True
        self.failed_at = time.monotonic()

    async def create(self) -> None:
        """Make the groups, which begin with the oldest entry; a group that exists stays as it is.

        Loads the scripts too: otherwise the first answer would find its script missing and wait for a whole read.
        Raises Unreachable if Redis takes no writes or refuses our rights: without its group no worker can read.
        """
        commands = [
            ScriptCall("group", (stream,), (self.group, self._kept_ms(stream))).whole_command()
            for stream in self.streams
        ]
        with self.connections.lease() as connection:
            await connection.exchange([("SCRIPT", "LOAD", script.text) for script in every_script()])
            # Callers take a server without the stream of requests for one to which evaluators come back. So the role's
            # heartbeat is there before the stream is, and no caller finds the stream without an evaluator.
            beats = [self._role_beat(self._role_ms)] if self._role == "evaluator" else []
            for reply in (await connection.exchange([*beats, *commands]))[len(beats) :]:
                if not is_error(reply, "BUSYGROUP"):
                    checked(reply, f"making the group {self.group}")

    def _kept_ms(self, stream: str) -> int | str:
        """How long a stream is kept which nobody writes to; empty if it stays."""
        key = declared(stream.removeprefix(self.keys.prefix))
        return key.ttl if key is not None and isinstance(key.ttl, int) else ""

    async def read(
        self,
        connection: Connection,
        count: int,
        block: float,
        streams: Sequence[str] = (),
        calls: Sequence[ScriptCall] = (),
    ) -> list[StreamEntry]:
        """Up to `count` new entries per stream; waits up to `block` seconds. Writes the heartbeat when it is due.

        `calls` (answers to earlier entries) go out in the same write, so that a loop that answers and reads on needs one
        round trip instead of two. After NOGROUP (the server was flushed or failed over) the groups are made again.
        """
        names = streams or self.streams
        reading = self._reading(names, count, min(block, BEAT_SECONDS))
        beside = self._beside()
        replies = await self._exchange(connection, calls, [reading, *beside], block + MARGIN_SECONDS)
        found = len(replies) - len(beside)
        self._note_beside(replies[found:])
        del replies[found:]
        reply, self.results = replies.pop(), replies[: len(calls)]
        # 0 means that another consumer has the entry, or that a repair gave it a new id; a list, that a limit refused it.
        if any(isinstance(result, Exception | list) or result == 0 for result in replies):
            self.must_recheck_pending = True
        return await self._read_entries(reply, names)

    def _beside(self) -> list[Command]:
        """What a read asks for besides entries. The server runs it after the read has waited: no entry is newer than it."""
        self.brought = ()
        return [*([("HGETALL", self._watches)] if self._watches else []), *self.beside()]

    def _note_beside(self, replies: Sequence[Any]) -> None:
        if self._watches:
            self.watched, replies = tuple(checked(replies[0], f"reading {self._watches}")), replies[1:]
        self.brought = replies

    def _reading(self, names: Sequence[str], count: int, seconds: float) -> Command:
        waits = max(1, int(seconds * 1000))
        group = ("XREADGROUP", "GROUP", self.group, self.name, "COUNT", count, "BLOCK", waits)
        return (*group, "STREAMS", *names, *[">"] * len(names))

    async def _read_entries(self, reply: Any, names: Sequence[str]) -> list[StreamEntry]:
        """The entries in the reply to a read."""
        if is_error(reply, "UNBLOCKED"):  # a repair has put another stream in its place
            return []
        if is_error(reply, "NOGROUP"):
            log.warning("group %s is gone (flush or fail-over): creating it again", self.group)
            await self.create()
            return []
        return _entries(checked(reply, f"reading {', '.join(names)}"))

    async def wait(
        self,
        connection: Connection,
        count: int,
        seconds: float,
        looks: Sequence[Command],
        note_id: Callable[[Any], None],
    ) -> tuple[list[StreamEntry], list[Any]]:
        """New entries as `read` gives them, after up to `seconds`; for a loop that has nothing else to do meanwhile.

        `looks` are commands whose replies come with the entries, as of when these are handed out. `note_id` gets the
        connection's id at once, by which another connection can end the wait. Writes the heartbeat, and `look` goes on so.
        """
        reading = self._reading(self.streams, count, seconds)
        more: list[Command] = [reading, *self._beside()]
        commands: list[Command] = [("CLIENT", "ID"), *self.beat_commands(IDLE_BEAT_MS), *more, *looks]
        try:
            replies = await connection.exchange(commands, seconds + MARGIN_SECONDS, note_id)
        except BaseException:
            self.must_recheck_pending = True  # entries may have been handed to us
            raise
        found = len(replies) - len(looks)
        at = found - len(more)
        self._note_beside(replies[at + 1 : found])
        return await self._read_entries(replies[at], self.streams), replies[found:]

    async def look(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to `commands`; writes the heartbeat of a loop that waits. Raises Unreachable."""
        beats, beat_at = self.beat_commands(IDLE_BEAT_MS), self._beat_at
        try:
            return (await self.connections.together([*beats, *commands]))[len(beats) :]
        except BaseException:
            self._beat_at = beat_at
            raise

    async def call(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """The results of `calls`, sent in one write; an error reply is in the list as an exception.

        Writes the heartbeat when it is due.
        """
        with self.connections.lease() as connection:
            return await self._exchange(connection, calls, [], COMMAND_SECONDS)

    async def _exchange(
        self, connection: Connection, calls: Sequence[ScriptCall], more: Sequence[Command], seconds: float
    ) -> list[Any]:
        """The replies to `calls` and then to `more`; the heartbeat goes between them when it is due."""
        commands, beat_at = [script_call.command() for script_call in calls], self._beat_at
        due = time.monotonic() - beat_at >= BEAT_SECONDS
        beats = self.beat_commands() if due else []
        try:
            replies = await connection.exchange([*commands, *beats, *more], seconds=seconds)
            await repeat_unknown(self.connections, calls, replies)
        except BaseException:
            self.must_recheck_pending = True  # entries may have been handed to us
            self._beat_at = beat_at  # the heartbeat may not have been written
            raise
        if due:
            del replies[len(calls) : len(calls) + len(beats)]
        return replies

    async def pending_to_resume(
        self, held: Container[tuple[str, str]] = (), most: int = _MOST_CLAIMED, grace: float = 0.0
    ) -> list[StreamEntry]:
        """Pending entries to resume: our own that we never saw, and those of dead members; looks at most every half second.

        `held` has the entries in work, as (stream, entry id). For `grace` seconds after a failure nothing is claimed, and never
        for OUTAGE_SECONDS after an outage in which our own heartbeat expired: those of living members have expired too.
        """
        self._note_lapse()
        entries, now = await self.own_pending(held), time.monotonic()
        if now - self.failed_at >= grace and now - self._lapsed_at >= OUTAGE_SECONDS:
            entries += await self.claim_from_dead(most)
        return entries

    async def own_pending(self, held: Container[tuple[str, str]] = ()) -> list[StreamEntry]:
        """Our own pending entries that we never saw, because the reply that handed them to us was lost.

        `held` has the entries in work, as (stream, entry id). Looks only when `must_recheck_pending` is set, at most every
        half second. No other worker claims them while our heartbeat lasts.
        """
        now = time.monotonic()
        if not self.must_recheck_pending or now - self._rechecked_at < CLAIM_SECONDS:
            return []
        self._rechecked_at = now
        found: list[StreamEntry] = []
        with self.connections.lease() as connection:
            asked: list[Command] = [
                ("XPENDING", stream, self.group, "-", "+", _MOST_PENDING, self.name) for stream in self.streams
            ]
            for stream, rows in zip(self.streams, await connection.exchange(asked), strict=True):
                if is_error(rows, "NOGROUP"):
                    continue
                counts = {row[0].decode(): int(row[3]) for row in checked(rows, f"looking through {stream}")}
                unseen = [entry_id for entry_id in counts if (stream, entry_id) not in held]
                ids = await self._not_moved(connection, stream, unseen, held)
                asked = [("XRANGE", stream, entry_id, entry_id) for entry_id in ids]
                replies = await connection.exchange(asked) if asked else []
                for entry_id, reply in zip(ids, replies, strict=True):
                    if entries := checked(reply, f"looking for {entry_id}"):
                        found.append(StreamEntry(stream, entry_id, flat(entries[0][1]), counts[entry_id]))
                    else:  # trimmed or deleted: nothing is left to resume
                        await connection.exchange([("XACK", stream, self.group, entry_id)])
        self.must_recheck_pending = False
        if found:
            log.warning(
                "%d entries were delivered to %s and their reply was lost: resuming them", len(found), self.name
            )
        return found

    async def _not_moved(
        self, connection: Connection, stream: str, ids: list[str], held: Container[tuple[str, str]]
    ) -> list[str]:
        """The ids of entries that are not in work. A repair may have given an entry in work a new id, so both are compared."""
        if not ids:
            return ids
        (reply,) = await connection.exchange([("HGETALL", self.keys("moved", stream.removeprefix(self.keys.prefix)))])
        old_ids = {new: old for old, new in flat(checked(reply, "looking for moved entries")).items()}
        return [entry_id for entry_id in ids if (stream, old_ids.get(entry_id.encode(), b"").decode()) not in held]

    async def claim_from_dead(self, most: int = _MOST_CLAIMED) -> list[StreamEntry]:
        """Claims up to `most` entries per stream of each member whose heartbeat is gone; looks at most every half second."""
        now = time.monotonic()
        if now - self._claimed_at < CLAIM_SECONDS:
            return []
        self._claimed_at = now
        claimed: list[StreamEntry] = []
        try:
            for stream in self.streams:
                for dead in await self._dead_members(stream):
                    short = stream.removeprefix(self.keys.prefix).partition(":")[0]
                    counted = field("reclaimed_messages", short, self.group)
                    args: list[Argument] = [self.group, dead, self.name, most, self.keys("metrics"), counted]
                    rows = await call(self.connections, "adopt", [stream, self.keys("beat", dead)], args)
                    claimed += [StreamEntry(stream, row[0].decode(), flat(row[1]), int(row[2])) for row in rows]
                    if rows:
                        log.warning("took over %d entries of %s from %s, which is gone", len(rows), stream, dead)
        except BaseException:
            self.must_recheck_pending = True
            raise
        return claimed

    async def _dead_members(self, stream: str) -> list[str]:
        members = await self._other_members(stream)
        return [name for name, alive in members.items() if not alive]

    async def _is_alone(self) -> bool:
        """Whether no other member of the group lives, on any of the streams."""
        members = [await self._other_members(stream) for stream in self.streams]
        return not any(any(alive.values()) for alive in members)

    async def _other_members(self, stream: str) -> dict[str, bool]:
        """The other members by name, and whether each has a heartbeat."""
        with self.connections.lease() as connection:
            (reply,) = await connection.exchange([("XINFO", "CONSUMERS", stream, self.group)])
            if isinstance(reply, Exception):
                return {}
            names = [flat(row)[b"name"].decode() for row in reply]
            others = [name for name in names if name != self.name]
            if not others:
                return {}
            replies = await connection.exchange([("EXISTS", self.keys("beat", name)) for name in others])
        # Only the reply 0 means that a member is gone; after an error it counts as alive.
        return {name: exists != 0 for name, exists in zip(others, replies, strict=True)}

    async def leave(self) -> None:
        """Remove our heartbeat, and our membership where nothing is pending.

        The last member removes the role's heartbeat too, so that callers fall back at once instead of after 6 s.
        """
        try:
            alone = await self._is_alone()
            with self.connections.lease() as connection:
                commands: list[Command] = [("DEL", self.keys("beat", self.name))]
                if alone:
                    await connection.exchange([("DEL", self.keys("alive", self._role))])
                commands += [("XPENDING", stream, self.group, "-", "+", 1, self.name) for stream in self.streams]
                replies = await connection.exchange(commands)
                empty = [stream for stream, pending in zip(self.streams, replies[1:], strict=True) if pending == []]
                if empty:
                    await connection.exchange(
                        [("XGROUP", "DELCONSUMER", stream, self.group, self.name) for stream in empty]
                    )
        except Unreachable:
            log.warning("%s cannot leave its groups: redis is away; others claim its entries in 2 s", self.name)


def _entries(reply: Any) -> list[StreamEntry]:
    if not reply:
        return []
    return [
        StreamEntry(name.decode(), entry.decode(), flat(fields or ())) for name, rows in reply for entry, fields in rows
    ]
