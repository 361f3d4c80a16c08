"""Where the processes of a comparison run: the same for both sides, since it decides more than what they do.

Three processes in a row on two cores take 0.8 to 1.5 times as long as a bare loop of the same three, by who shares a core
with whom (measured): left to the scheduler, a figure says how it placed them. Systems that cannot be told place them freely.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

from workers.bench.bare import bare_client


async def server_pid(url: str) -> int:
    """The process of the benchmark's server."""
    client = bare_client(url)
    pid = (await client.info("server"))["process_id"]
    await client.aclose()
    return int(pid)


@contextmanager
def on_one_core(*others: int) -> Iterator[None]:
    """This process, what it starts, and these processes."""
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
    """The ways to put who asks (this process), the server and who answers on two cores, one after the other."""

    def __init__(self, server: int, answering: Sequence[int]) -> None:
        self._server, self._answering = server, answering
        self._cores: list[int] = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
        first, last = (self._cores[0], self._cores[-1]) if self._cores else (0, 0)
        self._ways = cycle([(first, first, last), (first, last, first), (first, last, last), (first, first, first)])

    def turn(self) -> None:
        """Put everybody in the next way."""
        if self._cores:
            asking, server, answering = next(self._ways)
            self._put({asking}, {server}, {answering})

    def free(self) -> None:
        """Let everybody run where they may."""
        if self._cores:
            self._put(*[set(self._cores)] * 3)

    def _put(self, asking: set[int], server: set[int], answering: set[int]) -> None:
        os.sched_setaffinity(0, asking)
        os.sched_setaffinity(self._server, server)
        for pid in self._answering:
            os.sched_setaffinity(pid, answering)
