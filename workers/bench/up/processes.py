"""What /proc says of a process and all its descendants: memory, wake-ups, CPU."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")


def tree(root: int) -> list[int]:
    """A process and its live descendants."""
    found, todo = list[int](), [root]
    while todo:
        pid = todo.pop()
        try:
            children = [one.read_text() for one in (PROC / str(pid) / "task").glob("*/children")]
        except OSError:  # the process has just ended
            continue
        found.append(pid)
        todo += [int(child) for text in children for child in text.split() if int(child) not in found]
    return found


def memory(pids: Iterable[int]) -> float:
    """MB (of 2^20 bytes) that the processes hold together: of a page that several of them share, each counts its part."""
    total = 0
    for pid in pids:
        try:
            lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def wake_ups(pids: Iterable[int]) -> int:
    """How often the threads of the processes have waited for something and were woken."""
    total = 0
    for pid in pids:
        for status in (PROC / str(pid) / "task").glob("*/status"):
            try:
                lines = status.read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total


def cpu(pids: Iterable[int]) -> float:
    """Seconds of CPU of the processes."""
    ticks = 0
    for pid in pids:
        try:
            fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
