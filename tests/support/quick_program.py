"""A program `fleethook` for a shell of a test: it runs in a process forked from one that has everything imported.

It is the same program without its start, which takes a quarter of a second of a core: a test that types a hundred commands is
not about that. It reads and writes the shell's own files, and knows its folder and environment; Ctrl-C does not reach it, so
what runs until somebody stops it has to be the program itself.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_MOST: Final = 1 << 20

_CLIENT: Final = """\
#!{python} -IS
import array, os, socket, sys
asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asks.connect({path!r})
words = [*sys.argv[1:]]
told = "\\0".join([os.getcwd(), str(len(words)), *words, *(f"{{name}}={{value}}" for name, value in os.environ.items())])
asks.sendmsg([os.fsencode(told)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
os._exit(int(asks.recv(16) or b"70"))
"""


@contextmanager
def quick_program() -> Iterator[Path]:
    """The folder of the program, to be the first one of a PATH."""
    with tempfile.TemporaryDirectory(prefix="fh-quick-") as name:
        folder = Path(name)
        path = folder / "socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen(8)
            # It ends when the pipe ends, however we do.
            clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
            server = subprocess.Popen(
                [sys.executable, "-P", __file__, str(listener.fileno())],
                cwd=ROOT,
                env={**clean, "PYTHONPATH": str(ROOT)},
                pass_fds=(listener.fileno(),),
                stdin=subprocess.PIPE,
            )
        program = folder / "fleethook"
        program.write_text(_CLIENT.format(python=sys.executable, path=str(path)), encoding="utf-8")
        program.chmod(0o755)
        try:
            yield folder
        finally:
            server.communicate()


def _serve(listener: socket.socket) -> None:
    """Fork a process for each caller. Returns in the process that is to run the program."""
    import select
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that tell a caller the exit code
    while True:
        ready, _, _ = select.select([0, listener.fileno()], [], [])
        if 0 in ready:
            raise SystemExit
        caller, _ = listener.accept()
        if not os.fork():
            break
        caller.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listener.close()
    message, files, _, _ = socket.recv_fds(caller, _MOST, 3)
    folder, count, *rest = os.fsdecode(message).split("\0")
    words, variables = rest[: int(count)], rest[int(count) :]
    start = {
        "argv": [*PROGRAM, *words],
        "env": dict(one.split("=", 1) for one in variables),
        "cwd": folder,
        "session": False,
        "numbers": [0, 1, 2],
    }
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        caller.send(str(code if code >= 0 else 128 - code).encode())
        os._exit(0)
    caller.close()
    become(start, files)


if __name__ == "__main__":
    import gc

    from tests.support.forked import PROGRAM, become, import_all, run_fleethook_here

    gc.disable()
    import_all()
    gc.freeze()
    gc.enable()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    run_fleethook_here()
