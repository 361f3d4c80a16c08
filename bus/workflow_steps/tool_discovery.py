"""Gobby's conditions about its own MCP server: a tool may be called after its schema was looked up there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNLOCKED: Final = "unlocked_tools"
"""The variable with the tools whose schema was looked up, as `server:tool`."""

_DISCOVERY: Final = frozenset(
    {
        *("list_mcp_servers", "list_tools", "get_tool_schema", "search_tools", "recommend_tools"),
        *("list_skills", "get_skill", "search_skills"),
    }
)


def is_discovery_tool(name: object = None, *_: object) -> bool:
    """Whether a tool only tells which tools there are; `mcp__server__tool` is the tool."""
    return str(name or "").rpartition("__")[2] in _DISCOVERY


def called_tool(tool_input: object) -> str:
    """The tool that a call's input names, as `server:tool`; empty if it names none."""
    if not isinstance(tool_input, Mapping):
        return ""
    server = tool_input.get("server_name") or tool_input.get("server")
    tool = tool_input.get("tool_name") or tool_input.get("tool")
    return f"{server}:{tool}" if server and tool else ""


def is_tool_unlocked(tool_input: object, variables: Mapping[str, object]) -> bool:
    """Whether the schema of the tool that a call's input names was looked up before (`track_schema_lookup`)."""
    known = variables.get(UNLOCKED)
    return isinstance(known, list) and called_tool(tool_input) in known
