"""What each agent program on each host last reported: kept by the dispatcher, which reads every event, and sent once a second.

A dispatcher that is killed loses the last second of its counts, as of all counters.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

import msgspec

from bus.agents.reporter import Reporter, agent_version
from bus.events import OWN, PRE_TOOL, Event
from bus.lazy.conversions import converted
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.connections import Command, Connections
from bus.wire.keys import DAY, REPORT_MS, Keys
from bus.wire.streams import StreamEntry, checked, flat, note_refused
from workers.coverage.marks import kept_text

_SECONDS: Final = 1.0
_MOST: Final = 2_000
"""How many programs are listed; the one with the oldest event leaves first."""
_LONG: Final = 255


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one version of an agent on one host reported last; what could be a secret is redacted."""

    host: str
    agent: str
    version: str = ""
    """The agent's version; empty if it does not send one."""
    by: str = ""
    """What reported its last event, with its version: `hook-command/0.1.0`, `gateway/0.1.0` or `python/0.1.0`."""
    last: int = 0
    """When its last event was added (ms since 1970)."""
    event: str = ""
    """The id of its last event."""
    type: str = ""
    session: str = ""
    verdict: str = ""
    """The decision of its last verdict; empty if it had none."""
    verdict_event: str = ""
    verdict_at: int = 0
    """When the event of that verdict was added (ms since 1970)."""
    events: int = 0
    verdicts: int = 0
    denied: int = 0
    fallbacks: int = 0
    """Answers that no hook gave."""
    pre: int = 0
    """Pre-hook events of tool calls."""
    fallback_at: int = 0
    """When its hook command last reported that its own failure policy answered (ms since 1970); 0: never."""
    fallback_why: str = ""
    unreadable_at: int = 0
    """When one of its events last could not be read (ms since 1970); 0: never."""


_COUNTS: Final = ("events", "verdicts", "denied", "fallbacks", "pre")
_TIMES: Final = ("last", "verdict_at", "fallback_at", "unreadable_at")


class Reports:
    """The reports of one dispatcher that are not sent yet."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._found: dict[tuple[str, str, str], dict[str, str | int]] = {}
        self._sent = 0.0

    def add(self, entry: StreamEntry, event: Event, verdict: Verdict | None, sender: Reporter) -> None:
        """Note an event and its verdict."""
        if event.type in OWN or not event.host:
            return
        found = self._of(event.host, event.source, agent_version(event, sender))
        found.update(
            last=entry.ms,
            event=event.id,
            type=kept_text(event.type, _LONG),
            session=kept_text(event.session, _LONG),
            by=sender.by,
        )
        _count(found, "events")
        if event.type in PRE_TOOL:
            _count(found, "pre")
        if verdict is not None:
            found.update(verdict=verdict.decision, verdict_event=event.id, verdict_at=entry.ms)
            _count(found, "verdicts")
            _count(found, "denied", verdict.decision == "deny")
            _count(found, "fallbacks", bool(verdict.fallback))

    def add_fallback(
        self, entry: StreamEntry, source: str, host: str, sender: Reporter, why: str, request: str
    ) -> None:
        """Note that a hook command gave its own answer to the request of this id."""
        if host:
            self._of(host, source, sender.version).update(
                fallback_at=entry.ms, fallback_why=kept_text(why, _LONG), fallback_of=kept_text(request, _LONG)
            )

    def add_unreadable(self, entry: StreamEntry, source: str, host: str, sender: Reporter) -> None:
        """Note that an event could not be read."""
        if host:
            self._of(host, source, sender.version).update(unreadable_at=entry.ms)

    def _of(self, host: str, source: str, version: str) -> dict[str, str | int]:
        return self._found.setdefault((kept_text(host, _LONG), kept_text(source, _LONG), version), {})

    async def send(self, *, now: bool = False) -> None:
        """Send them, at most once a second without `now`; raises Unreachable."""
        if not self._found or (not now and time.monotonic() - self._sent < _SECONDS):
            return
        self._sent, found, self._found = time.monotonic(), self._found, {}
        listed, commands = self._keys("reports"), list[Command]()
        for (host, source, version), facts in found.items():
            name = hashlib.sha256(f"{host}\n{source}\n{version}".encode("utf-8", "replace")).hexdigest()[:32]
            key = self._keys("report", name)
            at = max(int(facts[field]) for field in _TIMES if field in facts)
            said = {"host": host, "agent": source, "version": version} | {
                field: value for field, value in facts.items() if field not in _COUNTS
            }
            commands.append(("HSET", key, *(part for pair in said.items() for part in pair)))
            commands += [("HINCRBY", key, field, facts[field]) for field in _COUNTS if facts.get(field)]
            commands += [("PEXPIRE", key, REPORT_MS), ("ZADD", listed, "GT", at, name)]
        commands.append(("ZREMRANGEBYRANK", listed, 0, -_MOST - 1))
        with self._connections.lease() as connection:
            note_refused(await connection.exchange(commands), "sending what agents reported")


async def read_reports(connections: Connections, keys: Keys) -> list[AgentReport]:
    """Every report, the newest first; raises Unreachable."""
    return [_report(row) for row in await _rows(connections, keys)]


async def has_other_hosts(connections: Connections, keys: Keys, host: str) -> bool:
    """Whether an agent of another host than `host` has reported anything in the last day."""
    since = time.time() * 1000 - DAY
    return any(report.host != host and report.last > since for report in await read_reports(connections, keys))


async def reports_of_lost_events(connections: Connections, keys: Keys) -> list[AgentReport]:
    """As `read_reports`, without the fallbacks of requests that were answered later: their events have arrived."""
    rows = await _rows(connections, keys)
    asked = [row for row in rows if row.get(b"fallback_of")]
    if asked:
        exists = [("EXISTS", keys("verdict", row[b"fallback_of"].decode("utf-8", "replace"))) for row in asked]
        with connections.lease() as connection:
            replies = await connection.exchange(exists)
        for row, reply in zip(asked, replies, strict=True):
            if checked(reply, "looking for the answer to a request"):
                row[b"fallback_at"] = b"0"
    return [_report(row) for row in rows]


async def _rows(connections: Connections, keys: Keys) -> list[dict[bytes, bytes]]:
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("reports"), 0, -1, "REV")])
        names = [row.decode() for row in checked(rows, "listing what agents reported")]
        replies = await connection.exchange([("HGETALL", keys("report", name)) for name in names]) if names else []
    return [flat(reply) for reply in replies if not isinstance(reply, Exception) and reply]


def _report(row: dict[bytes, bytes]) -> AgentReport:
    known = {name.decode(): redact_text(value.decode("utf-8", "replace")) for name, value in row.items()}
    return converted(known, AgentReport, strict=False)


def _count(found: dict[str, str | int], name: str, more: bool = True) -> None:
    if more:
        found[name] = int(found.get(name, 0)) + 1
