"""Looks up what a session did, for the hooks whose conditions read it; at a stop, after its events that are still under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from bus.errors import FleethookError, OverBudget
from bus.events import STOPS, Event, EventType
from bus.matching.conditions import Condition
from bus.memory.charges import session_key
from bus.memory.deeds import parent_session
from bus.memory.facts import Memory
from bus.memory.outcomes import call_digest
from bus.memory.replayed import PAUSE_MS
from bus.requests import read_event, read_request
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.missing_rights import is_refused
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked, flat, is_error

_DISPATCHERS: Final = "dispatchers"
_MOST_READ: Final = 256
"""The most entries of the event stream that are looked through for events of one session."""
_SHORT_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 0.02
_NO_DISPATCHER: Final = "no dispatcher keeps the record of sessions"
GONE_SECONDS: Final = 1.0
"""After so long without a dispatcher's heartbeat nothing is waited for; one that is restarted is back before that."""
_NONE_RUNS: Final = ", and no dispatcher runs that records them"
_NOTED: Final = frozenset(
    {EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value, EventType.USER_PROMPT_SUBMIT.value}
)
"""The events that change facts."""


class Recall:
    """Asks the record of sessions."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys

    async def read(self, event: Event, conditions: Iterable[Condition], seconds: float | None) -> Memory:
        """What the session of an event did, as these conditions ask for it; raises Unreachable.

        Waits until the session's own events are on record: at a stop for at most `seconds`, elsewhere for a quarter of a
        second. Raises OverBudget if there are some under way and `seconds` is None: then this process may not wait.
        """
        if not event.session:
            return Memory(missing="the event names no session")
        least = seconds if event.type in STOPS or seconds is None else min(seconds, _SHORT_SECONDS)
        missing = await self._wait(event, least)
        named = parent_session(event) or event.session
        deeds = any(condition.facts for condition in conditions)
        digest = call_digest(event) if event.tool else ""
        session = session_key(event.source, named)
        args = (self._keys.prefix, session, digest, "1" if deeds else "", PAUSE_MS)
        (reply,) = await call_all(self._connections, [ScriptCall("recall", (self._keys("facts", session),), args)])
        if is_refused(reply):  # rights do not come by waiting
            return Memory(missing=f"the record of sessions cannot be read: {reply}")
        found, secrets, repeats, tokens = checked(reply, "looking up what a session did")
        return Memory(_timed(found), _timed(secrets), repeats, int(float(tokens)), missing)

    async def _wait(self, event: Event, seconds: float | None) -> str:
        """Wait for the session's events that are under way; returns why some may be missing, and nothing if none is."""
        until = time.monotonic() + (seconds or 0.0)
        seen = time.monotonic()
        while why := await self._under_way(event):
            if not why.endswith(_NONE_RUNS):
                seen = time.monotonic()
            if why == _NO_DISPATCHER or time.monotonic() - seen >= GONE_SECONDS:
                return why  # waiting longer would not help
            if seconds is None:
                raise OverBudget("events of this session are still under way")
            if time.monotonic() >= until:
                return f"{why}, after {max(seconds, 0):.1f} s"
            await asyncio.sleep(_PAUSE_SECONDS)
        return ""

    async def _under_way(self, event: Event) -> str:
        """Which events of the session, older than `event`, are not on record yet, in words; empty for none."""
        keys = self._keys
        with self._connections.lease() as connection:
            groups, pending, requests, waiting, alive = await connection.exchange(
                [
                    ("XINFO", "GROUPS", keys("events")),
                    ("XPENDING", keys("events"), _DISPATCHERS, "-", "+", _MOST_READ),
                    ("XRANGE", keys("requests"), "-", "+", "COUNT", _MOST_READ),
                    ("XRANGE", keys("waiting"), "-", "+", "COUNT", _MOST_READ),
                    ("EXISTS", keys("alive", "dispatcher")),
                ]
            )
        if is_error(groups, "NO SUCH KEY") or (isinstance(groups, list) and not groups):
            return ""  # nothing has ever happened
        last = _last_delivered(checked(groups, "looking for events that are under way"))
        if last is None:
            return _NO_DISPATCHER
        asked = [*_entries(keys("requests"), requests), *_entries(keys("waiting"), waiting)]
        running = sum(self._is_its_own(entry, event) for entry in asked)
        unread = await self._unread(last, [] if isinstance(pending, Exception) else pending)
        left = sum(self._is_its_own(entry, event) for entry in unread)
        if len(unread) >= _MOST_READ:
            return f"the record of sessions is behind{'' if alive else _NONE_RUNS}"
        if not running and not left:
            return ""
        missing = f"{running + left} of this session's events were not on record"
        return missing if alive else f"{missing}{_NONE_RUNS}"

    async def _unread(self, last: str, pending: Any) -> list[StreamEntry]:
        """The entries of the event stream that the dispatcher has not done with."""
        stream, names = self._keys("events"), [row[0].decode() for row in pending]
        reads: list[tuple[str | int, ...]] = [("XRANGE", stream, f"({last}", "+", "COUNT", _MOST_READ)]
        reads += [("XRANGE", stream, name, name) for name in names]
        with self._connections.lease() as connection:
            replies = await connection.exchange(reads)
        return [entry for reply in replies for entry in _entries(stream, reply)]

    def _is_its_own(self, entry: StreamEntry, event: Event) -> bool:
        """Whether an entry is older than `event`, of the same session, and changes facts."""
        if entry.ms > event.time or entry.fields.get(b"id") == event.id.encode():
            return False
        try:
            other = read_event(read_request(entry, self._keys))
        except FleethookError:
            return False
        same = {event.session, parent_session(event)} & {other.session, parent_session(other)} - {""}
        return other.type in _NOTED and other.source == event.source and bool(same)


def _last_delivered(groups: list[Any]) -> str | None:
    for row in map(flat, groups):
        if row[b"name"] == _DISPATCHERS.encode():
            return str(row[b"last-delivered-id"].decode())
    return None


def _entries(stream: str, reply: Any) -> list[StreamEntry]:
    if isinstance(reply, Exception):
        return []
    return [StreamEntry(stream, name.decode(), flat(fields or ())) for name, fields in reply]


def _timed(found: list[bytes]) -> tuple[tuple[str, int], ...]:
    items = iter(found)
    return tuple((name.decode("utf-8", "replace"), int(float(ms))) for name, ms in zip(items, items, strict=True))
