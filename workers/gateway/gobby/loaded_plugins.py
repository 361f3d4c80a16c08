"""The Python plugins that the fleet's workers run, as Gobby's paths list them."""

from __future__ import annotations

from typing import Any

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.plugins.records import list_plugins


async def loaded_plugins(connections: Connections, keys: Keys) -> list[dict[str, Any]]:
    """The running plugins by name, with their version and the numbers of their handlers and actions; raises Unreachable."""
    running = {state.name: state for state in await list_plugins(connections, keys) if state.state == "running"}
    return [
        {
            "name": state.name,
            "version": state.version,
            "description": state.description,
            "handlers": len(state.handlers),
            "actions": len(state.actions),
        }
        for _, state in sorted(running.items())
    ]
