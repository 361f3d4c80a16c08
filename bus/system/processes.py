"""Runs a hook's command: writes its stdin, limits its output and its time, and ends all processes that it started.

A spawn through `subprocess` takes about a millisecond, and asyncio's subprocesses a quarter more. So the child is started
by `subprocess` on the loop's thread (vfork, no `preexec_fn`), and the loop watches its pipes, its pidfd and one timer.

When the command has ended, the members of its process group are killed before it is reaped, while its pid
cannot mean another process. `descendants.py` ends the processes that left the group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bus.system import descendants
from bus.system.pidfd import open_pidfd

CAP: Final = 64 * 1024
"""The most bytes of stdout that are kept, and also of stderr; the rest is read and dropped."""

LINGER: Final = 0.01
"""Seconds to wait for the end of the output when the command has ended but another process still has its pipes open.

While a process that it left behind is working, the wait is repeated, for a second at most: on a busy machine the last output
comes late.
"""

FLOOD: Final = 1024 * 1024
"""Dropped bytes after which a stream is read once a millisecond: about 64 MB/s, and the loop stays free for others."""

_CHUNK = 64 * 1024
_WRITES = (
    16  # of a pipe's size, in one turn of the loop: a command that reads fast would keep it busy for a large event
)
_GIVE_UP = 1.0  # seconds to wait for killed processes; one in the kernel's uninterruptible sleep may take longer


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a run: `exit_code`, `signal` or `spawn_error` is set; `timed_out` may be set with the first two.

    `stdout_cut` and `stderr_cut` count the dropped bytes; `survivors_killed` the descendants that the command left behind
    (0 if the system cannot count them).
    """

    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_cut: int = 0
    stderr_cut: int = 0
    timed_out: bool = False
    spawn_error: str = ""
    ms: float = 0.0
    survivors_killed: int = 0
    one_stream: bool = False
    """`stdout` holds both, in the order written."""
    variables_cut: tuple[str, ...] = ()
    """The environment variables that were too large for the system and were cut, of a command without a stdin."""


class Detach:
    """How a command goes to the background: `reads` gets its first line, and sets `freed` if the line says so."""

    def __init__(self, reads: Callable[[bytes], float | None]) -> None:
        self.reads = reads
        """The seconds for which it may go on, from now; None if the line does not say so."""
        self.freed = asyncio.Event()


async def run_process(
    command: str | Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    cwd: str,
    seconds: float,
    grace: float = 2.0,
    cap: int = CAP,
    one_stream: bool = False,
    detach: Detach | None = None,
) -> Finished:
    """Run `command` in its own session; returns when the command and all processes that it started have ended.

    A string goes unchanged to `/bin/sh -c`, a sequence is executed directly. After `seconds` the group gets SIGTERM,
    after `grace` more SIGKILL. With `one_stream`, stdout and stderr are joined in the order written. Never raises for a
    failure of the command; a cancelled task first kills and reaps it.
    """
    started = time.perf_counter()
    run = _Run(asyncio.get_running_loop(), cap)
    try:
        run.spawn(
            ["/bin/sh", "-c", command] if isinstance(command, str) else list(command),
            stdin,
            env,
            cwd,
            one_stream=one_stream,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # ValueError: a NUL or a lone surrogate in the command, a directory or a variable.
        run.close()
        return Finished(spawn_error=_why(error, cwd), ms=(time.perf_counter() - started) * 1e3)
    run.detach, run.grace = detach, grace
    run.arm(seconds, grace)
    try:
        await run.ended
    finally:
        run.kill(signal.SIGKILL)
        run.close()
        if not run.reap():
            cleanup = asyncio.ensure_future(run.reap_all())
            _cleanups.add(cleanup)
            cleanup.add_done_callback(_cleanups.discard)
            await asyncio.shield(cleanup)
    done = run.finished((time.perf_counter() - started) * 1e3)
    return replace(done, one_stream=True) if one_stream else done


class _Run:
    """One child, and the files of it that the loop watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cap: int) -> None:
        self.loop, self.cap = loop, cap
        self.ended: asyncio.Future[None] = loop.create_future()
        self.pid = 0
        self.mark = descendants.Mark("", 0)
        self.status: int | None = None
        self.gone = False  # the command has exited (and is perhaps a zombie still)
        self.timed_out = False
        self.killed: set[int] = set()
        self.outputs: dict[int, _Output] = {}
        self.out, self.err = _Output(), _Output()
        self.fds: set[int] = set()  # our ends of the pipes, which the loop watches
        self.feed = memoryview(b"")
        self.timers: list[asyncio.TimerHandle] = []
        self.popen: subprocess.Popen[bytes] | None = None
        self.detach: Detach | None = None
        self.grace = 0.0

    def spawn(self, args: list[str], stdin: bytes, env: Mapping[str, str], cwd: str, *, one_stream: bool) -> None:
        """Start the child; stdin that fits into the pipe is written before it runs."""
        theirs: list[int] = []
        try:
            feed = self._pipe(theirs, ours=1)
            out = self._pipe(theirs, ours=0)
            err = self._pipe(theirs, ours=0)
            self.feed = memoryview(stdin)
            self._write(feed)
            with descendants.marking() as self.mark:
                self.popen = subprocess.Popen(
                    args,
                    stdin=theirs[0],
                    stdout=theirs[1],
                    stderr=theirs[1] if one_stream else theirs[2],
                    cwd=cwd,
                    start_new_session=True,
                    env={**env, descendants.RUN: self.mark.value},
                )
        finally:
            for fd in theirs:
                os.close(fd)
        self.pid = self.popen.pid
        _mains.add(self.pid)
        for fd, output in ((out, self.out), (err, self.err)):
            self.outputs[fd] = output
            self.loop.add_reader(fd, self._read, fd)
        if feed in self.fds:
            self.loop.add_writer(feed, self._write, feed)
        self._watch()

    def arm(self, seconds: float, grace: float) -> None:
        """Start the clock."""
        self.timers.append(self.loop.call_later(max(seconds, 0.0), self._time_out, grace))

    def kill(self, number: int) -> None:
        """Signal the group, unless all of it has been reaped: its number may belong to another group by then."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Stop watching and close our ends of the pipes; processes that still run are reaped later."""
        for timer in self.timers:
            timer.cancel()
        for fd in tuple(self.fds):
            self._drop(fd)
        if not self.ended.done():
            self.ended.cancel()

    def reap(self) -> bool:
        """Reap dead processes and kill those that left the group; True when no process of the run is left."""
        if not self._reap_group() or not descendants.sweep(self.mark, _mains, self.killed):
            return False
        descendants.free(self.mark)
        return True

    async def reap_all(self) -> None:
        """Reap until no process is left, for a second at most; a later run reaps the rest."""
        until = time.monotonic() + _GIVE_UP
        while not self.reap() and time.monotonic() < until:  # noqa: ASYNC110 - the kernel has no event for "all dead"
            await asyncio.sleep(0.0005)

    def finished(self, ms: float) -> Finished:
        """The result, once reaped."""
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        lost = "" if code is not None or self.timed_out else "another part of this process collected its exit status"
        return Finished(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stdout=bytes(self.out.kept),
            stderr=bytes(self.err.kept),
            stdout_cut=self.out.cut,
            stderr_cut=self.err.cut,
            timed_out=self.timed_out,
            spawn_error=lost,
            ms=ms,
            survivors_killed=len(self.killed),
        )

    def _pipe(self, theirs: list[int], *, ours: int) -> int:
        ends = os.pipe()
        theirs.append(ends[1 - ours])
        self.fds.add(ends[ours])
        os.set_blocking(ends[ours], False)
        return ends[ours]

    def _drop(self, fd: int) -> None:
        self.fds.discard(fd)
        self.loop.remove_reader(fd)
        self.loop.remove_writer(fd)
        os.close(fd)

    def _write(self, fd: int) -> None:
        try:
            for _ in range(_WRITES):
                if not self.feed:
                    break
                self.feed = self.feed[os.write(fd, self.feed) :]
        except BlockingIOError:
            return
        except OSError:  # EPIPE: the command closed its stdin, which is allowed
            self.feed = memoryview(b"")
        if not self.feed:
            self._drop(fd)

    def _read(self, fd: int) -> None:
        output = self.outputs[fd]
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._drop(fd)
            self._end_if_silent()
            return
        output.take(data, self.cap)
        if self.detach is not None and output is self.out:
            self._detached(self.detach)
        if output.cut > FLOOD and not self.gone:
            self.loop.remove_reader(fd)
            self.loop.call_later(0.001, self._again, fd)

    def _detached(self, detach: Detach) -> None:
        line, end, _ = bytes(self.out.kept).partition(b"\n")
        seconds = detach.reads(line)
        if seconds is None and not end:
            return  # the rest of the line may come
        self.detach = None
        if seconds is not None and not self.gone:
            for timer in self.timers:
                timer.cancel()
            self.arm(seconds, self.grace)
            detach.freed.set()

    def _again(self, fd: int) -> None:
        if fd in self.fds and self.outputs.get(fd) is not None:
            self.loop.add_reader(fd, self._read, fd)

    def _watch(self) -> None:
        fd = open_pidfd(self.pid)
        if fd < 0:
            self._poll(0.001)
            return
        self.fds.add(fd)
        self.loop.add_reader(fd, self._exited, fd)

    def _poll(self, pause: float) -> None:
        """Without a pidfd: ask for the exit at growing intervals, 20 ms at most."""
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                self.timers.append(self.loop.call_later(pause, self._poll, min(pause * 1.5, 0.02)))
                return
            self.status = status
        self._exited(-1)

    def _exited(self, fd: int) -> None:
        self.gone = True
        if fd >= 0:
            self._drop(fd)
        for pipe in self.outputs:
            for _ in range(16):  # the content of a full pipe; a process left behind may go on writing
                if pipe not in self.fds:
                    break
                before = self.outputs[pipe].size
                self._read(pipe)
                if self.outputs[pipe].size == before:
                    break
        self._end_if_silent()
        if not self.ended.done():
            self._linger(time.monotonic() + _GIVE_UP)

    def _linger(self, until: float) -> None:
        def look() -> None:
            if time.monotonic() < until and descendants.working(self.pid):
                self._linger(until)
            else:
                self._end()

        self.timers.append(self.loop.call_later(LINGER, look))

    def _end_if_silent(self) -> None:
        if self.gone and not any(fd in self.fds for fd in self.outputs):
            self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def _time_out(self, grace: float) -> None:
        if self.gone:
            return
        self.timed_out = True
        self.kill(signal.SIGTERM)
        self.timers.append(self.loop.call_later(grace, self.kill, signal.SIGKILL))
        self.timers.append(self.loop.call_later(grace + _GIVE_UP, self._end))

    def _reap_group(self) -> bool:
        # Up to the first ECHILD: while one member is left, the kernel gives the group's number to no other process.
        # A member's own children become ours when it dies, before we are notified, so none is missed.
        while self.pid:
            try:
                pid, status = os.waitpid(-self.pid, os.WNOHANG)
            except ChildProcessError:
                _mains.discard(self.pid)
                self.pid = 0
                if self.popen is not None:
                    self.popen.returncode = 0  # so that the Popen object neither waits nor warns
                break
            if pid == 0:
                return False
            if pid == self.pid:
                self.status = status
                _mains.discard(pid)
            elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                self.killed.add(pid)
        return True


class _Output:
    """The output of one pipe: its beginning, and how many bytes were dropped."""

    __slots__ = ("cut", "kept")

    def __init__(self) -> None:
        self.kept, self.cut = bytearray(), 0

    @property
    def size(self) -> int:
        return len(self.kept) + self.cut

    def take(self, data: bytes, cap: int) -> None:
        room = max(cap - len(self.kept), 0)
        self.kept += data[:room]
        self.cut += len(data) - min(room, len(data))


_mains: set[int] = set()  # the commands themselves, which their own runs reap
_cleanups: set[asyncio.Future[None]] = set()  # the loop itself holds tasks weakly


def _why(error: Exception, cwd: str) -> str:
    if isinstance(error, OSError):
        if error.filename == cwd:
            return f"cannot run in the directory {cwd}: {error.strerror}"
        what = f" {error.filename}" if error.filename else ""
        return f"cannot start{what}: {error.strerror}"
    return f"cannot start: {error}"
