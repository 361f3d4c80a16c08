"""How much memory another process has, and had at most; and how much of a processor's time it has used."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

MIB = 1024 * 1024


def rss(pid: int) -> int:
    """Bytes of a process that lie in memory now."""
    return _status(pid, "VmRSS")


def peak_rss(pid: int) -> int:
    """Bytes that lay in memory at most since its start; where the system does not say so (macOS), those of now."""
    return _status(pid, "VmHWM")


def cpu_seconds(pid: int) -> float:
    """Seconds of a processor that a process has used since its start."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        fields = stat.read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks / int(os.sysconf("SC_CLK_TCK"))
    shown = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
    return sum(float(part) * 60.0**place for place, part in enumerate(reversed(shown.strip().split(":"))))


def _status(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
        return int(shown.stdout) * 1024
    found = re.search(rf"^{name}:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
    assert found, name
    return int(found[1]) * 1024
