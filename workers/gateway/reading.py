"""`GET /v1/...`: what `fleethook ... --json` prints, over HTTP; redacted as there."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bus.config.settings import Settings
from bus.events import Event
from bus.hooksets.in_force import HookSet, Watcher
from bus.hooksets.known_hosts import known_hosts
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.plugins import plugins
from workers.gateway.lists import json_response, list_response, page_response
from workers.gateway.queries import DeliveryQuery, EventQuery, LetterQuery, NoQuery, SessionQuery, filter_of, read_query
from workers.records.events import record
from workers.records.hook_list import endpoint_records, hook_record, listed_hooks, run_record
from workers.records.ids import whole_event_id
from workers.records.last_runs import last_runs
from workers.records.pages import EVENT_POSITION, INDEX_POSITION, delivery_page, event_page, letter_page
from workers.records.sessions import sessions
from workers.records.status import read_roles
from workers.records.trace import trace, trace_record


class Reading:
    """The lists of one gateway; `rq` goes to RQ's server."""

    def __init__(
        self, connections: Connections, rq: Connections, keys: Keys, settings: Settings, watcher: Watcher
    ) -> None:
        self._connections, self._rq, self._keys, self._settings = connections, rq, keys, settings
        self._watcher = watcher

    async def events(self, request: Request) -> Response:
        """The events, newest first."""
        query = read_query(request, EventQuery)
        wanted = filter_of(query)
        return await page_response(
            request,
            query.limit,
            query.cursor,
            EVENT_POSITION,
            lambda most, before: event_page(self._connections, self._keys, wanted, most, before),
            record,
        )

    async def event(self, request: Request) -> Response:
        """One event with everything that it caused, by its id or how it begins."""
        read_query(request, NoQuery)
        name = await whole_event_id(self._connections, self._keys, request.path_params["id"])
        return json_response(trace_record(await trace(self._connections, self._keys, name)))

    async def deliveries(self, request: Request) -> Response:
        """The deliveries, newest first."""
        query = read_query(request, DeliveryQuery)
        wanted = filter_of(query)
        return await page_response(
            request,
            query.limit,
            query.cursor,
            INDEX_POSITION,
            lambda most, before: delivery_page(self._connections, self._keys, wanted, most, before),
            msgspec.to_builtins,
        )

    async def dead(self, request: Request) -> Response:
        """The dead letters, newest first."""
        query = read_query(request, LetterQuery)
        wanted = filter_of(query)
        return await page_response(
            request,
            query.limit,
            query.cursor,
            INDEX_POSITION,
            lambda most, before: letter_page(self._connections, self._keys, wanted, most, before),
            msgspec.to_builtins,
        )

    async def hooks(self, request: Request) -> Response:
        """The hooks in force for events of this gateway's host outside of projects, in their order."""
        read_query(request, NoQuery)
        here = await self._here()
        runs = (await last_runs(self._connections, self._keys)).runs
        found = listed_hooks(here)
        return list_response(
            request, [{**hook_record(hook), "last_run": run_record(runs.get(hook.id))} for hook in found]
        )

    async def plugins(self, request: Request) -> Response:
        """The plugins that the hook files in force import."""
        read_query(request, NoQuery)
        return list_response(request, _plain(plugins((await self._here()).files)))

    async def endpoints(self, request: Request) -> Response:
        """The endpoints in force, with their health and how their recent deliveries went."""
        read_query(request, NoQuery)
        known = (await self._here()).endpoints.values()
        return list_response(request, await endpoint_records(self._connections, self._keys, known, self._watcher.host))

    async def sessions(self, request: Request) -> Response:
        """The sessions of the newest events."""
        query = read_query(request, SessionQuery)
        found = [
            one
            for one in await sessions(self._connections, self._keys)
            if query.source in {"", one.source} and query.host in {"", one.host} and query.ended in {None, one.ended}
        ]
        return list_response(request, _plain(found))

    async def _here(self) -> HookSet:
        await self._watcher.refresh()
        return self._watcher.for_event(Event(type="", host=self._watcher.host))

    async def hosts(self, request: Request) -> Response:
        """The hosts that have blocking hooks of their own."""
        read_query(request, NoQuery)
        return list_response(request, _plain(await known_hosts(self._connections, self._keys)))

    async def workers(self, request: Request) -> Response:
        """The process types of the fleet, and which processes of each are alive."""
        read_query(request, NoQuery)
        return list_response(request, _plain(await read_roles(self._connections, self._rq, self._keys, self._settings)))


def _plain(values: Any) -> list[Any]:
    return [msgspec.to_builtins(value) for value in values]
