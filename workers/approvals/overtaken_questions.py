"""Ends questions whose call nobody waits for any more: its session has ended, or the call has run without an answer."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from bus.errors import DecodeError
from bus.events import EventType
from bus.requests import event_type, read_event, read_request
from bus.secrets.redaction import redact_text
from bus.wire.connections import Command, Connections
from bus.wire.keys import HEARTBEAT_MS, Keys
from bus.wire.streams import StreamEntry, checked, flat
from workers.approvals.decisions import overtake

_PAGE: Final = 500
_ENDS: Final = frozenset({EventType.SESSION_END.value})
_RAN: Final = frozenset({EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value})
_LEASE: Final = "questions"
_SKEW_MS: Final = 1_000
"""The most that an evaluator's reckoning of the server's clock may be ahead of it."""


class CallIdentity(NamedTuple):
    """What identifies the call of a question."""

    source: bytes
    host: bytes
    session: bytes
    call: bytes
    asked: int


class Overtaking:
    """Reads new events while questions wait; one evaluator of the fleet does, by a lease."""

    def __init__(self, connections: Connections, keys: Keys, name: str) -> None:
        self._connections, self._keys, self._name = connections, keys, name
        self.calls: dict[str, CallIdentity] = {}
        self._after = ""
        """The last event that was read; empty: begin at the oldest question."""

    async def look(self, waiting: list[str]) -> None:
        """Read what happened since the last look, for the questions that wait; raises Unreachable."""
        if not waiting or not await self._has_lease():
            self.calls, self._after = {}, ""
            return
        first = await self._learn(waiting)
        if not self.calls:
            return
        # A new question may be older than the last event that was read, which may be the one that ends it.
        if not self._after or first <= int(self._after.partition("-")[0]):
            start = str(min(call.asked for call in self.calls.values()) if first == math.inf else int(first))
        else:
            start = f"({self._after}"
        with self._connections.lease() as connection:
            (rows,) = await connection.exchange([("XRANGE", self._keys("events"), start, "+", "COUNT", _PAGE)])
        for entry_id, fields in checked(rows, "reading events"):
            self._after = entry_id.decode()
            for question in self.ended_by(StreamEntry(self._keys("events"), self._after, flat(fields or ()))):
                await overtake(self._connections, self._keys, question)
                self.calls.pop(question, None)

    async def _has_lease(self) -> bool:
        key, ttl = self._keys("alive", _LEASE), 2 * HEARTBEAT_MS
        with self._connections.lease() as connection:
            _, holder = await connection.exchange([("SET", key, self._name, "NX", "PX", ttl), ("GET", key)])
            if checked(holder, "looking who watches questions") != self._name.encode():
                return False
            await connection.exchange([("PEXPIRE", key, ttl)])
        return True

    async def _learn(self, waiting: list[str]) -> float:
        """Read the calls of questions that are new, and forget those that wait no more; returns when the first was asked."""
        known, new = set(waiting), [name for name in waiting if name not in self.calls]
        self.calls = {name: call for name, call in self.calls.items() if name in known}
        commands: list[Command] = [
            ("HMGET", self._keys("question", name), "source", "host", "session", "call", "asked") for name in new
        ]
        if not commands:
            return math.inf
        with self._connections.lease() as connection:
            rows = await connection.exchange(commands)
        for name, row in zip(new, rows, strict=True):
            source, host, session, call, asked = checked(row, "reading a question")
            if asked is not None:
                self.calls[name] = CallIdentity(source, host, session, call or b"", int(asked))
        return min((self.calls[name].asked - _SKEW_MS for name in new if name in self.calls), default=math.inf)

    def ended_by(self, entry: StreamEntry) -> list[str]:
        """The questions that an event ends."""
        if b"of" in entry.fields:
            return []
        request = read_request(entry, self._keys)
        kind = event_type(request, None)
        if kind not in _ENDS | _RAN:
            return []
        try:
            event = read_event(request)
        except DecodeError:
            return []
        source, host = event.source.encode(), event.host[:255].encode("utf-8", "replace")
        session = redact_text(event.session)[:512].encode("utf-8", "replace")
        return [
            name
            for name, call in self.calls.items()
            if (call.source, call.host, call.session) == (source, host, session)
            and (kind in _ENDS or (call.call and call.call == event.call.encode("utf-8", "replace")))
        ]
