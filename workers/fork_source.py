"""Starts the processes of `fleethook up` as copies of one that has imported everything (Linux).

Nine processes that each import for themselves take 4 s of CPU at their start, and share no memory: 404 MB for an idle `up`, of
which forks need less than half (measured). The copies come from a process that does nothing else, because one with an event
loop and threads cannot be forked safely. macOS's libraries do not allow it at all: there each process starts as a program.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, Final

import msgspec

from bus.errors import FleethookError
from bus.system.directories import Directories, config_file
from bus.wire.connections import import_redis
from workers.runtime.child_processes import Child, StartProcess, start_program

PRELOADED: Final = (
    "workers.evaluator",
    "workers.host",
    "workers.dispatcher",
    "workers.jobs",
    "workers.gateway.server",
    "workers.roles",
    "workers.coverage.installs",
    "workers.fleet_control.flags",
    "workers.housekeeping",
    "workers.records.bulk_jobs",
    "workers.runtime.spool_drain",
    "workers.cli.worker",
    "workers.cli.screens.bus_log",
    "workers.coverage.answers_needed",
    "workers.coverage.waiting",
    "bus.hooksets.settings_files",
    "bus.wire.protocol",
    "importlib.resources.readers",
    "re2",
    "tree_sitter_bash",
)
"""What workers import at their start and at their first event: each import after the fork is memory of one process alone."""

_REPLY_SECONDS: Final = 5.0
"""How long a fork may take before the process is started as a program; it takes milliseconds."""

_IMPORT_SECONDS: Final = 30.0
"""How long the imports may take; usually one second."""

_READY: Final = b"ready"
_MESSAGE: Final = 1 << 20
_OUTPUT, _LIFELINE = 0, 1
_ADOPT_ORPHANS: Final = 36  # PR_SET_CHILD_SUBREAPER
_NAME: Final = 15  # PR_SET_NAME, of at most 15 bytes: what `ps -o comm` and `top` show


class _Order(msgspec.Struct, frozen=True):
    """What a new process is to be: the arguments of `fleethook`, and its environment."""

    name: str
    words: tuple[str, ...]
    env: dict[str, str]


class ForkedChild:
    """A forked process that this process has adopted; it is waited for as a `subprocess.Popen` is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the end; returns the exit status, negative for a signal."""
        status = self._wait(0)
        assert status is not None  # noqa: S101 - without WNOHANG the kernel waits
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else waited for it: the status is lost, as in subprocess.Popen
                self.returncode = 0
            else:
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def start_fork_source(places: Directories, run: Callable[[Sequence[str]], object]) -> StartProcess:
    """Fork the process that imports what workers need and forks them; returns what starts a worker.

    Call it on the only thread, before there is an event loop. In each worker it calls `run` with the arguments of `fleethook`,
    and raises SystemExit at the worker's end. Where forks are not possible it returns what starts a program. This process
    imports nothing of it: it stays small, and starts the server meanwhile.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return start_program
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return _Forks(ours)
    ours.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, whose end ends this process
    _import_all()
    _compile_user_hooks(places)
    gc.collect()
    gc.freeze()  # the collector would write into what is shared
    with suppress(OSError):  # the supervisor is gone
        theirs.send(_READY)
    order = _serve(theirs)
    if order is not None:
        run(order.words)
    raise SystemExit(0)


class _Forks:
    """Starts each worker by a fork. Without the process that forks, because it was killed, each starts as a program."""

    def __init__(self, control: socket.socket) -> None:
        self._control: socket.socket | None = control
        self._is_ready = False

    def __call__(self, argv: Sequence[str], env: Mapping[str, str], output: int, lifeline: int) -> Child:
        """Start `python … worker KIND` with this environment; its output goes to `output`."""
        words = tuple(argv[argv.index("worker") :]) if "worker" in argv else ()
        if self._control is not None and words:
            try:
                return ForkedChild(self._ask(_Order(f"fh-{words[-1]}", words, dict(env)), output, lifeline))
            except (OSError, ValueError):
                self._control.close()
                self._control = None
                os.write(output, b"the process that forks workers does not answer: workers start as programs now\n")
        return start_program(argv, env, output, lifeline)

    def _ask(self, order: _Order, output: int, lifeline: int) -> int:
        """The process id of a new child of this process. Raises OSError or ValueError if none came."""
        assert self._control is not None  # noqa: S101 - the only caller has looked
        if not self._is_ready:
            self._control.settimeout(_IMPORT_SECONDS)
            self._is_ready = self._control.recv(100) == _READY
            self._control.settimeout(_REPLY_SECONDS)
        prctl = ctypes.CDLL(None).prctl
        prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        try:
            socket.send_fds(self._control, [msgspec.json.encode(order)], [output, lifeline])
            return int(self._control.recv(100))
        finally:
            prctl(_ADOPT_ORPHANS, 0, 0, 0, 0)


def _import_all() -> None:
    """Import all that workers need; the supervisor, which forks this process, needs none of it."""
    import_redis()
    for name in PRELOADED:
        importlib.import_module(name)
    from bus.installs.base import NAMES
    from bus.wire.scripts import every_script
    from workers.runtime.process import fast_loop

    for name in NAMES:
        importlib.import_module(f"bus.agents.{name}")
        importlib.import_module(f"bus.installs.{name}")
    fast_loop()  # imports libuv's
    every_script()


def _compile_user_hooks(places: Directories) -> None:
    """Compile the user's hook file once for all workers: both guard packs take 0.4 s of a core and 13 MB (measured).

    Only reads: the workers decide which content is in force, and compile it themselves where it is another one.
    """
    from bus.hooksets.hookfile import load_hook_file  # the supervisor, which forks this process, needs none of it
    from bus.hooksets.in_force import PREPARED, compile_file
    from bus.hooksets.layers import content_key

    path = config_file(places.config)
    if path is None:
        return
    with suppress(FleethookError):  # the workers report what is wrong with the file
        hooks = compile_file("user", load_hook_file(path, "user")).prepare()
        PREPARED[content_key(hooks.files)] = hooks


def _serve(control: socket.socket) -> _Order | None:
    """Fork a process for each message. Returns the order in the new process, and None when the supervisor is gone."""
    while True:
        message, files, _, _ = socket.recv_fds(control, _MESSAGE, 2)
        if not message:
            return None
        pid_read, pid_write = os.pipe()
        middle = os.fork()
        if not middle:
            pid = os.fork()
            if pid:  # the end of this process makes its child an orphan, which the supervisor adopts
                os.write(pid_write, str(pid).encode())
                os._exit(0)
            for fd in (pid_read, pid_write, control.detach()):
                os.close(fd)
            return _become(msgspec.json.decode(message, type=_Order), files)
        os.waitpid(middle, 0)
        control.send(os.read(pid_read, 100))
        for fd in (pid_read, pid_write, *files):
            os.close(fd)


def _become(order: _Order, files: Sequence[int]) -> _Order:
    """Take the output, the lifeline, the session and the environment that a program started by the supervisor would have."""
    from workers.runtime.lifeline import VARIABLE

    os.setsid()  # Ctrl-C goes to the supervisor, which stops its processes in order
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((nothing, 0), (files[_OUTPUT], 1), (files[_OUTPUT], 2)):
        os.dup2(fd, number)
    os.close(nothing)
    os.close(files[_OUTPUT])
    os.environ.clear()
    os.environ.update({**order.env, VARIABLE: str(files[_LIFELINE])})
    sys.stdin = _text_stream(0, "r")
    sys.stdout = _text_stream(1, "w")
    sys.stderr = _text_stream(2, "w", errors="backslashreplace", line_buffering=True)
    sys.argv = [sys.argv[0], *order.words]
    ctypes.CDLL(None).prctl(_NAME, order.name.encode()[:_NAME], 0, 0, 0)
    return order


def _text_stream(number: int, mode: str, **more: Any) -> TextIOWrapper:
    return TextIOWrapper(os.fdopen(number, f"{mode}b", closefd=False), encoding="utf-8", **more)
