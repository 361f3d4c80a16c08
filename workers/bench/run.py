"""The whole benchmark: starts a separate server, and runs every comparison in turn."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from workers.bench.backtesting import backtest_figures
from workers.bench.delivery_latency import latency_figures
from workers.bench.dialects import dialect_figures
from workers.bench.gateway import gateway_figures
from workers.bench.guarding import guard_figures
from workers.bench.heavy import heavy_figures
from workers.bench.held_calls import held_figures
from workers.bench.isolation import isolation_figures
from workers.bench.limits import limit_figures, workflow_figures
from workers.bench.plugins import plugin_figures
from workers.bench.request import request_figures
from workers.bench.rounds import FULL, Figure, Sizes
from workers.bench.server import bench_server
from workers.bench.spawning import command_figures, shim_figures
from workers.bench.stop_delay import stop_figures
from workers.bench.streaming import delivery_figures, publish_figures
from workers.bench.up.standing import standing_figures
from workers.bench.up.starting import start_figures

Begin = Callable[[int], None]
"""Called with the number of the part that begins, from 0."""


async def _deliveries(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    return [*await delivery_figures(url, rounds, sizes), *await latency_figures(url, rounds, sizes)]


PARTS: Final[dict[str, Callable[[str, int, Sizes], Awaitable[list[Figure]]]]] = {
    "request": request_figures,
    "command": command_figures,
    "dialects": dialect_figures,
    "shim": shim_figures,
    "gateway": gateway_figures,
    "approvals": held_figures,
    "stop": stop_figures,
    "limits": limit_figures,
    "workflows": workflow_figures,
    "publish": publish_figures,
    "deliveries": _deliveries,
    "isolation": isolation_figures,
    "guards": guard_figures,
    "plugins": plugin_figures,
    "backtest": backtest_figures,
    "heavy": heavy_figures,
    "start": lambda _url, rounds, sizes: start_figures(rounds, sizes),
    "up": lambda _url, rounds, sizes: standing_figures(rounds, sizes),
}


def run(parts: Sequence[str], rounds: int, begin: Begin, sizes: Sizes = FULL) -> list[Figure]:
    """Run the named parts (default: all), `rounds` rounds each, on a server with AOF every second."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="fh-bench-") as home, bench_server() as url:
        previous = os.environ.get("FLEETHOOK_HOME")
        os.environ["FLEETHOOK_HOME"] = home  # so that the user's own hook file is not read
        try:
            for number, name in enumerate(parts or PARTS):
                begin(number)
                figures += asyncio.run(_awaited(PARTS[name](url, rounds, sizes)))
        finally:
            if previous is None:
                del os.environ["FLEETHOOK_HOME"]
            else:
                os.environ["FLEETHOOK_HOME"] = previous
    return figures


async def _awaited(work: Awaitable[list[Figure]]) -> list[Figure]:
    return await work
