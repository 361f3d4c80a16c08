"""The Python plugins that the fleet's workers run, as Gobby's paths list them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bus.wire.codec import read_json
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.plugins.figures import PluginState
from workers.plugins.records import list_plugins


async def loaded_plugins(connections: Connections, keys: Keys) -> list[dict[str, Any]]:
    """The running plugins by name, in the form of Gobby's `list_plugins()`; raises Unreachable."""
    return in_gobbys_form(await list_plugins(connections, keys))


def in_gobbys_form(states: Iterable[PluginState]) -> list[dict[str, Any]]:
    """The plugins that run, each once, by name."""
    running = {state.name: state for state in states if state.state == "running"}
    return [_entry(state) for _, state in sorted(running.items())]


def counted(plugin: dict[str, Any]) -> dict[str, Any]:
    """A plugin as `/admin/status` has it, with numbers instead of lists."""
    numbers = {"handlers": len(plugin["handlers"]), "actions": len(plugin["actions"])}
    return {"name": plugin["name"], "version": plugin["version"], **numbers}


def _entry(state: PluginState) -> dict[str, Any]:
    schemas = dict(state.schemas)
    return {
        "name": state.name,
        "version": state.version,
        "description": state.description,
        "handlers": [{"event": event, "priority": priority} for _, event, priority in state.handlers],
        "actions": [
            {
                "name": name,
                "has_schema": name in schemas,
                "schema": read_json(schemas[name].encode()) if schemas.get(name) else None,
            }
            for name in state.actions
        ],
        "conditions": list(state.conditions),
    }
