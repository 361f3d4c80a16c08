"""The answers of one consumer, made and on their way to Redis: they wait while it is away, since hooks must not run twice."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from bus.errors import FleethookError, Unreachable
from bus.events import Event
from bus.requests import Request
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.streams import Backoff, ScriptCall, call_all, is_momentary

log = logging.getLogger("fleethook.evaluator")


Settle = Callable[[Sequence[ScriptCall], Sequence[Any]], Awaitable[list[ScriptCall]]]
"""Gets calls and the replies to them; returns the calls that are to be sent next."""


_MOST_KEPT: Final = 256
"""How many answers are kept. Those of requests that another evaluator has taken over stay until newer ones take their place."""

MakeAnswer = Callable[[], Awaitable[list[ScriptCall]]]
"""Makes the calls that answer a request with the verdict of its hooks, or that hold it for a person."""

Start = Callable[[Coroutine[Any, Any, None], str, str], None]
"""Starts a task that works on an entry, named by its stream and id."""


class Outbox:
    """The answers that are not sent yet. The reading loop takes them along with its next read."""

    def __init__(self, connections: Connections, consumer: Consumer, settle: Settle) -> None:
        self._connections, self._consumer, self._settle = connections, consumer, settle
        self._calls: list[ScriptCall] = []

    def add(self, calls: Sequence[ScriptCall]) -> None:
        """Keep calls until the next read takes them along."""
        self._calls += calls

    def take(self) -> list[ScriptCall]:
        """Every call that waits; give it back with `put_back` if it could not be sent."""
        calls, self._calls = self._calls, []
        return calls

    def put_back(self, calls: Sequence[ScriptCall]) -> None:
        """Keep calls that could not be sent, before those that came later.

        Safe to send again: an answer that arrived acknowledged its entry, so Redis ignores the second one.
        """
        self._calls = [*calls, *self._calls]

    @property
    def waits(self) -> bool:
        """Whether a call waits."""
        return bool(self._calls)

    def entries(self) -> set[tuple[str, str]]:
        """The entries whose answers are not sent yet, by stream and id."""
        return {(str(answer.keys[0]), str(answer.args[1])) for answer in self._calls}

    async def flush(self) -> None:
        """Send what waits; raises Unreachable, and keeps it."""
        calls = self.take()
        try:
            await self.send(calls)
        except Unreachable:
            self.put_back(calls)
            raise

    async def send(self, calls: Sequence[ScriptCall]) -> bool:
        """Send calls; returns whether each of them counted. If one did not, the pending entries are rechecked.

        An answer does not count if Redis refused it, or if another consumer has the request. One that a limit refused is
        made again and sent. Raises Unreachable.
        """
        if not calls:
            return True
        replies = await call_all(self._connections, calls)
        more = await self._settle(calls, replies)
        try:
            counted = await self.send(more)
        except Unreachable:
            self.add(more)
            counted = False
        if any(isinstance(reply, Exception) or reply == 0 for reply in replies):
            self._consumer.must_recheck_pending = True
            return False
        return counted

    async def send_or_keep(self, name: str, calls: Sequence[ScriptCall]) -> bool:
        """Send the calls that answer request `name`; while Redis is away they wait for the next read."""
        try:
            return await self.send(calls)
        except Unreachable as error:
            self.add(calls)  # the hooks have run and must not run again
            log.error("the answer to request %s: %s; it is sent again", name, error)
            return False


class Broken(Protocol):
    """Gives the calls that answer a request after an unexpected error of the evaluator."""

    def __call__(self, request: Request, event: Event, error: Exception) -> list[ScriptCall]: ...


class AfterHooks:
    """Makes the answers of one evaluator's requests whose hooks have run."""

    def __init__(
        self, start: Start, send: Callable[[str, Sequence[ScriptCall]], Awaitable[object]], broken: Broken
    ) -> None:
        """`send` gets a request's id and the calls that answer it; while Redis is away it keeps them."""
        self._start, self._send, self._broken = start, send, broken
        self._kept: dict[tuple[str, str], MakeAnswer] = {}
        """By the stream and the id of the request's entry, until the answer is stored."""

    async def answer(self, request: Request, make: MakeAnswer) -> list[ScriptCall]:
        """The calls that `make` gives; while Redis is away it is asked again and again."""
        entry = (request.entry.stream, request.entry.id)
        self._kept[entry] = make
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        calls = await _made(request, make)
        if not calls:  # a person is asked, and the entry has left the stream
            self._kept.pop(entry, None)
        return calls

    def resume(self, request: Request, event: Event) -> bool:
        """Whether the request's hooks have run here and its answer was refused; then it is made and sent again."""
        make = self._kept.get((request.entry.stream, request.entry.id))
        if make is not None:
            self.answer_later(request, event, make)
        return make is not None

    def answer_later(self, request: Request, event: Event, make: MakeAnswer) -> None:
        """Start a task that makes and sends an answer, which waits while Redis is away."""

        async def answer() -> None:
            try:
                calls = await _made(request, make)
            except Exception as error:  # noqa: BLE001 - `broken` logs it
                calls = self._broken(request, event, error)
            await self._send(request.id, calls)

        self._start(answer(), request.entry.stream, request.entry.id)

    def note(self, calls: Sequence[ScriptCall], replies: Sequence[Any]) -> None:
        """Forget the answers that these calls have stored."""
        if self._kept:
            for call, reply in zip(calls, replies, strict=False):
                if call.name == "answer" and reply == 1:
                    self._kept.pop((str(call.keys[0]), str(call.args[1])), None)


async def _made(request: Request, make: MakeAnswer) -> list[ScriptCall]:
    """The calls that `make` gives, which is asked again while Redis is away; raises what does not pass by waiting."""
    backoff = Backoff(f"the answer to request {request.id}")
    while True:
        try:
            calls = await make()
        except FleethookError as error:
            if not is_momentary(error):
                raise
            await backoff.wait(error)
        else:
            backoff.back()
            return calls
