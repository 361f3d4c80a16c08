"""One delivery or dead letter as a whole, dead letters by reason, and two operations more: drop and enable."""

from __future__ import annotations

import logging

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Endpoint
from bus.hooksets.in_force import Watcher
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.delivery.dead_letters import dead_letters, drop
from workers.delivery.endpoint_controls import NotHalted, enable
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.problems import Problem
from workers.gateway.records.list_responses import json_response, list_response
from workers.gateway.records.operations import Done, Ids, Operations, caller_text, read_fields
from workers.gateway.records.queries import ListQuery, NoQuery, ReasonQuery, bad_query, filter_of, read_query
from workers.gateway.records.record_types import DeadRecord, DeliveryRecord
from workers.records.delivery_detail import DeliveryDetail, dead_detail, delivery_detail, detail_record
from workers.records.pages import MOST_SEARCHED
from workers.records.selection import LetterGroup, letters_by_reason

log = logging.getLogger("fleethook.gateway")


class Recover(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to enable an endpoint."""

    recover: bool = False
    """Also try the dead letters of that time again."""


class EnabledEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that was disabled until now, and what it missed."""

    id: str
    since: int
    """When it was disabled (ms since 1970)."""
    missed: int
    """Events that made no delivery to it; a replay sends them."""
    dead: int
    """Its dead letters of that time."""
    recovered: int
    """Those of them that are tried again."""


class DeliveryViews:
    """The deliveries and dead letters of one gateway's fleet."""

    def __init__(self, connections: Connections, keys: Keys, watcher: Watcher) -> None:
        self._connections, self._keys, self._watcher = connections, keys, watcher
        self._operations = Operations(connections, keys, watcher)

    async def delivery(self, request: Request) -> Response:
        """One delivery with its event, its request, and every attempt, by its id or the beginning of it."""
        read_query(request, NoQuery)
        found = await delivery_detail(
            self._connections, self._keys, request.path_params["id"], await self._webhook_endpoints()
        )
        return json_response(detail_record(found))

    async def dead_letter(self, request: Request) -> Response:
        """One dead letter: a delivery with every attempt, or the beginning of an entry that could not be read."""
        read_query(request, NoQuery)
        found = await dead_detail(
            self._connections, self._keys, request.path_params["id"], await self._webhook_endpoints()
        )
        return json_response(detail_record(found) if isinstance(found, DeliveryDetail) else msgspec.to_builtins(found))

    async def reasons(self, request: Request) -> Response:
        """The newest 20,000 dead letters, counted by reason, the most frequent first."""
        query = read_query(request, ReasonQuery)
        wanted = filter_of(query)
        try:
            letters = await dead_letters(self._connections, self._keys, wanted, most=MOST_SEARCHED)
        except ConfigError as error:  # of a pattern of the filter
            raise bad_query(str(error)) from error
        paging = ListQuery(limit=query.limit, cursor=query.cursor)
        return list_response(request, paging, msgspec.to_builtins(letters_by_reason(letters)), ("reason",))

    async def drop(self, request: Request) -> Response:
        """Delete dead letters for good, with what they keep of their events."""
        ids = (await read_fields(request, Ids)).ids
        dropped = await drop(self._connections, self._keys, ids)
        log.info("%s dropped %d of %d dead letters", caller_text(request), dropped, len(ids))
        return json_response(msgspec.to_builtins(Done(matching=len(ids), done=dropped)))

    async def enable(self, request: Request) -> Response:
        """Send to a disabled endpoint again: reset its failures, and say what it missed."""
        recover = (await read_fields(request, Recover)).recover
        name, target = await self._operations.find_target(request)
        try:
            enabled = await enable(self._connections, self._keys, target, recover=recover)
        except NotHalted as error:
            raise Problem(409, "not-disabled", str(error)) from error
        return json_response(msgspec.to_builtins(EnabledEndpoint(id=name, **msgspec.structs.asdict(enabled))))

    async def _webhook_endpoints(self) -> dict[str, Endpoint]:
        await self._watcher.refresh()
        return dict(self._watcher.for_event(Event(type="", host=self._watcher.host)).endpoints)


def delivery_paths(connections: Connections, keys: Keys, watcher: Watcher) -> tuple[ApiPath, ...]:
    """The paths of these views."""
    here = DeliveryViews(connections, keys, watcher)
    one_letter = (Content(DeadRecord),)
    return (
        ApiPath("GET", "/v1/deliveries/{id}", "observe", here.delivery, (Content(DeliveryRecord),), query=NoQuery),
        ApiPath("GET", "/v1/dead/reasons", "observe", here.reasons, (), item=LetterGroup, query=ReasonQuery),
        ApiPath("GET", "/v1/dead/{id}", "observe", here.dead_letter, one_letter, query=NoQuery),
        ApiPath("POST", "/v1/dead/drop", "operate", here.drop, (Content(Done),), body=(Content(Ids),)),
        ApiPath(
            "POST",
            "/v1/endpoints/{id}/enable",
            "operate",
            here.enable,
            (Content(EnabledEndpoint),),
            body=(Content(Recover),),
            refusals=(409,),
        ),
    )
