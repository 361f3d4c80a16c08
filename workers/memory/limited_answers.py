"""Answers of calls that count for limits: the script that answers may refuse, and then the rules at their limits decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bus.errors import Unreachable
from bus.events import Event
from bus.memory.charges import read_refusal, refused
from bus.requests import Request
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.streams import ScriptCall, call_all
from workers.runtime.clock import ServerClock
from workers.runtime.request_replies import Replies

Conclude = Callable[[Request, Event, Verdict, str], Awaitable[list[ScriptCall]]]
"""Makes the calls that answer a request with a verdict, or hold it for a person."""


class LimitedAnswers:
    """Sends the answers that count for limits, since only their result says whether they stand."""

    def __init__(self, connections: Connections, clock: ServerClock, replies: Replies, conclude: Conclude) -> None:
        self._connections, self._clock, self._replies, self._conclude = connections, clock, replies, conclude

    async def conclude(self, request: Request, event: Event, verdict: Verdict, owner: str = "") -> list[ScriptCall]:
        """The calls that are still to be sent for this answer. While Redis is away these are all: its hooks have run."""
        answers = await self._conclude(request, event, verdict, owner)
        while verdict.charges and answers and answers[0].name == "answer":
            try:
                (reply,) = await call_all(self._connections, answers[:1])
            except Unreachable:
                return answers
            reached = read_refusal(reply)
            if reached is None:
                if reply == 1:
                    self._replies.observe(event, verdict)
                    return answers[1:]
                return answers  # the outbox sends it again, and looks for what is still pending
            verdict = refused(verdict, reached, self._clock.now())
            answers = await self._conclude(request, event, verdict, owner)
        return answers
