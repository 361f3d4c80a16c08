"""Notes for the dispatcher what each session did: its deeds, the secrets that it read, and what its calls came to.

What is noted goes out in the same write as the acknowledgement of its event and before it, so a dispatcher that is killed
loses none. An event may be noted twice; the script sees to it that nothing counts twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from bus.events import PRE_TOOL, Event, EventType
from bus.memory.charges import session_key
from bus.memory.deeds import SECRET, deeds_of, parent_session
from bus.memory.facts import MOST_KEPT
from bus.memory.outcomes import call_digest, outcome_digest
from bus.memory.polling import waits
from bus.memory.replayed import PAUSE_MS
from bus.memory.spending import Spent, spent_by
from bus.verdicts import Verdict
from bus.wire.keys import DONE_MS, KEPT_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry
from workers.coverage.marks import is_second_event

log = logging.getLogger("fleethook.memory")

_MOST_KEPT: Final = 64


class _SessionFacts:
    """What is not sent yet of one session."""

    __slots__ = ("calls", "deeds", "parent", "secrets")

    def __init__(self) -> None:
        self.parent = ""
        self.deeds: dict[str, int] = {}
        self.secrets: dict[str, int] = {}
        self.calls: list[str | int] = []

    def args(self, session: str) -> Iterator[str | int]:
        yield from (session, self.parent)
        for times in (self.deeds, self.secrets):
            yield 2 * len(times)
            for member, ms in times.items():
                yield from (ms, member)
        yield from (len(self.calls), *self.calls)


class FactMarks:
    """The facts of the events that are being dispatched, by session."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._sessions: dict[str, _SessionFacts] = {}
        self._spent: list[Spent] = []
        self._refused: list[ScriptCall] = []

    def add(self, entry: StreamEntry, event: Event, verdict: Verdict | None, user: str) -> None:
        """Note one event; `user` is the account of its sender."""
        spent = spent_by(event, entry.ms, user)
        if spent is not None:
            self._spent.append(spent)
        if not event.session or is_second_event(event):
            return
        deeds, calls, parent = deeds_of(event), _calls(entry, event, verdict), parent_session(event)
        if not (deeds or calls or parent):
            return
        session = self._sessions.setdefault(session_key(event.source, event.session), _SessionFacts())
        if parent:
            session.parent = session_key(event.source, parent)
        for deed in deeds:
            times = session.secrets if deed.kind == SECRET else session.deeds
            times[deed.member] = entry.ms
        session.calls += calls

    def take(self) -> list[ScriptCall]:
        """The script calls that note all of them, to be sent before the events are acknowledged."""
        if self._sessions:
            sessions, self._sessions = self._sessions, {}
            first = next(iter(sessions))
            args = [part for name, facts in sessions.items() for part in facts.args(name)]
            head = (self._keys.prefix, DONE_MS, MOST_KEPT, PAUSE_MS)
            self._refused.append(ScriptCall("facts", (self._keys("facts", first),), (*head, *args)))
        if self._spent:
            used, self._spent = self._spent, []
            args = [part for one in used for part in one.args()]
            first = self._keys("spent", "session", used[0].session)
            self._refused.append(ScriptCall("spend", (first,), (self._keys.prefix, DONE_MS, KEPT_MS, *args)))
        calls, self._refused = self._refused, []
        return calls

    def keep_refused(self, calls: Sequence[ScriptCall], replies: Sequence[object]) -> None:
        """Keep the calls that the server refused, as a full one does, for the next write."""
        refused = [call for call, reply in zip(calls, replies, strict=True) if isinstance(reply, Exception)]
        self._refused = refused[-_MOST_KEPT:]


def _calls(entry: StreamEntry, event: Event, verdict: Verdict | None) -> list[str | int]:
    """What an event says of a call that may come again, as arguments of the script."""
    try:
        if event.type in PRE_TOOL:
            denied = verdict is not None and verdict.decision == "deny"  # it is not carried out, so it has no outcome
            return [] if denied else ["pre", call_digest(event), "-", entry.ms, entry.id]
        if event.type in {EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value}:
            if waits(event):
                return ["waited", "-", "-", entry.ms, entry.id]
            return ["done", call_digest(event), outcome_digest(event), entry.ms, entry.id]
        if event.type == EventType.USER_PROMPT_SUBMIT:
            return ["prompt", "-", "-", entry.ms, entry.id]
    except Exception:
        log.exception("the call of event %s cannot be compared with others", event.id)
    return []
