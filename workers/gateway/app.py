"""The paths of a gateway, each with the scope that it needs, as one Starlette application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketState

from bus.errors import FleethookError
from workers.gateway.access import Access
from workers.gateway.entries import Entries
from workers.gateway.health import Health
from workers.gateway.hooks import Hooks
from workers.gateway.live.sse import LiveEvents
from workers.gateway.live.websocket import LiveSocket
from workers.gateway.metrics import Metrics
from workers.gateway.problems import Problem, problem_of
from workers.gateway.programs import Programs
from workers.gateway.reading import Reading
from workers.gateway.tokens import Scope

log = logging.getLogger("fleethook.gateway")

Handle = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, Problem], Response]

_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


class Endpoint(NamedTuple):
    """One path and method."""

    method: str
    path: str
    scope: Scope | None
    """What the caller's token has to have; None: anyone may call."""
    handle: Handle
    refuse: Refuse | None = None
    """Makes the response to a call that is refused or fails, where that is more than the error itself."""


def endpoints(
    hooks: Hooks,
    entries: Entries,
    programs: Programs,
    health: Health,
    metrics: Metrics,
    reading: Reading,
    live: LiveEvents,
) -> tuple[Endpoint, ...]:
    """Every path of a gateway."""
    return (
        Endpoint("POST", "/v1/hooks/{agent}/{event}", "publish", hooks.handle, hooks.refuse),
        Endpoint("POST", "/v1/entries", "publish", entries.handle),
        Endpoint("POST", "/v1/events", "publish", programs.publish),
        Endpoint("POST", "/v1/requests", "publish", programs.ask),
        Endpoint("GET", "/livez", None, health.live),
        Endpoint("GET", "/readyz", None, health.ready),
        Endpoint("GET", "/metrics", "observe", metrics.scrape),
        Endpoint("GET", "/admin/metrics", "observe", metrics.scrape),
        Endpoint("GET", "/v1/events", "observe", reading.events),
        Endpoint("GET", "/v1/events/{id}", "observe", reading.event),
        Endpoint("GET", "/v1/deliveries", "observe", reading.deliveries),
        Endpoint("GET", "/v1/dead", "observe", reading.dead),
        Endpoint("GET", "/v1/hooks", "observe", reading.hooks),
        Endpoint("GET", "/v1/plugins", "observe", reading.plugins),
        Endpoint("GET", "/v1/endpoints", "observe", reading.endpoints),
        Endpoint("GET", "/v1/sessions", "observe", reading.sessions),
        Endpoint("GET", "/v1/hosts", "observe", reading.hosts),
        Endpoint("GET", "/v1/workers", "observe", reading.workers),
        Endpoint("GET", "/v1/live/sse", "observe", live.handle),
    )


def application(paths: tuple[Endpoint, ...], live: LiveSocket, access: Access) -> Starlette:
    """The application; every error of every path has the one shape of `problems`."""
    by_path: dict[str, dict[str, Handle]] = {}
    for path in paths:
        by_path.setdefault(path.path, {})[path.method] = _checked(path, access)
    routes: list[BaseRoute] = [
        Route(path, _by_method(methods), methods=list(methods)) for path, methods in by_path.items()
    ]
    routes.append(WebSocketRoute("/v1/live", _checked_socket(live, access)))
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


def _by_method(handles: Mapping[str, Handle]) -> Handle:
    """One handle for the methods of a path; HEAD is answered as GET, and the server leaves the body out."""

    async def answer(request: Request) -> Response:
        return await handles["GET" if request.method == "HEAD" else request.method](request)

    return answer


def _checked(endpoint: Endpoint, access: Access) -> Handle:
    """The endpoint behind its checks."""

    async def answer(request: Request) -> Response:
        try:
            await access.check(request, endpoint.scope)
            response = await endpoint.handle(request)
        except FleethookError as error:
            response = _failed(endpoint, request, problem_of(error))
        except Exception as error:
            log.exception("%s %s", endpoint.method, endpoint.path)
            detail = f"the gateway failed on this call ({type(error).__name__}); its log says why"
            response = _failed(endpoint, request, Problem(500, "failed", detail))
        response.headers.update(_HEADERS)
        return response

    return answer


def _checked_socket(live: LiveSocket, access: Access) -> Callable[[WebSocket], Awaitable[None]]:
    """The live feed behind its checks; a client that is refused gets the problem instead of a WebSocket."""

    async def answer(socket: WebSocket) -> None:
        try:
            await access.check(socket, "observe")
            await live.handle(socket)
        except FleethookError as error:
            if socket.application_state is not WebSocketState.CONNECTING:
                raise
            await socket.send_denial_response(problem_of(error).response())

    return answer


def _failed(endpoint: Endpoint, request: Request, problem: Problem) -> Response:
    return problem.response() if endpoint.refuse is None else endpoint.refuse(request, problem)


async def _unrouted(request: Request, error: Exception) -> Response:
    """The problem of a path or method that does not exist."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if status == 405:
        allowed = ", ".join(sorted(headers.get("Allow", "").split(", ")))
        problem = Problem(405, "method", f"{request.url.path[:200]} takes {allowed}", {"Allow": allowed})
    else:
        problem = Problem(404, "path", f"there is nothing at {request.url.path[:200]}")
    return problem.response()
