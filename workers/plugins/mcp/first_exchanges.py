"""What is said first to an MCP server: the greeting, and the question for its tools."""

from __future__ import annotations

from typing import Final

from workers.plugins.mcp.http_connection import HttpConnection
from workers.plugins.mcp.messages import (
    MOST_PAGES,
    MOST_TOOLS,
    PROTOCOL,
    Answer,
    ServerRefuses,
    ServerTool,
    tool_of,
)
from workers.plugins.mcp.stdio_connection import StdioConnection

START_SECONDS: Final = 30.0
"""How long a server may take until it answers: some fetch themselves first."""
LIST_SECONDS: Final = 10.0

Connection = StdioConnection | HttpConnection


async def greet(connection: Connection) -> None:
    """Begin a session of MCP; raises ServerDown and ServerRefuses."""
    about = {"name": "fleethook", "version": "1"}
    params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
    answer = await connection.request("initialize", params, START_SECONDS)
    if not isinstance(answer.get("protocolVersion"), str):
        raise ServerRefuses("its answer to initialize names no version of MCP")
    if isinstance(connection, HttpConnection):
        connection.protocol = answer["protocolVersion"][:32]
        await connection.ready(LIST_SECONDS)
    else:
        connection.notify("notifications/initialized")


async def listed(connection: Connection) -> tuple[ServerTool, ...]:
    """The usable tools of a server; the first of each name, and at most MOST_TOOLS."""
    found: dict[str, ServerTool] = {}
    params: Answer = {}
    for _ in range(MOST_PAGES):
        answer = await connection.request("tools/list", params, LIST_SECONDS)
        raw = answer.get("tools")
        for item in raw[: 2 * MOST_TOOLS] if isinstance(raw, list) else ():
            tool = tool_of(item)
            if tool is not None and len(found) < MOST_TOOLS:
                found.setdefault(tool.name, tool)
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or len(found) >= MOST_TOOLS:
            break
        params = {"cursor": cursor}
    return tuple(found.values())
