"""The tools as an MCP server of the official SDK. Importing this module takes a second; raises ConfigError without the SDK."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from bus.errors import ConfigError, FleethookError
from bus.secrets.redaction import redact_text
from bus.wire.codec import write_json
from workers.gateway.mcp.schemas import object_schema
from workers.gateway.mcp.tools import Tool, Tools, arguments_of
from workers.gateway.problems import Problem
from workers.gateway.tokens import Scope

if sys.modules.get("opentelemetry", sys) is None:
    del sys.modules["opentelemetry"]  # the command line keeps it from being loaded, and the SDK needs it

try:
    from mcp.server import Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        ToolAnnotations,
    )
    from mcp_types import Tool as ToolDescription
except ImportError as error:
    raise ConfigError(
        "MCP needs a package that is not installed here", hint="pip install 'fleethook[mcp]', and start again"
    ) from error

log = logging.getLogger("fleethook.mcp")

INSTRUCTIONS: Final = (
    "Fleethook runs hooks for coding agents and decides on their tool calls. Use explain_event to find out why a call was "
    "denied, test_hook_event or simulate_event to see what the hooks would say before you call a tool, and fleet_status if "
    "hooks do not answer."
)

Scopes = Callable[[Any], Awaitable[Collection[Scope]]]
"""Finds the scopes of the caller of a request; None stands for the only caller of a server over stdio."""


def mcp_server(tools: Tools, version: str, scopes: Scopes) -> Server[Any]:
    """The server. A tool that changes anything needs `operate`, all others `observe`."""
    by_name = {tool.name: tool for tool in tools.all()}
    described = [_description(tool) for tool in by_name.values()]

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=described)

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        try:
            if tool is None:
                raise ConfigError(f"there is no tool {params.name[:80]!r}; there are: {', '.join(by_name)}")
            needed: Scope = "operate" if tool.changes else "observe"
            if needed not in await scopes(context.request):
                raise Problem(403, "scope-missing", f"{tool.name} needs a token with the scope {needed!r}")
            result = await tool.call(arguments_of(tool, params.arguments))
        except FleethookError as error:
            return _failed(redact_text(str(error)))
        except Exception as error:
            log.exception("the tool %s", params.name)
            return _failed(f"the tool failed ({type(error).__name__}); the log says why")
        text = str(result["explanation"]) if "explanation" in result else write_json(result).decode()
        return CallToolResult(content=[TextContent(text=text)], structured_content=result)

    return Server(
        "fleethook",
        title="Fleethook",
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def http_manager(server: Server[Any], most_bytes: int) -> StreamableHTTPSessionManager:
    """The server over HTTP, without sessions: each message has its own token. The gateway checks Host and Origin."""
    return StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=most_bytes,
    )


async def serve_stdio(server: Server[Any]) -> None:
    """Serve on this process's stdin and stdout until stdin ends."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _description(tool: Tool) -> ToolDescription:
    return ToolDescription(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=object_schema(tool.arguments),
        output_schema=object_schema(tool.result),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.changes,
            destructive_hint=False,
            idempotent_hint=not tool.changes,
            open_world_hint=tool.changes,
        ),
    )


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
