"""One process of plugins, as its worker sees it: started, called over pipes, stopped or killed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bus.errors import DecodeError, FleethookError
from bus.hooks import Plugin
from bus.plugins.messages import TO_WORKER, Answer, Cancel, Finish, Frames, Load, Loaded, LoadedPlugin, framed
from bus.plugins.process import OUT_OF_MEMORY, command
from bus.secrets.redaction import redact_text
from bus.system.environment import base_env, fit_env
from bus.system.pidfd import open_pidfd
from workers.runtime.child_processes import ending_text

LOAD_SECONDS: Final = 120.0
"""How long the plugins of one process may take to load."""
GRACE_SECONDS: Final = 1.0
"""How long a process may take to show that it is responsive, after a call took too long; then it is killed."""
UNLOAD_SECONDS: Final = 10.0
"""How long `on_unload` may take, after the last call has ended."""

_CHUNK: Final = 256 * 1024
_MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
_OUTPUT_BYTES: Final = 16 * 1024
_OUTPUT_SECONDS: Final = 0.25
"""At most so many bytes of what plugins print are read in so many seconds; a plugin that prints more waits, and only it."""
_MOST_LINE: Final = 2000
_ENDING_SECONDS: Final = 0.5
"""How long a process whose output has ended may take to end itself; then it is killed."""
_POLL_SECONDS: Final = 0.002


class PluginDown(FleethookError):
    """A process of plugins ended, or could not be started; the text says why."""


class PluginProcess:
    """One process with the plugins of a group. It is used once: a new one takes its place after it ended."""

    def __init__(
        self, plugins: Sequence[Plugin], folder: str, on_line: Callable[[str], None], state_folder: str = ""
    ) -> None:
        self.plugins, self._folder, self._on_line = tuple(plugins), folder, on_line
        self._state_folder = state_folder
        self.loaded: dict[str, LoadedPlugin] = {}
        self.started_at = time.monotonic()
        self.ended = asyncio.Event()
        self.ending = ""
        """Why it ended."""
        self.waiting: dict[int, asyncio.Future[Answer]] = {}
        self._popen: subprocess.Popen[bytes] | None = None
        self._loading: asyncio.Future[Loaded] | None = None
        self._number, self._heard_at, self._asked_at = 0, 0.0, 0.0
        self._frames, self._lifeline = Frames(), -1
        self._out: deque[memoryview] = deque()
        self._out_bytes = 0
        self._in_fd = self._out_fd = self._err_fd = self._pidfd = -1
        self._line = b""
        self._closing, self._gone = False, asyncio.Event()

    @property
    def pid(self) -> int:
        """Its process id; 0 before it is started and after it ended."""
        return 0 if self._popen is None or self.ended.is_set() else self._popen.pid

    @property
    def is_gone(self) -> bool:
        """Whether it ended and is reaped."""
        return self._gone.is_set()

    @property
    def silent_for(self) -> float:
        """Seconds since it last answered, while calls wait for it; 0 without one."""
        return time.monotonic() - max(self._heard_at, self._asked_at) if self.waiting else 0.0

    async def start(self) -> None:
        """Start it and load its plugins; `loaded` has what came of each. Raises PluginDown."""
        self._loading = asyncio.get_running_loop().create_future()
        try:
            self._spawn()
        except OSError as error:
            self._close(f"could not be started: {error.strerror or error}")
            raise PluginDown(self.ending) from error
        self._send(framed(Load(self.plugins, self._state_folder)))
        try:
            loaded = await asyncio.wait_for(asyncio.shield(self._loading), LOAD_SECONDS)
        except TimeoutError:
            self.kill(f"took longer than {LOAD_SECONDS:g} s to load")
            raise PluginDown(self.ending) from None
        except asyncio.CancelledError:
            self.kill("its worker ended")
            raise
        self.loaded = {plugin.name: plugin for plugin in loaded.plugins}

    async def call(self, make: Callable[[int], msgspec.Struct], seconds: float, what: str) -> Answer:
        """The answer to the message that `make` makes of a number, within `seconds`; a failure is part of it.

        Raises PluginDown if the process ends before it answers.
        """
        if self.ended.is_set() or self._closing:
            raise PluginDown(self.ending or "ended")
        self._number = number = self._number + 1
        try:
            data = framed(make(number))
        except (TypeError, UnicodeEncodeError, OverflowError, RecursionError) as error:
            return Answer(number, failure=f"cannot be sent: {error}")
        loop = asyncio.get_running_loop()
        if not self.waiting:
            self._asked_at = time.monotonic()
        future: asyncio.Future[Answer] = loop.create_future()
        self.waiting[number] = future
        timer = loop.call_later(seconds, self._late, number, seconds, what)
        try:
            self._send(data)
            return await future
        finally:
            timer.cancel()
            self.waiting.pop(number, None)

    async def retire(self) -> None:
        """Let it finish the calls that it has, unload its plugins, and end."""
        if not self.ended.is_set():
            while self.waiting:
                await asyncio.wait(list(self.waiting.values()))
            if not self._closing:
                self._send(framed(Finish()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), UNLOAD_SECONDS)
            self.kill("did not unload in time")
        await self.gone()

    async def gone(self) -> None:
        """Wait until it is reaped; call `kill` before."""
        await self._gone.wait()

    def kill(self, why: str) -> None:
        """End it at once, with everything that it started."""
        if self.ended.is_set():
            return
        if self._closing:  # its output has ended, and it was given a moment to end itself
            self._finish(self._popen, why)
        else:
            self._close(why)

    def _late(self, number: int, seconds: float, what: str) -> None:
        """A call took too long: it fails, and the process is killed if it does not even answer that nobody waits."""
        future = self.waiting.pop(number, None)
        if future is None or future.done():
            return
        future.set_result(Answer(number, failure=f"did not answer within {seconds:.3g} s"))
        if self._closing:
            return
        at = time.monotonic()
        self._send(framed(Cancel(number)))
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._check_alive, at, what, seconds)

    def _check_alive(self, at: float, what: str, seconds: float) -> None:
        if not self.ended.is_set() and self._heard_at < at:
            self.kill(f"killed: {what} did not end within {seconds + GRACE_SECONDS:.3g} s")

    def _spawn(self) -> None:
        theirs, self._lifeline = os.pipe()
        names = [name for plugin in self.plugins for name in plugin.env_pass]
        try:
            popen = subprocess.Popen(
                command(theirs, sum(plugin.memory for plugin in self.plugins)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=fit_env(base_env(names))[0],
                cwd=self._folder if os.path.isdir(self._folder) else "/",
                pass_fds=(theirs,),
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None  # noqa: S101, PT018
        self._popen = popen
        self._in_fd, self._out_fd, self._err_fd = (p.fileno() for p in (popen.stdin, popen.stdout, popen.stderr))
        for fd in (self._in_fd, self._out_fd, self._err_fd):
            os.set_blocking(fd, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._out_fd, self._read)
        loop.add_reader(self._err_fd, self._read_output)
        self._pidfd = open_pidfd(popen.pid)
        if self._pidfd >= 0:
            loop.add_reader(self._pidfd, self._exited)

    def _exited(self) -> None:
        """Its process has ended. What a plugin has forked may hold its pipes open, so their end would not show that."""
        self._forget_pidfd()
        while self._read():
            pass
        self._close("")

    def _forget_pidfd(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _send(self, data: bytes) -> None:
        if self._out:
            self._keep(memoryview(data))
            return
        try:
            sent = os.write(self._in_fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:  # it is gone; its output ends too, which says why
            return
        if sent < len(data):
            asyncio.get_running_loop().add_writer(self._in_fd, self._write_rest)
            self._keep(memoryview(data)[sent:])

    def _keep(self, left: memoryview) -> None:
        self._out.append(left)
        self._out_bytes += len(left)
        if self._out_bytes > _MOST_WAITING_BYTES:
            self.kill("killed: it does not read its calls")

    def _write_rest(self) -> None:
        while self._out:
            try:
                sent = os.write(self._in_fd, self._out[0])
            except BlockingIOError:
                return
            except OSError:
                self._out.clear()
                break
            self._out_bytes -= sent
            if sent < len(self._out[0]):
                self._out[0] = self._out[0][sent:]
                return
            self._out.popleft()
        asyncio.get_running_loop().remove_writer(self._in_fd)

    def _read(self) -> bool:
        """Take what it has written; returns whether there may be more."""
        if self._closing:
            return False
        try:
            data = os.read(self._out_fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close("")
            return False
        self._heard_at = time.monotonic()
        try:
            for raw in self._frames.feed(data):
                self._take(TO_WORKER.decode(raw))
        except (DecodeError, msgspec.DecodeError) as error:
            self.kill(f"killed: it wrote what is no answer ({error})")
            return False
        return True

    def _take(self, message: Loaded | Answer) -> None:
        if isinstance(message, Loaded):
            if self._loading is not None and not self._loading.done():
                self._loading.set_result(message)
            return
        future = self.waiting.pop(message.id, None)
        if future is not None and not future.done():
            future.set_result(message)

    def _read_output(self) -> None:
        """Pass on what plugins print and log, as much as fits; after each piece, wait a moment."""
        try:
            data = os.read(self._err_fd, _OUTPUT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._err_fd)
        self._pass_on(data)
        if data and not self.ended.is_set():
            loop.call_later(_OUTPUT_SECONDS if len(data) >= _OUTPUT_BYTES else 0.01, self._read_again)

    def _read_again(self) -> None:
        if not self._closing:
            asyncio.get_running_loop().add_reader(self._err_fd, self._read_output)

    def _pass_on(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > _MOST_LINE or (not data and self._line):
            lines.append(self._line)
            self._line = b""
        for line in lines:
            if line.strip():
                self._on_line(redact_text(line[:_MOST_LINE].decode("utf-8", "replace").rstrip()))

    def _close(self, why: str) -> None:
        """End it: kill its group, note why it ended, and fail everything that waits for it.

        Without a reason its output has ended, and its exit status is the reason. A process with much memory takes tens of
        milliseconds to end, and no request may wait for that, so nothing here blocks.
        """
        popen, loop = self._popen, asyncio.get_running_loop()
        if popen is not None:
            if self._closing:
                return
            self._closing = True
            for fd in (self._out_fd, self._err_fd):
                loop.remove_reader(fd)
            if not why and popen.poll() is None:  # it ends, or it has only closed its output
                self._when_ended(popen, time.monotonic() + _ENDING_SECONDS, lambda: self._finish(popen, ""))
                return
        self._finish(popen, why)

    def _finish(self, popen: subprocess.Popen[bytes] | None, why: str) -> None:
        if self.ended.is_set():
            return
        self._forget_pidfd()
        if popen is not None:
            status = popen.poll() if not why else None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(popen.pid, signal.SIGKILL)
            why = why or _ending(status if status is not None else -signal.SIGKILL)
            with contextlib.suppress(OSError):
                self._pass_on(os.read(self._err_fd, _OUTPUT_BYTES))
            # libuv aborts the whole process if it is to watch a descriptor that was closed.
            asyncio.get_running_loop().remove_writer(self._in_fd)
            for pipe in (popen.stdin, popen.stdout, popen.stderr):
                if pipe is not None:
                    pipe.close()
            self._when_ended(popen, math.inf, self._gone.set)
        else:
            self._gone.set()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self.ending = why
        self.ended.set()
        waiting, self.waiting = self.waiting, {}
        for future in (*waiting.values(), self._loading):
            if future is not None and not future.done():
                future.set_exception(PluginDown(why))
                future.exception()  # it may have nobody who waits for it

    def _when_ended(self, popen: subprocess.Popen[bytes], until: float, then: Callable[[], None]) -> None:
        """Call `then` once the process has ended and is reaped, or at `until` (by the monotonic clock)."""
        if popen.poll() is not None or time.monotonic() >= until:
            then()
        else:
            asyncio.get_running_loop().call_later(_POLL_SECONDS, self._when_ended, popen, until, then)


def _ending(status: int) -> str:
    if status == OUT_OF_MEMORY:
        return "ended: it needed more memory than it may have (`memory`)"
    return ending_text(status)
