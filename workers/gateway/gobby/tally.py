"""What one gateway counts of the calls of Gobby's clients, and of itself, for `/admin/status` and `/admin/metrics`."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any, Final, NamedTuple

from bus.wire.connections import COMMAND_SECONDS, Connections
from bus.wire.counts import BUCKETS
from bus.wire.keys import Keys
from bus.wire.streams import checked

_STATM: Final = Path("/proc/self/statm")
_COUNTED: Final = ("owed", "delivered", "dead")


class GobbyTally:
    """Counts since the gateway started, as those of Gobby's daemon are since its own start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.hooks = self.hooks_failed = self.requests = self.request_errors = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    @property
    def uptime(self) -> float:
        """Seconds since the gateway started."""
        return time.monotonic() - self._began

    @property
    def cpu_percent(self) -> float:
        """The share of one core that the process has used since the gateway started."""
        return round(100 * time.process_time() / max(self.uptime, time.process_time(), 0.001), 1)

    def hook(self, *, failed: bool) -> None:
        """Count a hook call; a failed one got no verdict."""
        self.hooks += 1
        self.hooks_failed += failed

    def request(self, seconds: float, *, failed: bool) -> None:
        """Count an HTTP request; the status of a failed one is 400 or above."""
        self.requests += 1
        self.request_errors += failed
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1

    def process(self) -> dict[str, Any]:
        """The gateway's process."""
        resident, virtual = memory()
        return {
            "memory_rss_mb": round(resident / 2**20, 1),
            **({"memory_vms_mb": round(virtual / 2**20, 1)} if virtual else {}),
            "cpu_percent": self.cpu_percent,
            "num_threads": threading.active_count(),
        }


class FleetCounts(NamedTuple):
    """Figures of the fleet under Gobby's names. Deliveries are the work that goes on in the background."""

    sessions: int
    """Sessions of the last day that have not ended."""
    tasks_active: int
    tasks_total: int
    tasks_completed: int
    tasks_failed: int


async def read_counts(connections: Connections, keys: Keys, seconds: float = COMMAND_SECONDS) -> FleetCounts:
    """The figures of this moment in one exchange with Redis; raises Unreachable."""
    commands = [
        ("ZCARD", keys("sessions")),
        ("XLEN", keys("deliveries")),
        ("ZCARD", keys("due")),
        ("HMGET", keys("stats"), *(f"deliveries:{outcome}" for outcome in _COUNTED)),
    ]
    with connections.lease() as connection:
        sessions, running, due, stats = [
            checked(answer, "counting sessions and deliveries")
            for answer in await connection.exchange(commands, seconds=seconds)
        ]
    total, completed, failed = (int(count or 0) for count in stats)
    return FleetCounts(int(sessions), int(running) + int(due), total, completed, failed)


def memory() -> tuple[int, int]:
    """The bytes of resident and of virtual memory. Outside Linux: the most that was resident, and 0."""
    try:
        virtual, resident, *_ = (int(pages) for pages in _STATM.read_text(encoding="ascii").split())
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return resident * page, virtual * page
