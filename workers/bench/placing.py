"""Places the processes of a comparison on cores, the same for both sides: the placement matters more than their work.

Three processes that work one after the other on two cores take 0.65 to 1.4 times as long as a bare loop of the same three,
depending on which of them share a core (measured); by default the scheduler moves them every second. So the request's figure is
measured without placement, as users have it, and then once for each way to place them, on systems that allow it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from workers.bench.bare import bare_client


async def server_pid(url: str) -> int:
    """The process id of the benchmark's server."""
    client = bare_client(url)
    pid = (await client.info("server"))["process_id"]
    await client.aclose()
    return int(pid)


@contextmanager
def on_one_core(*others: int) -> Iterator[None]:
    """While this context lasts, run this process, its new children and `others` on one core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    for pid in (0, *others):
        os.sched_setaffinity(pid, {max(before)})
    try:
        yield
    finally:
        for pid in (0, *others):
            os.sched_setaffinity(pid, before)


class Places:
    """The ways to place the asking process (this one), the server and the answering processes on two cores, by name."""

    def __init__(self, server: int, answering: Sequence[int]) -> None:
        self._server, self._answering = server, answering
        self._cores: list[int] = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
        self.ways: tuple[str, ...] = tuple(_WAYS) if len(self._cores) > 1 else ()

    def put(self, way: str) -> None:
        """Place all processes in one of `ways`."""
        self._put(*[{self._cores[-1 if last else 0]} for last in _WAYS[way]])

    def free(self) -> None:
        """Let all processes run on any core."""
        if self._cores:
            self._put(*[set(self._cores)] * 3)

    def _put(self, asking: set[int], server: set[int], answering: set[int]) -> None:
        os.sched_setaffinity(0, asking)
        os.sched_setaffinity(self._server, server)
        for pid in self._answering:
            os.sched_setaffinity(pid, answering)


_WAYS: Final = {
    "all on one core": (False, False, False),
    "the server alone on one": (False, True, False),
    "the answering process alone on one": (False, False, True),
    "the asking process alone on one": (True, False, False),
}
"""Whether the asking process, the server and the answering processes are on the last core."""
