"""What the sessions of the last requests did, brought by the read that hands out the next ones.

A look-up of its own costs a request one more exchange with the server. So an evaluator remembers the sessions whose facts
were read a moment ago, and each of its reads asks for what has changed since, as of when the entries are handed out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bus.events import Event
from bus.memory.facts import MOST_KEPT
from bus.memory.outcomes import call_digest
from bus.memory.replayed import PAUSE_MS
from bus.wire.connections import Command
from bus.wire.consumer import Consumer
from bus.wire.streams import ScriptCall, StreamEntry, flat, is_error

KEPT_BY: Final = "dispatchers"
"""The group that keeps the record of sessions."""
_MOST_SESSIONS: Final = 8
_MOST_UNUSED: Final = 4
"""So many reads in a row may bring what a session did for requests that need other facts or none: then asking for it has cost
about what one look-up does (measured: 20 microseconds of the server, and 8 for each further session)."""
_KEPT_SECONDS: Final = 60.0
"""How long a session is asked about after its facts were last read."""
_MOST_ASKED: Final = 32
_MOST_UNREAD: Final = 8
_MOST_BYTES: Final = 16_384
"""The most requests, events and bytes of events under way that a read brings along. Beyond that facts are looked up singly."""
_BUSY: Final = b"busy"

Times = tuple[tuple[str, int], ...]


class Brought(NamedTuple):
    """What is known of a session, and what may be missing of it."""

    deeds: Times
    secrets: Times
    repeats: int
    tokens: int
    record: bytes
    under_way: Sequence[StreamEntry]
    """Requests and events that are not on record yet, of any session."""
    runs: int
    """Whether a dispatcher runs, as 1 or 0."""


class _Session:
    """What is remembered of one session."""

    __slots__ = (
        "calls",
        "changed",
        "deeds",
        "read_at",
        "root",
        "secrets",
        "since",
        "times",
        "tokens",
        "unused",
        "wants_deeds",
    )

    def __init__(self) -> None:
        self.root = self.changed = b""
        self.wants_deeds, self.read_at = False, 0.0
        self.calls: dict[bytes, bytes] = {}
        self.times: dict[bytes, int] = {}
        self.deeds: Times | None = None
        """None until the server has sent them."""
        self.secrets: Times = ()
        self.since = self.tokens = self.unused = 0
        """`since`: when it last waited, or a person last wrote."""

    def asked(self) -> tuple[str | bytes | int, ...]:
        newest = self.deeds[0][1] if self.deeds else ""
        known = self.changed if self.deeds is not None or not self.wants_deeds else b""
        return (self.root, known, "1" if self.wants_deeds else "", newest)

    def note(self, row: Sequence[Any]) -> None:
        self.root, self.changed, tokens, secrets, waited, prompt, how, calls, which, deeds = row
        self.tokens, self.secrets = int(float(tokens)), timed(secrets)
        self.since = max(int(float(waited)), int(float(prompt)))
        if how == b"same":
            return
        self.calls = flat(calls) if how == b"all" else self.calls | flat(calls)
        if not self.wants_deeds:
            self.times, self.deeds = {}, None
        elif which == b"all" or deeds:
            self._note_deeds(deeds, is_all=which == b"all")

    def _note_deeds(self, rows: Sequence[bytes], *, is_all: bool) -> None:
        found = {name: int(float(ms)) for name, ms in zip(rows[::2], rows[1::2], strict=True)}
        self.times = found if is_all else self.times | found
        ordered = sorted(self.times.items(), key=lambda item: (item[1], item[0]), reverse=True)[:MOST_KEPT]
        if len(ordered) < len(self.times):
            self.times = dict(ordered)
        self.deeds = tuple((name.decode("utf-8", "replace"), ms) for name, ms in ordered)

    def repeats(self, event: Event, now: int) -> int:
        """How often in a row the call of an event has come to the same; as `memory/recall.lua` says it."""
        digest = call_digest(event) if self.calls and event.tool else ""
        count, _, at, *_ = (self.calls.get(digest.encode()) or b"0 - 0 -").split(b" ")
        return int(count) if int(at) > max(self.since, now - PAUSE_MS) else 0


class _View(NamedTuple):
    """What the last read has brought."""

    now: int
    record: bytes
    under_way: tuple[StreamEntry, ...]
    runs: int
    handed: frozenset[bytes]
    """The ids of the events whose requests the same read handed out."""
    sessions: Mapping[str, _Session]


class RecentSessions:
    """The sessions whose facts were read last."""

    def __init__(self, consumer: Consumer) -> None:
        """`consumer` reads the requests; each of its reads brings what `commands` asks for."""
        self._consumer, self._keys = consumer, consumer.keys
        consumer.beside = self.commands
        self._sessions: dict[str, _Session] = {}
        self._asked: dict[str, _Session] = {}
        self._view: _View | None = None
        self._is_lost = False
        """Whether the server has lost our script."""

    def want(self, session: str, *, deeds: bool) -> None:
        """Have the next reads bring what a session did; with `deeds`, which things it did."""
        known = self._sessions.pop(session, None) or _Session()
        known.wants_deeds, known.read_at, known.unused = known.wants_deeds or deeds, time.monotonic(), 0
        self._sessions[session] = known  # the last one in order
        if len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def commands(self) -> list[Command]:
        """What a read asks beside its entries; nothing if no session's facts were read a moment ago."""
        self._view, self._asked = None, {}
        if not self._sessions:
            return []
        late, kept = time.monotonic() - _KEPT_SECONDS, self._sessions.items()
        for name in [name for name, one in kept if one.read_at < late or one.unused >= _MOST_UNUSED]:
            del self._sessions[name]
        self._asked = dict(self._sessions)
        if not self._asked:
            return []
        keys, names = self._keys, ("events", "requests", "waiting")
        rows = (part for name, session in self._asked.items() for part in (name, *session.asked()))
        head = (keys.prefix, KEPT_BY, self._consumer.group, _MOST_ASKED, _MOST_UNREAD, _MOST_BYTES)
        script = ScriptCall("renew", (*map(keys, names), keys("alive", "dispatcher")), (*head, *rows))
        return [script.whole_command() if self._is_lost else script.command()]

    def note(self, entries: Iterable[StreamEntry]) -> None:
        """Note what the last read brought besides these entries."""
        self._view = None
        if not self._consumer.brought:
            return
        (reply,) = self._consumer.brought
        if isinstance(reply, Exception):
            self._is_lost = is_error(reply, "NOSCRIPT")
            return
        self._is_lost = False
        handed = {entry.id.encode(): entry for entry in entries if entry.stream == self._keys("requests")}
        now, record, *more = reply
        if record == _BUSY:
            return
        ids, unread, runs, *rows = more
        for session, row in zip(self._asked.values(), rows, strict=True):
            session.note(row)
            session.unused += bool(handed)
        if not handed.keys() >= set(ids):
            return  # others are under way, whose content this process does not have
        under_way = (*(handed[name] for name in ids), *read_rows(self._keys("events"), unread))
        events = frozenset(entry.fields.get(b"id", b"") for entry in handed.values())
        self._view = _View(int(now), record, under_way, int(runs), events, self._asked)

    def find(self, session: str, event: Event, *, deeds: bool) -> Brought | None:
        """What is known of a session, for an event of it; None if the read that handed it out did not bring that."""
        view = self._view
        known = view.sessions.get(session) if view is not None and event.id.encode() in view.handed else None
        if view is None or known is None or (deeds and known.deeds is None):
            return None
        found = known.deeds if deeds and known.deeds is not None else ()
        return Brought(
            found, known.secrets, known.repeats(event, view.now), known.tokens, view.record, view.under_way, view.runs
        )


def timed(found: Sequence[bytes]) -> Times:
    """Members of a sorted set with their times, from a server's reply."""
    items = iter(found)
    return tuple((name.decode("utf-8", "replace"), int(float(ms))) for name, ms in zip(items, items, strict=True))


def read_rows(stream: str, rows: Iterable[Any]) -> list[StreamEntry]:
    """The entries of a stream in a server's reply."""
    return [StreamEntry(stream, name.decode(), flat(fields or ())) for name, fields in rows]
