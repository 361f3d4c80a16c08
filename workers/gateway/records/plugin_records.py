"""The plugins of the fleet, as `fleethook plugins list --json` prints them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bus.hooksets.in_force import HookSet
from bus.hooksets.plugins.sources import offered, plugin_folders
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.plugins import plugins
from workers.plugins.listing import summaries
from workers.plugins.records import list_plugins


async def plugin_records(connections: Connections, keys: Keys, here: HookSet) -> list[dict[str, Any]]:
    """Python plugins with their state in all workers, then the plugins that hook files import; raises Unreachable."""
    states = await list_plugins(connections, keys)
    could_run = await asyncio.to_thread(lambda: list(offered(plugin_folders("user", ""))))  # it reads folders
    found = (*summaries(here.files, states, could_run), *plugins(here.files))
    return [msgspec.to_builtins(plugin) for plugin in found]
