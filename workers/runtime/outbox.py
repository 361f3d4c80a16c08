"""The answers of one consumer, made and on their way to Redis: they wait while it is away, since hooks must not run twice."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from bus.errors import FleethookError, Unreachable
from bus.events import Event
from bus.requests import Request
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.streams import Backoff, ScriptCall, call_all, is_momentary

log = logging.getLogger("fleethook.evaluator")


Settle = Callable[[Sequence[ScriptCall], Sequence[Any]], Awaitable[list[ScriptCall]]]
"""Gets calls and the replies to them; returns the calls that are to be sent next."""


_MOST_KEPT: Final = 256
"""How many answers are kept. Those of requests that another evaluator has taken over stay until newer ones take their place."""

Make = Callable[[], Awaitable[list[ScriptCall]]]
"""Makes the calls that answer one request."""

MakeAnswer = Callable[[Request], Awaitable[list[ScriptCall]]]
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


class _Kept(NamedTuple):
    """An answer that is not stored yet: its request, and what makes it."""

    request: Request
    make: MakeAnswer


class Broken(Protocol):
    """Gives the calls that answer a request after an unexpected error of the evaluator."""

    def __call__(self, request: Request, event: Event, error: Exception) -> list[ScriptCall]: ...


class AfterHooks:
    """Makes the answers of one evaluator's requests whose hooks have run.

    A request may come back under another entry while its hooks run, or after them: this process was stopped, another evaluator
    took the entry over, had no free slot, and put it aside. The hooks do not run again: the answer is that of the new entry.
    """

    def __init__(
        self,
        keys: Keys,
        start: Start,
        send: Callable[[str, Sequence[ScriptCall]], Awaitable[object]],
        broken: Broken,
    ) -> None:
        """`send` gets a request's id and the calls that answer it; while Redis is away it keeps them."""
        self._keys, self._start, self._send, self._broken = keys, start, send, broken
        self._running: dict[str, Request] = {}
        """The requests whose hooks run, each as it was read last, by the key of its verdict."""
        self._kept: dict[str, _Kept] = {}
        """By the key of the request's verdict, until the answer is stored."""

    @contextmanager
    def running(self, request: Request) -> Iterator[None]:
        """While the hooks of a request run."""
        name = self._name(request)
        self._running[name] = request
        try:
            yield
        finally:
            self._running.pop(name, None)

    async def answer(self, request: Request, make: MakeAnswer) -> list[ScriptCall]:
        """The calls that `make` gives; while Redis is away it is asked again and again."""
        name = self._name(request)
        request = _moved(request, self._running.pop(name, request))
        self._kept[name] = _Kept(request, make)
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        calls = await _made(request, partial(make, request))
        if not calls:  # a person is asked, and the entry has left the stream
            self._kept.pop(name, None)
        return calls

    def resume(self, request: Request, event: Event) -> bool:
        """Whether the request's hooks run here, or have run and its answer was refused; then it is made and sent again.

        An entry that was not put aside is another call with the same id, which joins the first one by its claim.
        """
        if not self._running and not self._kept:
            return False
        name, was_put_aside = self._name(request), request.entry.stream == self._keys("waiting")
        running, kept = self._running.get(name), self._kept.get(name)
        if running is not None and was_put_aside and running.reply == request.reply:
            self._running[name] = request
            return True
        if kept is None or kept.request.reply != request.reply:
            return False
        if not was_put_aside and request.entry[:2] != kept.request.entry[:2]:
            return False
        self.answer_later(request, event, partial(kept.make, _moved(kept.request, request)))
        return True

    def answer_later(self, request: Request, event: Event, make: Make) -> None:
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
                    self._kept.pop(str(call.keys[2]), None)

    def _name(self, request: Request) -> str:
        return self._keys("verdict", request.id)


def _moved(request: Request, newest: Request) -> Request:
    """The request as it was evaluated, at the place where its entry is now."""
    return msgspec.structs.replace(request, entry=newest.entry)


async def _made(request: Request, make: Make) -> list[ScriptCall]:
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
