"""`/metrics` for Prometheus: the state of the fleet at the moment of the scrape, and its counters.

The counters are in Redis, so they add up over all processes and outlive each of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from bus.config.settings import Settings
from bus.system.directories import Directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys

if TYPE_CHECKING:
    from types import ModuleType


class Metrics:
    """The metrics endpoint of one gateway; `rq` goes to RQ's server."""

    def __init__(
        self,
        connections: Connections,
        rq: Connections,
        keys: Keys,
        settings: Settings,
        places: Directories,
        version: str,
    ) -> None:
        self._connections, self._rq, self._keys = connections, rq, keys
        self._settings, self._places, self._version = settings, places, version

    async def scrape(self, _: Request) -> Response:
        """The metrics; raises Unreachable, so that a scrape fails while Redis is away."""
        # Loading them takes half a second, which neither a start nor a hook call should wait for.
        status, families = await asyncio.to_thread(_load)
        found = await status.status(self._connections, self._rq, self._keys, self._settings, self._places)
        body, kind = families.exposition(found, self._version)
        return Response(body, 200, None, kind)


def _load() -> tuple[ModuleType, ModuleType]:
    from workers.gateway import metric_families
    from workers.records import status

    return status, metric_families
