"""Measures how long each part of one HTTP request takes.

A timer is found in the context of its request: the resolver, the socket factory, the TLS object and the connection each
note on it when their part begins or ends. A request over a kept connection reads the clock only twice; aiohttp's own traces
would cost it eight awaits.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Final

import msgspec


class Phases(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Milliseconds of each part; 0 for a part that did not happen, such as `tls` over a kept connection."""

    dns: float = 0.0
    """Looking the name up."""
    connect: float = 0.0
    """The TCP connection, over all addresses that were tried."""
    tls: float = 0.0
    """The TLS handshake."""
    first_byte: float = 0.0
    """From sending the request to the response's head."""
    total: float = 0.0
    """The whole request, with reading the body."""


NO_PHASES: Final = Phases()


class RequestTimer:
    """Notes when each part of one request begins; a part that never ended counts until `phases` is called."""

    # Class attributes, since the usual request, over a kept connection, sets one of them.
    _lookup_start = _lookup_end = _connect_start = _tls_start = _connection_ready = _response_start = 0.0

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def lookup_started(self) -> None:
        """The resolver begins to look the name up."""
        self._lookup_start = time.perf_counter()

    def lookup_ended(self) -> None:
        """The name's addresses are known and vetted."""
        self._lookup_end = time.perf_counter()

    def connect_started(self) -> None:
        """A socket is made; only the first one counts, since several addresses may be tried."""
        self._connect_start = self._connect_start or time.perf_counter()

    def tls_started(self) -> None:
        """A step of the TLS handshake is taken; only the first one counts."""
        self._tls_start = self._tls_start or time.perf_counter()

    def connection_ready(self) -> None:
        """The request has its connection; the time counts only if the connection was made for this request."""
        if self._connect_start:
            self._connection_ready = time.perf_counter()

    def response_started(self) -> None:
        """The response's head has arrived."""
        self._response_start = time.perf_counter()

    def phases(self) -> Phases:
        """The milliseconds of each part until now."""
        end = time.perf_counter()
        response = self._response_start or end
        if not (self._connect_start or self._lookup_start):
            return Phases(first_byte=_ms(response - self._start), total=_ms(end - self._start))
        dns = (self._lookup_end or end) - self._lookup_start if self._lookup_start else 0.0
        ready = self._connection_ready or end
        connect = (self._tls_start or ready) - self._connect_start if self._connect_start else 0.0
        tls = ready - self._tls_start if self._tls_start else 0.0
        first_byte = response - ready if self._connection_ready else 0.0
        return Phases(
            dns=_ms(dns),
            connect=_ms(connect),
            tls=_ms(tls),
            first_byte=_ms(first_byte),
            total=_ms(end - self._start),
        )


TIMER: Final[ContextVar[RequestTimer | None]] = ContextVar("fleethook-request-timer", default=None)
"""The timer of the request that this context works for."""


def start_timer() -> RequestTimer:
    """Start a timer; everything that this context starts from now on finds it in TIMER."""
    timer = RequestTimer()
    TIMER.set(timer)
    return timer


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
