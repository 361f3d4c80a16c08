"""The functions behind the MCP tools where they need a worker's own state: plugins in a real evaluator."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.config.settings import Settings
from bus.errors import DecodeError
from bus.hooksets.in_force import Watcher
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.plugins import DENIES, enabled, plugin
from tests.support.running import ask, evaluating
from tests.support.servers import Server
from tests.support.waiting import until
from workers.gateway.mcp.tool_types import (
    ListHandlers,
    ListPlugins,
    Plugins,
    ReloadedPlugin,
    ReloadPlugin,
    Simulated,
    TestEvent,
)
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
        listed = msgspec.convert(await tools["list_plugins"].call(ListPlugins()), Plugins)
        assert [(found.name, found.state) for found in listed.running] == [("tested", "running")]
        gobbys = (await tools["list_plugins"].call(ListPlugins(enabled_only=True)))["plugins"]
        assert [(found["name"], found["handlers"]) for found in gobbys] == [
            ("tested", [{"event": "before_tool", "priority": 10}])
        ]
        (tmp_path / "tested.py").write_text(source.replace("the plugin says no", "a newer no"))
        done = msgspec.convert(await tools["reload_plugin"].call(ReloadPlugin(name="tested")), ReloadedPlugin)
        assert ([found.name for found in done.done], done.done[0].problem, done.waiting) == (["tested"], "", ())
        assert (done.success, done.version, done.error) == (True, "1.0.0", None)
        (tmp_path / "tested.py").write_text("raise RuntimeError('half saved')")
        failed = await tools["reload_plugin"].call(ReloadPlugin(name="tested"))
        assert failed["success"] is False
        assert "half saved" in failed["error"]
        assert (await ask(connections, keys, "forbidden")).reason == "a newer no"


@pytest.mark.req("G-18")
async def test_calls_that_were_written_for_gobbys_server_run_as_they_are(
    keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """`event_type` in any spelling, `data` as an object and as text; the answers have the keys of both of Gobby's forms."""
    rules = "hooks: [{id: no-rm, on: tool:pre_execute:bash, rule: {command: ['rm'], reason: No rm.}}]\n"
    file = enabled(tmp_path, {"tested": plugin(DENIES)}, rules)
    watcher = Watcher(connections, keys, host="gateway", user_file=file, trust_file=tmp_path / "trust")
    made = Tools(connections, connections, keys, Settings(), directories(create=False), watcher)
    tools = {tool.name: tool for tool in made.all()}
    handlers = await tools["list_hook_handlers"].call(ListHandlers(event_type="before-tool"))
    assert (handlers["success"], handlers["total_handlers"]) == (True, 1)
    assert handlers["handlers"] == {
        "before_tool": [{"plugin": "tested", "method": "check", "priority": 10, "is_pre_handler": True}]
    }
    call = {"tool_name": "Bash", "tool_input": {"command": "rm x"}}
    for name, data in (
        ("before_tool", call),
        ("pre-tool-use", msgspec.json.encode(call).decode()),
        ("PreToolUse", call),
    ):
        found = await tools["test_hook_event"].call(TestEvent(event_type=name, source="claude", data=data))
        asked = (found["success"], found["event_type"], found["continue"], found["decision"])
        assert asked == (True, name, False, "deny"), found
        assert found["reason"].startswith("No rm")
        assert msgspec.convert(found, Simulated).goes_on is False
    calm = await tools["test_hook_event"].call(TestEvent(event_type="session_start", source="nobody"))
    assert (calm["continue"], calm["decision"], calm["inject_context"]) == (True, "allow", None)
    with pytest.raises(DecodeError, match="unknown event type 'nonsense'; there are: session_start, "):
        await tools["test_hook_event"].call(TestEvent(event_type="nonsense"))
    with pytest.raises(DecodeError, match="give either `event` or `event_type`"):
        await tools["test_hook_event"].call(TestEvent())
