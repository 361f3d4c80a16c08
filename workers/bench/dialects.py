"""Dialects: a verdict on an agent's own payload through each agent dialect, compared with the generic one."""

from __future__ import annotations

import json
import statistics
import time
from typing import Final

from bus.agents import find
from bus.events import PRE_TOOL, SOURCES
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id, reply_token
from bus.tools import tool_for
from bus.wire.codec import encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.bench.placing import on_one_core, server_pid
from workers.bench.request import RULE, process
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.server import bench_connections

MOST_EXTRA_US: Final = 60.0
"""The most microseconds that the slowest dialect may take in addition to the generic one."""


def payload(agent: str, native: str) -> bytes:
    """A payload of about 1 KB for a shell call. It has the fields of all dialects, and each dialect reads its own.

    It also has a call id for each dialect, because the bus answers the same call only once.
    """
    tool_input = {"command": "ls -la", "description": "d" * 700}
    tool, call = tool_for(agent, "bash"), event_id()
    return json.dumps(
        {
            "session_id": "bench",
            "conversation_id": "bench",
            "sessionId": "bench",
            "sessionID": "bench",
            "cwd": "/srv",
            "hook_event_name": native,
            "type": "tool:pre_execute",
            "tool": tool,
            "tool_name": tool,
            "toolName": tool,
            "tool_input": tool_input,
            "toolArgs": tool_input,
            "input": tool_input,
            "tool_info": {"command_line": "ls -la", "cwd": "/srv"},
            "tool_use_id": call,
            "call": call,
        }
    ).encode()


async def dialect_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The figure of the slowest dialect. Each dialect is measured in turn with the generic one, and medians are compared."""
    keys, connections = Keys("bench"), bench_connections(url)
    await apply(connections, keys, parse_hook_file(RULE, "fleet"))
    events = {
        agent: next((name for name, can in find(agent).capabilities.items() if can.type in PRE_TOOL), "")
        for agent in SOURCES
    }
    agents = [agent for agent in SOURCES if events[agent] and (agent == "generic" or find(agent).name == agent)]
    series: dict[str, list[float]] = {agent: [] for agent in agents}
    with on_one_core(await server_pid(url)):
        async with process(url, "-m", "workers.cli", "worker", "evaluator"):
            for turn in range(sizes.warm_ups + rounds):
                slices: dict[str, list[float]] = {agent: [] for agent in agents}
                for _ in range(sizes.slices):
                    for agent in agents:
                        slices[agent].append(await _latency(connections, keys, agent, events[agent], sizes.requests))
                for agent in agents if turn >= sizes.warm_ups else ():
                    series[agent].append(statistics.median(slices[agent]))
    await connections.close()
    generic = series.pop("generic")
    base = statistics.median(generic)
    heaviest = max(series, key=lambda agent: statistics.median(series[agent]))
    return [
        figure(
            "verdict through the heaviest dialect",
            "the generic dialect",
            "us",
            series[heaviest],
            generic,
            bar=1 + MOST_EXTRA_US / base,
            note=f"{heaviest}; all on one core; the bar is {MOST_EXTRA_US:.0f} us more",
        )
    ]


async def _latency(connections: Connections, keys: Keys, agent: str, native: str, requests: int) -> float:
    took = []
    for _ in range(requests):
        reply, body = keys("reply", reply_token()), encode_payload(payload(agent, native))
        add = (
            "XADD",
            keys("requests"),
            "*",
            "id",
            event_id(),
            "reply",
            reply,
            "budget",
            10_000,
            "source",
            agent,
            "event",
            native,
            "host",
            "",
            "body",
            body,
        )
        start = time.perf_counter()
        with connections.lease() as connection:
            replies = await connection.exchange([add, ("BLMOVE", reply, reply, "LEFT", "LEFT", "10")], seconds=11)
        took.append(time.perf_counter() - start)
        checked(replies[1], f"asking through {agent}")
    return statistics.median(took) * 1e6
