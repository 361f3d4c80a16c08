"""Finds the processes that descend from a command that has ended, and kills those that left its process group.

A process that left the group (`setsid`, a double fork) is handed to this process by the kernel when its parent dies,
since this process declares itself a *subreaper*. It is recognised by two inherited marks: FLEETHOOK_RUN in its
environment, and an unused resource limit (POSIX message queues) lowered by the run's number. The limit is needed because
`env -i` removes the first mark, and because a zombie has no environment. A child without a mark does not descend from a
hook, and is neither killed nor reaped.

Only the process group is killed on macOS, which has no subreaper, and on a Linux whose kernel lists no children in /proc.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

RUN: Final = "FLEETHOOK_RUN"
"""The environment variable that marks every descendant of a run."""

_NUMBERS = 4096  # how many runs at a time have different numbers
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, Linux 3.4


@dataclass(frozen=True, slots=True)
class Mark:
    """The marks of one run's descendants: the value of FLEETHOOK_RUN, and a number (0: none was free)."""

    value: str
    number: int


class _Marks:
    """The numbers in use, and this process's own limit."""

    def __init__(self) -> None:
        self.process = 0
        self.base = self.soft = self.hard = 0
        self.active: set[int] = set()
        self.last = 0
        self.lock = threading.Lock()

    def adopt(self) -> None:
        """Set up once in each process, also in a fork: become the subreaper, note the limit."""
        self.process = os.getpid()
        self.active.clear()
        self.base = 0
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
            self.soft, self.hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
            # Without a limit (-1), a very high one has the same effect; if it is too small, only the other mark is used.
            base = 1 << 40 if self.soft == resource.RLIM_INFINITY else self.soft
            self.base = base if base >= _NUMBERS else 0

    def take(self) -> Mark:
        """A mark that no active run has."""
        number = 0
        if self.base and len(self.active) < _NUMBERS - 1:
            number = self.last
            while not number or number in self.active:
                number = (number + 1) % _NUMBERS
            self.active.add(number)
            self.last = (number + 1) % _NUMBERS
        return Mark(secrets.token_hex(8), number)

    def number_of(self, pid: int) -> int:
        """The number that a process inherited, 0 for none."""
        if not self.base or sys.platform != "linux":
            return 0
        number = self.base - resource.prlimit(pid, resource.RLIMIT_MSGQUEUE)[0]
        return number if 0 < number < _NUMBERS else 0


_marks = _Marks()


@contextlib.contextmanager
def marking() -> Iterator[Mark]:
    """Mark the processes that are spawned inside. The mark is in use until `free`, or until the spawn raises."""
    with _marks.lock:
        if _marks.process != os.getpid():
            _marks.adopt()
        mark = _marks.take()
        try:
            if mark.number and sys.platform == "linux":
                resource.setrlimit(resource.RLIMIT_MSGQUEUE, (_marks.base - mark.number, _marks.hard))
            try:
                yield mark
            finally:
                if mark.number and sys.platform == "linux":
                    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (_marks.soft, _marks.hard))
        except BaseException:  # after any error, nothing was spawned
            free(mark)
            raise


def free(mark: Mark) -> None:
    """Release a mark, once no process of its run is left."""
    _marks.active.discard(mark.number)


def sweep(mark: Mark, known: Collection[int], killed: set[int]) -> bool:
    """Kill and reap the processes that left the group of the run with this mark; True if none was found.

    False after a kill or a reaping: the children of the dead process may have just become ours. `known` has the commands
    that their own runs reap; the pids of killed processes are added to `killed`.
    """
    clean = True
    for pid in _children():
        if pid in known or not (pid in killed or _owns(mark, pid)):
            continue
        with contextlib.suppress(ProcessLookupError, ChildProcessError, PermissionError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            clean = False
    return clean


def working(group: int) -> bool:
    """Whether an orphan of this process group is running, or waits only for the processor or a disk."""
    for pid in _children():
        with contextlib.suppress(OSError):  # it has just been reaped
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
            if state in {b"R", b"D"} and int(its_group) == group:
                return True
    return False


def _owns(mark: Mark, pid: int) -> bool:
    """Whether this child of ours descends from the run with this mark, or from one that has ended."""
    with contextlib.suppress(OSError, ValueError):
        if os.getsid(pid) == os.getsid(0):
            return False  # a run has a session of its own, which no other process can join
        number = _marks.number_of(pid)
        if number:
            return number == mark.number or number not in _marks.active
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{RUN}={mark.value}".encode() in file.read().split(b"\0")
    return False


def _children() -> list[int]:
    """The children of this process, including orphans of a run: the kernel gives those to the main thread."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []
