"""Answers of calls that count for limits: the script that answers may refuse, and then the rules at their limits decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bus.errors import Unreachable
from bus.events import Event
from bus.memory.charges import read_refusal, refused
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.streams import ScriptCall, call_all
from workers.runtime.clock import ServerClock
from workers.runtime.request_replies import Replies

MakeAnswer = Callable[[Verdict], Awaitable[list[ScriptCall]]]
"""Makes the calls that answer a request with a verdict, or hold it for a person; the answer is the first."""


class LimitedAnswers:
    """Sends the answers that count for limits, since only their result says whether the limit allowed them."""

    def __init__(self, connections: Connections, clock: ServerClock, replies: Replies) -> None:
        self._connections, self._clock, self._replies = connections, clock, replies

    async def send(self, make: MakeAnswer, event: Event, verdict: Verdict) -> list[ScriptCall]:
        """The calls that are still to be sent for an answer: all of them without limits, or while Redis is away."""
        answers = await make(verdict)
        while verdict.charges and answers and answers[0].name == "answer":
            try:
                (reply,) = await call_all(self._connections, answers[:1])
            except Unreachable:
                return answers
            reached = read_refusal(reply)
            if reached is None:
                if reply != 1:
                    return answers  # the outbox sends it again, and looks for what is still pending
                self._replies.observe(event, verdict)
                return answers[1:]
            verdict = refused(verdict, reached, self._clock.now())
            answers = await make(verdict)
        return answers
