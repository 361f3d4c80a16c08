"""How long each part of one HTTP request took: a clock that whoever works for the request finds in its context.

The resolver, the socket's maker and the TLS object each say when their part begins; a request over a kept connection
has none of these parts, and costs two looks at the time (aiohttp's own traces would cost eight awaits a request).
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Final

import msgspec


class Phases(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Milliseconds; what a request over a kept connection did not need is 0, and so is what it did not come to."""

    dns: float = 0.0
    """Looking the name up."""
    connect: float = 0.0
    """The TCP connection, over all addresses that were tried."""
    tls: float = 0.0
    """The handshake."""
    first_byte: float = 0.0
    """From sending the request until the head of the answer was there."""
    total: float = 0.0
    """All of it, with the reading of the body."""


NO_PHASES: Final = Phases()


class RequestTimer:
    """The clock of one request; a part that broke off has taken all the time that was left."""

    _looked = _found = _dialled = _shook = _ready = _head = 0.0
    """Of the class: the usual request, over a kept connection, sets one of them."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def looks_up(self) -> None:
        """The name is being looked up."""
        self._looked = time.perf_counter()

    def found(self) -> None:
        """The name's addresses are there and vetted."""
        self._found = time.perf_counter()

    def dials(self) -> None:
        """A socket is made: connecting begins, unless another address is tried already."""
        self._dialled = self._dialled or time.perf_counter()

    def shakes(self) -> None:
        """The TLS object is asked for a step of its handshake."""
        self._shook = self._shook or time.perf_counter()

    def connected(self) -> None:
        """There is a connection; a kept one was there from the beginning."""
        if self._dialled:
            self._ready = time.perf_counter()

    def answered(self) -> None:
        """The head of the answer is there."""
        self._head = time.perf_counter()

    def phases(self) -> Phases:
        """What each part took until now."""
        end = time.perf_counter()
        head = self._head or end
        if not (self._dialled or self._looked):
            return Phases(first_byte=_ms(head - self._began), total=_ms(end - self._began))
        dns = (self._found or end) - self._looked if self._looked else 0.0
        ready = self._ready or end
        connect = (self._shook or ready) - self._dialled if self._dialled else 0.0
        tls = ready - self._shook if self._shook else 0.0
        first = head - ready if self._ready else 0.0
        return Phases(
            dns=_ms(dns), connect=_ms(connect), tls=_ms(tls), first_byte=_ms(first), total=_ms(end - self._began)
        )


CLOCK: Final[ContextVar[RequestTimer | None]] = ContextVar("fleethook-request-clock", default=None)
"""The clock of the request that this context works for."""


def start_clock() -> RequestTimer:
    """A new clock, found by everything that this context starts from now on."""
    clock = RequestTimer()
    CLOCK.set(clock)
    return clock


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
