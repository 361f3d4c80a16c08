"""Tests over HTTP: what the hooks would do with an event, and whether an endpoint accepts a test."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.agents import find
from bus.config.settings import Settings
from bus.errors import DecodeError, NotFound
from bus.events import SOURCES, Event
from bus.hooksets.in_force import HookSet, Watcher
from bus.ids import event_id
from bus.secrets.redaction import redact, redact_url
from bus.verdicts import Verdict
from workers.admin.dry_run import later, try_event
from workers.delivery.endpoint_trial import TrialAttempt, post_tests
from workers.delivery.responses import body_text
from workers.gateway.access import CALLER
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.calls.trace_headers import TRACE_HEADERS, incoming_context
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response
from workers.gateway.records.operations import read_fields

log = logging.getLogger("fleethook.gateway")

_LONGEST: Final = 10.0
_AT_ONCE: Final = 2
"""How many events are tried at a time; others wait. A heavy rule takes a process of its own."""


class HookTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event to try: a canonical one, or an agent's own payload with the names of the agent and of its event."""

    event: dict[str, Any]
    source: Annotated[str, Meta(max_length=64, description="The agent of a payload, such as `claude`.")] = ""
    native: Annotated[str, Meta(max_length=128, description="The agent's name of the event: `PreToolUse`.")] = ""


class MatchedHook(msgspec.Struct, frozen=True, kw_only=True):
    """A blocking hook that fits the event."""

    id: str
    layer: str
    kind: str
    ran: bool
    """Only rules run; a command or request of a hook is not started."""


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks in force would do with the event. Nothing is recorded, and nothing is sent."""

    version: str
    """The hook sets in force, such as `fleet@3 user@9f2c41`."""
    verdict: Verdict
    matched: tuple[MatchedHook, ...]
    hooks: tuple[str, ...]
    """The background hooks that would run."""
    endpoints: tuple[str, ...]
    """The endpoints that would get the event."""


class EndpointTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test of an endpoint."""

    opens_incident: bool = False
    """Needed at PagerDuty, where a test opens a real incident, which may page a person, and resolves it."""


class EndpointTrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the receiver answered."""

    id: str
    url: str
    """Redacted."""
    ok: bool
    status: int
    ms: float
    error: str
    """What is wrong; empty if it accepted the test."""
    response: str
    """The beginning of the receiver's answer, redacted."""
    resolved: bool | None
    """At PagerDuty: whether the incident of the test was resolved."""


class Trials:
    """The tries of one gateway, with the hooks of the fleet and of the gateway's user."""

    def __init__(self, watcher: Watcher, settings: Settings) -> None:
        self._watcher, self._settings = watcher, settings
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def hooks(self, request: Request) -> Response:
        """Say what the hooks in force would do with an event, without running their commands and requests."""
        event = _event(await read_fields(request, HookTrial), self._watcher.host)
        await self._watcher.refresh()
        found = self._watcher.for_event(event)
        async with self._turn:
            await asyncio.to_thread(found.prepare)
            seconds = min(_LONGEST, self._settings.budget)
            fitting, verdict = await try_event(
                event, found, effects=False, seconds=seconds, policy=self._settings.on_failure
            )
        after = later(event, found, verdict)
        said = TrialResult(
            version=found.version,
            verdict=msgspec.structs.replace(verdict, event=""),
            matched=tuple(
                MatchedHook(id=hook.id, layer=hook.layer, kind=hook.kind, ran=hook.kind == "rule") for hook in fitting
            ),
            hooks=tuple(after["hooks"]),
            endpoints=tuple(after["endpoints"]),
        )
        return json_response(redact(msgspec.to_builtins(said)))

    async def endpoint(self, request: Request) -> Response:
        """Send a signed test event to an endpoint now, from the gateway's machine, and say what it answered."""
        asked = await read_fields(request, EndpointTrial)
        await self._watcher.refresh()
        hooks: HookSet = self._watcher.for_event(Event(type="", host=self._watcher.host))
        name = request.path_params["id"]
        endpoint = hooks.endpoints.get(name)
        if endpoint is None:
            raise NotFound(f"no endpoint is called {name[:80]!r} here; GET /v1/endpoints lists them")
        if endpoint.format == "pagerduty" and not asked.opens_incident:
            detail = 'a test opens a real incident at PagerDuty and resolves it; if you want that, say {"opens_incident": true}'
            raise Problem(409, "opens-incident", detail)
        async with self._turn:
            message = f"a test by token {request.scope[CALLER]}"
            sent = await post_tests(hooks, endpoint, message, incoming_context(request))
        log.info("token %s tested the endpoint %s", request.scope[CALLER], name)
        reply, wrong = sent[0]
        said = EndpointTrialResult(
            id=name,
            url=redact_url(endpoint.url),
            ok=not any(attempt.wrong for attempt in sent),
            status=reply.status,
            ms=round(reply.ms, 1),
            error=wrong,
            response=body_text(reply),
            resolved=_resolved(sent) if endpoint.format == "pagerduty" else None,
        )
        return json_response(redact(msgspec.to_builtins(said)))

    def paths(self) -> tuple[ApiPath, ...]:
        """The paths of the tries."""
        result, body = (Content(TrialResult),), (Content(HookTrial),)
        return (
            ApiPath("POST", "/v1/hooks/test", "operate", self.hooks, result, body=body, refusals=(404,)),
            ApiPath(
                "POST",
                "/v1/endpoints/{id}/test",
                "operate",
                self.endpoint,
                (Content(EndpointTrialResult),),
                body=(Content(EndpointTrial),),
                refusals=(409,),
                headers=TRACE_HEADERS,
            ),
        )


def _event(asked: HookTrial, host: str) -> Event:
    """The event to try, with an id, and with the gateway's host if it names none. Raises Problem and DecodeError."""
    if asked.source and asked.source not in SOURCES:
        raise Problem(404, "agent-unknown", f"no agent is called {asked.source[:80]!r}; one of {', '.join(SOURCES)}")
    source = asked.source or "generic"
    try:
        event = find(source).read(asked.native, msgspec.json.encode(asked.event), host=host)
    except (ValueError, TypeError) as error:
        raise DecodeError(f"the event cannot be read: {error}") from error
    return msgspec.structs.replace(event, id=event_id(), host=event.host or host)


def _resolved(sent: list[TrialAttempt]) -> bool:
    return len(sent) > 1 and not sent[1].wrong
