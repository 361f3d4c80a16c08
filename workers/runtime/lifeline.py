"""How a process learns that it has to end: by a signal, or by the death of its supervisor.

The supervisor holds the only write end of a pipe. Every child has the read end, whose number is in its environment. A program
that starts `fleethook up` for itself alone (the demo, the bench, tests) is its supervisor in the same way. However the
supervisor dies, the kernel closes the write end, and the children read the end of the file. (Linux alone would have a
parent-death signal; a pipe is the same everywhere, and a fork of the child can watch it too.)
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

VARIABLE: Final = "FLEETHOOK_LIFELINE"
"""The number of the read end, in the environment of a child but not of the child's own children."""

GRACE: Final = 15.0
"""Seconds between SIGTERM and the exit by force."""


@contextmanager
def lifeline() -> Iterator[int]:
    """The read end of a new pipe; its write end is closed when the block or this process ends.

    Give a child the number in VARIABLE, and the descriptor by `pass_fds`.
    """
    read_end, write_end = os.pipe()
    try:
        yield read_end
    finally:
        os.close(write_end)
        os.close(read_end)


def die_with_parent(grace: float = GRACE) -> bool:
    """End this process when its supervisor ends: SIGTERM to itself, and an exit by force after `grace` seconds.

    Call it first in a child, on any thread. Does nothing and returns False if no supervisor started us. A process forked
    from this one (RQ's work horse) ends in the same way.
    """
    return watch(take_lifeline(), grace)


def take_lifeline() -> int | None:
    """The read end that our supervisor gave us, taken out of the environment; None if no supervisor started us."""
    number = os.environ.pop(VARIABLE, "")
    if not number.isdigit():
        return None
    fd = int(number)
    try:
        os.set_inheritable(fd, False)  # commands that we run must not inherit it
    except OSError:  # set by hand, or meant for another process: there is no such descriptor
        return None
    return fd


def watch(fd: int | None, grace: float = GRACE) -> bool:
    """End this process when its supervisor ends, as `die_with_parent` does; `fd` is what `take_lifeline` returned."""
    if fd is None:
        return False
    _watch(fd, grace)
    os.register_at_fork(after_in_child=lambda: _watch(fd, grace))
    return True


def watch_on_loop(fd: int | None, grace: float = GRACE) -> None:
    """End this process when its supervisor ends, without a thread: the running loop watches."""
    if fd is None:
        return
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(fd)
        os.kill(os.getpid(), signal.SIGTERM)
        loop.call_later(grace, os._exit, 1)

    loop.add_reader(fd, end)


def stop_event() -> asyncio.Event:
    """An event of the running loop that SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the terminal is gone) set; main thread only.

    The same signal a second time ends the process at once: a person who presses Ctrl-C twice does not want to wait. SIGINT
    and SIGHUP stay ignored if they were ignored when we were started.
    """
    event, seen = asyncio.Event(), set[int]()

    def stop(number: int) -> None:
        if number in seen:
            raise SystemExit(128 + number)
        seen.add(number)
        event.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # `nohup` ignores SIGHUP, and a shell's `&` ignores SIGINT, on purpose.
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return event


def _watch(fd: int, grace: float) -> None:
    threading.Thread(target=_wait, args=(fd, grace), name="lifeline", daemon=True).start()


def _wait(fd: int, grace: float) -> None:
    while os.read(fd, 1):  # nothing is ever written; the end of the file is the message
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace)
    os._exit(1)
