"""Starts the processes of `fleethook up` as copies of its supervisor, which has imported everything (Linux).

Processes that each import for themselves take seconds of CPU at their start, and share no memory. The supervisor imports on a
thread while its server starts. It forks between two turns of its event loop, when nothing runs and there is no thread: a copy
closes every file of the supervisor, and never goes on with its work. macOS's libraries do not allow forks at all: there each
process starts as a program.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, Final, NoReturn, TypeVar

from bus.errors import FleethookError
from bus.system.bytecode import kept_bytecode
from bus.system.directories import Directories, config_file
from bus.system.heap import release_heap
from bus.system.library_pages import release_library_pages
from bus.wire.connections import import_redis
from workers.runtime.child_processes import Child, start_program

PRELOADED: Final = (
    "workers.evaluator",
    "workers.host",
    "workers.dispatcher",
    "workers.jobs",
    "workers.gateway.door",
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
    "encodings.idna",
    "importlib.resources.readers",
    "re2",
    "tree_sitter_bash",
)
"""What workers import at their start and at their first event: each import after the fork is memory of one process alone."""

_NAME: Final = 15  # PR_SET_NAME, of at most 15 bytes: what `ps -o comm` and `top` show


_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

_POOL: Final = 16 * 1024
"""CPython keeps small objects in pools of this many bytes, one size in each. With another layout `_fill_holes` does less."""
_POOL_HEAD: Final = 48
_SMALL: Final = 512
_STEP: Final = 16
_MOST_HOLES: Final = 20_000
_HELD: Final[list[bytes]] = []

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Order:
    """What a new process is to be: the arguments of `fleethook`, its environment, its output and what it inherits."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    output: int
    inherited: Mapping[str, int]
    pid: asyncio.Future[int]


class ForkedChild:
    """A forked process; it is waited for as a `subprocess.Popen` is."""

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


class Forks:
    """The processes of one supervisor as forks of it: `run` runs the supervisor, and `start` starts a worker in it."""

    def __init__(self, places: Directories, run: Callable[[Sequence[str]], object]) -> None:
        """In each worker `run` is called with the arguments of `fleethook`; it raises SystemExit at the worker's end."""
        self._places, self._run = places, run
        self._orders: list[_Order] = []
        self._wake = asyncio.Event()
        self._importing = threading.Thread(target=self._import, name="imports", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    @staticmethod
    def are_possible() -> bool:
        """Whether this process can be forked; otherwise `start_program` starts each process."""
        return sys.platform == "linux" and threading.active_count() == 1

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the supervisor's work to its end, as `asyncio.run` does, and fork between the turns of its loop."""
        with asyncio.Runner() as runner:
            self._loop = loop = runner.get_loop()
            self._importing.start()
            task = loop.create_task(work)
            while not task.done():
                loop.run_until_complete(self._until_order(task))
                self._fork_all()
            return task.result()

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], output: int, inherited: Mapping[str, int]
    ) -> Child:
        """Start `python … worker KIND` with this environment; its output goes to `output`. Raises OSError."""
        if "worker" not in argv:
            return await start_program(argv, env, output, inherited)
        pid = asyncio.get_running_loop().create_future()
        self._orders.append(_Order(tuple(argv[argv.index("worker") :]), env, output, inherited, pid))
        self._wake.set()
        return ForkedChild(await pid)

    async def _until_order(self, work: asyncio.Task[_T]) -> None:
        """Wait until a worker is to be started and everything is imported, or the work has ended."""
        while not work.done():
            wake = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait({work, wake}, return_when=asyncio.FIRST_COMPLETED)
            wake.cancel()
            self._wake.clear()
            if self._orders and not self._importing.is_alive():
                return

    def _import(self) -> None:
        """Import and compile, on a thread that ends before the first fork."""
        assert self._loop is not None  # noqa: S101 - `run` sets it before it starts the thread
        try:
            with kept_bytecode(self._places.bytecode):
                _import_all()
                _compile_user_hooks(self._places)
        except Exception:  # noqa: BLE001 - each worker meets the same error, and reports it
            return
        finally:
            self._loop.call_soon_threadsafe(self._note_imported)

    def _note_imported(self) -> None:
        self._importing.join()
        # No search for garbage here: imports leave nearly none, and it takes 0.05 s of a start.
        release_heap()
        gc.freeze()  # the collector would write into what is shared
        _HELD.extend(_fill_holes())
        release_library_pages()  # 14 MB, where no other program shares these libraries
        self._wake.set()

    def _fork_all(self) -> None:
        """Fork a process for each order that still counts."""
        orders, self._orders = self._orders, []
        for order in orders:
            if order.pid.cancelled():
                continue
            try:
                order.pid.set_result(self._fork(order))
            except OSError as error:
                order.pid.set_exception(error)

    def _fork(self, order: _Order) -> int:
        """The process id of a new process. Nothing of this one's work goes on in it, and none of its files stays open there."""
        sys.stdout.flush()
        sys.stderr.flush()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid:
                return pid
            _live(order, blocked, self._run)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _fill_holes() -> list[bytes]:
    """Objects of each small size, as many as fit into the holes between older ones.

    While they exist, a fork puts its new objects into pages of their own, and not into holes in pages that it shares.
    """
    held, head = list[bytes](), sys.getsizeof(b"")
    for size in range(head - head % _STEP + _STEP, _SMALL + 1, _STEP):
        for _ in range(_MOST_HOLES):
            held.append(bytes(size - head))
            if id(held[-1]) % _POOL == _POOL_HEAD:  # the first in a new pool of this size: there is no hole left
                break
    return held


def _import_all() -> None:
    """Import all that workers need."""
    import_redis()
    for name in PRELOADED:
        importlib.import_module(name)
    from bus.installs.base import NAMES
    from bus.system.version import installed_version
    from bus.wire.scripts import every_script
    from workers.runtime.process import fast_loop

    for name in NAMES:
        importlib.import_module(f"bus.agents.{name}")
        importlib.import_module(f"bus.installs.{name}")
    fast_loop()  # imports libuv's
    every_script()
    installed_version()
    _know_at_once()


def _know_at_once() -> None:
    """Ask what each worker asks at its start: an answer that is known needs no walk through classes and loggers."""
    from bus.config.settings import Settings
    from workers.runtime.process import set_level

    set_level(logging.getLogger(), Settings().log_level)
    set_level(logging.getLogger("rq"), "warning")
    Counter[str]([])  # is a list a mapping? Each class that says it is one is asked, 0.4 MB of a fork's own
    Counter(character for character in "")


def _compile_user_hooks(places: Directories) -> None:
    """Compile the user's hook file once for all workers: both guard packs take 0.2 s of a core and 5 MB (measured).

    All that their rules need takes another 10 MB. So each rule is made ready when its first command comes, within
    milliseconds. Only reads: the workers decide which content is in force, and compile it themselves where it is another one.
    """
    from bus.hooksets.hookfile import load_hook_file  # a supervisor that cannot fork needs none of it
    from bus.hooksets.in_force import PREPARED, compile_file
    from bus.hooksets.layers import content_key

    path = config_file(places.config)
    if path is None:
        return
    with suppress(FleethookError):  # the workers report what is wrong with the file
        hooks = compile_file("user", load_hook_file(path, "user"))
        hooks.is_prepared = True
        PREPARED[content_key(hooks.files)] = hooks


def _live(order: _Order, signals: Collection[int], run: Callable[[Sequence[str]], object]) -> NoReturn:
    """Be the new process to its end. It does not return: what called us belongs to the supervisor."""
    code = 1
    try:
        _become(order)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        run(order.words)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the interpreter would report it so
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - multiprocessing ends its forks so too
        with suppress(BaseException):
            atexit._run_exitfuncs()  # noqa: SLF001 - as above
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _become(order: _Order) -> None:
    """Take the output, the descriptors, the session and the environment that a program started by the supervisor would have."""
    signal.set_wakeup_fd(-1)  # it is the supervisor's
    for one in _SIGNALS:
        if signal.getsignal(one) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
            signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.set_event_loop(None)
    os.setsid()  # Ctrl-C goes to the supervisor, which stops its processes in order
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in ((nothing, 0), (order.output, 1), (order.output, 2)):
        os.dup2(fd, number)
    first = 3
    for number in sorted(order.inherited.values()):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update({**order.env, **{name: str(number) for name, number in order.inherited.items()}})
    sys.stdin = _text_stream(0, "r")
    sys.stdout = _text_stream(1, "w")
    sys.stderr = _text_stream(2, "w", errors="backslashreplace", line_buffering=True)
    sys.argv = [sys.argv[0], *order.words]
    ctypes.CDLL(None).prctl(_NAME, f"fh-{order.words[1]}".encode()[:_NAME], 0, 0, 0)


def _text_stream(number: int, mode: str, **more: Any) -> TextIOWrapper:
    return TextIOWrapper(os.fdopen(number, f"{mode}b", closefd=False), encoding="utf-8", **more)
