"""Forge's Python API: a program for Forge changes its import line, and runs in its process or over the bus.

from bus.forge import EventType, Hook, HookConfig, HookEvent, HookExecutor, HookRegistry, HookResult

With `HookExecutor(registry, bus=Bus(…))` the fleet's hooks run too. F-02 to F-06 and F-13 specify each name.
"""

from __future__ import annotations

from bus.events import EventType
from bus.forge.config import HookConfig
from bus.forge.events import HookEvent
from bus.forge.executor import HookBlockedError, HookExecutor, HookResult, fire_event
from bus.forge.registry import Hook, HookRegistry

__all__ = [
    "EventType",
    "Hook",
    "HookBlockedError",
    "HookConfig",
    "HookEvent",
    "HookExecutor",
    "HookRegistry",
    "HookResult",
    "fire_event",
]
