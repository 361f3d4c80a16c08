"""`/mcp` of a gateway: MCP over streamable HTTP, without sessions, for tokens with the scope `observe`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from bus.errors import ConfigError
from bus.hooksets.in_force import Watcher
from workers.gateway.access import RIGHTS
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.mcp.tools import Tools
from workers.gateway.problems import Problem
from workers.gateway.tokens import Scope
from workers.runtime.consumer_loop import cancel_tasks

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from workers.plugins.mcp.servers import PluginServers

PATH: Final = "/mcp"
MOST_BYTES: Final = 2 * 1024 * 1024


class McpPath:
    """MCP on one gateway; the SDK is loaded by the first call."""

    def __init__(self, tools: Tools, version: str, watcher: Watcher) -> None:
        self._tools, self._version, self._watcher = tools, version, watcher
        self._servers: PluginServers | None = None
        self._manager: StreamableHTTPSessionManager | None = None
        self._starting = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def handle(self, request: Request) -> Response:
        """Answer one message of MCP."""
        del request
        return _ManagedResponse(await self._started())

    async def end(self) -> None:
        """End the calls under way."""
        if self._running is not None:
            await cancel_tasks([self._running])
        if self._servers is not None:
            await self._servers.close()

    def paths(self) -> tuple[ApiPath, ...]:
        """The path, which is not in `/openapi.json`: MCP describes its own messages."""
        return tuple(
            ApiPath(method, PATH, "observe", self.handle, (Content(None),)) for method in ("POST", "GET", "DELETE")
        )

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                try:
                    manager, self._servers = await asyncio.to_thread(
                        _manager, self._tools, self._version, self._watcher
                    )
                except ConfigError as error:
                    raise Problem(501, "mcp-missing", str(error)) from error
                ready = asyncio.Event()
                self._running = asyncio.create_task(_run(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager


def _manager(tools: Tools, version: str, watcher: Watcher) -> tuple[StreamableHTTPSessionManager, PluginServers]:
    """The SDK's side, which is loaded here, and the MCP servers of plugins.

    Plugins' tools run with the rights of the gateway's user, and may do anything: they need `operate`.
    """
    from workers.gateway.mcp.server import PluginAccess, http_manager, mcp_server
    from workers.plugins.mcp.servers import PluginServers, offers_here

    servers = PluginServers(offers_here(watcher))
    return http_manager(mcp_server(tools, version, _scopes, PluginAccess(servers, "operate")), MOST_BYTES), servers


async def _scopes(request: Any) -> tuple[Scope, ...]:
    """The scopes of a caller, which `access` has noted in the request."""
    scopes: tuple[Scope, ...] = request.scope[RIGHTS].scopes
    return scopes


async def _run(manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(manager.run())
        ready.set()
        await asyncio.Event().wait()


class _ManagedResponse(Response):
    """The response that the SDK writes itself."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._handle = manager.handle_request

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Let the SDK read the request and write the response."""
        await self._handle(scope, receive, send)
