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
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked, flat

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
        longest = seconds if event.type in STOPS or seconds is None else min(seconds, _SHORT_SECONDS)
        script, began = self._script(event, conditions), time.monotonic()
        seen = began
        while True:
            (reply,) = await call_all(self._connections, [script])
            if is_refused(reply):  # rights do not come by waiting
                return Memory(missing=f"the record of sessions cannot be read: {reply}")
            found, secrets, repeats, tokens, *under_way = checked(reply, "looking up what a session did")
            missing, now = self._missing(event, *under_way), time.monotonic()
            if not missing.endswith(_NONE_RUNS):
                seen = now
            if not missing or missing == _NO_DISPATCHER or now - seen >= GONE_SECONDS:
                break  # waiting longer would not help
            if longest is None:
                raise OverBudget("events of this session are still under way")
            if now - began >= longest:
                missing = f"{missing}, after {max(longest, 0):.1f} s"
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        return Memory(_timed(found), _timed(secrets), repeats, int(float(tokens)), missing)

    def _script(self, event: Event, conditions: Iterable[Condition]) -> ScriptCall:
        """The call that reads the record, and what is not on record yet, in one step."""
        keys, session = self._keys, session_key(event.source, parent_session(event) or event.session)
        deeds = "1" if any(condition.facts for condition in conditions) else ""
        digest = call_digest(event) if event.tool else ""
        about = (event.id, event.time, _DISPATCHERS, _MOST_READ)
        return ScriptCall(
            "recall",
            (keys("facts", session), keys("events"), keys("requests"), keys("waiting"), keys("alive", "dispatcher")),
            (keys.prefix, session, digest, deeds, PAUSE_MS, *about),
        )

    def _missing(self, event: Event, record: bytes, asked: Any, waiting: Any, unread: Any, runs: int) -> str:
        """Which events of the session, older than `event`, are not on record yet, in words; empty for none."""
        if record == b"empty":
            return ""  # nothing has ever happened
        if record == b"not kept":
            return _NO_DISPATCHER
        keys, entries = self._keys, _entries(self._keys("events"), unread)
        if len(entries) >= _MOST_READ:
            missing = "the record of sessions is behind"
        else:
            entries += (*_entries(keys("requests"), asked), *_entries(keys("waiting"), waiting))
            left = sum(self._is_its_own(entry, event) for entry in entries)
            if not left:
                return ""
            missing = f"{left} of this session's events were not on record"
        return missing if runs else f"{missing}{_NONE_RUNS}"

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


def _entries(stream: str, reply: Any) -> list[StreamEntry]:
    return [StreamEntry(stream, name.decode(), flat(fields or ())) for name, fields in reply]


def _timed(found: list[bytes]) -> tuple[tuple[str, int], ...]:
    items = iter(found)
    return tuple((name.decode("utf-8", "replace"), int(float(ms))) for name, ms in zip(items, items, strict=True))
