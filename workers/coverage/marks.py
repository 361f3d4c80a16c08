"""Notes each tool call that was announced before it ran, and each that ran without that, for the dispatcher.

A call is known by its id. An agent without ids has its calls counted by tool, in the order in which they come. What is
noted goes out in the same write as the acknowledgement of its event and before it, so a dispatcher that is killed loses
none. Nothing is decided here: the pre-hook event may still come (`workers/coverage/decisions.py`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from bus.agents.reporter import Reporter, agent_version
from bus.events import PRE_TOOL, Event, EventType
from bus.installs.base import NAMES
from bus.memory.charges import session_key
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry

MOST_CALLS: Final = 256
"""How many calls of one session are remembered; those that have run are forgotten first."""

_WITH_HOOKS: Final = frozenset({*NAMES, "pigo", "ion"})
"""Agents whose hooks are asked before each call. A program that reports only what it did has none: its calls are judged
only if its session has ever announced one."""

_DOUBLES: Final = frozenset({("cursor", "afterShellExecution"), ("cursor", "afterMCPExecution")})
"""A second event of the same call, without its id."""

_MOST_KEPT: Final = 64
_RAN: Final = 6
"""How many arguments of the script a call that ran has."""
_PAST: Final = 2**43
"""Milliseconds that the score of a call is moved by once it has run: below every time, so it is forgotten first."""
_NAME: Final = 128
_TOOL: Final = 64


class UncoveredCall(msgspec.Struct, frozen=True, array_like=True):
    """A call that ran and whose pre-hook event has not come; the member of a sorted set, by the time to decide."""

    session: str
    """The name of its session's keys."""
    call: str
    """The agent's id of it; empty if the agent has no ids."""
    tool: str
    event: str
    """The id of the event that it ran."""
    ms: int
    by: str
    """What reported it."""


@lru_cache(4096)  # the same few sessions, hosts and tools, and a redaction costs 10 us
def kept_text(text: str, most: int) -> str:
    """The beginning of a text, redacted, since it is kept for longer than the event, and without lone surrogates."""
    return redact_text(text)[:most].encode("utf-8", "replace").decode()


def call_name(call: str) -> str:
    """An agent's id of a call; its hash, if the id could be a secret."""
    kept = call[:_NAME].encode("utf-8", "replace").decode()
    return kept if redact_text(kept) == kept else hashlib.sha256(kept.encode()).hexdigest()[:32]


def is_second_event(event: Event) -> bool:
    """Whether an event is the second one of the same call, without the call's id."""
    return (event.source, event.native) in _DOUBLES


def kind_of(event: Event, verdict: Verdict | None) -> str:
    """What an event says of its call: `pre`, `denied`, `post` or `error`; `start` of a session; empty: nothing.

    A failed call may never have begun, so `error` is no sign of a gap.
    """
    if event.type in PRE_TOOL:
        return "denied" if verdict is not None and verdict.decision == "deny" else "pre"
    if is_second_event(event):
        return ""
    return {
        EventType.TOOL_POST_EXECUTE.value: "post",
        EventType.TOOL_ERROR.value: "error",
        EventType.SESSION_START.value: "start",
    }.get(event.type, "")


class _SessionMarks:
    """The marks of one session that are not sent yet; events without ids count by tool."""

    __slots__ = ("announced", "fields", "first", "ids", "judged", "opened", "ran")

    def __init__(self, first: int, *, judged: bool) -> None:
        self.first, self.judged = first, judged
        self.fields: dict[str, str | int] = {}
        self.announced: Counter[str] = Counter()
        self.ids: list[str | int] = []
        self.opened: Counter[str] = Counter()
        self.ran: list[str | int | bytes] = []

    def args(self, session: str) -> Iterator[str | int | bytes]:
        yield from (session, "1" if self.judged else "", self.first)
        for pairs in (self.fields, self.announced):
            yield 2 * len(pairs)
            yield from (part for pair in pairs.items() for part in pair)
        yield from (len(self.ids), *self.ids, 2 * len(self.opened))
        yield from (part for pair in self.opened.items() for part in pair)
        yield from (len(self.ran) // _RAN, *self.ran)


class CallMarks:
    """The marks of the events that are being dispatched, by session: one batch of events has many of one session."""

    def __init__(self, keys: Keys, grace: float) -> None:
        self._keys, self._grace = keys, int(grace * 1000)
        self._sessions: dict[str, _SessionMarks] = {}
        self._refused: list[ScriptCall] = []

    def add(self, entry: StreamEntry, event: Event, verdict: Verdict | None, sender: Reporter) -> None:
        """Note one event."""
        kind = kind_of(event, verdict)
        if not (kind and event.session):
            return
        name, call = session_key(event.source, event.session), call_name(event.call)
        tool = kept_text(event.tool, _TOOL) or "?"
        marks = self._sessions.get(name)
        if marks is None:
            marks = self._sessions[name] = _SessionMarks(entry.ms, judged=event.source in _WITH_HOOKS)
            source, session, host = (kept_text(text, _NAME) for text in (event.source, event.session, event.host))
            marks.fields.update(source=source, session=session, host=host)
        if version := agent_version(event, sender):
            marks.fields["version"] = version
        if kind == "start":
            marks.fields["started"] = entry.ms
        elif kind in {"pre", "denied"}:
            marks.fields["last_pre"] = entry.ms
            marks.announced[tool] += 1
            if call:
                marks.ids += [entry.ms if kind == "pre" else entry.ms - _PAST, call]
            elif kind == "pre":
                marks.opened[tool] += 1
        else:
            member = msgspec.msgpack.encode(UncoveredCall(name, call, tool, event.id, entry.ms, sender.by))
            marks.ran += [kind, call, tool, entry.ms - _PAST, "1" if entry.delivered > 1 else "", member]

    def take(self) -> list[ScriptCall]:
        """The script calls that note all of them, to be sent before the events are acknowledged.

        If the connection breaks meanwhile, they are noted again with their events, which come again.
        """
        if self._sessions:
            sessions, self._sessions = self._sessions, {}
            args = [part for name, marks in sessions.items() for part in marks.args(name)]
            keys = (self._keys("uncovered"), self._keys("coverage"))
            call = ScriptCall("calls", keys, (self._keys.prefix, DONE_MS, self._grace, MOST_CALLS, *args))
            self._refused.append(call)
        calls, self._refused = self._refused, []
        return calls

    def keep_refused(self, calls: Sequence[ScriptCall], replies: Sequence[object]) -> None:
        """Keep the calls that the server refused, as a full one does, for the next write."""
        refused = [call for call, reply in zip(calls, replies, strict=True) if isinstance(reply, Exception)]
        self._refused = refused[-_MOST_KEPT:]
