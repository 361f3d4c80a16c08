"""The tools as an MCP server of the official SDK. Importing this module takes a second; raises ConfigError without the SDK."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, NamedTuple

from bus.errors import ConfigError, FleethookError
from bus.secrets.redaction import redact_text
from bus.wire.codec import write_json
from workers.gateway.mcp.schemas import object_schema
from workers.gateway.mcp.tools import Tool, Tools, arguments_of
from workers.gateway.problems import Problem
from workers.gateway.tokens import Scope
from workers.plugins.mcp.messages import clean
from workers.plugins.mcp.servers import PluginServers, PluginTool

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
"""Finds the scopes of the caller of a request; None is the only caller of a server over stdio."""


class PluginAccess(NamedTuple):
    """The MCP servers of plugins, and the scope that their tools need."""

    servers: PluginServers
    scope: Scope


def mcp_server(tools: Tools, version: str, scopes: Scopes, plugins: PluginAccess | None = None) -> Server[Any]:
    """The server. A tool that changes anything needs `operate`, all others `observe`; tools of plugins are listed for callers
    who may call them."""
    by_name = {tool.name: tool for tool in tools.all()}
    described = [_description(tool) for tool in by_name.values()]

    async def list_tools(context: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        if plugins is None or plugins.scope not in await scopes(context.request):
            return ListToolsResult(tools=described)
        found = await plugins.servers.tools()
        return ListToolsResult(tools=[*described, *map(_plugin_description, found)])

    async def call_plugin(name: str, arguments: dict[str, Any] | None, granted: Collection[Scope]) -> CallToolResult:
        if plugins is None or plugins.scope not in granted:
            needed = "operate" if plugins is None else plugins.scope
            raise Problem(403, "scope-missing", f"{name} needs a token with the scope {needed!r}")
        return CallToolResult.model_validate(await plugins.servers.call(name, arguments or {}))

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        try:
            if tool is None and PLUGIN_MARK in params.name and plugins is not None:
                return await call_plugin(params.name[:200], params.arguments, await scopes(context.request))
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


PLUGIN_MARK: Final = "__"
"""In the name of every tool of a plugin, and of no other."""


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


def _plugin_description(found: PluginTool) -> ToolDescription:
    """A plugin's tool; what it says of itself about its effects is not passed on, since clients may rely on it."""
    title = found.tool.title or found.tool.name
    return ToolDescription(
        name=found.name,
        title=clean(title, 200),
        description=f"[plugin {clean(found.plugin, 64)}, server {clean(found.server, 64)}] {found.tool.description}",
        input_schema=found.tool.schema,
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
    )


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
