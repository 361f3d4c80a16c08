"""Where the processes of a comparison run: the same for both sides, since it decides more than what they do.

Three processes in a row on two cores take 0.65 to 1.4 times as long as a bare loop of the same three, by who shares a core
with whom (measured), and a scheduler left alone places them anew every second: the request's figure is taken with all of
them free, as they are for users, and then once for each way to place them. Systems that cannot be told have the first only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

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
    """The ways to put who asks (this process), the server and who answers on two cores, by name."""

    def __init__(self, server: int, answering: Sequence[int]) -> None:
        self._server, self._answering = server, answering
        self._cores: list[int] = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
        self.ways: tuple[str, ...] = tuple(_WAYS) if len(self._cores) > 1 else ()

    def put(self, way: str) -> None:
        """Put everybody in one of `ways`."""
        self._put(*[{self._cores[-1 if last else 0]} for last in _WAYS[way]])

    def free(self) -> None:
        """Let everybody run where they may."""
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
    "who answers alone on one": (False, False, True),
    "who asks alone on one": (True, False, False),
}
"""Who is on the last core: who asks, the server, who answers."""
