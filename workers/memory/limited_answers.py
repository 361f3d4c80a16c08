"""Answers of calls that count for limits: the script that answers may refuse, and then the rules at their limits decide."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bus.errors import Unreachable
from bus.events import Event
from bus.matching.limits import read_limit
from bus.memory.charges import counted_session, not_looked_up, read_refusal, refused, with_spent
from bus.memory.spending import reached, spent_key
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall, call_all, checked, flat
from workers.runtime.clock import ServerClock
from workers.runtime.request_replies import Replies

log = logging.getLogger("fleethook.memory")

_RIGHTS: Final = (
    " (the server's user of the workers is of an older version; `fleethook acl` prints the rights of this one)"
)

MakeAnswer = Callable[[Verdict], Awaitable[list[ScriptCall]]]
"""Makes the calls that answer a request with a verdict, or hold it for a person; the answer is the first."""


class LimitedAnswers:
    """Sends the answers that count for limits, since only their result says whether the limit allowed them."""

    def __init__(self, connections: Connections, keys: Keys, clock: ServerClock, replies: Replies) -> None:
        self._connections, self._keys, self._clock, self._replies = connections, keys, clock, replies

    async def send(self, make: MakeAnswer, event: Event, verdict: Verdict, user: str) -> list[ScriptCall]:
        """The calls that are still to be sent for an answer: all of them without limits, or while Redis is away."""
        if verdict.charges:
            now = self._clock.now()
            verdict = await with_spent_now(self._connections, self._keys, event, verdict, user, now)
        answers = await make(verdict)
        while verdict.charges and answers and answers[0].name == "answer":
            try:
                (reply,) = await call_all(self._connections, answers[:1])
            except Unreachable:
                return answers
            refusal = read_refusal(reply)
            if refusal is None:
                if reply != 1:
                    return answers  # the outbox sends it again, and looks for what is still pending
                self._replies.observe(event, verdict)
                return answers[1:]
            if isinstance(refusal, str):
                why = f"{refusal}{_RIGHTS if 'permission' in refusal.lower() else ''}"
                log.error("the limits of an answer cannot be looked up: %s", why)
                verdict = not_looked_up(verdict, why)
            else:
                verdict = refused(verdict, refusal, self._clock.now())
            answers = await make(verdict)
        return answers


async def with_spent_now(
    connections: Connections, keys: Keys, event: Event, verdict: Verdict, user: str, now: int
) -> Verdict:
    """The verdict after its limits of tokens and money; raises Unreachable."""
    limits = [read_limit(charge.limit) for charge in verdict.charges]
    if all(limit.unit == "calls" for limit in limits):
        return verdict
    names = [keys.prefix + spent_key(limit, event, user) for limit in limits]
    with connections.lease() as connection:
        families = await connection.exchange([("GET", keys("family", counted_session(event)))])
        root = checked(families[0], "looking for a session's parent")
        if root is not None:
            names = [f"{keys('spent')}:session:{root.decode()}" if ":session:" in name else name for name in names]
        replies = await connection.exchange([("HGETALL", name) for name in names])
    rows = [flat(checked(reply, "reading what was used")) for reply in replies]
    amounts = [{name.decode(): int(value) for name, value in row.items()} for row in rows]
    states = [
        None if limit.unit == "calls" else reached(limit, used, now)
        for limit, used in zip(limits, amounts, strict=True)
    ]
    return with_spent(verdict, states, now)
