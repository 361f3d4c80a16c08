"""The asyncio protocol of one connection: writes commands, and wakes the caller once, when all replies have arrived.

redis-py opens the connection (addresses, TLS, AUTH, SELECT), and then this protocol replaces its stream. With the stream,
each reply woke the caller separately, through six awaits, which took a third of a request's time (measured on 8.1).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import hiredis

_MORE: Final = object()
"""The reader's result while a reply is not complete."""

_STALL_SECONDS: Final = 1.0
"""After its time, an exchange whose bytes still move goes on; it ends when none has moved for so long."""

_MOST_TIMES: Final = 4
"""So many times its time is the most that such an exchange takes, or a second more than that."""


class Wire(asyncio.Protocol):
    """One caller at a time writes commands and gets their replies, in order.

    `parse_error` turns an error reply into an exception: a ConnectionError if the connection cannot be used at all.
    """

    def __init__(self, transport: asyncio.WriteTransport, parse_error: Callable[[str], Exception]) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=parse_error, protocolError=ConnectionError, notEnoughData=_MORE)
        self._waiter: asyncio.Future[list[Any]] | None = None
        self._replies: list[Any] = []
        self._wanted = self._received = 0
        self._moved = (0, 0)
        """The bytes that had arrived, and those that were not sent yet, when the exchange was last given more time."""
        self._due = self._last = math.inf
        """When the exchange ends where no byte moves any more, and when it ends even so."""
        self._timer: asyncio.TimerHandle | None = None
        self._first: Callable[[Any], None] | None = None
        self._firsts = 1
        self.lost = False
        """Whether the connection is gone for good; nothing may be written to it."""
        transport.set_protocol(self)

    def exchange(
        self,
        commands: Sequence[tuple[Any, ...]],
        seconds: float | None,
        first: Callable[[Any], None] | None,
        firsts: int = 1,
    ) -> asyncio.Future[list[Any]]:
        """The replies to `commands`, within `seconds`; error replies are among them as exceptions.

        A large entry that a busy server or a slow line is still sending or taking gets more time, while its bytes move.
        `first` gets each of the first `firsts` replies as soon as it arrives, and may raise.

        After any exception, and after the caller was
        cancelled, the connection cannot be used again. The future raises TimeoutError and ConnectionError.
        """
        waiter: asyncio.Future[list[Any]] = self._loop.create_future()
        self._waiter, self._replies, self._wanted = waiter, [], len(commands)
        self._first, self._firsts = first, firsts
        # hiredis packs eight times as fast as redis-py's own loop (measured on hiredis 3.5).
        self._transport.write(b"".join(map(hiredis.pack_command, commands)))
        self._received, self._moved = 0, (0, 0)
        now = self._loop.time()
        self._due = math.inf if seconds is None else now + seconds
        self._last = math.inf if seconds is None else now + _MOST_TIMES * seconds + _STALL_SECONDS
        if self._timer is None or self._timer.when() > self._due:
            self._start_timer()
        return waiter

    def _start_timer(self) -> None:
        """Call `_check_due` at the exchange's deadline. Most exchanges end long before, so the next one uses the same timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._due == math.inf else self._loop.call_at(self._due, self._check_due)

    def _check_due(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        now = self._loop.time()
        if now >= self._due:
            moved = (self._received, self._transport.get_write_buffer_size())
            # At first it counts whether a part is still to go or to come (the last command may be one that blocks); then,
            # whether anything has moved since.
            is_part = moved[1] or self._reader.has_data() or 0 < len(self._replies) < self._wanted - 1
            goes_on = moved != self._moved if any(self._moved) else is_part
            if not goes_on or now >= self._last:
                self._fail(TimeoutError())
                return
            self._moved, self._due = moved, min(now + _STALL_SECONDS, self._last)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Called by the transport: passes the replies on when the last one is complete."""
        self._reader.feed(data)
        self._received += len(data)
        if self._waiter is None:  # no caller waits: the next caller would take these bytes for its reply
            self._transport.abort()
            return
        try:
            while len(self._replies) < self._wanted:
                reply = self._reader.gets()
                if reply is _MORE:
                    return
                if isinstance(reply, ConnectionError):  # LOADING, NOAUTH: the connection cannot be used
                    raise reply
                self._replies.append(reply)
                if self._first is not None and len(self._replies) <= self._firsts:
                    self._first(reply)
        except Exception as error:  # noqa: BLE001 - raised in `exchange`
            self._fail(error)
            return
        waiter, self._waiter = self._waiter, None
        if not waiter.done():
            waiter.set_result(self._replies)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport: fails the waiting caller."""
        self.lost = True
        if self._timer is not None:
            self._timer.cancel()
        self._fail(ConnectionError(str(exc) if exc else "the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
