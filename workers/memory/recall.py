"""Looks up what a session did, for the hooks whose conditions read it; at a stop, after its events that are still under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

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
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.missing_rights import is_refused
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked
from workers.memory.recent import KEPT_BY, RecentSessions, read_rows, timed

_MOST_READ: Final = 256
"""The most entries of the event stream that are looked through for events of one session."""
_SHORT_SECONDS: Final = 0.25
_FIRST_PAUSE_SECONDS: Final = 0.0025
_PAUSE_SECONDS: Final = 0.02
"""The longest pause before it is asked again; the first ones are shorter, since a dispatcher needs a few milliseconds."""
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

    def __init__(self, connections: Connections, keys: Keys, reads: Consumer | None = None) -> None:
        """`reads` hands out the events that it is asked about: each read brings the sessions that were asked about last."""
        self._connections, self._keys = connections, keys
        self._recent = None if reads is None else RecentSessions(reads)

    def note(self, entries: Sequence[StreamEntry]) -> None:
        """Note what the last read brought besides these entries."""
        if self._recent is not None:
            self._recent.note(entries)

    async def read(self, event: Event, conditions: Sequence[Condition], seconds: float | None) -> Memory:
        """What the session of an event did, as these conditions ask for it; raises Unreachable.

        Waits until the session's own events are on record: at a stop for at most `seconds`, elsewhere for a quarter of a
        second. Raises OverBudget if there are some under way and `seconds` is None: then this process may not wait.
        """
        if not event.session:
            return Memory(missing="the event names no session")
        longest = seconds if event.type in STOPS or seconds is None else min(seconds, _SHORT_SECONDS)
        session = session_key(event.source, parent_session(event) or event.session)
        deeds = any(condition.facts for condition in conditions)
        if (memory := self._remembered(event, session, deeds=deeds)) is not None:
            return memory
        script, began = self._script(event, session, deeds=deeds), time.monotonic()
        seen, pause = began, _FIRST_PAUSE_SECONDS
        while True:
            (reply,) = await call_all(self._connections, [script])
            if is_refused(reply):  # rights do not come by waiting
                return Memory(missing=f"the record of sessions cannot be read: {reply}")
            found, secrets, repeats, tokens, record, *rows, runs = checked(reply, "looking up what a session did")
            streams = ("requests", "waiting", "events")
            under_way = [
                entry
                for stream, part in zip(streams, rows, strict=True)
                for entry in read_rows(self._keys(stream), part)
            ]
            is_behind = len(rows[-1]) >= _MOST_READ
            missing = self._missing(event, record, under_way, runs, is_behind=is_behind)
            now = time.monotonic()
            if not missing.endswith(_NONE_RUNS):
                seen = now
            if not missing or missing == _NO_DISPATCHER or now - seen >= GONE_SECONDS:
                break  # waiting longer would not help
            if longest is None:
                raise OverBudget("events of this session are still under way")
            if now - began >= longest:
                missing = f"{missing}, after {max(longest, 0):.1f} s"
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS)
        return Memory(timed(found), timed(secrets), repeats, int(float(tokens)), missing)

    def _remembered(self, event: Event, session: str, *, deeds: bool) -> Memory | None:
        """What the read that handed out the event has brought; None if that is not enough. Then, later reads bring it."""
        if self._recent is None:
            return None
        found = self._recent.find(session, event, deeds=deeds)
        self._recent.want(session, deeds=deeds)
        if found is None:
            return None
        missing = self._missing(event, found.record, found.under_way, found.runs)
        if missing and missing != _NO_DISPATCHER:
            return None
        return Memory(found.deeds, found.secrets, found.repeats, found.tokens, missing)

    def _script(self, event: Event, session: str, *, deeds: bool) -> ScriptCall:
        """The call that reads the record, and what is not on record yet, in one step."""
        keys, digest = self._keys, call_digest(event) if event.tool else ""
        about = (event.id, event.time, KEPT_BY, _MOST_READ)
        return ScriptCall(
            "recall",
            (keys("facts", session), keys("events"), keys("requests"), keys("waiting"), keys("alive", "dispatcher")),
            (keys.prefix, session, digest, "1" if deeds else "", PAUSE_MS, *about),
        )

    def _missing(
        self, event: Event, record: bytes, under_way: Sequence[StreamEntry], runs: int, *, is_behind: bool = False
    ) -> str:
        """Which events of the session, older than `event`, are not on record yet, in words; empty for none."""
        if record == b"empty":
            return ""  # nothing has ever happened
        if record == b"not kept":
            return _NO_DISPATCHER
        if is_behind:
            missing = "the record of sessions is behind"
        else:
            left = sum(self._is_its_own(entry, event) for entry in under_way)
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
