"""Plugins' own MCP servers through `fleethook mcp` and `/mcp`: the official client, and servers of the official SDK."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from mcp import Client

from tests.flow.gateway.test_mcp import World, failure
from tests.support.fleet import Fleet
from tests.support.gateway import Gateway
from tests.support.plugin_server import accepted, server_plugin
from tests.support.waiting import until

pytestmark = [pytest.mark.flow, pytest.mark.req("I-10", "G-18")]

SDK = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool()
def remember(text: str) -> str:
    \"\"\"Remember a text.\"\"\"
    return f"remembered: {text}"


server.run()
"""
OURS = {"mcp_kit", "mcp_kit__fleet"}


@pytest.fixture(scope="module")
def mcp(world: Fleet, gateway: Gateway) -> World:
    """A fleet whose user has added a plugin with a server of the SDK, one of our own, and two at URLs."""
    made = World(world, gateway)
    root = world.folder / "the kit"
    reader = {"Authorization": "Bearer ${KIT_TOKEN:-" + made.reader + "}"}
    server_plugin(
        root,
        {
            "notes": {"command": sys.executable, "args": ["-P", "${CLAUDE_PLUGIN_ROOT}/notes.py"]},
            "plain": {},
            "fleet": {"type": "http", "url": f"{gateway.url}/mcp", "headers": reader},
            "inside": {"type": "http", "url": "http://169.254.169.254/mcp"},
        },
    )
    (root / "notes.py").write_text(SDK)
    file = world.places.config / "fleethook.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.loads(accepted(root))
    file.write_text(json.dumps({**text, "network": {"allow": [f"127.0.0.1:{gateway.port}"]}}))
    return made


async def names(client: Client, *servers: str) -> set[str]:
    """The plugin's tools, once these servers have told theirs."""
    found: set[str] = set()

    async def known() -> bool:
        found.update(tool.name for tool in (await client.list_tools()).tools if tool.name.startswith("kit__"))
        return all(any(name.startswith(f"kit__{server}__") for name in found) for server in servers)

    await until(known, f"{servers} have told their tools")
    return found


async def said(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return str(getattr(result.content[0], "text", ""))


@pytest.mark.parametrize("how", ["stdio", "http"])
async def test_the_tools_of_a_plugin_are_listed_and_called(mcp: World, how: str) -> None:
    async with mcp.client(how, "" if how == "stdio" else mcp.operator) as client:
        found = await names(client, "notes", "plain", "fleet")
        assert {"kit__notes__remember", "kit__plain__say", "kit__fleet__fleet_status"} <= found
        assert not [name for name in found if name.startswith("kit__inside__")]
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        noted = tools["kit__notes__remember"]
        assert noted.description == "[plugin kit, server notes] Remember a text."
        assert noted.input_schema["required"] == ["text"]
        hints = tools["kit__plain__say"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (False, True), (
            "what a server says of itself is not believed"
        )

        assert await said(client, "kit__notes__remember", text="größe") == "remembered: größe"
        assert await said(client, "kit__plain__say", text="x") == "x]0;title"
        status = json.loads(await said(client, "kit__fleet__fleet_status"))
        assert status["namespace"] == "fleet"
        seen = json.loads(await said(client, "kit__plain__env"))
        assert not [name for name in seen if name.startswith("FLEETHOOK_")], "a server gets no credentials"

        assert "the MCP server 'plain' of the plugin 'kit'" in await failure(client, "kit__plain__die")
        assert "it refuses: refused" in await failure(client, "kit__plain__refuse")
        assert "it is not reached: 169.254.169.254" in await failure(client, "kit__inside__x")
        assert "no plugin has a tool 'kit__plain__gone'" in await failure(client, "kit__plain__gone")


async def test_who_may_not_operate_sees_and_calls_no_tool_of_a_plugin_over_http(mcp: World) -> None:
    async with mcp.client("http", mcp.reader) as client:
        assert not [tool.name for tool in (await client.list_tools()).tools if "__" in tool.name]
        assert "needs a token with the scope 'operate'" in await failure(client, "kit__plain__say", text="x")
