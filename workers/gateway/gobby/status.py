"""`GET /admin/status`: Gobby's scripts call it before every hook call, and wait half a second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from bus.errors import FleethookError
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.gateway.gobby.config import GobbyConfig
from workers.gateway.gobby.loaded_plugins import counted, loaded_plugins
from workers.gateway.gobby.replies import json_reply
from workers.gateway.gobby.tally import FleetCounts, GobbyTally, read_counts
from workers.gateway.metrics import Metrics

_SECONDS: Final = 0.2
"""The scripts wait 0.5 s for the whole answer."""


class GobbyStatus:
    """The state in the format of Gobby's daemon. The status is always 200, because the scripts read nothing else."""

    def __init__(
        self, connections: Connections, keys: Keys, config: GobbyConfig, metrics: Metrics, tally: GobbyTally
    ) -> None:
        self._connections, self._keys, self._config = connections, keys, config
        self._metrics, self._tally = metrics, tally

    async def handle(self, _: Request) -> Response:
        """The state: `degraded` while Redis or all evaluators are away, so that hook calls get their fallback."""
        began = time.monotonic()
        trouble, counts = "no answer from redis", FleetCounts(0, 0, 0, 0, 0)
        plugins: list[dict[str, Any]] = []
        with contextlib.suppress(TimeoutError, FleethookError):
            async with asyncio.timeout(_SECONDS):
                counts = await read_counts(self._connections, self._keys, _SECONDS)
                trouble = await self._trouble()
                plugins = [counted(plugin) for plugin in await loaded_plugins(self._connections, self._keys)]
        config = self._config
        return json_reply(
            {
                "status": "degraded" if trouble else "healthy",
                **({"reason": trouble} if trouble else {}),
                "server": {
                    "port": config.port,
                    "test_mode": False,
                    "running": True,
                    "uptime_seconds": round(self._tally.uptime, 3),
                },
                "daemon": {"name": "fleethook", "pid": os.getpid()},
                "process": self._tally.process(),
                "background_tasks": {
                    "active": counts.tasks_active,
                    "total": counts.tasks_total,
                    "completed": counts.tasks_completed,
                    "failed": counts.tasks_failed,
                },
                "mcp_servers": {},  # none that this port calls; Fleethook keeps neither tasks nor memories nor skills
                "internal_tools_count": 0,
                "sessions": {
                    "active": counts.sessions,
                    "paused": 0,
                    "handoff_ready": 0,
                    "total": counts.sessions,
                },
                "tasks": {},
                "memory": {},
                "skills": {},
                "plugins": {
                    "enabled": bool(plugins) or config.plugins_enabled,
                    "loaded": len(plugins),
                    "handlers": sum(plugin["handlers"] for plugin in plugins),
                    "plugins": plugins,
                },
                "response_time_ms": round((time.monotonic() - began) * 1000, 3),
            }
        )

    async def metrics(self, request: Request) -> Response:
        """The fleet's metrics, then those of Gobby's daemon by its names; raises Unreachable like the gateway's own."""
        fleet = await self._metrics.scrape(request)
        from workers.gateway.gobby.exposition import MEDIA_TYPE, exposition  # slow to load, as for the gateway's own

        counts = await read_counts(self._connections, self._keys)
        return Response(bytes(fleet.body) + exposition(self._tally, counts), headers={"content-type": MEDIA_TYPE})

    async def _trouble(self) -> str:
        with self._connections.lease() as connection:
            (alive,) = await connection.exchange([("EXISTS", self._keys("alive", "evaluator"))], seconds=_SECONDS)
        return "" if checked(alive, "looking for an evaluator") == 1 else "no evaluator is alive"
