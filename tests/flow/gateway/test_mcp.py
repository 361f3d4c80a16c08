"""The MCP tools with the official client, over stdio and over HTTP: the same tools, results and rights (G-18)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.cli_kit import run
from tests.support.fleet import Fleet
from tests.support.gateway import Gateway
from tests.support.waiting import PATIENCE
from workers.gateway.tokens import revoke_token

pytestmark = [pytest.mark.flow, pytest.mark.req("G-18")]

HOOKS = """
version: 1
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', rule: {reason: no rm, commands: [{program: [rm]}]}}
  - {id: log, on: 'tool:pre_execute', blocking: false, command: 'touch /nonexistent/ran'}
"""
SECRET = "sk-hunter2hunter2hunter2"
CALL = {"type": "tool:pre_execute", "tool": "bash", "session": "mcp", "input": {"command": f"rm x --token={SECRET}"}}
READING = {
    "list_hook_handlers",
    "test_hook_event",
    "simulate_event",
    "recent_events",
    "explain_event",
    "list_plugins",
    "list_dead_letters",
    "fleet_status",
}
CHANGING = {"reload_plugin", "retry_dead_letter"}


class World:
    """A fleet with one denied event, and tokens."""

    def __init__(self, fleet: Fleet, gateway: Gateway) -> None:
        fleet.publish_hooks(HOOKS)
        self.fleet, self.gateway = fleet, gateway
        with gateway.unix() as client:
            self.event: str = client.post("/v1/requests", json=CALL).json()["event"]
        self.reader = gateway.token("reader", "observe")
        self.operator = gateway.token("operator", "observe", "operate")

    @asynccontextmanager
    async def client(self, how: str, token: str) -> AsyncIterator[Client]:
        """The official client, connected over `stdio` or `http`."""
        if how == "stdio":
            env = {**self.fleet.environment, "FLEETHOOK_REDIS_URL": self.fleet.url("admin")}
            env |= {"FLEETHOOK_TOKEN": token} if token else {}
            command = StdioServerParameters(command=sys.executable, args=["-P", "-m", "workers.cli", "mcp"], env=env)
            async with Client(command, read_timeout_seconds=PATIENCE) as client:
                yield client
        else:
            async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http:
                transport = streamable_http_client(f"{self.gateway.url}/mcp", http_client=http)
                async with Client(transport, read_timeout_seconds=PATIENCE) as client:
                    yield client


@pytest.fixture(scope="module")
def mcp(world: Fleet, gateway: Gateway) -> World:
    return World(world, gateway)


async def call(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call that works; the client checks it against the tool's output schema."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    assert SECRET not in json.dumps(result.structured_content)
    return result.structured_content


async def failure(client: Client, name: str, /, **arguments: Any) -> str:
    """The text of a call that fails."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, result.content
    return str(getattr(result.content[0], "text", ""))


@pytest.mark.parametrize("how", ["stdio", "http"])
async def test_every_tool_answers(mcp: World, how: str) -> None:
    async with mcp.client(how, mcp.operator) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING | CHANGING
        for name, tool in tools.items():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in READING)
            assert tool.annotations.destructive_hint is False
            assert tool.input_schema["type"] == "object"
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"
            assert tool.description

        handlers = await call(client, "list_hook_handlers")
        assert [hook["id"] for hook in handlers["hooks"]] == ["no-rm", "log"]
        asked = await call(client, "list_hook_handlers", event="session:start")
        assert asked["hooks"] == []
        tested = await call(client, "test_hook_event", event="tool:pre_execute:bash", input={"command": "rm y"})
        assert (tested["verdict"]["decision"], tested["matched"][0]["id"]) == ("deny", "no-rm")
        assert [(effect["hook"], effect["when"]) for effect in tested["effects"]] == [("log", "after")]
        native = await call(client, "test_hook_event", event="PreToolUse", tool="Bash", input={"command": "rm y"})
        assert native["verdict"]["decision"] == "deny"

        (recent,) = (await call(client, "recent_events", session="mcp", type=["tool:*"]))["events"]
        assert (recent["id"], recent["decision"]) == (mcp.event, "deny")
        explained = await call(client, "explain_event", id=mcp.event[:16])
        assert "The hook no-rm" in explained["explanation"]
        assert "decided deny: no rm" in explained["explanation"]
        assert explained["trace"]["event"]["id"] == mcp.event

        again = await call(client, "simulate_event", id=mcp.event, hooks="version: 1\nhooks: []\n")
        assert (again["verdict"]["decision"], again["recorded"]["decision"]) == ("abstain", "deny")
        payload = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm z"}}
        simulated = await call(client, "simulate_event", event=payload)
        assert (simulated["verdict"]["decision"], simulated["event"]["source"]) == ("deny", "claude")

        listed = await call(client, "list_plugins")
        assert (listed["plugins"], listed["running"], listed["enabled"]) == ([], [], False)
        gobbys = {"tool_name": "Bash", "tool_input": {"command": "rm y"}}
        tested = await call(client, "test_hook_event", event_type="before-tool", data=json.dumps(gobbys))
        assert (tested["success"], tested["continue"], tested["decision"]) == (True, False, "deny")
        assert "no worker runs the plugin 'none'" in await failure(client, "reload_plugin", name="none")
        assert (await call(client, "list_dead_letters"))["letters"] == []
        assert await call(client, "retry_dead_letter", ids=["e1.log"]) == {"matching": 1, "done": 0}
        status = await call(client, "fleet_status")
        assert (status["namespace"], status["version"] > 0) == ("fleet", True)
        assert not Path("/nonexistent/ran").exists()


@pytest.mark.parametrize("how", ["stdio", "http"])
async def test_who_may_only_look_changes_nothing_and_mistakes_are_explained(mcp: World, how: str) -> None:
    async with mcp.client(how, mcp.reader if how == "http" else "") as client:
        assert "needs a token with the scope 'operate'" in await failure(client, "retry_dead_letter", ids=["e1.log"])
        assert "needs a token with the scope 'operate'" in await failure(client, "reload_plugin", name="none")
        assert "there is no tool 'drop_all'" in await failure(client, "drop_all")
        assert "cannot be read" in await failure(client, "explain_event", id=5)
        assert "unknown field `x`" in await failure(client, "fleet_status", x=1)
        assert "e9" in await failure(client, "explain_event", id="e9")
        assert "either `event` or `id`" in await failure(client, "simulate_event")
        assert "nonsense" in await failure(client, "test_hook_event", event="tool:nonsense")
        broken = "hooks: [{id: x, on: tool:pre_execute, rule: {reson: y}}]"
        assert "reson" in await failure(client, "simulate_event", event=CALL, hooks=broken)
        files = "import: [/etc/passwd]"
        assert "imports others" in await failure(client, "simulate_event", event=CALL, hooks=files)
        assert "event.x" in await failure(client, "recent_events", where="event.x ==")


async def refused(client: Client) -> bool:
    try:
        return (await client.call_tool("retry_dead_letter", {"ids": ["e1.log"]})).is_error is True
    except Exception:  # noqa: BLE001  (over HTTP the whole call is refused)
        return True


async def test_a_revoked_token_ends_its_rights_while_the_client_is_connected(mcp: World) -> None:
    for how in ("stdio", "http"):
        token = mcp.gateway.token(f"leaving-{how}", "observe", "operate")
        async with mcp.client(how, token) as client:
            await call(client, "retry_dead_letter", ids=["e1.log"])
            run(mcp.fleet.url("admin"), lambda c, how=how: revoke_token(c, mcp.fleet.keys, f"leaving-{how}"))  # type: ignore[misc]
            async with asyncio.timeout(PATIENCE):  # a gateway reads the tokens once a second
                while not await refused(client):
                    await asyncio.sleep(0.05)


def test_a_gateway_checks_who_calls(mcp: World) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Accept": "application/json, text/event-stream"}
    agents = mcp.gateway.token("agent", "publish")
    for token, more, status, code in (
        ("", {}, 401, "token-missing"),
        ("fht_wrong", {}, 401, "token-invalid"),
        (agents, {}, 403, "scope-missing"),
        (mcp.reader, {"Host": "evil.example"}, 403, "host-refused"),
        (mcp.reader, {"Origin": "https://evil.example"}, 403, "origin-refused"),
    ):
        with mcp.gateway.tcp(token, **headers, **more) as client:
            refused = client.post("/mcp", json=ping)
            assert (refused.status_code, refused.json()["code"]) == (status, code)
    with mcp.gateway.unix(**headers) as client:
        assert client.post("/mcp", json=ping).status_code == 401, "the socket alone only publishes"
    with mcp.gateway.tcp(mcp.reader, **headers) as client:
        assert client.post("/mcp", json=ping).json()["result"] == {}
        assert client.post("/mcp", content=b"{").status_code == 400
        assert client.post("/mcp", content=b" " * (3 << 20)).status_code == 413
        assert client.put("/mcp").status_code == 405


@pytest.mark.req("G-18", "X-04")
async def test_a_simulation_reads_what_the_session_has_used_and_counts_nothing(mcp: World) -> None:
    limited = """
version: 1
hooks: [{id: once, on: tool:pre_execute, rule: {decision: deny, limit: 1 per hour, reason: once is enough}}]
"""
    mcp.fleet.publish_hooks(limited)
    try:
        with mcp.gateway.unix() as client:
            spent = {**CALL, "session": "spent"}
            assert client.post("/v1/requests", json=spent).json()["decision"] == "abstain"
        async with mcp.client("stdio", mcp.operator) as client:
            for session, decision in (("spent", "deny"), ("new", "abstain"), ("new", "abstain")):
                found = await call(client, "simulate_event", event={**CALL, "session": "other"}, session=session)
                assert (found["event"]["session"], found["verdict"]["decision"]) == (session, decision)
            found = await call(client, "simulate_event", event=spent)
            assert found["verdict"]["decision"] == "deny", "of its own session"
    finally:
        mcp.fleet.publish_hooks(HOOKS)
