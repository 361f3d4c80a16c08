"""One scripted agent of the demo: asks for verdicts, publishes events, and reports the results on stdout.

Runs as `python -m workers.demo.agent NAME REQUESTS EVENTS`; the server comes from the environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import msgspec

from bus.client import Bus
from bus.events import Event


class AgentResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one agent."""

    verdicts: int
    fallbacks: int
    published: tuple[str, ...]
    """The ids of the events that it published."""
    times: tuple[float, ...]
    """The milliseconds that each request took, measured by the agent."""


async def act(name: str, requests: int, events: int) -> AgentResults:
    """Run the agent's script: in turn, a request for a verdict on a tool call and an event with the call's result."""
    published: list[str] = []
    times: list[float] = []
    fallbacks = 0
    async with Bus(os.environ["FLEETHOOK_REDIS_URL"], namespace=os.environ["FLEETHOOK_NAMESPACE"]) as bus:
        for turn in range(max(requests, events)):
            if turn < requests:
                start = time.perf_counter()
                verdict = await bus.request(
                    Event(
                        type="tool:pre_execute",
                        source=name,
                        session=name,
                        tool="bash",
                        call=f"{name}-{turn}",
                        input={"command": "ls -la"},
                    )
                )
                times.append((time.perf_counter() - start) * 1000)
                fallbacks += bool(verdict.fallback)
            if turn < events:
                event = Event(type="turn:end", source=name, session=name, data={"turn": turn})
                published.append(await bus.publish(event))
    return AgentResults(verdicts=requests, fallbacks=fallbacks, published=tuple(published), times=tuple(times))


if __name__ == "__main__":
    report = asyncio.run(act(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.buffer.write(msgspec.json.encode(report))
