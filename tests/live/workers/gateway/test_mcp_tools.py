"""The functions behind the MCP tools where they need a worker's own state: plugins in a real evaluator."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.config.settings import Settings
from bus.hooksets.in_force import Watcher
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.plugins import DENIES, enabled, plugin
from tests.support.running import ask, evaluating
from tests.support.servers import Server
from tests.support.waiting import until
from workers.gateway.mcp.tool_types import NoArguments, Plugins, ReloadedPlugin, ReloadPlugin
from workers.gateway.mcp.tools import Tools
from workers.plugins.records import list_plugins


@pytest.mark.req("G-18")
async def test_a_plugin_is_listed_and_reloaded(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    source = plugin(DENIES)
    file = enabled(tmp_path, {"tested": source}, "hooks: []\n")
    watcher = Watcher(connections, keys, host="gateway", user_file=None, trust_file=tmp_path / "trust")
    made = Tools(connections, connections, keys, Settings(), directories(create=False), watcher)
    tools = {tool.name: tool for tool in made.all()}
    async with evaluating(server.url, keys, user_file=file):
        assert (await ask(connections, keys, "forbidden")).reason == "the plugin says no"

        async def known() -> bool:
            return bool(await list_plugins(connections, keys))

        await until(known, "the plugin is reported")
        listed = msgspec.convert(await tools["list_plugins"].call(NoArguments()), Plugins)
        assert [(found.name, found.state) for found in listed.running] == [("tested", "running")]
        (tmp_path / "tested.py").write_text(source.replace("the plugin says no", "a newer no"))
        done = msgspec.convert(await tools["reload_plugin"].call(ReloadPlugin(name="tested")), ReloadedPlugin)
        assert ([found.name for found in done.done], done.done[0].problem, done.waiting) == (["tested"], "", ())
        assert (await ask(connections, keys, "forbidden")).reason == "a newer no"
