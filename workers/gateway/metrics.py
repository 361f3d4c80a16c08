"""`/metrics` for Prometheus, and `/admin/status`: the state of the fleet at the moment of the call, and its counters.

The counters are in Redis, so they add up over all processes and outlive each of them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from bus.config.settings import Settings
from bus.events import Event
from bus.hooksets.in_force import HookSet, Watcher
from bus.system.directories import Directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.gateway.api_path import ApiPath, Content
from workers.gateway.live.feed import Feed
from workers.gateway.records.list_responses import json_response
from workers.gateway.records.plugin_records import plugin_records
from workers.gateway.records.queries import NoQuery, read_query
from workers.gateway.records.record_types import EndpointRecord, PluginRecord
from workers.records.figures import QueueJobs, read_queues
from workers.records.hook_list import endpoint_records
from workers.records.status import Status

if TYPE_CHECKING:
    from types import ModuleType


class AdminStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole fleet on one page: as `fleethook status --json`, with plugins, queues and endpoints."""

    version: str
    """Of this gateway."""
    uptime: Annotated[float, Meta(description="Seconds since this gateway started.")]
    hook_sets: str
    """The versions in force on this gateway's machine, such as `fleet@3 user@9f2c41`."""
    fleet: Status
    """Processes, streams with lag and oldest entry, what is due, parked and dead, counters, problems."""
    queues: tuple[QueueJobs, ...]
    endpoints: tuple[EndpointRecord, ...]
    """With the state of their breakers in `standing`."""
    plugins: tuple[PluginRecord, ...]
    live_clients: int
    """Clients of this gateway's live feed."""


class Metrics:
    """The figures of one gateway; `rq` goes to RQ's server."""

    def __init__(
        self,
        connections: Connections,
        rq: Connections,
        keys: Keys,
        settings: Settings,
        places: Directories,
        watcher: Watcher,
        feed: Feed,
        version: str,
    ) -> None:
        self._connections, self._rq, self._keys = connections, rq, keys
        self._settings, self._places, self._version = settings, places, version
        self._watcher, self._feed = watcher, feed
        self._began = time.monotonic()

    async def scrape(self, _: Request) -> Response:
        """The metrics; raises Unreachable, so that a scrape fails while Redis is away."""
        # Loading them takes half a second, which neither a start nor a hook call should wait for.
        figures, families = await asyncio.to_thread(_load)
        here = await self._here()
        targets = figures.endpoint_targets(here.endpoints.values(), self._watcher.host)
        counted = await figures.read_figures(self._connections, self._rq, self._keys, self._settings, targets)
        known = families.Here(self._feed.clients, len(self._watcher.rejected()), here.made_at)
        body, kind = families.exposition(await self._fleet(), counted, self._version, known)
        return Response(body, 200, None, kind)

    async def status(self, request: Request) -> Response:
        """Processes, streams, queues, endpoints, plugins and counters of the whole fleet."""
        read_query(request, NoQuery)
        here = await self._here()
        fleet = await self._fleet()
        host = self._watcher.host
        endpoints = await endpoint_records(self._connections, self._keys, here.endpoints.values(), host)
        found: dict[str, Any] = {
            "version": self._version,
            "uptime": round(time.monotonic() - self._began, 3),
            "hook_sets": here.version,
            "fleet": msgspec.to_builtins(fleet),
            "queues": msgspec.to_builtins(await read_queues(self._rq, self._settings)),
            "endpoints": endpoints,
            "plugins": await plugin_records(self._connections, self._keys, here),
            "live_clients": sum(self._feed.clients.values()),
        }
        return json_response(found)

    def paths(self) -> tuple[ApiPath, ...]:
        """The paths of the figures."""
        text = (Content(str, ("text/plain",)),)
        return (
            ApiPath("GET", "/metrics", "observe", self.scrape, text),
            ApiPath("GET", "/admin/metrics", "observe", self.scrape, text),
            ApiPath("GET", "/admin/status", "observe", self.status, (Content(AdminStatus),), query=NoQuery),
        )

    async def _here(self) -> HookSet:
        await self._watcher.refresh()
        return self._watcher.for_event(Event(type="", host=self._watcher.host))

    async def _fleet(self) -> Status:
        from workers.records.status import status

        return await status(self._connections, self._rq, self._keys, self._settings, self._places)


def _load() -> tuple[ModuleType, ModuleType]:
    from workers.gateway import metric_families
    from workers.records import figures

    return figures, metric_families
