"""Without the package `mcp`, `/mcp` says so and the rest of the gateway works (G-18)."""

from __future__ import annotations

import sys

import pytest
from starlette.requests import Request

from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.hooksets.in_force import Watcher
from bus.system.directories import directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.gateway.mcp.path import McpPath
from workers.gateway.mcp.tools import Tools
from workers.gateway.problems import Problem

pytestmark = pytest.mark.req("G-18")


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were not installed: every import of it, or of a part of it, fails."""
    monkeypatch.delitem(sys.modules, "workers.gateway.mcp.server", raising=False)
    for name in ("mcp", *(name for name in sys.modules if name.startswith(("mcp.", "mcp_types")))):
        monkeypatch.setitem(sys.modules, name, None)


async def test_the_gateway_answers_501_with_what_to_install() -> None:
    connections, keys, places = Connections("redis://127.0.0.1:1"), Keys("n"), directories(create=False)
    watcher = Watcher.here(connections, keys, places)
    path = McpPath(Tools(connections, connections, keys, Settings(), places, watcher), "1", watcher)
    for _ in range(2):
        with pytest.raises(Problem) as caught:
            await path.handle(Request({"type": "http"}))
        assert (caught.value.status, caught.value.code) == (501, "mcp-missing")
        assert "pip install 'fleethook[mcp]'" in str(caught.value)
    await path.end()


def test_the_command_says_what_to_install() -> None:
    with pytest.raises(
        ConfigError, match=r"MCP needs a package that is not installed here; pip install 'fleethook\[mcp\]'"
    ):
        __import__("workers.gateway.mcp.server")
