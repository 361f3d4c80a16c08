"""The paths of Gobby's daemon as two Starlette applications: HTTP, and the WebSocket on its own port."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketState

from bus.errors import FleethookError
from workers.gateway.access import Access
from workers.gateway.api_path import Handle
from workers.gateway.gobby.execute import HookCalls
from workers.gateway.gobby.plugin_lists import PluginLists
from workers.gateway.gobby.replies import refusal
from workers.gateway.gobby.status import GobbyStatus
from workers.gateway.gobby.tally import GobbyTally
from workers.gateway.gobby.websocket import GobbySocket
from workers.gateway.problems import problem_of

log = logging.getLogger("fleethook.gateway")


class Parts(NamedTuple):
    """The values that answer the paths."""

    execute: HookCalls
    status: GobbyStatus
    listed: PluginLists
    tally: GobbyTally
    socket: GobbySocket
    access: Access


def http_app(parts: Parts) -> ASGIApp:
    """The HTTP paths of the daemon, and its WebSocket at `/ws` too."""
    listed = parts.listed
    paths: tuple[tuple[str, str, Handle], ...] = (
        ("POST", "/hooks/execute", parts.execute.handle),
        ("GET", "/admin/status", parts.status.handle),
        ("GET", "/admin/metrics", parts.status.metrics),
        ("GET", "/plugins", listed.plugins),
        ("POST", "/plugins/reload", listed.reload),
        ("GET", "/webhooks", listed.webhooks),
        ("POST", "/webhooks/test", listed.test),
    )
    routes = [
        Route(path, _counted(_checked(handle, parts.access), parts.tally), methods=[method])
        for method, path, handle in paths
    ]
    return Starlette(
        routes=[*routes, WebSocketRoute("/ws", _checked_socket(parts))], exception_handlers={HTTPException: _unrouted}
    )


def websocket_app(parts: Parts) -> ASGIApp:
    """The WebSocket, at any path."""
    return Starlette(
        routes=[WebSocketRoute("/{path:path}", _checked_socket(parts))], exception_handlers={HTTPException: _unrouted}
    )


async def _unrouted(_: Request, error: Exception) -> Response:
    """The answer at a path or method that does not exist."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refusal(status, "Method Not Allowed" if status == 405 else "Not Found")


def _checked(handle: Handle, access: Access) -> Handle:
    """The handler with checks of Host and Origin before it. Gobby's clients have no token."""

    async def answer(request: Request) -> Response:
        try:
            await access.check(request, None)
            return await handle(request)
        except FleethookError as error:
            problem = problem_of(error)
            return refusal(problem.status, problem.detail)
        except Exception as error:
            log.exception("%s %s of gobby", request.method, request.url.path)
            return refusal(500, f"the gateway failed on this call ({type(error).__name__}); its log says why")

    return answer


def _counted(handle: Handle, tally: GobbyTally) -> Handle:
    async def answer(request: Request) -> Response:
        began = time.monotonic()
        response = await handle(request)
        tally.request(time.monotonic() - began, failed=response.status_code >= HTTPStatus.BAD_REQUEST)
        return response

    return answer


def _checked_socket(parts: Parts) -> Callable[[WebSocket], Awaitable[None]]:
    async def answer(socket: WebSocket) -> None:
        try:
            await parts.access.check(socket, None)
            await parts.socket.handle(socket)
        except FleethookError as error:
            if socket.application_state is not WebSocketState.CONNECTING:
                raise
            problem = problem_of(error)
            await socket.send_denial_response(refusal(problem.status, problem.detail))

    return answer
