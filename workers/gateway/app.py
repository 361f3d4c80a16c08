"""The paths of a gateway, each with the scope that it needs, as one Starlette application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from bus.verdicts import Verdict
from workers.coverage.hosts import Host
from workers.delivery.dead_letters import DeadLetter
from workers.delivery.deliveries import Delivery
from workers.gateway.access import CALLER, Access
from workers.gateway.api_page import described
from workers.gateway.api_path import TEXT, ApiPath, Content, Handle
from workers.gateway.asyncapi import AsyncApi
from workers.gateway.bodies import release
from workers.gateway.calls.entries import Entries
from workers.gateway.calls.event_formats import BATCH, STRUCTURED
from workers.gateway.calls.hooks import ROUTE, Hooks
from workers.gateway.calls.programs import Programs
from workers.gateway.calls.trace_headers import TRACE_HEADERS
from workers.gateway.health import Health
from workers.gateway.live.sse import LiveEvents
from workers.gateway.metrics import Metrics
from workers.gateway.patience import Patience
from workers.gateway.problems import Problem, problem_of
from workers.gateway.records.operations import Done, EndpointState, Ids, Operations, Pause
from workers.gateway.records.queries import (
    DeliveryQuery,
    EventQuery,
    HookQuery,
    LetterQuery,
    ListQuery,
    LiveQuery,
    NoQuery,
    ReadyQuery,
    SessionQuery,
)
from workers.gateway.records.record_lists import RecordLists
from workers.gateway.records.record_types import (
    EndpointRecord,
    EventRecord,
    HookRecord,
    PluginRecord,
    Sent,
    TraceRecord,
)
from workers.records.sessions import SessionRecord
from workers.records.status import Role

log = logging.getLogger("fleethook.gateway")

Socket = Callable[[WebSocket], Awaitable[None]]

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


_EVENTS: Final = (
    Content(Event | list[Event]),
    Content(None, (STRUCTURED, BATCH)),
)
_ID_HEADER: Final = ("Idempotency-Key", "The event's id: a call that is sent again gets the same answer.")
_HOOK_HEADERS: Final = (
    _ID_HEADER,
    *TRACE_HEADERS,
    ("Fleethook-Host", "The machine of the agent, where it is not the caller's."),
    ("Fleethook-Parent", "The id of the event whose hook made this call."),
)
_STREAM: Final = (Content(str, ("text/event-stream",)),)
_PLAIN: Final = (Content(str, (TEXT,)),)


def api_paths(
    hooks: Hooks,
    entries: Entries,
    programs: Programs,
    health: Health,
    metrics: Metrics,
    lists: RecordLists,
    operations: Operations,
    live: LiveEvents,
    asyncapi: AsyncApi,
    version: str,
    more: Iterable[ApiPath] = (),
    pages: Iterable[ApiPath] = (),
) -> tuple[ApiPath, ...]:
    """Every path of a gateway; `more` are those of packages that make their own, `pages` those for people's browsers."""
    paths = (
        ApiPath(
            "POST",
            ROUTE,
            "publish",
            hooks.handle,
            (),  # JSON, text or nothing, without a media type, as the agent's protocol has it
            query=HookQuery,
            headers=_HOOK_HEADERS,
            body=(Content(None),),
            refuse=hooks.refuse,
        ),
        ApiPath(
            "POST",
            "/v1/entries",
            "publish",
            entries.handle,
            (Content(None, ("application/octet-stream",)),),
            body=(Content(None, ("application/octet-stream",)),),
            also=(202,),
            refusals=(504,),
        ),
        ApiPath(
            "GET",
            "/v1/entries/{id}",
            "publish",
            entries.held,
            (Content(None, ("application/octet-stream",)),),
            query=NoQuery,
            also=(204,),
        ),
        ApiPath(
            "POST",
            "/v1/events",
            "publish",
            programs.publish,
            (Content(Sent),),
            headers=TRACE_HEADERS,
            body=_EVENTS,
            status=202,
        ),
        ApiPath(
            "POST",
            "/v1/requests",
            "publish",
            programs.ask,
            (Content(Verdict),),
            query=HookQuery,
            headers=TRACE_HEADERS,
            body=_EVENTS,
            refusals=(504,),
        ),
        ApiPath("GET", "/livez", None, health.live, _PLAIN),
        ApiPath("GET", "/readyz", None, health.ready, _PLAIN, query=ReadyQuery),
        *metrics.paths(),
        _list("/v1/events", lists.events, EventRecord, EventQuery),
        ApiPath("GET", "/v1/events/{id}", "observe", lists.event, (Content(TraceRecord),), query=NoQuery),
        _list("/v1/deliveries", lists.deliveries, Delivery, DeliveryQuery),
        _list("/v1/dead", lists.dead, DeadLetter, LetterQuery),
        _list("/v1/hooks", lists.hooks, HookRecord),
        _list("/v1/plugins", lists.plugins, PluginRecord),
        _list("/v1/endpoints", lists.endpoints, EndpointRecord),
        _list("/v1/sessions", lists.sessions, SessionRecord, SessionQuery),
        _list("/v1/hosts", lists.hosts, Host),
        _list("/v1/workers", lists.workers, Role),
        ApiPath("GET", "/v1/live/sse", "observe", live.handle, _STREAM, query=LiveQuery),
        _act("/v1/deliveries/retry", operations.retry, Ids, Done),
        _act("/v1/dead/redrive", operations.redrive, Ids, Done),
        _act("/v1/endpoints/{id}/pause", operations.pause, Pause, EndpointState),
        _act("/v1/endpoints/{id}/resume", operations.resume, None, EndpointState, 409),
        *more,
    )
    return (*described(paths, asyncapi, version), *pages)


def _act(path: str, handle: Handle, body: Any, answer: Any, *refusals: int) -> ApiPath:
    bodies = (Content(body),) if body is not None else ()
    return ApiPath("POST", path, "operate", handle, (Content(answer),), body=bodies, refusals=refusals)


def _list(path: str, handle: Handle, item: Any, query: type[msgspec.Struct] = ListQuery) -> ApiPath:
    return ApiPath("GET", path, "observe", handle, (), item=item, query=query)


def application(paths: tuple[ApiPath, ...], sockets: Mapping[str, Socket], access: Access) -> Starlette:
    """The application; all errors of all paths have the format of `problems`."""
    by_path: dict[str, dict[str, Handle]] = {}
    patience = Patience()
    # Starlette tries one route after another, 1.5 µs each, so those that agents wait for come first.
    hot = {path.path for path in paths if path.scope == "publish"}
    for path in paths:
        by_path.setdefault(path.path, {})[path.method] = _checked(path, access, patience)
    routes: list[BaseRoute] = [
        # A path without parameters takes every method itself, so that another one is a 405 and no id of `/v1/dead/{id}`.
        Route(path, _by_method(methods), methods=list(methods) if "{" in path else _METHODS)
        for path, methods in sorted(by_path.items(), key=lambda item: (item[0] not in hot, "{" in item[0]))
    ]
    routes += [WebSocketRoute(path, _checked_socket(handle, access)) for path, handle in sockets.items()]
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


def _by_method(handles: Mapping[str, Handle]) -> Handle:
    """One handler for the methods of a path. It answers HEAD like GET; the server leaves the body out."""

    allowed = ", ".join(sorted({*handles, *(("HEAD",) if "GET" in handles else ())}))

    async def answer(request: Request) -> Response:
        handle = handles.get("GET" if request.method == "HEAD" else request.method)
        if handle is None:
            raise HTTPException(405, headers={"Allow": allowed})
        return await handle(request)

    return answer


def _checked(path: ApiPath, access: Access, patience: Patience) -> Handle:
    """The handler of a path: checks the caller, and turns errors into problems. What only reads is tried again."""
    reads = path.method == "GET" and path.scope is not None

    async def check(request: Request) -> None:
        request.scope[CALLER] = await access.check(request, path.scope, from_anywhere=path.from_anywhere)

    async def handle(request: Request) -> Response:
        await check(request)
        return await path.handle(request)

    async def answer(request: Request) -> Response:
        try:
            if reads:
                response = await patience.read(lambda: handle(request))
            else:
                await patience.read(lambda: check(request))
                response = await path.handle(request)
        except FleethookError as error:
            response = _failed(path, request, problem_of(error))
        except Exception as error:
            log.exception("%s %s", path.method, path.path)
            detail = f"the gateway failed on this call ({type(error).__name__}); its log says why"
            response = _failed(path, request, Problem(500, "failed", detail))
        finally:
            release(request.scope)
        response.headers.update(_HEADERS)
        return response

    return answer


def _checked_socket(handle: Socket, access: Access) -> Socket:
    """The handler of a WebSocket: checks the caller, who gets the problem instead of a WebSocket if refused."""

    async def answer(socket: WebSocket) -> None:
        try:
            await access.check(socket, "observe")
            await handle(socket)
        except FleethookError as error:
            if socket.application_state is not WebSocketState.CONNECTING:
                raise
            await socket.send_denial_response(problem_of(error).response())

    return answer


def _failed(path: ApiPath, request: Request, problem: Problem) -> Response:
    return problem.response() if path.refuse is None else path.refuse(request, problem)


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
