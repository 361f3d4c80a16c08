"""An asynchronous context on a loop in a thread of its own, for tests without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from tests.support.waiting import PATIENCE

_T = TypeVar("_T")


@contextmanager
def beside(make: Callable[[], AbstractAsyncContextManager[_T]]) -> Iterator[_T]:
    """What `make()` yields, until the block ends."""
    made: list[_T] = []
    ready, end = threading.Event(), threading.Event()

    async def whole() -> None:
        async with make() as one:
            made.append(one)
            ready.set()
            await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=asyncio.run, args=(whole(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE), "it is there"
        yield made[0]
    finally:
        end.set()
        thread.join()
