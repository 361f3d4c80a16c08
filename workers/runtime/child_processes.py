"""Child processes: started, read, restarted with back-off, and ended in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from bus.secrets.redaction import redact_text
from bus.system.pidfd import open_pidfd
from workers.runtime import lifeline
from workers.supervision import predecessor, watchdog
from workers.waiting.on_demand import needed

FIRST_PAUSE: Final = 0.1
MOST_PAUSE: Final = 10.0
STEADY: Final = 30.0
"""A process that ran for this long (seconds) is restarted at once when it ends."""

DRAIN: Final = 10.0
"""How long the processes may take to finish (seconds), before they are killed."""

MOST_LINE: Final = 8 * 1024

OnLine = Callable[[str, str], None]
"""Called with the name of a process and one line of its output, redacted."""

OnReady = Callable[[str, int], None]
"""Called with the name of a process that has become ready, and the number of processes that are not ready yet."""


class Child(Protocol):
    """A process that was started, as a program (`subprocess.Popen`) or by a fork (`workers/fork_source.py`)."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""

    def wait(self) -> int:
        """Wait for the end; returns the exit status, negative for a signal."""

    def send_signal(self, number: int, /) -> None:
        """Send a signal, unless the process has ended."""


StartProcess = Callable[[Sequence[str], Mapping[str, str], int, Mapping[str, int]], Awaitable[Child]]
"""Starts a process from its arguments and environment, the descriptor of its output, and the descriptors that it inherits, by
the variables of its environment that get their numbers."""


async def start_program(
    argv: Sequence[str], env: Mapping[str, str], output: int, inherited: Mapping[str, int]
) -> Child:
    """Start a program in a session of its own. Raises OSError if it cannot be started."""
    return subprocess.Popen(  # noqa: ASYNC220 - it takes a millisecond
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**env, **{name: str(number) for name, number in inherited.items()}},
        pass_fds=tuple(inherited.values()),
        start_new_session=True,  # Ctrl-C goes to the supervisor, which stops them in order
    )


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process type: `count` processes of it run, named `<name>.1` and so on, or from the number `first`."""

    name: str
    argv: tuple[str, ...]
    count: int = 1
    first: int = 1
    on_demand: bool = False
    """Whether one is started only when another process says that it is needed. Its exit code 0 means that it had no work."""


class ProcessStatus(msgspec.Struct, frozen=True):
    """One process as `status` shows it; pid 0 while it waits to be started again, or for work."""

    name: str
    pid: int
    ready: bool
    restarts: int


@dataclass(slots=True)
class _Process:
    """One process that the supervisor keeps running, over its restarts."""

    spec: ProcessSpec
    name: str
    ready: bool = False
    restarts: int = -1
    child: Child | None = None
    partial_line: bytearray = field(default_factory=bytearray)
    needed: asyncio.Event = field(default_factory=asyncio.Event)
    is_late: bool = False
    """Whether it runs and does not respond."""
    last_pid: int = 0
    """The process id of the one before, which has ended."""

    @property
    def is_ready(self) -> bool:
        """Whether nobody has to wait for it: it is ready, or starts when there is work."""
        return self.ready or (self.spec.on_demand and not self.needed.is_set())

    @property
    def pid(self) -> int:
        return self.child.pid if self.child is not None else 0


class Pauses:
    """How long to wait before a restart: none at first, then 0.1 s, doubled each time up to 10 s; none after a run of 30 s."""

    def __init__(self) -> None:
        self._next = 0.0

    def after(self, lived: float) -> float:
        """The pause after a process that lived for `lived` seconds."""
        pause = self._next if lived < STEADY else 0.0
        self._next = min(MOST_PAUSE, pause * 2 or FIRST_PAUSE)
        return pause


class Supervisor:
    """Keeps processes running; `env` is added to our own environment."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        *,
        on_line: OnLine,
        on_ready: OnReady = lambda _name, _waiting: None,
        on_change: Callable[[], None] = lambda: None,
        env: Mapping[str, str] | None = None,
        drain: float = DRAIN,
        start: StartProcess = start_program,
    ) -> None:
        self._processes = [_Process(spec, f"{spec.name}.{spec.first + n}") for spec in specs for n in range(spec.count)]
        self._on_line, self._on_ready, self._on_change = on_line, on_ready, on_change
        self._env, self._drain = {**os.environ, **(env or {})}, drain
        self._start = start
        self._stopping = asyncio.Event()
        self._lifeline = -1

    @property
    def children(self) -> tuple[ProcessStatus, ...]:
        """Every process as it is now."""
        return tuple(ProcessStatus(p.name, p.pid, p.is_ready, max(0, p.restarts)) for p in self._processes)

    @property
    def waiting(self) -> int:
        """How many processes are not ready yet."""
        return sum(not process.is_ready for process in self._processes)

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the processes running until `stop` is set; then ask them to end, and kill them after the drain time."""
        self._lifeline, write_end = os.pipe()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._keep_running(process)) for process in self._processes]
                await stop.wait()
                self._stopping.set()
                for process in self._processes:
                    process.needed.set()
                self._signal(signal.SIGTERM)
                if tasks and (await asyncio.wait(tasks, timeout=self._drain))[1]:
                    self._signal(signal.SIGKILL)
        finally:
            for process in self._processes:  # processes are left only if one of these tasks failed
                if process.child is not None:
                    _send_signal(process.child, signal.SIGKILL)
                    process.child.wait()
            os.close(write_end)
            os.close(self._lifeline)

    async def run_aside(self, spec: ProcessSpec) -> int:
        """Run a process once beside the others, and return its exit status; it is no part of `children`."""
        process = _Process(spec, spec.name)
        try:
            return await self._run_once(process)
        finally:
            if process.child is not None and process.child.poll() is None:
                _send_signal(process.child, signal.SIGKILL)
                process.child.wait()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            if process.child is None:
                continue
            if number == signal.SIGKILL:
                self._on_line(process.name, f"did not end within {self._drain:g} s: killed")
            _send_signal(process.child, number)

    async def _keep_running(self, process: _Process) -> None:
        pauses = Pauses()
        while not self._stopping.is_set():
            if process.spec.on_demand and not process.needed.is_set():
                await process.needed.wait()
                continue
            began = time.monotonic()
            try:
                status = await self._run_once(process)
                end = ending_text(status)
                if status == 0 and process.spec.on_demand:
                    process.needed.clear()
            except OSError as error:
                end = f"could not be started: {error}"
            process.last_pid, process.child, process.ready = process.pid or process.last_pid, None, False
            self._on_change()
            if self._stopping.is_set():
                return
            if process.spec.on_demand and not process.needed.is_set():
                process.restarts -= 1
                self._on_line(process.name, "ended, as there was no work; it is started when there is some")
                continue
            pause = pauses.after(time.monotonic() - began)
            self._on_line(process.name, f"{end}; {restart_text(pause)}")
            await _wait_for(self._stopping, pause)

    async def _run_once(self, process: _Process) -> int:
        """Run the process once, pass its lines on, and return its exit status."""
        loop = asyncio.get_running_loop()
        process.restarts += 1
        output, write_end = os.pipe()
        responses = watchdog.Watchdog(lambda responds: self._note_response(process, responds=responds))
        inherited = {lifeline.VARIABLE: self._lifeline, **responses.inherited}
        env = {**self._env, predecessor.VARIABLE: str(process.last_pid)} if process.last_pid else self._env
        try:
            child = await self._start(process.spec.argv, env, write_end, inherited)
        except BaseException:
            os.close(output)
            responses.close()
            raise
        finally:
            os.close(write_end)
        process.child = child
        if self._stopping.is_set():  # meanwhile: the others have had their signal
            _send_signal(child, signal.SIGTERM)
        os.set_blocking(output, False)
        loop.add_reader(output, self._read, process, output)
        self._on_change()
        try:
            return await ended(child)
        finally:
            responses.close()
            process.is_late = False
            for _ in range(16):  # as much as a pipe can hold; a descendant may go on writing
                if not self._read(process, output):
                    break
            self._lines(process, b"\n" if process.partial_line else b"")
            loop.remove_reader(output)
            os.close(output)

    def _read(self, process: _Process, output: int) -> bool:
        try:
            data = os.read(output, 64 * 1024)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(output)
        self._lines(process, data)
        return bool(data)

    def _lines(self, process: _Process, data: bytes) -> None:
        process.partial_line += data
        *lines, rest = bytes(process.partial_line).split(b"\n")
        process.partial_line = bytearray(rest)
        if len(rest) > MOST_LINE:
            lines.append(rest)
            process.partial_line.clear()
        for line in lines:
            text = redact_text(line[:MOST_LINE].decode("utf-8", "replace").rstrip())
            if kind := needed(text):
                self._need(kind)
                continue
            self._on_line(process.name, text)
            if not process.ready and f"fleethook {process.spec.name} ready" in text:
                process.ready = True
                self._on_change()
                if not process.spec.on_demand:
                    self._on_ready(process.name, self.waiting)

    def _note_response(self, process: _Process, *, responds: bool) -> None:
        """Note whether a process responds. Where no other one of its kind does, one more of the kind is needed."""
        if process.is_late == responds:
            process.is_late = not responds
            self._on_line(
                process.name, "responds again" if responds else f"has not responded for {watchdog.SECONDS:g} s"
            )
        kind = process.spec.name
        if not any(
            other.child is not None and not other.is_late for other in self._processes if other.spec.name == kind
        ):
            self._need(kind)

    def _need(self, kind: str) -> None:
        """Start one more process of a kind, unless one is just starting, or all of them run."""
        found = [process for process in self._processes if process.spec.name == kind and process.spec.on_demand]
        free = [process for process in found if not process.needed.is_set()]
        if free and all(process.is_ready for process in found):
            free[0].needed.set()
            self._on_change()


async def ended(child: Child) -> int:
    """Wait for the end of a process and return its status."""
    loop = asyncio.get_running_loop()
    fd = open_pidfd(child.pid)
    if fd < 0:
        while child.poll() is None:  # noqa: ASYNC110 - without a pidfd the process has to be polled
            await asyncio.sleep(0.02)
        return int(child.returncode or 0)
    exited = asyncio.Event()
    loop.add_reader(fd, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return child.wait()


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def ending_text(status: int) -> str:
    """How a process ended, for the log."""
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"ended by signal {-status}"


def restart_text(pause: float) -> str:
    """When a process is started again, for the log; `pause` in seconds."""
    return f"starting it again in {pause:.1f} s" if pause else "starting it again at once"


def _send_signal(child: Child, number: signal.Signals) -> None:
    """Send a signal: SIGTERM to the process only, which knows what it has to finish; SIGKILL to its whole group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
        if number == signal.SIGKILL:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
