"""The Redis verbs of both sides: scripts, reading as one of a group, heartbeats, claiming from the dead."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError, Unreachable
from bus.wire.connections import COMMAND_SECONDS, MARGIN_SECONDS, Argument, Command, Connection, Connections
from bus.wire.keys import HEARTBEAT_MS, Keys
from bus.wire.scripts import every_script, script

log = logging.getLogger("fleethook.streams")

BEAT_SECONDS: Final = 0.5
"""How often a reading loop writes its heartbeat (TTL 2 s)."""

CLAIM_SECONDS: Final = 0.5
"""How often a reading loop looks for consumers whose heartbeat is gone."""

LATEST_MS: Final = 253_402_300_799_000
"""The last second that a date can have: ids can name later ones."""

MOST_DELIVERIES: Final = 3
"""An entry that was handed out more often is a poison entry (docs/architecture.md, "Time and failure")."""


_PENDING: Final = 10_000
"""So many of our own pending entries are looked through at once."""

_AWAY: Final = ("OUTOFMEMORY", "OOM", "READONLY", "MISCONF", "NOPERMISSION", "NOPERM", "NOREPLICAS", "MASTERDOWN")
"""Error replies (by redis-py's class or the server's code) that mean: Redis is as good as away."""


class Entry(NamedTuple):
    """One stream entry as a group member got it; `delivered` counts how often it was handed out."""

    stream: str
    id: str
    fields: dict[bytes, bytes]
    delivered: int = 1

    @property
    def ms(self) -> int:
        """When it was added, in milliseconds by the server's clock; of an id that somebody made up at most the year 9999."""
        return min(int(self.id.partition("-")[0]), LATEST_MS)


def flat(fields: Iterable[Any]) -> dict[bytes, bytes]:
    """The map in a flat list of names and values, as RESP2 has it."""
    items = iter(fields)
    return dict(zip(items, items, strict=False))


class Call(NamedTuple):
    """One call of a script."""

    name: str
    keys: Sequence[str]
    args: Sequence[Argument]

    def command(self) -> Command:
        """Its EVALSHA."""
        return ("EVALSHA", script(self.name).sha, len(self.keys), *self.keys, *self.args)

    def whole_command(self) -> Command:
        """Its EVAL, for a short script beside other commands: it works on a server that knows no scripts yet."""
        return ("EVAL", script(self.name).text, len(self.keys), *self.keys, *self.args)


async def call_all(connections: Connections, calls: Sequence[Call]) -> list[Any]:
    """The results of `calls`, sent in one write; a script that the server does not know is loaded and called again.

    An error reply stands in the list as an exception.
    """
    with connections.lease() as connection:
        replies = await connection.exchange([call.command() for call in calls])
    await _mend(connections, calls, replies)
    return replies


async def _mend(connections: Connections, calls: Sequence[Call], replies: list[Any]) -> None:
    """Load the scripts that the server did not know, and put the results of calling them again among `replies`.

    Safe to repeat: after NOSCRIPT nothing of a call has run.
    """
    if not any(isinstance(reply, Exception) for reply in replies[: len(calls)]):
        return
    missing = [place for place in range(len(calls)) if _says(replies[place], "NOSCRIPT")]
    if missing:
        names = {calls[place].name for place in missing}
        with connections.lease() as connection:
            await connection.exchange([("SCRIPT", "LOAD", script(name).text) for name in sorted(names)])
            again = await connection.exchange([calls[place].command() for place in missing])
        for place, reply in zip(missing, again, strict=True):
            replies[place] = reply
    for one, reply in zip(calls, replies, strict=False):
        if isinstance(reply, Exception):
            log.error("script %s: %s; its entry stays pending", one.name, reply)


async def call(connections: Connections, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
    """The result of one script; raises FleethookError where the server answers with an error."""
    (reply,) = await call_all(connections, [Call(name, keys, args)])
    return checked(reply, f"script {name}")


def checked(reply: Any, doing: str) -> Any:
    """`reply`, unless it is an error: then Unreachable for a server that takes no writes, else FleethookError."""
    if isinstance(reply, Exception):
        if any(_says(reply, word) for word in _AWAY):
            raise Unreachable(f"{doing}: {reply}") from reply
        raise FleethookError(f"{doing}: {reply}") from reply
    return reply


def is_full(reply: object) -> bool:
    """Whether a reply is the refusal of a server that is at its memory limit."""
    return _says(reply, "OOM") or _says(reply, "OUTOFMEMORY")


def _says(reply: object, word: str) -> bool:
    return isinstance(reply, Exception) and word in f"{type(reply).__name__.upper()} {reply}"


class Consumer:
    """One member of a group over some streams: reads new entries, writes its heartbeat, claims entries of dead members.

    The heartbeat is written by the reading loop itself, so a loop that is stuck counts as dead.
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
    ) -> None:
        self.connections, self.keys, self.group, self.name = connections, keys, group, name
        self.streams = tuple(streams)
        self._role, self._about = role, about
        self._beaten = 0.0
        self._looked = 0.0
        self._searched = 0.0
        self.missed_heartbeats = 0
        """How often our heartbeat had expired when it was written: others may have claimed our entries meanwhile."""
        self.must_recheck_pending = False
        """A reply was lost or a script refused, so Redis may hold entries for us that we never saw: see `own_pending`."""

    @property
    def fresh(self) -> bool:
        """Whether our heartbeat still stands: if not (we were stopped), others may have taken our entries over."""
        return (time.monotonic() - self._beaten) * 1000 < HEARTBEAT_MS - 250

    def beat_commands(self) -> list[Command]:
        """The heartbeat: ours, and that of the role for whoever asks whether anybody is there."""
        if self._beaten and not self.fresh:
            self.missed_heartbeats += 1
        self._beaten = time.monotonic()
        return [
            Call("beat", (self.keys("beat", self.name),), (self._about or self._role, HEARTBEAT_MS)).whole_command(),
            Call("beat", (self.keys("alive", self._role),), (self.name, HEARTBEAT_MS)).whole_command(),
        ]

    async def create(self) -> None:
        """Make the groups, with everything that is in the streams still to be read; existing ones stay as they are.

        The scripts are loaded on the way: learning that one is missing would cost the first answer a whole read.
        Raises Unreachable where Redis takes no writes or our rights do not reach: without its group nobody can read.
        """
        with self.connections.lease() as connection:
            await connection.exchange([("SCRIPT", "LOAD", one.text) for one in every_script()])
            made = [Call("group", (stream,), (self.group,)).whole_command() for stream in self.streams]
            for reply in await connection.exchange(made):
                if not _says(reply, "BUSYGROUP"):
                    checked(reply, f"making the group {self.group}")

    async def read(
        self, connection: Connection, count: int, block: float, streams: Sequence[str] = (), calls: Sequence[Call] = ()
    ) -> list[Entry]:
        """Up to `count` new entries a stream, waiting up to `block` seconds; beats on the way.

        `calls` (answers to what was read before) go out in the same write: a loop that answers and reads on costs one
        round trip and not two. NOGROUP (the server was flushed or failed over) makes the groups anew.
        """
        names = streams or self.streams
        waits = max(1, int(min(block, BEAT_SECONDS) * 1000))
        group = ("XREADGROUP", "GROUP", self.group, self.name, "COUNT", count, "BLOCK", waits)
        reading: Command = (*group, "STREAMS", *names, *[">"] * len(names))
        *replies, reply = await self._exchange(connection, calls, [reading], block + MARGIN_SECONDS)
        if any(isinstance(one, Exception) or one == 0 for one in replies):  # 0: another has it, or it has a new id
            self.must_recheck_pending = True
        if _says(reply, "UNBLOCKED"):  # a repair has put another stream in its place
            return []
        if _says(reply, "NOGROUP"):
            log.warning("group %s is gone (flush or fail-over): making it anew", self.group)
            await self.create()
            return []
        return _entries(checked(reply, f"reading {', '.join(names)}"))

    async def call(self, calls: Sequence[Call]) -> list[Any]:
        """The results of `calls`, sent in one write; beats on the way. An error reply stands among them as an exception."""
        with self.connections.lease() as connection:
            return await self._exchange(connection, calls, [], COMMAND_SECONDS)

    async def _exchange(
        self, connection: Connection, calls: Sequence[Call], more: Sequence[Command], seconds: float
    ) -> list[Any]:
        """The replies to the calls and to what comes with them; the heartbeat goes with them where it is due."""
        commands, beaten = [one.command() for one in calls], self._beaten
        due = time.monotonic() - beaten >= BEAT_SECONDS
        beats = self.beat_commands() if due else []
        try:
            replies = await connection.exchange([*commands, *beats, *more], seconds=seconds)
            await _mend(self.connections, calls, replies)
        except BaseException:
            self.must_recheck_pending = True  # entries may have been handed to us
            self._beaten = beaten  # the heartbeat may not have been written
            raise
        if due:
            del replies[len(calls) : len(calls) + len(beats)]
        return replies

    async def own_pending(self, held: Container[tuple[str, str]] = ()) -> list[Entry]:
        """Our own pending entries that we never saw, because the reply that handed them to us was lost.

        `held` are those under way, as (stream, entry id). Looks only when `must_recheck_pending` is set, at most every
        half second. While we live nobody else claims them.
        """
        now = time.monotonic()
        if not self.must_recheck_pending or now - self._searched < CLAIM_SECONDS:
            return []
        self._searched = now
        found: list[Entry] = []
        with self.connections.lease() as connection:
            asked: list[Command] = [
                ("XPENDING", one, self.group, "-", "+", _PENDING, self.name) for one in self.streams
            ]
            for stream, rows in zip(self.streams, await connection.exchange(asked), strict=True):
                if _says(rows, "NOGROUP"):
                    continue
                counts = {row[0].decode(): int(row[3]) for row in checked(rows, f"looking through {stream}")}
                ids = await self._not_moved(connection, stream, [n for n in counts if (stream, n) not in held], held)
                replies = await connection.exchange([("XRANGE", stream, name, name) for name in ids]) if ids else []
                for name, reply in zip(ids, replies, strict=True):
                    if entries := checked(reply, f"looking for {name}"):
                        found.append(Entry(stream, name, flat(entries[0][1]), counts[name]))
                    else:  # trimmed or deleted: nothing is left to carry on
                        await connection.exchange([("XACK", stream, self.group, name)])
        self.must_recheck_pending = False
        if found:
            log.warning("%d entries were handed to %s unseen: carrying them on", len(found), self.name)
        return found

    async def _not_moved(
        self, connection: Connection, stream: str, ids: list[str], held: Container[tuple[str, str]]
    ) -> list[str]:
        """The ids without those that a repair gave to entries which are under way by the id that they had."""
        if not ids:
            return ids
        (reply,) = await connection.exchange([("HGETALL", self.keys("moved", stream.removeprefix(self.keys.prefix)))])
        old = {new: was for was, new in flat(checked(reply, "looking for moved entries")).items()}
        return [one for one in ids if (stream, old.get(one.encode(), b"").decode()) not in held]

    async def claim_from_dead(self, most: int = 64) -> list[Entry]:
        """Claims up to `most` entries per stream of each member whose heartbeat is gone; looks at most every half second."""
        now = time.monotonic()
        if now - self._looked < CLAIM_SECONDS:
            return []
        self._looked = now
        taken: list[Entry] = []
        try:
            for stream in self.streams:
                for dead in await self._dead(stream):
                    args: list[Argument] = [self.group, dead, self.name, most]
                    rows = await call(self.connections, "adopt", [stream, self.keys("beat", dead)], args)
                    taken += [Entry(stream, row[0].decode(), flat(row[1]), int(row[2])) for row in rows]
                    if rows:
                        log.warning("took over %d entries of %s from %s, which is gone", len(rows), stream, dead)
        except BaseException:
            self.must_recheck_pending = True
            raise
        return taken

    async def _dead(self, stream: str) -> list[str]:
        members = await self._members(stream)
        return [name for name, alive in members.items() if not alive]

    async def _others(self) -> bool:
        """Whether another member of the group lives, on any of the streams."""
        return any([any((await self._members(stream)).values()) for stream in self.streams])

    async def _members(self, stream: str) -> dict[str, bool]:
        """The other members by name, and whether each has a heartbeat."""
        with self.connections.lease() as connection:
            (reply,) = await connection.exchange([("XINFO", "CONSUMERS", stream, self.group)])
            if isinstance(reply, Exception):
                return {}
            names = [flat(row)[b"name"].decode() for row in reply]
            others = [name for name in names if name != self.name]
            if not others:
                return {}
            alive = await connection.exchange([("EXISTS", self.keys("beat", name)) for name in others])
        # Only a plain 0 says that somebody is gone: an error says nothing.
        return {name: lives != 0 for name, lives in zip(others, alive, strict=True)}

    async def leave(self) -> None:
        """Say good-bye: the heartbeat goes, and the membership where nothing is pending any more.

        The last one takes the role's heartbeat with it, so that who asks now falls back at once and not after 2 s.
        """
        try:
            alone = not await self._others()
            with self.connections.lease() as connection:
                commands: list[Command] = [("DEL", self.keys("beat", self.name))]
                if alone:
                    await connection.exchange([("DEL", self.keys("alive", self._role))])
                commands += [("XPENDING", stream, self.group, "-", "+", 1, self.name) for stream in self.streams]
                replies = await connection.exchange(commands)
                done = [s for s, pending in zip(self.streams, replies[1:], strict=True) if pending == []]
                if done:
                    await connection.exchange([("XGROUP", "DELCONSUMER", s, self.group, self.name) for s in done])
        except Unreachable:
            log.warning("could not say good-bye: redis is away; others claim what is pending in 2 s")


def _entries(reply: Any) -> list[Entry]:
    if not reply:
        return []
    return [Entry(name.decode(), entry.decode(), flat(fields or ())) for name, rows in reply for entry, fields in rows]


async def server_now(connections: Connections) -> int:
    """Milliseconds since 1970 by the server's clock: deadlines never depend on an agent's or a worker's own."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("TIME",)])
    seconds, micros = checked(reply, "asking for the time")
    return int(seconds) * 1000 + int(micros) // 1000


class Backoff:
    """Pauses between tries while Redis is away: 0.1 s doubling to 2 s; says once that it fails, and that it works again."""

    def __init__(self, who: str) -> None:
        self._who, self._pause = who, 0.0

    async def wait(self, error: Exception) -> None:
        """Wait before the next try."""
        if not self._pause:
            log.error("%s: %s; trying again until it works", self._who, error)
        self._pause = min(2.0, self._pause * 2 or 0.1)
        await asyncio.sleep(self._pause)

    def back(self) -> None:
        """It worked."""
        if self._pause:
            log.warning("%s: it works again", self._who)
        self._pause = 0.0
