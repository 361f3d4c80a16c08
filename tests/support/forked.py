"""Fleethook's processes and hook commands, forked from one with everything imported: the same programs without their start.

A process of this kind is a child of the test, and has an environment, a folder and files of its own. Only its start differs, so
what a test says about memory, about a command line in `/proc` or about the start itself needs `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final

if TYPE_CHECKING:  # the process that forks hook commands has the standard library alone
    from bus.shim.answer import HookAnswer

PROGRAM: Final = (sys.executable, "-P", "-m", "workers.cli")
"""What starts the same process without a fork."""

_CAN_FORK: Final = sys.platform == "linux" and not any(name.startswith("COVERAGE_PROCESS") for name in os.environ)
"""Elsewhere no process can adopt the child of another; coverage counts a process from its start."""

_LEFT_OUT: Final = (
    "bus.testing",
    "workers.bench",
    "workers.cli",
    "workers.demo",
    "workers.__main__",
    "workers.gateway.mcp.server",
)
_LATE: Final = ("re2", "rq", "uvicorn", "uvloop", "workers.cli.worker")
"""What workers import while they run, and what is in no package that is walked."""

_MESSAGE: Final = 1 << 20
_SPARE: Final = 100
"""File descriptors from here on are free in a process that has only just begun."""

_ADOPT_ORPHANS: Final = 36  # PR_SET_CHILD_SUBREAPER
_ADOPTS_ORPHANS: Final = 37  # PR_GET_CHILD_SUBREAPER


class _Forked(subprocess.Popen[bytes]):
    """A child process that begins as a copy of another one, which runs with `options` of Python."""

    options: ClassVar[tuple[str, ...]]

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *more: Any) -> None:
        """Popen's own way to a child, after the pipes are made and before anything reads them."""
        if not _CAN_FORK or preexec_fn is not None:
            super()._execute_child(args, executable, preexec_fn, *more)  # type: ignore[misc]  # typeshed has no such name
            return
        (_, pass_fds, cwd, env, _, _, _, *pipes) = more[:13]
        new_session = more[18]
        try:
            streams = [pipes[0], pipes[3], pipes[5]]
            files = [*(own if one == -1 else one for own, one in enumerate(streams)), *pass_fds]
            start = {
                "argv": args,
                "env": dict(os.environ if env is None else env),
                "cwd": os.fspath(cwd or os.getcwd()),
            }
            self.pid = _forked(self.options, {**start, "session": new_session, "numbers": [0, 1, 2, *pass_fds]}, files)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # as above


class Fleethook(_Forked):
    """`fleethook WORDS…` as a child process; the other arguments are Popen's."""

    options = ("-P",)

    def __init__(self, words: Sequence[str], **more: Any) -> None:
        super().__init__([*PROGRAM, *words], **more)


def run_fleethook(words: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """`fleethook WORDS…`, from its start to its end, and what it said."""
    pipe = subprocess.PIPE
    with Fleethook(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, **more) as process:
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out.decode(), err.decode())


class Snippet(_Forked):
    """`python -c CODE ARGUMENTS…` as a child process that has everything imported; the other arguments are Popen's."""

    options = ("-P",)

    def __init__(self, code: str, *arguments: str, **more: Any) -> None:
        super().__init__([sys.executable, "-P", "-c", code, *arguments], **more)


class Doorman(_Forked):
    """A process that starts Fleethook for others (tests/support/quick_program.py); the other arguments are Popen's."""

    options = ("-P",)

    def __init__(self, listener: int, **more: Any) -> None:
        super().__init__([sys.executable, "-P", "--serve", str(listener)], pass_fds=(listener,), **more)


class HookCommand(_Forked):
    """A hook command in the words that `install` writes; the other arguments are Popen's."""

    options = ("-I", "-S")


def hook_answer(words: Sequence[str], payload: bytes, **more: Any) -> HookAnswer:
    """What a hook command prints, and how it ends."""
    from bus.shim.answer import HookAnswer
    from tests.support import chosen_shim

    if chosen_shim.native:
        done = subprocess.run(
            [chosen_shim.native, *words], input=payload, capture_output=True, timeout=120, check=False, **more
        )
        return HookAnswer(done.returncode, done.stdout, done.stderr)
    pipe = subprocess.PIPE
    with HookCommand(words, stdin=pipe, stdout=pipe, stderr=pipe, **more) as process:
        out, err = process.communicate(payload, timeout=120)
    return HookAnswer(process.returncode, out, err)


_ONE_AT_A_TIME: Final = threading.Lock()


def _forked(options: tuple[str, ...], start: Mapping[str, Any], files: Sequence[int]) -> int:
    """The process id of a new child of ours, forked from the process that has everything imported."""
    prctl = ctypes.CDLL(None).prctl
    with _ONE_AT_A_TIME:
        control, before = _source(options), ctypes.c_int()
        prctl(
            _ADOPTS_ORPHANS, ctypes.byref(before), 0, 0, 0
        )  # what runs hooks in this process adopts them all the time
        prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        try:
            socket.send_fds(control, [json.dumps(start).encode()], files)
            return int(control.recv(100))
        finally:
            prctl(_ADOPT_ORPHANS, before.value, 0, 0, 0)


@cache
def _source(options: tuple[str, ...]) -> socket.socket:
    """The way to the process that forks; it ends with us, however we end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    process = subprocess.Popen(
        [sys.executable, *options, __file__, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        env=clean,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(control: socket.socket) -> None:
    """Fork a process for each message. Returns in the new process; raises SystemExit when the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test, whose end ends us
    while True:
        message, files, _, _ = socket.recv_fds(control, _MESSAGE, 32)
        if not message:
            raise SystemExit
        told, tell = os.pipe()
        between = os.fork()
        if not between:
            pid = os.fork()
            if pid:  # and our child is an orphan, whom the test adopts
                os.write(tell, str(pid).encode())
                os._exit(0)
            for fd in (told, tell):
                os.close(fd)
            control.close()
            become(json.loads(message), files)
            return
        os.waitpid(between, 0)
        control.send(os.read(told, 100))
        for fd in (told, tell, *files):
            os.close(fd)


def _serve_callers(listener: socket.socket) -> None:
    """Fork a process for each caller of a socket, until the standard input ends. Returns in the process of a caller."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that tell a caller the exit code
    while True:
        ready, _, _ = select.select([0, listener.fileno()], [], [])
        if 0 in ready:
            _end(0)
        caller, _ = listener.accept()
        if not os.fork():
            break
        caller.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listener.close()
    message, files, _, _ = socket.recv_fds(caller, _MESSAGE, 3)
    folder, count, *rest = os.fsdecode(message).split("\0")
    words, variables = rest[: int(count)], rest[int(count) :]
    env = dict(one.split("=", 1) for one in variables)
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        caller.send(str(code if code >= 0 else 128 - code).encode())
        os._exit(0)
    caller.close()
    become({"argv": [*PROGRAM, *words], "env": env, "cwd": folder, "session": False, "numbers": [0, 1, 2]}, files)


def become(start: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take the files, the folder and the environment of the process that was asked for."""
    spare = [_SPARE + place for place in range(len(files))]
    for fd, other in zip(files, spare, strict=True):
        os.dup2(fd, other)
    for fd in files:
        os.close(fd)
    for other, number in zip(spare, start["numbers"], strict=True):
        os.dup2(other, number)
        os.close(other)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if start["session"]:
        os.setsid()
    os.chdir(start["cwd"])
    os.environ.clear()
    os.environ.update(start["env"])
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = _text(os.fdopen(0, "rb", closefd=False))
    sys.stdout = _text(os.fdopen(1, "wb", closefd=False), line_buffering=os.isatty(1), write_through=at_once)
    errors = os.fdopen(2, "wb", closefd=False)
    sys.stderr = _text(errors, errors="backslashreplace", line_buffering=True, write_through=at_once)
    sys.orig_argv = list(start["argv"])
    sys.argv = sys.orig_argv[3:]


def _text(stream: BinaryIO, **more: Any) -> TextIOWrapper:
    return TextIOWrapper(stream, encoding="utf-8", **more)


def import_all() -> None:
    """Import what a worker may use, and read what is shipped with it and never changes: guard packs, types of settings."""
    import bus
    import workers
    from bus.config.settings import measures
    from bus.hooksets.guards import load_pack, packs

    for package in (bus, workers):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(_LEFT_OUT):
                importlib.import_module(found.name)
    for name in _LATE:
        importlib.import_module(name)
    for pack in packs():
        load_pack(pack)
    measures()


def run_fleethook_here() -> None:
    """Run the program to its end, as `python -m` does, without taking the imported modules apart (40 ms)."""
    try:
        runpy.run_module("workers.cli", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            raise
        _end(ended.code or 0)


def run_code_here(code: str, *arguments: str) -> None:
    """Run the code to its end, as `python -c` does."""
    sys.argv = ["-c", *arguments]
    sys.path.insert(0, "")
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            raise
        _end(ended.code or 0)
    except BaseException:  # noqa: BLE001  (as the interpreter does)
        traceback.print_exc()
        _end(1)
    _end(0)


def _end(code: int) -> None:
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does first at its end
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    one_hook = bool(sys.flags.isolated)
    gc.disable()
    if not one_hook:
        import_all()
    gc.freeze()
    gc.enable()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    if one_hook:
        runpy.run_path(sys.argv[0], run_name="__main__")
    elif sys.orig_argv[2] == "--serve":
        _serve_callers(socket.socket(fileno=int(sys.orig_argv[3])))
        run_fleethook_here()
    elif sys.orig_argv[2] == "-c":
        run_code_here(*sys.orig_argv[3:])
    else:
        run_fleethook_here()
