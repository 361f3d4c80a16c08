"""Test hooks and agents without a server: `MemoryBus` gives real verdicts from hook files, in this process (X-07)."""

from __future__ import annotations

from bus.testing.memory_bus import MemoryBus as MemoryBus
from bus.testing.memory_bus import SyncMemoryBus as SyncMemoryBus

__all__ = ["MemoryBus", "SyncMemoryBus"]
