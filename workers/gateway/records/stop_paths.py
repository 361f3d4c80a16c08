"""`/v1/stop` and `/v1/resume`: one stop for all agents, or for those that a condition names (X-12)."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import ConfigError, DecodeError
from bus.lazy.conversions import from_json
from bus.matching.conditions import MAX_LENGTH
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.fleet_control.reach import ReachedAgents, read_reached
from workers.fleet_control.stops import (
    MOST_REASON,
    MOST_STOPS,
    ActiveStop,
    StopChange,
    lift_stops,
    place_stop,
    stop_history,
)
from workers.gateway.access import CALLER, RIGHTS
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.bodies import read_body
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response
from workers.gateway.records.queries import NoQuery, check_where, read_query

_MOST_BODY: Final = 64 * 1024

Reason = Annotated[str, Meta(max_length=MOST_REASON, description="Why, for the model and the record.")]
B = TypeVar("B", bound=msgspec.Struct)


class StopOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agents to stop, and why."""

    where: Annotated[
        str, Meta(max_length=MAX_LENGTH, description="A CEL condition on the event; empty: every agent.")
    ] = ""
    reason: Reason = ""


class ResumeOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which stops to lift, and why."""

    ids: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
        Meta(max_length=MOST_STOPS, description="Ids of stops; empty: all."),
    ] = ()
    reason: Reason = ""


class Lifted(msgspec.Struct, frozen=True, kw_only=True):
    """The stops that were lifted; empty if none was in force."""

    lifted: tuple[ActiveStop, ...]


class StopsInForce(ReachedAgents, frozen=True, kw_only=True):
    """The stops in force, which hosts they have not reached, and who placed and lifted stops."""

    history: tuple[StopChange, ...]
    """The last changes, newest first."""


class Stopping:
    """The stops of one gateway's fleet."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys

    async def show(self, request: Request) -> Response:
        """The stops in force, and the last changes."""
        read_query(request, NoQuery)
        found = await read_reached(self._connections, self._keys)
        history = await stop_history(self._connections, self._keys)
        return order_answer(StopsInForce(**msgspec.structs.asdict(found), history=tuple(history)))

    async def stop(self, request: Request) -> Response:
        """Deny prompts, tool calls and permission questions from now on, in the name of the caller."""
        order = await read_order(request, StopOrder)
        by, via = request.scope[CALLER], request.scope[RIGHTS].via
        check_where(order.where)
        try:
            placed = await place_stop(
                self._connections, self._keys, by=by, via=via, where=order.where, reason=order.reason
            )
        except ConfigError as error:
            raise Problem(409, "too-many-stops", str(error)) from error
        return order_answer(placed)

    async def resume(self, request: Request) -> Response:
        """Lift stops, in the name of the caller."""
        order = await read_order(request, ResumeOrder)
        by, via = request.scope[CALLER], request.scope[RIGHTS].via
        lifted = await lift_stops(self._connections, self._keys, order.ids, by=by, via=via, reason=order.reason)
        return order_answer(Lifted(lifted=tuple(lifted)))


def stop_paths(connections: Connections, keys: Keys) -> tuple[ApiPath, ...]:
    """The paths of stops."""
    here = Stopping(connections, keys)
    return (
        ApiPath("GET", "/v1/stop", "observe", here.show, (Content(StopsInForce),), query=NoQuery),
        ApiPath(
            "POST",
            "/v1/stop",
            "operate",
            here.stop,
            (Content(ActiveStop),),
            body=(Content(StopOrder),),
            refusals=(409,),
        ),
        ApiPath(
            "POST",
            "/v1/resume",
            "operate",
            here.resume,
            (Content(Lifted),),
            body=(Content(ResumeOrder),),
            refusals=(404,),
        ),
    )


async def read_order(request: Request, kind: type[B]) -> B:
    """The body of a call; raises DecodeError."""
    try:
        return from_json(await read_body(request, _MOST_BODY) or b"{}", kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"the body cannot be read: {error}") from error


def order_answer(value: msgspec.Struct) -> Response:
    """The response with a value."""
    return json_response(msgspec.to_builtins(value))
