"""Operations over HTTP, for tokens with the scope `operate`: retry deliveries, pause and resume endpoints."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import DecodeError, NotFound
from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.lazy.conversions import from_json
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.delivery.dead_letters import redrive
from workers.delivery.deliveries import endpoint_target, retry
from workers.delivery.endpoint_controls import NotHalted, pause, resume
from workers.delivery.endpoint_health import Standing, read_health
from workers.gateway.access import CALLER, RIGHTS
from workers.gateway.bodies import read_body
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response

Id = Annotated[str, Meta(min_length=1, max_length=512)]


class Ids(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The deliveries to work on, by their whole ids from the lists."""

    ids: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=500)]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The number of ids in the call, and of those that were changed; the others were in a state that does not allow it."""

    matching: int
    done: int


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason of a pause."""

    reason: Annotated[str, Meta(max_length=500)] = ""


class EndpointState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an endpoint after the call."""

    id: str
    standing: Standing
    changed: bool
    """False if it had this state before."""


B = TypeVar("B", bound=msgspec.Struct)


class Operations:
    """The operations of one gateway."""

    def __init__(self, connections: Connections, keys: Keys, watcher: Watcher) -> None:
        self._connections, self._keys, self._watcher = connections, keys, watcher

    async def retry(self, request: Request) -> Response:
        """Try deliveries at once that are due later, parked or dead."""
        ids = (await read_fields(request, Ids)).ids
        return _done(len(ids), await retry(self._connections, self._keys, ids))

    async def redrive(self, request: Request) -> Response:
        """Try dead deliveries again; entries that could not be read are skipped."""
        ids = (await read_fields(request, Ids)).ids
        return _done(len(ids), await redrive(self._connections, self._keys, ids))

    async def pause(self, request: Request) -> Response:
        """Park an endpoint's deliveries from now on."""
        said = await read_fields(request, Pause)
        name, target = await self.find_target(request)
        changed = await pause(self._connections, self._keys, target, reason=said.reason, by=caller_text(request))
        return await self._state(name, target, changed=changed)

    async def resume(self, request: Request) -> Response:
        """Send the deliveries of a paused endpoint again."""
        name, target = await self.find_target(request)
        try:
            await resume(self._connections, self._keys, target)
        except NotHalted as error:
            raise Problem(409, "not-paused", str(error)) from error
        return await self._state(name, target, changed=True)

    async def find_target(self, request: Request) -> tuple[str, str]:
        """The id and target of the endpoint in the path; raises NotFound."""
        await self._watcher.refresh()
        name = request.path_params["id"]
        endpoint = self._watcher.for_event(Event(type="", host=self._watcher.host)).endpoints.get(name)
        if endpoint is None:
            raise NotFound(f"no endpoint is called {name[:80]!r} here; GET /v1/endpoints lists them")
        return name, endpoint_target(endpoint, self._watcher.host)

    async def _state(self, name: str, target: str, *, changed: bool) -> Response:
        health = (await read_health(self._connections, self._keys, [target]))[target]
        return _said(EndpointState(id=name, standing=health.standing, changed=changed))


def caller_text(request: Request) -> str:
    """Who calls: `token NAME`, or the user and host of a browser that was signed in from a terminal."""
    name: str = request.scope[CALLER]
    return f"token {name}" if request.scope[RIGHTS].via == "token" else name


async def read_fields(request: Request, kind: type[B]) -> B:
    """The fields of a JSON body; no body is one without fields. Raises DecodeError."""
    try:
        return from_json(await read_body(request) or b"{}", kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"the body cannot be read: {error}") from error


def _done(matching: int, done: int) -> Response:
    return _said(Done(matching=matching, done=done))


def _said(value: msgspec.Struct) -> Response:
    return json_response(msgspec.to_builtins(value))
