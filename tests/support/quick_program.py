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

from tests.support.forked import Doorman

ROOT: Final = Path(__file__).parents[2]

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
            server = Doorman(listener.fileno(), cwd=ROOT, env=clean, stdin=subprocess.PIPE)
        program = folder / "fleethook"
        program.write_text(_CLIENT.format(python=sys.executable, path=str(path)), encoding="utf-8")
        program.chmod(0o755)
        try:
            yield folder
        finally:
            server.communicate()
