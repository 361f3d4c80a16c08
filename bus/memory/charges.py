"""Charges: what a call adds to the limits of rules (docs/limits.md), as arguments of the script that answers it.

Only that script knows whether a limit is reached, because it counts in the step in which it answers: a call is counted once
whatever dies, and calls that come at the same time are counted one after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from bus.agents import cursor
from bus.events import Event
from bus.matching.exact_calls import input_text
from bus.matching.limits import Limit, read_limit
from bus.memory.deeds import parent_session
from bus.secrets.redaction import redact_text
from bus.verdicts import Charge, LimitUse, Part, Verdict, fallback_decision, strictest
from bus.wire.codec import encode_verdict
from bus.wire.keys import DONE_MS

LIMIT_ARGS: Final = 11
"""How many arguments of the script a limit has (bus/wire/scripts/shared/limits.lua)."""
_PLACE: Final = 8
_UINT64: Final = b"\xcf"
_LISTED: Final = 100


class Reached(NamedTuple):
    """A limit as the script found it when it refused."""

    over: bool
    used: int | float
    free_at: int


def session_key(source: str, session: str) -> str:
    """The name of the keys of one session. The host is no part of it: hooks of one session may name it differently."""
    return _hash(f"{source}\n{session}")


def limit_args(charges: Sequence[Charge], event: Event, user: str) -> tuple[str | int, ...]:
    """The arguments about the limits that a call counts for. `user` is the account that its agent runs as."""
    call, mark, marks = call_names(event)
    args: list[str | int] = []
    for charge in charges:
        limit = read_limit(charge.limit)
        session = counted_session(event) if limit.scope == "session" else ""
        shown = whose(limit, event, user)
        counter, listed, kept = _counter(
            charge.counter, charge.layer, charge.hook, charge.limit, event.source, shown, session
        )
        refuses = "0" if charge.is_over else "1"
        args += [counter, session, call, mark, marks, int(limit.most), limit.period, refuses, "0", listed, kept]
    return tuple(args)


@lru_cache(1024)
def _counter(
    rule: str, layer: str, hook: str, text: str, source: str, whose_limit: str, session: str
) -> tuple[str, str, int]:
    """The key of a counter after `limit:` without its session, what is listed of it, and the ms that it is kept."""
    limit = read_limit(text)
    scope = "" if session else _hash(whose_limit)[:16]
    listed = json.dumps([layer, hook, text, source, redact_text(whose_limit)[:_LISTED]])
    return f"{_hash(rule + limit.scope)[:16]}:{scope}", listed, limit.period or DONE_MS


def counted_session(event: Event) -> str:
    """The name of the keys of the session that an event counts for: a subagent counts for its parent."""
    named = parent_session(event) or event.session
    return session_key(event.source, named) if named else _hash(f"{event.source}\n{event.host}")


def whose(limit: Limit, event: Event, user: str) -> str:
    """Whose limit it is, for people: the session, agent, user or host; empty for the fleet."""
    names = {"agent": event.source, "user": f"{user} on {event.host}", "host": event.host, "fleet": ""}
    return names.get(limit.scope, parent_session(event) or event.session or event.host)


def whose_counter(limit: Limit, event: Event, user: str) -> str:
    """The part of a counter's key that says whose it is, for every scope but the session."""
    return _hash(whose(limit, event, user))[:16]


def placed(verdict: Verdict, args: Sequence[str | int]) -> tuple[bytes, tuple[str | int, ...]]:
    """The encoded verdict, and the arguments with the places in it where the script writes the counts."""
    if not args:
        return encode_verdict(verdict), ()
    changed, places = list(args), [int.from_bytes(os.urandom(8)) | 1 << 63 for _ in range(0, len(args), LIMIT_ARGS)]
    left = iter(places)
    parts = tuple(
        msgspec.structs.replace(part, limit=msgspec.structs.replace(part.limit, count=next(left)))
        if part.limit is not None and part.limit.count is None
        else part
        for part in verdict.parts
    )
    encoded = encode_verdict(msgspec.structs.replace(verdict, parts=parts))
    for number, value in enumerate(places):
        at = encoded.find(_UINT64 + struct.pack(">Q", value))
        changed[number * LIMIT_ARGS + _PLACE] = at + 2  # Lua counts from 1, and the first byte says what follows
    return encoded, tuple(changed)


def read_refusal(reply: object) -> list[Reached] | str | None:
    """What the script says of each limit when it refuses, or why it cannot look them up; None for another reply."""
    if not isinstance(reply, list):
        return None
    values = [value.decode("utf-8", "replace") for value in reply]
    if values[0] == "failed":
        return values[1] or "no reason"
    return [
        Reached(over == "1", int(used), int(free))
        for over, used, free in zip(values[::3], values[1::3], values[2::3], strict=True)
    ]


def refused(verdict: Verdict, reached: Sequence[Reached], now: int) -> Verdict:
    """The verdict after the script refused: the rules whose limits are reached have decided."""
    found = verdict
    charges = []
    for charge, state in zip(verdict.charges, reached, strict=True):
        charges.append(charge)
        if state.over and not charge.is_over:
            found = _with_reached(found, charge, state, now)
            charges[-1] = msgspec.structs.replace(charge, is_over=True)
    return msgspec.structs.replace(found, charges=() if found.decision == "deny" else tuple(charges))


def after_limits(verdict: Verdict, state_of: Callable[[Charge], Reached], now: int) -> Verdict:
    """The verdict after its limits of calls, as the script that answers leaves it: rules whose limits are reached decide."""
    while verdict.charges and verdict.decision != "deny":
        found = [state_of(charge) for charge in verdict.charges]
        if not any(state.over and not charge.is_over for charge, state in zip(verdict.charges, found, strict=True)):
            break
        verdict = refused(verdict, found, now)
    return verdict


def with_counts(verdict: Verdict, counts: Sequence[int]) -> Verdict:
    """The verdict with the counts of the charges that are left, each with this call; nothing is left to charge."""
    left = iter(counts)
    parts = tuple(
        msgspec.structs.replace(part, limit=msgspec.structs.replace(part.limit, count=next(left, None)))
        if part.limit is not None and part.limit.count is None
        else part
        for part in verdict.parts
    )
    return msgspec.structs.replace(verdict, parts=parts, charges=())


def with_spent(verdict: Verdict, states: Sequence[Reached | None], now: int) -> Verdict:
    """The verdict with what was used of its limits of tokens and money (None for limits of calls, which stay charges)."""
    never = Reached(False, 0, 0)
    found = refused(verdict, [state or never for state in states], now)
    for charge, state in zip(verdict.charges, states, strict=True):
        if state is not None:
            use = next(part.limit for part in found.parts if part.limit is not None and _is_part(part, charge))
            found = _replace_part(found, charge, limit=msgspec.structs.replace(use, count=state.used))
    left = {charge.counter for charge, state in zip(verdict.charges, states, strict=True) if state is None}
    return msgspec.structs.replace(found, charges=tuple(one for one in found.charges if one.counter in left))


def not_looked_up(verdict: Verdict, why: str) -> Verdict:
    """The verdict where the limits cannot be looked up: the failure policies of their rules decide, and nothing counts."""
    found = verdict
    for charge in verdict.charges:
        failure = f"hook {charge.hook!r}: its limit cannot be looked up: {why}"
        decision = fallback_decision(charge.on_failure)
        reason = f"{failure}; its failure policy is {charge.on_failure}"
        found = _replace_part(found, charge, decision=decision, fallback=failure, note=reason)
        if strictest(decision, found.decision) != found.decision:
            found = msgspec.structs.replace(found, decision=decision, reason=reason)
    return msgspec.structs.replace(found, charges=())


def _is_part(part: Part, charge: Charge) -> bool:
    return part.limit is not None and part.hook == charge.hook and part.layer == charge.layer


def _with_reached(verdict: Verdict, charge: Charge, state: Reached, now: int) -> Verdict:
    limit = read_limit(charge.limit)
    decision = "abstain" if charge.decision == "warn" else charge.decision
    reason = f"{charge.reason.rstrip('.')} ({limit_text(limit, state, now)})"
    passes = charge.observe or decision != "deny"  # then the script that answers writes the count, with this call
    use = LimitUse(
        limit=f"{limit.number}{limit.span}",
        most=limit.most,
        count=None if passes else state.used,
        free_at=state.free_at,
        over=True,
    )
    changes: dict[str, Any] = {"limit": use}
    if charge.observe:
        note = f"observed only: hook {charge.hook!r} would have said {charge.decision}: {reason}"
        return _replace_part(verdict, charge, observed=decision, **changes, note=note)
    hold = charge.hold if decision == "ask" else None
    changed = _replace_part(verdict, charge, decision=decision, reason=reason, hold=hold, **changes)
    if charge.decision == "warn":
        return msgspec.structs.replace(changed, notes=(*changed.notes, reason), contexts=(*changed.contexts, reason))
    if strictest(decision, verdict.decision) == verdict.decision:
        return changed
    gone: dict[str, Any] = {"updated_input": None} if decision == "deny" else {}
    return msgspec.structs.replace(
        changed, decision=decision, reason=reason, instead=charge.instead, permissions=(), **gone
    )


def _replace_part(verdict: Verdict, charge: Charge, note: str = "", **changes: Any) -> Verdict:
    def changed(part: Part) -> Part:
        return msgspec.structs.replace(part, **changes) if _is_part(part, charge) else part

    notes = (*verdict.notes, note) if note else verdict.notes
    return msgspec.structs.replace(verdict, parts=tuple(map(changed, verdict.parts)), notes=notes)


def limit_text(limit: Limit, state: Reached, now: int) -> str:
    """The state of a limit that is reached: its count, its number and when it is free again."""
    used = f"{_number(state.used)} of {limit.number}{limit.span} used"
    if not state.free_at:
        return f"{used}; it is not free again in this session"
    at = datetime.fromtimestamp(state.free_at / 1000, UTC)
    seconds = max(1, -(-(state.free_at - now) // 1000))
    left = f"{seconds} s" if seconds < 120 else f"{-(-seconds // 60)} min"
    return f"{used}; free again at {at:%H:%M:%S} UTC, in {left}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}".rstrip("0").rstrip(".")


def call_names(event: Event) -> tuple[str, str, str]:
    """The name of the call, the mark by which its other events are known (empty if it has none), and whether it leaves it."""
    twin = cursor.call_of(event) if event.source == cursor.NAME else None
    if event.call:
        identity = (event.source, event.session, event.call, event.tool, input_text(event.tool, event.input))
        name = _hash(json.dumps(identity))
    else:
        name = event.id or f"at-{event.time}"
    return name, "" if twin is None else _hash(json.dumps(twin, default=str)), "1" if event.call else ""


@lru_cache(1024)
def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
