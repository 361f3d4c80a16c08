"""Answers of calls that count for limits: the script that answers may refuse, and then the rules at their limits decide."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError
from bus.events import Event
from bus.matching.limits import read_limit
from bus.memory.charges import counted_session, not_looked_up, read_refusal, refused, with_spent
from bus.memory.spending import reached, spent_key
from bus.requests import Request
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall, checked, flat, is_momentary
from workers.memory.families import root_session
from workers.runtime.clock import ServerClock
from workers.runtime.request_replies import Replies

log = logging.getLogger("fleethook.memory")

_RIGHTS: Final = (
    " (the server's user of the workers is of an older version; `fleethook acl` prints the rights of this one)"
)

MakeAnswer = Callable[[Verdict], Awaitable[list[ScriptCall]]]
"""Makes the calls that answer a request with a verdict, or hold it for a person; the answer is the first."""

AnswerLater = Callable[[Request, Event, Callable[[], Awaitable[list[ScriptCall]]]], None]
"""Has an answer made, and sent, once Redis is back."""


class _Unsettled(NamedTuple):
    """An answer that is on its way to the script, which may refuse it."""

    request: Request
    event: Event
    verdict: Verdict
    make: MakeAnswer
    after: Sequence[ScriptCall]
    """The calls that are sent once the script has accepted the answer."""


class LimitedAnswers:
    """Answers that count for limits. They are sent like all others, and `settle` reads what became of them."""

    def __init__(
        self, connections: Connections, keys: Keys, clock: ServerClock, replies: Replies, answer_later: AnswerLater
    ) -> None:
        """`answer_later` gets the answers that cannot be made again while Redis is away, of requests whose hooks have run."""
        self._connections, self._keys, self._clock, self._replies = connections, keys, clock, replies
        self._answer_later = answer_later
        self._unsettled: dict[tuple[str, str], _Unsettled] = {}
        """By the stream and the id of the request's entry."""

    def awaits(self, calls: Sequence[ScriptCall]) -> bool:
        """Whether a limit may refuse one of these answers: then nothing that blocks may be sent with them."""
        return bool(self._unsettled) and any(_entry(call) in self._unsettled for call in calls)

    async def answer(self, request: Request, event: Event, verdict: Verdict, make: MakeAnswer) -> list[ScriptCall]:
        """The calls that answer a request; `settle` has to get what the script says to the first one. Raises Unreachable."""
        if verdict.charges:
            now = self._clock.now()
            try:
                verdict = await with_spent_now(self._connections, self._keys, event, verdict, request.user, now)
            except FleethookError as error:
                if is_momentary(error):
                    raise
                verdict = not_looked_up(verdict, _refused_text(str(error)))
        return await self._made(request, event, verdict, make)

    async def _made(self, request: Request, event: Event, verdict: Verdict, make: MakeAnswer) -> list[ScriptCall]:
        calls = await make(verdict)
        if not verdict.charges or not calls or calls[0].name != "answer":
            return calls
        first, *after = calls
        self._unsettled[_entry(first)] = _Unsettled(request, event, verdict, make, after)
        return [first]

    async def settle(self, calls: Sequence[ScriptCall], replies: Sequence[Any]) -> list[ScriptCall]:
        """The calls that are still to be sent after these got these replies: the answers that a limit refused, made again."""
        more: list[ScriptCall] = []
        if self._unsettled:
            for call, reply in zip(calls, replies, strict=False):
                if call.name == "answer" and (found := self._unsettled.pop(_entry(call), None)) is not None:
                    more += await self._settled(found, reply, is_claimed=bool(call.args[8]))
        return more

    async def _settled(self, answer: _Unsettled, reply: object, *, is_claimed: bool) -> list[ScriptCall]:
        request, event, verdict, make, after = answer
        refusal = read_refusal(reply)
        if refusal is None:
            if reply != 1:  # an error, or another one has answered: its entry is looked for among the pending ones
                return []
            self._replies.observe(event, verdict)
            return list(after)
        if isinstance(refusal, str):
            verdict = not_looked_up(verdict, _refused_text(refusal))
        else:
            verdict = refused(verdict, refusal, self._clock.now())
        try:
            return await self._made(request, event, verdict, make)
        except FleethookError as error:
            log.error("request %s: %s; it is resumed later", request.id, error)
            if is_claimed:
                self._answer_later(request, event, partial(self._made, request, event, verdict, make))
            return []  # the entry of another one stays pending, and its rules are evaluated again
        except Exception as error:  # noqa: BLE001 - logged in Replies.broken
            return self._replies.broken(request, event, error)


async def with_spent_now(
    connections: Connections, keys: Keys, event: Event, verdict: Verdict, user: str, now: int
) -> Verdict:
    """The verdict after its limits of tokens and money; raises Unreachable."""
    limits = [read_limit(charge.limit) for charge in verdict.charges]
    if all(limit.unit == "calls" for limit in limits):
        return verdict
    names = [keys.prefix + spent_key(limit, event, user) for limit in limits]
    with connections.lease() as connection:
        root = await root_session(connection, keys, counted_session(event))
        names = [f"{keys('spent')}:session:{root}" if ":session:" in name else name for name in names]
        replies = await connection.exchange([("HGETALL", name) for name in names])
    rows = [flat(checked(reply, "reading what was used")) for reply in replies]
    amounts = [{name.decode(): int(value) for name, value in row.items()} for row in rows]
    states = [
        None if limit.unit == "calls" else reached(limit, used, now)
        for limit, used in zip(limits, amounts, strict=True)
    ]
    return with_spent(verdict, states, now)


def _refused_text(error: str) -> str:
    """Why the limits of an answer cannot be looked up; logs it."""
    why = f"{error}{_RIGHTS if 'permission' in error.lower() else ''}"
    log.error("the limits of an answer cannot be looked up: %s", why)
    return why


def _entry(call: ScriptCall) -> tuple[str, str]:
    """The stream and the id of the entry that a call answers."""
    return str(call.keys[0]), str(call.args[1])
