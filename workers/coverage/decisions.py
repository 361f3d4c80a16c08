"""Decides, when its time has come, whether a call ran without its pre-hook event, and announces it as `coverage:gap`.

The event may be late: a request that waits for an evaluator, a spool that is still being sent, a dispatcher that is behind.
Then nothing is decided yet. A false alarm is worse than a late one. Nor is it if the agent's settings were read before the
call: what changed in them since is often the cause.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import msgspec

from bus.events import OWN_SOURCE, Event, EventType
from bus.ids import event_id
from bus.lazy.conversions import from_msgpack
from bus.secrets.redaction import redact_texts
from bus.wire.announcements import announced_key
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import ScriptCall, call_all, checked, flat, server_now
from workers.coverage.causes import Cause, Evidence, explain
from workers.coverage.gaps import Coverage, coverage
from workers.coverage.installs import HostInstalls, read_installs
from workers.coverage.marks import UncoveredCall
from workers.coverage.reports import AgentReport, reports_of_lost_events

log = logging.getLogger("fleethook.coverage")

_PAGE: Final = 500
_ROUNDS: Final = 20
_MOST_LISTED: Final = 1_000
_BEHIND_MS: Final = 5_000
"""An event that waits longer for its dispatcher shows that the dispatcher is behind."""
_FIRST_MS: Final = 60 * 60_000
_FIRST_CALLS: Final = 2
"""In the first hour of the records, a session that began before them may have so many calls whose pre-hook events came
before them too."""


async def decide_gaps(connections: Connections, keys: Keys) -> int:
    """Decide the calls whose time has come; returns how many ran without their pre-hook event. Raises Unreachable."""
    now, found = await server_now(connections), 0
    reports: list[AgentReport] | None = None
    installs: dict[str, HostInstalls | None] = {}
    for _ in range(_ROUNDS):
        due = await _due(connections, keys, now)
        if not due or await _is_behind(connections, keys, now, min(call.ms for _, call in due)):
            break
        reports = await reports_of_lost_events(connections, keys) if reports is None else reports
        since, rows, scores = await _known(connections, keys, [call for _, call in due])
        calls = list[ScriptCall]()
        seen: Counter[str] = Counter()
        counted: Counter[tuple[str, str]] = Counter()
        for (member, call), row, score in zip(due, rows, scores, strict=True):
            session = coverage(row)
            seen[call.session] += 1
            covered = _covered(call, row, score is not None, counted[call.session, call.tool])
            early = not session.started and call.ms < since + _FIRST_MS and not session.uncovered
            if covered or not row or (early and seen[call.session] <= _FIRST_CALLS):
                calls.append(_covered_call(keys, member, call))
                continue
            if session.host not in installs:
                installs[session.host] = await read_installs(connections, keys, session.host)
            known = installs[session.host]
            if known is not None and known.will_be_read_after(call.ms, now):
                continue
            counted[call.session, call.tool] += not call.call
            cause = explain(_evidence(call, session, reports, known))
            calls.append(_gap_call(keys, member, call, session, cause, now))
        if not calls:
            break
        for reply, script_call in zip(await call_all(connections, calls), calls, strict=True):
            done = int(checked(reply, "deciding a call without its pre-hook event"))
            found += bool(done and script_call.args[5])
        if len(due) < _PAGE:
            break
    return found


async def _due(connections: Connections, keys: Keys, now: int) -> list[tuple[bytes, UncoveredCall]]:
    listed = keys("uncovered")
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", listed, "-inf", now, "BYSCORE", "LIMIT", 0, _PAGE)])
        due, unknown = [], []
        for member in checked(rows, "listing calls without their pre-hook event"):
            try:
                due.append((member, from_msgpack(member, UncoveredCall)))
            except (msgspec.DecodeError, msgspec.ValidationError):  # another version's
                unknown.append(member)
        if unknown:
            await connection.exchange([("ZREM", listed, *unknown)])
    return due


async def _is_behind(connections: Connections, keys: Keys, now: int, oldest: int) -> bool:
    """Whether a pre-hook event may still be on its way: as a request without its answer, or before the dispatcher.

    A request leaves its stream when it is answered, so the first entry is the oldest that waits.
    """
    streams = [keys(name) for name in ("requests", "waiting", "decided")]
    with connections.lease() as connection:
        *firsts, groups, pending = await connection.exchange(
            [
                *(("XRANGE", name, "-", "+", "COUNT", 1) for name in streams),
                ("XINFO", "GROUPS", keys("events")),
                ("XPENDING", keys("events"), "dispatchers"),
            ]
        )
        waiting = [row[0][0] for row in firsts if not isinstance(row, Exception) and row]
        found = [] if isinstance(groups, Exception) else [flat(row) for row in groups]
        last = next((row[b"last-delivered-id"] for row in found if row.get(b"name") == b"dispatchers"), None)
        if last is None:
            return True
        (unread,) = await connection.exchange([("XRANGE", keys("events"), b"(" + last, "+", "COUNT", 1)])
    late = [row[0] for row in checked(unread, "reading events")]
    late += [] if isinstance(pending, Exception) or not pending[1] else [pending[1]]
    return any(_ms(entry) <= oldest for entry in waiting) or any(_ms(entry) < now - _BEHIND_MS for entry in late)


async def _known(
    connections: Connections, keys: Keys, due: list[UncoveredCall]
) -> tuple[int, list[dict[bytes, bytes]], list[bytes | None]]:
    """Since when calls are compared, and for each call its session's fields and its mark."""
    with connections.lease() as connection:
        since, *replies = await connection.exchange(
            [
                ("GET", keys("coverage")),
                *(("HGETALL", keys("coverage", call.session)) for call in due),
                *(("ZSCORE", keys("calls", call.session), call.call) for call in due),
            ]
        )
    for reply in replies:
        checked(reply, "reading the calls of a session")
    rows = [flat(row) for row in replies[: len(due)]]
    return int(since or 0), rows, list(replies[len(due) :])


def _covered(call: UncoveredCall, row: dict[bytes, bytes], marked: bool, counted: int) -> bool:
    """Whether the call's pre-hook event has come meanwhile; `counted`: the calls of its tool that were just decided."""
    opened = int(row.get(f"open:{call.tool}".encode(), b"0")) + counted
    return marked if call.call and opened <= 0 else opened >= 0


def _evidence(
    call: UncoveredCall, session: Coverage, reports: list[AgentReport], installs: HostInstalls | None
) -> Evidence:
    return Evidence(
        call=call,
        agent=session.agent,
        host=session.host,
        started=session.started,
        last_pre=session.last_pre,
        tools=frozenset(session.tools),
        reports=[one for one in reports if (one.host, one.agent) == (session.host, session.agent)],
        installs=[file for file in (installs.files if installs else ()) if file.agent == session.agent],
    )


def _covered_call(keys: Keys, member: bytes, call: UncoveredCall) -> ScriptCall:
    names = (keys("uncovered"), keys("coverage", call.session), keys("gaps"), keys("events"), keys("announced", "none"))
    return ScriptCall("gap", names, (member, call.session, call.call, call.tool, call.ms, "", "", DONE_MS, DONE_MS, 0))


def _gap_call(keys: Keys, member: bytes, call: UncoveredCall, session: Coverage, cause: Cause, now: int) -> ScriptCall:
    kind, name = EventType.COVERAGE_GAP.value, event_id()
    data = {
        "agent": session.agent,
        "version": session.version,
        "cause": cause.name,
        "text": cause.text,
        "fix": cause.fix,
    }
    event = Event(
        type=kind,
        id=name,
        source=OWN_SOURCE,
        host=session.host,
        time=now,
        session=session.session,
        tool="" if call.tool == "?" else call.tool,
        call=call.call,
        parent=call.event,
        data={**redact_texts(data), "time": call.ms},
    )
    fields = ("id", name, "source", OWN_SOURCE, "event", kind, "host", session.host, "parent", call.event)
    body = ("body", encode_event(event))
    announced = announced_key(keys, kind, f"{call.session}\n{cause.name}")
    names = (keys("uncovered"), keys("coverage", call.session), keys("gaps"), keys("events"), announced)
    about = (member, call.session, call.call, call.tool, call.ms, cause.name, cause.text, DONE_MS, DONE_MS)
    return ScriptCall("gap", names, (*about, _MOST_LISTED, *fields, *body))


def _ms(entry: bytes) -> int:
    return int(entry.partition(b"-")[0])
