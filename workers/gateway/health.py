"""`/livez` and `/readyz`: whether this process works, and whether it can get verdicts."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from bus.errors import FleethookError
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.gateway.problems import Problem

NAMESPACE_HEADER: Final = "Fleethook-Namespace"
"""The fleet that the gateway serves: a program that finds a gateway by its socket alone can see whether it is the right one."""

_SECONDS: Final = 1.0


class ReadinessCheck(NamedTuple):
    """One check of readiness."""

    name: str
    trouble: str = ""
    """Empty if all is well."""


class Health:
    """The health endpoints."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._names = {NAMESPACE_HEADER: keys.namespace}

    async def live(self, _: Request) -> Response:
        """200 as long as the process answers: an outage of Redis is no reason to restart it."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """200 if hooks get verdicts here, else 503; `?verbose` lists the checks."""
        checks = await self._checks()
        troubles = [f"{check.name}: {check.trouble}" for check in checks if check.trouble]
        if "verbose" in request.query_params:
            lines = [f"[-]{check.name} {check.trouble}" if check.trouble else f"[+]{check.name} ok" for check in checks]
            lines.append("not ready" if troubles else "ready")
            return PlainTextResponse("\n".join(lines) + "\n", 503 if troubles else 200, self._names)
        if troubles:
            raise Problem(503, "not-ready", "; ".join(troubles), {"Retry-After": "1"})
        return PlainTextResponse("ok\n", headers=self._names)

    async def _checks(self) -> list[ReadinessCheck]:
        try:
            async with asyncio.timeout(_SECONDS):
                with self._connections.lease() as connection:
                    pong, alive = await connection.exchange([("PING",), ("EXISTS", self._keys("alive", "evaluator"))])
            checked(pong, "asking redis")
            answers = checked(alive, "looking for an evaluator") == 1
        except TimeoutError:
            return [ReadinessCheck("redis", f"no answer within {_SECONDS:g} s"), ReadinessCheck("evaluator", "unknown")]
        except FleethookError as error:
            return [ReadinessCheck("redis", str(error)), ReadinessCheck("evaluator", "unknown")]
        return [
            ReadinessCheck("redis"),
            ReadinessCheck("evaluator", "" if answers else "none is alive, so hooks get their fallback"),
        ]
