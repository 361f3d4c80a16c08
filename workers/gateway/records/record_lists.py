"""`GET /v1/...`: the lists that `fleethook ... --json` prints, also redacted."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.config.settings import Settings
from bus.events import Event
from bus.hooksets.in_force import HookSet, Watcher
from bus.hooksets.known_hosts import known_hosts
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.coverage.hosts import hosts
from workers.delivery.filters import Filter
from workers.gateway.records.list_responses import json_response, list_response, page_response
from workers.gateway.records.plugin_records import plugin_records
from workers.gateway.records.queries import (
    DeliveryQuery,
    EventQuery,
    LetterQuery,
    ListQuery,
    NoQuery,
    SessionQuery,
    filter_of,
    read_query,
)
from workers.records.events import record
from workers.records.hook_list import endpoint_records, hook_records, listed_hooks
from workers.records.id_prefixes import whole_event_id
from workers.records.pages import EVENT_POSITION, INDEX_POSITION, Page, delivery_page, event_page, letter_page
from workers.records.sessions import sessions
from workers.records.status import read_roles
from workers.records.trace import trace
from workers.records.waterfall import timed_trace_record

T = TypeVar("T")


class RecordLists:
    """The lists of one gateway; `rq` goes to RQ's server."""

    def __init__(
        self, connections: Connections, rq: Connections, keys: Keys, settings: Settings, watcher: Watcher
    ) -> None:
        self._connections, self._rq, self._keys, self._settings = connections, rq, keys, settings
        self._watcher = watcher

    async def events(self, request: Request) -> Response:
        """The events, newest first."""
        return await self._page(request, EventQuery, EVENT_POSITION, event_page, record)

    async def event(self, request: Request) -> Response:
        """One event with everything that it caused, by its id or the beginning of it."""
        read_query(request, NoQuery)
        name = await whole_event_id(self._connections, self._keys, request.path_params["id"])
        return json_response(timed_trace_record(await trace(self._connections, self._keys, name)))

    async def deliveries(self, request: Request) -> Response:
        """The deliveries, newest first."""
        return await self._page(request, DeliveryQuery, INDEX_POSITION, delivery_page, msgspec.to_builtins)

    async def dead(self, request: Request) -> Response:
        """The dead letters, newest first."""
        return await self._page(request, LetterQuery, INDEX_POSITION, letter_page, msgspec.to_builtins)

    async def _page(
        self,
        request: Request,
        kind: type[EventQuery | LetterQuery],
        position: re.Pattern[str],
        read: Callable[[Connections, Keys, Filter, int, str], Awaitable[Page[T]]],
        plain: Callable[[T], Any],
    ) -> Response:
        query = read_query(request, kind)
        wanted = filter_of(query)
        return await page_response(
            request,
            query.limit,
            query.cursor,
            position,
            lambda most, before: read(self._connections, self._keys, wanted, most, before),
            plain,
        )

    async def hooks(self, request: Request) -> Response:
        """The hooks in force for events of this gateway's host outside of projects, in the order in which they run."""
        query = read_query(request, ListQuery)
        found = listed_hooks(await self._here())
        return list_response(request, query, await hook_records(self._connections, self._keys, found), ("id", "layer"))

    async def plugins(self, request: Request) -> Response:
        """Python plugins with their calls and times in all workers, and the plugins that the hook files in force import."""
        query = read_query(request, ListQuery)
        found = await plugin_records(self._connections, self._keys, await self._here())
        return list_response(request, query, found, ("name", "dialect", "layer"))

    async def endpoints(self, request: Request) -> Response:
        """The endpoints in force, with their health and how their recent deliveries went."""
        query = read_query(request, ListQuery)
        known = (await self._here()).endpoints.values()
        found = await endpoint_records(self._connections, self._keys, known, self._watcher.host)
        return list_response(request, query, found, ("id", "layer"))

    async def sessions(self, request: Request) -> Response:
        """The sessions of the newest events."""
        query = read_query(request, SessionQuery)
        found = [
            one
            for one in await sessions(self._connections, self._keys)
            if query.source in {"", one.source}
            and query.host in {"", one.host}
            and query.ended in {None, one.ended}
            and query.uncovered in {None, one.uncovered > 0}
        ]
        return list_response(request, query, _plain(found), ("id", "source", "host"))

    async def _here(self) -> HookSet:
        await self._watcher.refresh()
        return self._watcher.for_event(Event(type="", host=self._watcher.host))

    async def hosts(self, request: Request) -> Response:
        """The hosts of the fleet: what agents reported from each, its workers, and its own blocking hooks."""
        query = read_query(request, ListQuery)
        known = await known_hosts(self._connections, self._keys)
        roles = await read_roles(self._connections, self._rq, self._keys, self._settings)
        live = {one.role: one.who for one in roles}
        found = await hosts(self._connections, self._keys, known, live)
        return list_response(request, query, _plain(found), ("host",))

    async def workers(self, request: Request) -> Response:
        """The process types of the fleet, and which processes of each are alive."""
        query = read_query(request, ListQuery)
        found = await read_roles(self._connections, self._rq, self._keys, self._settings)
        return list_response(request, query, _plain(found), ("role",))


def _plain(values: Any) -> list[Any]:
    return [msgspec.to_builtins(value) for value in values]
