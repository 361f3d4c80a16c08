"""Test hooks and agents without a server: `MemoryBus` gives real verdicts from hook files, in this process (X-07).

Every run of pytest where Fleethook is installed imports this package for its plugin, so both names are imported when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers and editors; at run time __getattr__ does it
    from bus.testing.memory_bus import MemoryBus as MemoryBus
    from bus.testing.memory_bus import SyncMemoryBus as SyncMemoryBus

__all__ = ["MemoryBus", "SyncMemoryBus"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'bus.testing' has no attribute {name!r}")
    from bus.testing import memory_bus

    return getattr(memory_bus, name)
