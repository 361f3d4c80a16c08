"""A plugin's process that ends leaves no pipe behind that its worker's loop still watches."""

from __future__ import annotations

import asyncio
import functools
import os
from pathlib import Path

import pytest

from bus.system.pidfd import open_pidfd
from tests.support.plugins import enabled, handler, plugin, read, running, tool_call
from tests.support.waiting import PATIENCE

PRINTS_AND_CLOSES_ITS_OUTPUT = """
@hook_handler(HookEventType.BEFORE_TOOL, priority=1)
def stays(self, event):
    import os, sys, time
    print("the worker reads this, and looks again a moment later", file=sys.stderr, flush=True)
    os.closerange(3, 64)
    time.sleep(3600)
"""


@pytest.mark.req("G-11")
async def test_no_closed_pipe_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libuv aborts its whole process if it is to watch a descriptor that was closed; seen in CI as an evaluator's SIGABRT."""
    loop = asyncio.get_running_loop()
    watched: set[int] = set()
    add, remove = loop.add_reader, loop.remove_reader

    def add_reader(fd: int, call: functools.partial[None], *given: object) -> None:
        watched.add(fd)
        add(fd, call, *given)

    def remove_reader(fd: int) -> bool:
        watched.discard(fd)
        return remove(fd)

    file = read(enabled(tmp_path, {"tested": plugin(PRINTS_AND_CLOSES_ITS_OUTPUT)}))
    monkeypatch.setattr(loop, "add_reader", add_reader)
    monkeypatch.setattr(loop, "remove_reader", remove_reader)
    async with running(file) as group:
        before = set(watched)
        answer = await group.run(handler(file, "stays"), tool_call(), PATIENCE)
        assert answer.failure, "it closed its output, so it is ended"
        watches_exit = open_pidfd(os.getpid()) >= 0
        assert len(before) == 2 + watches_exit, "its output, what it prints and, on Linux, its end were watched"
    assert not watched
