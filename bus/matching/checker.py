"""A process that checks rules and conditions for another process: it reads questions on stdin and writes answers on stdout.

It ends when a question takes too long (a kernel timer ends it, even inside a library), when its input ends, or when it needs
too much memory.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from bus.matching.checker_messages import END, QUESTIONS, ItemAnswer, answers
from bus.matching.conditions import compile_condition
from bus.matching.regexes import compile_regex
from bus.shell import commands
from bus.system.python_program import program

CPU_SECONDS: Final = 0.5
"""The processor time that one question may take. The time on the clock would change verdicts on a busy machine."""
WALL_SECONDS: Final = 4.0
"""The time on the clock that one question may take, with the programs that it starts and the disks that it waits for."""
_MEMORY: Final = 2 * 1024**3
_NICE: Final = 5
"""The priority (nice) of the process: lower than that of the processes that agents wait for."""

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_PROGRAM: Final = program("sys.path.insert(0, sys.argv[1]); from bus.matching.checker import main")


def command(wall_seconds: float = WALL_SECONDS) -> tuple[str, ...]:
    """The command that starts the process. It imports `bus` from this file's folder, never from the current directory."""
    return (sys.executable, "-P", "-c", _PROGRAM, _ROOT, str(wall_seconds))


def main() -> None:
    """Answer until the end of the input."""
    wall = float(sys.argv[2])
    os.nice(_NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > _MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _load()
    _write(target, END)
    while len(head := source.read(4)) == 4:
        question = QUESTIONS.decode(source.read(struct.unpack(">I", head)[0]))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, wall)
        for answer in answers(question):
            _write(target, answer)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(target, END)


def _load() -> None:
    """Load the parsers before the first question, so that their 200 ms do not count as its time."""
    commands("true")
    compile_condition("event.tool == ''")
    compile_regex("x")


def _write(target: BinaryIO, answer: ItemAnswer) -> None:
    data = msgspec.msgpack.encode(answer)
    target.write(struct.pack(">I", len(data)) + data)
    target.flush()
