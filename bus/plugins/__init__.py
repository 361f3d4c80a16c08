"""What Python plugins are written with: `HookPlugin`, `hook_handler`, and the values that handlers get and return (G-11).

The same names are importable as `gobby.hooks.plugins` and `gobby.hooks.events` where plugins run.
"""

from __future__ import annotations

from bus.plugins.events import HookEvent, HookEventType, HookResponse, SessionSource
from bus.plugins.plugin import HookPlugin, PluginAction, hook_handler

__all__ = [
    "HookEvent",
    "HookEventType",
    "HookPlugin",
    "HookResponse",
    "PluginAction",
    "SessionSource",
    "hook_handler",
]
