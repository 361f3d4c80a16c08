"""Tells a supervisor that a worker of its no longer responds, without waking it while all workers respond (Linux).

Both have one timer of the kernel. The worker sets it anew once a second, at its pulse, when it is awake anyway. The supervisor
is woken only when the timer runs out: the worker was stopped, or its event loop hangs.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from workers.waiting.pulses import pulse

VARIABLE: Final = "FLEETHOOK_WATCHDOG"
"""The number of the timer's descriptor, in the environment of a worker."""

LATE_SECONDS: Final = 2.0
"""After how long without a pulse the timer runs out: a pulse comes each second."""

CHECK_SECONDS: Final = 1.0
"""How long after that the supervisor looks again. Where everything was stopped and resumed (a laptop, a container), the worker
has set its timer by then. Both together are shorter than hook commands count on an evaluator after its last heartbeat (6 s)."""

SECONDS: Final = LATE_SECONDS + CHECK_SECONDS
"""After how long a worker counts as one that does not respond."""

_MONOTONIC: Final = 1
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC if sys.platform == "linux" else 0

_taken: list[int] = []


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Moment), ("left", _Moment))


class Watchdog:
    """The supervisor's side of one worker's timer, on the running loop.

    `on_response` is called with False once a second while the worker does not respond, and with True when it does again.
    """

    def __init__(self, on_response: Callable[[bool], None]) -> None:
        self._timer = _make_timer()
        self._on_response, self._is_late = on_response, False
        self._check: asyncio.TimerHandle | None = None
        if self._timer >= 0:
            asyncio.get_running_loop().add_reader(self._timer, self._note_end)

    @property
    def inherited(self) -> dict[str, int]:
        """The descriptor that the worker inherits, by its variable; empty where the system has no such timers."""
        return {VARIABLE: self._timer} if self._timer >= 0 else {}

    def close(self) -> None:
        """Close the timer, because the worker has ended."""
        if self._check is not None:
            self._check.cancel()
        if self._timer >= 0:
            asyncio.get_running_loop().remove_reader(self._timer)
            os.close(self._timer)

    def _note_end(self) -> None:
        with suppress(BlockingIOError):  # the worker has set it meanwhile
            os.read(self._timer, 8)
        if self._check is None:
            self._look_later()

    def _look_later(self) -> None:
        self._check = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._look)

    def _look(self) -> None:
        self._check = None
        was_late, self._is_late = self._is_late, not _runs(self._timer)
        if self._is_late:
            self._look_later()
        if self._is_late or was_late:
            self._on_response(not self._is_late)


def take_timer() -> None:
    """Take the timer that our supervisor gave us out of the environment; it is remembered."""
    number = os.environ.pop(VARIABLE, "")
    if number.isdigit():
        with suppress(OSError):  # meant for another process: there is no such descriptor
            os.set_inheritable(int(number), False)  # commands that we run must not inherit it
            _taken[:] = [int(number)]


async def keep_responding() -> None:
    """Set our timer once a second until cancelled, if our supervisor gave us one."""
    while _taken:
        set_timer(_taken[0], LATE_SECONDS)
        await pulse()


def set_timer(timer: int, seconds: float) -> None:
    """Let a timer run out after `seconds`, and not before."""
    setting = _Setting(_Moment(0, 0), _Moment(int(seconds), int(seconds % 1 * 1e9)))
    ctypes.CDLL(None).timerfd_settime(timer, 0, ctypes.byref(setting), None)


def _make_timer() -> int:
    return int(ctypes.CDLL(None).timerfd_create(_MONOTONIC, _FLAGS)) if sys.platform == "linux" else -1


def _runs(timer: int) -> bool:
    """Whether the timer was set and has not run out."""
    setting = _Setting()
    ctypes.CDLL(None).timerfd_gettime(timer, ctypes.byref(setting))
    return bool(setting.left.seconds or setting.left.nanoseconds)
