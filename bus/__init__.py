"""Fleethook, the hook bus for fleets of AI coding agents: the domain and the wire.

`import bus` costs next to nothing: each name is imported when it is first used (PEP 562).
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # importing typing costs 7 ms, and type checkers know this name without the import
if TYPE_CHECKING:  # for type checkers and editors; at run time __getattr__ does it
    from bus.client import Bus as Bus
    from bus.client import SyncBus as SyncBus
    from bus.errors import ConfigError as ConfigError
    from bus.errors import Denied as Denied
    from bus.errors import FleethookError as FleethookError
    from bus.errors import Unreachable as Unreachable
    from bus.events import Event as Event
    from bus.events import EventType as EventType
    from bus.hooks import Endpoint as Endpoint
    from bus.hooks import Hook as Hook
    from bus.http.signing import verify as verify
    from bus.sdk.scopes import LlmCall as LlmCall
    from bus.sdk.scopes import Prompt as Prompt
    from bus.sdk.scopes import Session as Session
    from bus.sdk.scopes import ToolCall as ToolCall
    from bus.sdk.scopes import Turn as Turn
    from bus.verdicts import Verdict as Verdict

_NAMES = {
    "Bus": "bus.client",
    "ConfigError": "bus.errors",
    "Denied": "bus.errors",
    "Endpoint": "bus.hooks",
    "Event": "bus.events",
    "EventType": "bus.events",
    "FleethookError": "bus.errors",
    "Hook": "bus.hooks",
    "LlmCall": "bus.sdk.scopes",
    "Prompt": "bus.sdk.scopes",
    "Session": "bus.sdk.scopes",
    "SyncBus": "bus.client",
    "ToolCall": "bus.sdk.scopes",
    "Turn": "bus.sdk.scopes",
    "Unreachable": "bus.errors",
    "Verdict": "bus.verdicts",
    "verify": "bus.http.signing",
}

__all__ = sorted(_NAMES)  # noqa: PLE0605 - one table has both the names and the modules that they come from
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'bus' has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
