"""Limits and facts of sessions for recorded events: computed from the events themselves, in their order, without a server.

`fleethook backtest` and `fleethook hooks test` use it, so that rules with memory say there what they would have said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bus.events import PRE_TOOL, Event, EventType
from bus.hooks import Hook
from bus.matching.conditions import Condition, compile_condition
from bus.matching.limits import Limit, read_limit
from bus.memory.charges import (
    Reached,
    after_limits,
    call_names,
    counted_session,
    session_key,
    whose_counter,
    with_counts,
    with_spent,
)
from bus.memory.deeds import SECRET, deeds_of, parent_session
from bus.memory.facts import MOST_KEPT, Memory
from bus.memory.outcomes import call_digest, outcome_digest
from bus.memory.polling import waits
from bus.memory.spending import reached, spent_by, spent_key
from bus.verdicts import Charge, Verdict

PAUSE_MS: Final = 60_000
"""Two calls with a pause of this length between them are no loop: something wakes the agent."""
_SAME_MS: Final = 60_000
_DONE: Final = frozenset({EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value})


def remembers(hook: Hook) -> bool:
    """Whether what a hook says depends on earlier events: it has a limit, or its condition reads facts of the session."""
    if hook.rule is not None and hook.rule.limit:
        return True
    return bool(hook.when) and compile_condition(hook.when).uses_session


class _Repeat:
    """How often in a row a call came to the same."""

    __slots__ = ("count", "last", "outcome")

    def __init__(self) -> None:
        self.count = self.last = 0
        self.outcome = ""


class _Session:
    """What one session did so far."""

    __slots__ = ("calls", "deeds", "secrets", "since")

    def __init__(self) -> None:
        self.deeds: dict[str, int] = {}
        self.secrets: dict[str, int] = {}
        self.calls: dict[str, _Repeat] = {}
        self.since = 0
        """When it last waited, or a person last wrote."""


class ReplayedMemory:
    """The memory of rules over events that are given one after the other."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._parents: dict[str, str] = {}
        self._counted: dict[str, dict[str, int]] = {}
        """By counter: the calls that count, with their times."""
        self._marks: dict[str, int] = {}
        self._spent: dict[str, dict[str, int]] = {}
        self._spent_by: set[str] = set()
        """The answers of models that are counted."""

    async def recall(self, event: Event, conditions: Sequence[Condition], seconds: float | None) -> Memory:  # noqa: ARG002 - as the record is asked
        """What the session of an event did before it."""
        session = self._sessions.get(self._root(counted_session(event)))
        if session is None:
            return Memory()
        repeat = session.calls.get(call_digest(event)) if event.tool else None
        counts = repeat is not None and repeat.last > max(session.since, event.time - PAUSE_MS)
        used = self._spent.get(f"spent:session:{self._root(counted_session(event))}", {})
        return Memory(
            _newest(session.deeds),
            _newest(session.secrets),
            repeat.count if counts and repeat is not None else 0,
            used.get("tokens:all", 0),
        )

    def note(self, event: Event, denied: bool, user: str = "") -> None:
        """Add what an event shows; `denied`: its call was not carried out."""
        if parent := parent_session(event):
            self._adopt(session_key(event.source, event.session), session_key(event.source, parent))
        name = self._root(counted_session(event))
        session = self._sessions.setdefault(name, _Session())
        for deed in deeds_of(event):
            (session.secrets if deed.kind == SECRET else session.deeds)[deed.member] = event.time
        while len(session.deeds) > MOST_KEPT:
            del session.deeds[min(session.deeds, key=session.deeds.__getitem__)]
        spent = spent_by(event, event.time, user)
        if spent is not None and spent.event:
            spent = None if spent.event in self._spent_by else spent
            self._spent_by |= {spent.event} if spent is not None else set()
        for key in (f"spent:session:{name}", *spent.keys) if spent is not None else ():
            fields = self._spent.setdefault(key, {})
            for unit, amount in spent.amounts if spent is not None else ():
                for field in (f"{unit}:{spent.minute}", f"{unit}:all") if spent is not None else ():
                    fields[field] = fields.get(field, 0) + amount
        _note_call(session, event, denied=denied)

    def settle(self, event: Event, verdict: Verdict, user: str = "") -> Verdict:
        """The verdict after its limits; a call that passes is counted."""
        if not verdict.charges:
            return verdict
        limits = [read_limit(charge.limit) for charge in verdict.charges]
        states = [None if limit.unit == "calls" else self._used(limit, event, user) for limit in limits]
        spent = with_spent(verdict, states, event.time)
        verdict = after_limits(spent, lambda charge: self._state(charge, event, user), event.time)
        counts = [self._charge(charge, event, user) for charge in verdict.charges if verdict.decision != "deny"]
        return with_counts(verdict, counts)

    async def settled(self, event: Event, verdict: Verdict) -> Verdict:
        """As `settle`."""
        return self.settle(event, verdict)

    def _root(self, session: str) -> str:
        for _ in range(8):
            if session not in self._parents:
                break
            session = self._parents[session]
        return session

    def _adopt(self, session: str, parent: str) -> None:
        """Note the parent of a session. What the session did before its parent was known counts for the parent too."""
        root, known = self._root(parent), session in self._parents
        if root == session:
            return
        self._parents[session] = root
        if known:
            return
        for name in [name for name in self._counted if name.endswith(f"\nsession\n{session}")]:
            of_root = self._counted.setdefault(name.removesuffix(session) + root, {})
            of_root.update(self._counted.pop(name))
        for field, amount in self._spent.pop(f"spent:session:{session}", {}).items():
            used = self._spent.setdefault(f"spent:session:{root}", {})
            used[field] = used.get(field, 0) + amount
        before = self._sessions.pop(session, None)
        if before is not None:
            after = self._sessions.setdefault(root, _Session())
            for times, earlier in ((after.deeds, before.deeds), (after.secrets, before.secrets)):
                times |= {name: max(ms, times.get(name, 0)) for name, ms in earlier.items()}

    def _used(self, limit: Limit, event: Event, user: str) -> Reached:
        key = spent_key(limit, event, user)
        if limit.scope == "session":
            key = f"spent:session:{self._root(counted_session(event))}"
        return reached(limit, self._spent.get(key, {}), event.time)

    def _calls(self, charge: Charge, limit: Limit, event: Event, user: str) -> dict[str, int]:
        whose = self._root(counted_session(event)) if limit.scope == "session" else whose_counter(limit, event, user)
        calls = self._counted.setdefault(f"{charge.counter}\n{limit.scope}\n{whose}", {})
        if limit.period:
            for name in [name for name, ms in calls.items() if ms <= event.time - limit.period]:
                del calls[name]
        return calls

    def _state(self, charge: Charge, event: Event, user: str) -> Reached:
        limit = read_limit(charge.limit)
        calls = self._calls(charge, limit, event, user)
        most = int(limit.most)
        over = len(calls) >= most and not self._is_known(charge, calls, event)
        times = sorted(calls.values())
        free_at = times[len(times) - most] + limit.period if over and limit.period and most else 0
        return Reached(over, len(calls), free_at)

    def _is_known(self, charge: Charge, calls: dict[str, int], event: Event) -> bool:
        name, mark, leaves = call_names(event)
        if name in calls and event.time - calls[name] < _SAME_MS:
            return True
        return bool(mark) and not leaves and event.time - self._marks.get(charge.counter + mark, -_SAME_MS) < _SAME_MS

    def _charge(self, charge: Charge, event: Event, user: str) -> int:
        calls = self._calls(charge, read_limit(charge.limit), event, user)
        if not self._is_known(charge, calls, event):
            name, mark, leaves = call_names(event)
            calls[name] = event.time
            if mark and leaves:
                self._marks[charge.counter + mark] = event.time
        return len(calls)


def _newest(times: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(times.items(), key=lambda item: -item[1])


def _note_call(session: _Session, event: Event, *, denied: bool) -> None:
    if event.type == EventType.USER_PROMPT_SUBMIT:
        session.since = max(session.since, event.time)
    elif event.type in PRE_TOOL and not denied:
        known = session.calls.get(call_digest(event))
        if known is not None and event.time - known.last >= PAUSE_MS:
            known.count = 0
    elif event.type in _DONE:
        if waits(event):
            session.since = max(session.since, event.time)
            return
        repeat, outcome = session.calls.setdefault(call_digest(event), _Repeat()), outcome_digest(event)
        again = repeat.outcome == outcome and repeat.last > session.since
        repeat.count, repeat.outcome, repeat.last = (repeat.count + 1 if again else 1), outcome, event.time
