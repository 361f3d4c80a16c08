"""A process that checks rules and conditions for another: questions on its standard input, answers on its output.

It ends by itself when a question takes too long (the kernel's timers end it, whatever a library is doing), when its
input ends, and when it needs too much memory.
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

from bus.matching.conditions import compile_condition
from bus.matching.questions import END, QUESTIONS, Answer, answers
from bus.matching.regexes import compile_regex
from bus.shell import commands

CPU_SECONDS: Final = 0.5
"""What one question may cost; measured as time of the processor, so that a busy machine changes no verdict."""
WALL_SECONDS: Final = 4.0
"""How long it may take in all, with the programs that it asks and the disks that it waits for."""
_MEMORY: Final = 2 * 1024**3
_NICE: Final = 5
"""Below the loops that others wait for."""

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from bus.matching.checker import main; main()"


def command(wall_seconds: float = WALL_SECONDS) -> tuple[str, ...]:
    """The command that starts one; it finds `bus` where this file is, never in the folder where it is started."""
    return (sys.executable, "-P", "-c", _PROGRAM, _ROOT, str(wall_seconds))


def main() -> None:
    """Answer until the end of the input."""
    wall = float(sys.argv[2])
    os.nice(_NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > _MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that we work for
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
    """Load the parsers before the first question: their 200 ms are no part of its cost."""
    commands("true")
    compile_condition("event.tool == ''")
    compile_regex("x")


def _write(target: BinaryIO, answer: Answer) -> None:
    data = msgspec.msgpack.encode(answer)
    target.write(struct.pack(">I", len(data)) + data)
    target.flush()
