"""The paths of a gateway, each with the scope that it needs, as one Starlette application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketState

from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.known_hosts import KnownHost
from bus.verdicts import Verdict
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Delivery
from workers.gateway.access import CALLER, Access
from workers.gateway.doing import Doing, Done, EndpointState, Ids, Pause
from workers.gateway.endpoint import TEXT, Content, Endpoint, Handle
from workers.gateway.entries import Entries
from workers.gateway.event_formats import BATCH, STRUCTURED
from workers.gateway.health import Health
from workers.gateway.hooks import Hooks
from workers.gateway.live.sse import LiveEvents
from workers.gateway.live.websocket import LiveSocket
from workers.gateway.metrics import Metrics
from workers.gateway.openapi import OpenApi
from workers.gateway.problems import Problem, problem_of
from workers.gateway.programs import Programs
from workers.gateway.queries import (
    DeliveryQuery,
    EventQuery,
    HookQuery,
    LetterQuery,
    LiveQuery,
    NoQuery,
    ReadyQuery,
    SessionQuery,
    WaitQuery,
)
from workers.gateway.reading import Reading
from workers.gateway.record_types import (
    EndpointRecord,
    EventRecord,
    HookRecord,
    PluginRecord,
    Sent,
    TraceRecord,
)
from workers.records.sessions import Session
from workers.records.status import Role

log = logging.getLogger("fleethook.gateway")

_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


_EVENTS: Final = (
    Content(Event | list[Event]),
    Content(None, (STRUCTURED, BATCH)),
)
_ID_HEADER: Final = ("Idempotency-Key", "The event's id: a call that is sent again gets the same answer.")
_HOOK_HEADERS: Final = (
    _ID_HEADER,
    ("Fleethook-Host", "The machine of the agent, where it is not the caller's."),
    ("Fleethook-Parent", "The id of the event whose hook made this call."),
)
_STREAM: Final = (Content(str, ("text/event-stream",)),)
_PLAIN: Final = (Content(str, (TEXT,)),)


def endpoints(
    hooks: Hooks,
    entries: Entries,
    programs: Programs,
    health: Health,
    metrics: Metrics,
    reading: Reading,
    doing: Doing,
    live: LiveEvents,
    version: str,
) -> tuple[Endpoint, ...]:
    """Every path of a gateway."""
    paths = (
        Endpoint(
            "POST",
            "/v1/hooks/{agent}/{event}",
            "publish",
            hooks.handle,
            (),  # JSON, text or nothing, without a media type, as the agent's protocol has it
            query=HookQuery,
            headers=_HOOK_HEADERS,
            body=(Content(None),),
            refuse=hooks.refuse,
        ),
        Endpoint(
            "POST",
            "/v1/entries",
            "publish",
            entries.handle,
            (Content(None, ("application/octet-stream",)),),
            body=(Content(None, ("application/octet-stream",)),),
            also=(202,),
            refusals=(504,),
        ),
        Endpoint("POST", "/v1/events", "publish", programs.publish, (Content(Sent),), body=_EVENTS, status=202),
        Endpoint(
            "POST",
            "/v1/requests",
            "publish",
            programs.ask,
            (Content(Verdict),),
            query=WaitQuery,
            body=_EVENTS,
            refusals=(504,),
        ),
        Endpoint("GET", "/livez", None, health.live, _PLAIN),
        Endpoint("GET", "/readyz", None, health.ready, _PLAIN, query=ReadyQuery),
        Endpoint("GET", "/metrics", "observe", metrics.scrape, _PLAIN),
        Endpoint("GET", "/admin/metrics", "observe", metrics.scrape, _PLAIN),
        _list("/v1/events", reading.events, EventRecord, EventQuery),
        Endpoint("GET", "/v1/events/{id}", "observe", reading.event, (Content(TraceRecord),), query=NoQuery),
        _list("/v1/deliveries", reading.deliveries, Delivery, DeliveryQuery),
        _list("/v1/dead", reading.dead, DeadLetter, LetterQuery),
        _list("/v1/hooks", reading.hooks, HookRecord),
        _list("/v1/plugins", reading.plugins, PluginRecord),
        _list("/v1/endpoints", reading.endpoints, EndpointRecord),
        _list("/v1/sessions", reading.sessions, Session, SessionQuery),
        _list("/v1/hosts", reading.hosts, KnownHost),
        _list("/v1/workers", reading.workers, Role),
        Endpoint("GET", "/v1/live/sse", "observe", live.handle, _STREAM, query=LiveQuery),
        _act("/v1/deliveries/retry", doing.retry, Ids, Done),
        _act("/v1/dead/redrive", doing.redrive, Ids, Done),
        _act("/v1/endpoints/{id}/pause", doing.pause, Pause, EndpointState),
        _act("/v1/endpoints/{id}/resume", doing.resume, None, EndpointState, 409),
    )
    return OpenApi(paths, version).endpoints


def _act(path: str, handle: Handle, body: Any, answer: Any, *refusals: int) -> Endpoint:
    bodies = (Content(body),) if body is not None else ()
    return Endpoint("POST", path, "operate", handle, (Content(answer),), body=bodies, refusals=refusals)


def _list(path: str, handle: Handle, item: Any, query: type[msgspec.Struct] = NoQuery) -> Endpoint:
    return Endpoint("GET", path, "observe", handle, (), item=item, query=query)


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
            request.scope[CALLER] = await access.check(request, endpoint.scope)
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
