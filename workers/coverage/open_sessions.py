"""Which sessions run, however long ago their last events left the stream: kept by the dispatcher, which reads every event.

It writes a session when it first sees it, when it ends or changes its folder, and once a minute; all of them once a second.
A dispatcher that is killed may lose the last second; the next event of such a session brings it back.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

import msgspec

from bus.events import OWN, Event, EventType
from bus.lazy.conversions import from_json
from bus.wire.connections import Command, Connections
from bus.wire.keys import DAY, Keys
from bus.wire.streams import StreamEntry, checked, note_refused
from workers.coverage.marks import kept_text

_SECONDS: Final = 1.0
_AGAIN_MS: Final = 60_000
_MOST: Final = 10_000
"""How many sessions are kept; the one with the oldest event leaves first."""
_MOST_KNOWN: Final = 20_000
_PAGE: Final = 500
_LONG: Final = 1_000


class OpenSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A session that has not ended; what could be a secret is redacted."""

    id: str
    source: str
    host: str
    cwd: str = ""


_Name = tuple[str, str, str]


class OpenSessions:
    """The sessions whose events one dispatcher has read, and what of that is not sent yet."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._known: dict[_Name, tuple[str, bool, int]] = {}
        """For each session its folder, whether it has ended, and the time of the event with which it was sent."""
        self._new: dict[_Name, int] = {}
        self._sent = 0.0

    def add(self, entry: StreamEntry, event: Event) -> None:
        """Note one event."""
        if not event.session or event.type in OWN:
            return
        name = (event.session, event.source, event.host)
        cwd, ended, at = self._known.get(name, ("", False, 0))
        now = (event.cwd or cwd, event.type == EventType.SESSION_END.value)
        if at and now == (cwd, ended) and entry.ms - at < _AGAIN_MS:
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = (*now, entry.ms)
        self._new[name] = entry.ms

    async def send(self, *, now: bool = False) -> None:
        """Send what is new, at most once a second without `now`; raises Unreachable, and keeps it for the next time."""
        if not self._new or (not now and time.monotonic() - self._sent < _SECONDS):
            return
        self._sent = time.monotonic()
        listed, newest, commands = self._keys("sessions"), max(self._new.values()), list[Command]()
        for name, at in self._new.items():
            cwd, ended, _ = self._known.get(name, ("", False, 0))
            one = OpenSession(*(kept_text(text, _LONG) for text in (*name, cwd)))
            member = _member(one)
            key = self._keys("session", member)
            if ended:
                commands += [("ZREM", listed, member), ("DEL", key)]
            else:
                commands += [("ZADD", listed, at, member), ("SET", key, msgspec.json.encode(one), "PX", DAY)]
        commands += [("ZREMRANGEBYSCORE", listed, "-inf", newest - DAY), ("ZREMRANGEBYRANK", listed, 0, -_MOST - 1)]
        commands.append(("PEXPIRE", listed, DAY))
        with self._connections.lease() as connection:
            note_refused(await connection.exchange(commands), "noting which sessions run")
        self._new.clear()


async def open_sessions(connections: Connections, keys: Keys) -> list[OpenSession]:
    """The sessions of the last day that have not ended, the one with the newest event first; raises Unreachable."""
    found: list[OpenSession] = []
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZREVRANGE", keys("sessions"), 0, -1)])
        members = [row.decode() for row in checked(rows, "listing the sessions that run")]
        for start in range(0, len(members), _PAGE):
            names = [keys("session", member) for member in members[start : start + _PAGE]]
            (page,) = await connection.exchange([("MGET", *names)])
            kept = (raw for raw in checked(page, "reading the sessions that run") if raw is not None)
            found += [from_json(raw, OpenSession) for raw in kept]
    return found


def _member(one: OpenSession) -> str:
    name = f"{one.source}\n{one.host}\n{one.id}"
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
