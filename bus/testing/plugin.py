"""The pytest plugin: the fixture `memory_bus` opens buses in this process and closes them after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads plugins early, so the import of the bus waits for the first test that needs it
    from bus.testing.memory_bus import SyncMemoryBus


@pytest.fixture
def memory_bus() -> Iterator[Callable[..., SyncMemoryBus]]:
    """`memory_bus("fleethook.yaml")` or `memory_bus(text="hooks: …")`: a bus with these hooks, and no server."""
    from bus.testing.memory_bus import MemoryBus

    opened: list[SyncMemoryBus] = []

    def open_bus(*args: object, **options: object) -> SyncMemoryBus:
        opened.append(MemoryBus(*args, **options).sync())  # type: ignore[arg-type]  # as MemoryBus takes them
        return opened[-1]

    yield open_bus
    for bus in opened:
        bus.close()
