"""The evaluator's part: holds a request whose hooks want a person's answer, and answers it when that is decided."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bus.chain import changed_event
from bus.errors import FleethookError, Unreachable
from bus.events import GATES, OWN_SOURCE, Event, EventType
from bus.ids import event_id
from bus.requests import Request
from bus.secrets.redaction import redact_text
from bus.tracing.context import at_trace, trace_of
from bus.verdicts import Approval, Part, Verdict
from bus.wire.codec import encode_event, encode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import DONE_MS, KEPT_MS, Keys
from bus.wire.streams import ScriptCall, call_all, checked, is_away, is_momentary
from workers.approvals import held_values, held_verdicts
from workers.approvals.decisions import decide_call
from workers.approvals.overtaken_questions import Overtaking
from workers.approvals.questions import MOST_LISTED, needs_of
from workers.approvals.remembered_calls import calls_text, has_secret
from workers.approvals.summary import MOST_TEXT, readable, summary, whole_input
from workers.approvals.tickets import call_hash, find_approval, find_ticket, twin_hash
from workers.fleet_control.enforcement import Enforcement
from workers.fleet_control.messages import carried_calls
from workers.runtime.clock import ServerClock
from workers.runtime.request_replies import Replies

log = logging.getLogger("fleethook.approvals")

_LEAST_MS: Final = 300
"""An agent that waits for less gets the default at once: there is no time to ask a person."""
_NOTE_MS: Final = 15_000
"""The time that the caller's note is valid after the question: enough for a restart of server and evaluators."""
_MOST_DUE: Final = 200
_LOOK_SECONDS: Final = 0.5
"""An evaluator ends its own questions when they are due, and those of another evaluator this much later."""
_SOON_SECONDS: Final = 0.02


def margin_ms(left: int) -> int:
    """The reserve of an agent's time (both in ms) for noticing its end and sending the answer.

    It is 15 % of the time up to 1.5 s, and 3 % of a longer time up to 10 s: a busy machine needed 3.5 s, and who waits for
    minutes does not miss seconds.
    """
    return int(min(max(min(1_500, left * 0.15), left * 0.03), 10_000))


class HeldRequests:
    """Holds requests of one evaluator, and answers held ones."""

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        group: str,
        name: str,
        replies: Replies,
        clock: ServerClock,
        stops: Enforcement,
    ) -> None:
        self._connections, self._keys, self._group, self._name = connections, keys, group, name
        self._replies, self._clock, self._stops = replies, clock, stops
        self._waiting = 1
        """How many questions wait for a person, or for an evaluator that gives their answers, as of the last look. Before the
        first look there may be some."""
        self._overtaking = Overtaking(connections, keys, name)
        self._asked = asyncio.Event()
        self._dues: list[int] = []
        """When something is due for the questions that this evaluator asked: a heap of milliseconds."""

    async def watch(self) -> None:
        """End questions when their time is over, and answer agents that can wait no longer; until cancelled."""
        while True:
            seconds = _LOOK_SECONDS
            self._asked.clear()
            try:
                seconds = await self._sweep()
            except FleethookError as error:
                log.debug("looking for questions that are due: %s", error)
                self._waiting = self._waiting or 1
            if not self._waiting:
                await self._asked.wait()
                continue
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: until Python 3.12 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(seconds):
                    await self._asked.wait()

    def look(self, *, at_hand: bool) -> None:
        """Look for questions soon. Requests `at_hand` are answered before, and there may be questions of other evaluators."""
        self._waiting = self._waiting or int(at_hand)
        self._asked.set()

    async def _sweep(self) -> float:
        """Do what is due now; returns the seconds until the next look. Raises Unreachable."""
        now = self._clock.now()
        with self._connections.lease() as connection:
            replies = await connection.exchange(
                [
                    ("ZRANGE", self._keys("questions"), 0, MOST_LISTED, "WITHSCORES"),
                    ("ZCARD", self._keys("questions")),
                    ("XLEN", self._keys("decided")),
                ]
            )
        rows, waiting, decided = (checked(reply, "looking for questions that are due") for reply in replies)
        self._waiting = waiting + decided
        times = [(name.decode(), float(at)) for name, at in zip(rows[::2], rows[1::2], strict=True)]
        due = [name for name, at in times if at <= now][:_MOST_DUE]
        if due:
            await call_all(self._connections, [decide_call(self._keys, name, "due") for name in due])
            return _SOON_SECONDS
        await self._overtaking.look([name for name, _ in times])
        while self._dues and self._dues[0] < now:
            heapq.heappop(self._dues)
        first = min([*(at for _, at in times[:1]), *self._dues[:1]], default=now + _LOOK_SECONDS * 1000)
        return min(_LOOK_SECONDS, max(_SOON_SECONDS, (first - now) / 1000))

    async def conclude(self, request: Request, event: Event, verdict: Verdict, owner: str = "") -> list[ScriptCall]:
        """The calls that answer a request with its verdict, or that hold it for a person; raises Unreachable.

        A stop that came while the hooks ran is above their verdict. With an `owner`, whose hooks have run, only an error is
        raised that passes when Redis is back: what the server refuses for good gets the default of the hooks.
        """
        try:
            return await self._conclude(request, event, verdict, owner)
        except FleethookError as error:
            if not owner or is_momentary(error):
                raise
            return [self._unasked(request, event, verdict, str(error), owner)]

    async def _conclude(self, request: Request, event: Event, verdict: Verdict, owner: str) -> list[ScriptCall]:
        stopped = await self._stops.over(event, verdict)
        if stopped is not None:
            return await self.answer(request, event, stopped, owner)
        parts = held_verdicts.held_parts(verdict)
        if not parts or event.type not in GATES:
            if any(part.fallback for part in verdict.parts) and (held := await self.again(request)) is not None:
                return [held]  # a repeated request came so late that its hooks had no time; its question goes on
            return await self.answer(request, event, verdict, owner)
        call = call_hash(event, request.folder, verdict.updated_input)
        twin = twin_hash(event, request.folder)
        ticket = await find_ticket(self._connections, self._keys, event, call, twin)
        if ticket is not None:
            lifted = await find_approval(self._connections, self._keys, ticket, parts)
            if lifted is not None:
                passing = held_verdicts.approved(verdict, lifted)
                return [self._replies.answer(request, event, passing, owner=owner, ticket=ticket)]
        why = await self._why_nobody(request, parts) or await self._hold(request, event, verdict, parts, call, owner)
        return [self._unasked(request, event, verdict, why, owner)] if why else []

    def _unasked(self, request: Request, event: Event, verdict: Verdict, why: str, owner: str) -> ScriptCall:
        """The call that answers a request about which nobody can be asked."""
        if held_verdicts.held_parts(verdict):
            approval = Approval(question=request.id, state="nobody_could_be_asked", asked=self._clock.now())
            verdict = held_verdicts.unanswered(verdict, approval, f"Nobody could be asked: {why}.")
        return self._replies.answer(request, event, verdict, owner=owner)

    async def _hold(
        self, request: Request, event: Event, verdict: Verdict, parts: Sequence[Part], call: str, owner: str
    ) -> str:
        """Hold a request; returns why that cannot be done, and nothing if it is held. Raises Unreachable.

        What cannot be held gets the default of its hooks: the failure policy must not let it pass.
        """
        try:
            hold = self._hold_call(request, event, verdict, parts, call, owner)
            (reply,) = await call_all(self._connections, [hold])
        except FleethookError:
            raise
        except Exception as error:
            log.exception("request %s cannot be held", request.id)
            return f"the question cannot be written ({type(error).__name__})"
        if isinstance(reply, Exception) and not is_away(reply):
            return f"the server refused the question ({reply})"
        checked(reply, "holding a request")
        heapq.heappush(self._dues, int(hold.args[4]))
        self._asked.set()
        return ""

    async def answer(self, request: Request, event: Event, verdict: Verdict, owner: str = "") -> list[ScriptCall]:
        """The calls that answer a request which is not held. If it was held before, its question is overtaken.

        The answer goes first: the caller that waits for the question gets it too. But another call that was sent with the
        same id does not end the question: its caller waits for the same answer. `answer.lua` sees to that, also where this
        evaluator does not know of the question yet. Raises Unreachable, unless hooks with effects have run for `owner`.
        """
        asked, held = 0, ""
        if self._waiting and not verdict.fallback:
            try:
                asked, held = await self._held_call(request.id)
            except Unreachable:
                if not owner:
                    raise
                # Its hooks have run and must not run again: the answer waits until Redis is back.
        if held and verdict.decision != "deny" and call_hash(event, request.folder, verdict.updated_input) != held:
            log.warning("request %s of %s is another call than the one that is held", request.id, request.source)
            asked = 0
        if not asked:
            reply = self._replies.answer(request, event, verdict, owner=owner)
            return (
                [reply, *carried_calls(self._keys, request, event, verdict, self._clock.now())]
                if verdict.messages
                else [reply]
            )
        now = Approval(question=request.id, state="overtaken", asked=asked, answered=self._clock.now())
        ended = held_verdicts.overtaken_by_rules(verdict, now)
        reply = self._replies.answer(request, event, ended, owner=owner, ends_question=True)
        return [reply, decide_call(self._keys, request.id, "overtake")]

    async def _held_call(self, question: str) -> tuple[int, str]:
        """When a question was asked that still waits, and whose agent does (0 if there is none); and the hash of its call,
        which is empty once its caller has an answer."""
        with self._connections.lease() as connection:
            row, verdict = await connection.exchange(
                [
                    ("HMGET", self._keys("question", question), "state", "replied", "asked", "hash"),
                    ("EXISTS", self._keys("verdict", question)),
                ]
            )
        state, replied, asked, call = checked(row, "looking for a question")
        answered = checked(verdict, "looking for the answer to a question")
        waits = state == b"waiting" and replied is None
        return int(asked) if waits else 0, "" if answered else (call or b"").decode()

    async def again(self, request: Request) -> ScriptCall | None:
        """The call that lets a repeated request wait for the answer to its question; None if it has none. Raises Unreachable.

        Such a request may come late, after an outage; its question goes on.
        """
        if not request.reply or request.fallback:
            return None
        with self._connections.lease() as connection:
            (ends,) = await connection.exchange([("HGET", self._keys("question", request.id), "ends")])
        if checked(ends, "looking for a question") is None:
            return None
        left = max(0, int(ends) - self._clock.now())
        return self._script(request, "", 0, left, [], [])

    async def _why_nobody(self, request: Request, parts: Sequence[Part]) -> str:
        """Why nobody can be asked; empty if somebody can."""
        if not request.reply:
            return "no agent waits for the answer"
        if request.latest - self._clock.now() < _LEAST_MS:
            return "the agent does not wait long enough"
        if self._waiting >= MOST_LISTED:
            return f"{self._waiting} questions wait already"
        needs = held_values.needs(parts)
        if not needs:
            return ""
        with self._connections.lease() as connection:
            (names,) = await connection.exchange([("HKEYS", self._keys("tokens"))])
        known = {name.decode("utf-8", "replace") for name in checked(names, "reading the tokens")}
        for need in needs:
            able = known if not need.members else known & set(need.members)
            if len(able) < need.persons:
                who = ", ".join(need.members) or "the persons with tokens"
                return f"{need.persons} of {who} have to approve, and {len(able)} have a token"
        return ""

    def _hold_call(
        self, request: Request, event: Event, verdict: Verdict, parts: Sequence[Part], call: str, owner: str
    ) -> ScriptCall:
        now = self._clock.now()
        ends = now + int(min(part.hold.timeout for part in parts if part.hold is not None) * 1000)
        due = min(ends, request.latest - margin_ms(request.latest - now))
        shown = changed_event(event, verdict.updated_input) if verdict.updated_input else event
        names = {name: readable(getattr(event, name)) for name in ("host", "session", "tool", "cwd", "call")}
        rules = [held_values.asking_rule(part) for part in parts]
        about: dict[str, Any] = {
            "question": request.id,
            "state": "waiting",
            "agent": event.source,
            "summary": readable(summary(shown)),
            "reason": readable(redact_text(verdict.reason)[:MOST_TEXT]),
            "rules": msgspec.to_builtins(rules),
            "asked": now,
            "due": due,
            "until": ends,
            "default": held_verdicts.default_of(parts),
        }
        needs = held_values.needs(parts)
        about["links"] = not needs
        asking = Approval(question=request.id, state="waiting", asked=now)
        announced = at_trace(
            Event(
                type=EventType.APPROVAL_REQUESTED.value,
                id=event_id(),
                source=OWN_SOURCE,
                time=now,
                host=names["host"],
                session=names["session"],
                tool=names["tool"],
                cwd=names["cwd"],
                data=about,
            ),
            trace_of(event),
        )
        fields: dict[str, str | bytes | int] = {
            "state": "waiting",
            "reply": request.reply,
            "asked": now,
            "due": due,
            "ends": ends,
            "default": about["default"],
            "source": event.source,
            "session": redact_text(names["session"])[:512],
            "host": names["host"][:255],
            "tool": names["tool"][:200],
            "call": names["call"][:512],
            "cwd": redact_text(names["cwd"])[:1_000],
            "summary": about["summary"],
            "input": whole_input(shown),
            "input_changed": "1" if shown.input != event.input else "0",
            "reason": about["reason"],
            "rules": msgspec.json.encode(rules),
            "needs": needs_of(needs),
            "named": "1" if needs else "0",
            "secret": "1" if has_secret(event) or has_secret(shown) else "0",
            "calls": calls_text(event, verdict.updated_input),
            "hash": call,
            "twin": twin_hash(shown, request.folder),
            "native": event.native,
            "about": json.dumps(about),
            "announced": announced.id,
            "verdict": encode_verdict(verdict),
            "provisional": self._replies.provisional(
                request, event, held_verdicts.provisional(verdict, asking, question_goes_on=due < ends)
            ),
            **trace_of(event).headers(),  # for the event that announces the answer
            **{f"request:{name}": value for name, value in held_values.request_fields(request).items()},
        }
        said: tuple[str, ...] = (
            "id",
            announced.id,
            "source",
            OWN_SOURCE,
            "event",
            announced.type,
            "host",
            announced.host,
        )
        until = datetime.fromtimestamp(due / 1000, UTC).isoformat(" ", "seconds")
        log.info("request %s of %s is held until %s: a person decides", request.id, request.source, until)
        flat = [item for pair in fields.items() for item in pair]
        event_fields: list[str | bytes | int] = [*said, "body", encode_event(announced), "parent", request.id]
        return self._script(request, owner, due, due - now, flat, event_fields)

    def _script(
        self,
        request: Request,
        owner: str,
        due: int,
        left: int,
        fields: Sequence[str | bytes | int],
        event_fields: Sequence[str | bytes | int],
    ) -> ScriptCall:
        keys = self._keys
        return ScriptCall(
            "hold",
            (
                request.entry.stream,
                keys("moved", request.entry.stream.rpartition(":")[2]),
                keys("question", request.id),
                keys("questions"),
                keys("approvals"),
                keys("join", request.id),
                request.reply,
                keys("verdict", request.id),
                keys("events"),
                keys("late"),
            ),
            (
                self._group,
                request.entry.id,
                owner,
                request.id,
                due,
                left + _NOTE_MS,
                KEPT_MS,
                self._clock.now(),
                DONE_MS,
                len(fields),
                *fields,
                *event_fields,
            ),
        )
