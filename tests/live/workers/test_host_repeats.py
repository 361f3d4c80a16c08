"""A hook that only the event's own machine has runs once, though its evaluator dies and another one asks again (X-09)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.host_requests import Hosts
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.live.workers.test_host import LAPTOP, asked, hooks, hosting, rule
from tests.support.running import HOST, bash, do, evaluating, lines, publish_hooks, put, stream, until_true, verdict
from tests.support.servers import Server
from tests.support.waiting import BUDGET, BUDGET_MS, until
from workers.evaluator import Evaluator

pytestmark = [pytest.mark.live, pytest.mark.req("X-02", "X-09")]


@pytest.mark.parametrize("slow", [False, True])
async def test_a_second_evaluator_waits_for_the_run_that_the_first_one_began(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, slow: bool
) -> None:
    """Two workers of that host share the work. A slow hook takes longer than the agent's deadline."""
    ran, go, user = tmp_path / "ran", tmp_path / "go", tmp_path / "fleethook.yaml"
    command = f"echo x >> {ran}; until [ -e {go} ]; do sleep 0.02; done; exit 2"
    user.write_text(hooks({"id": "theirs", "command": command, **({"timeout": BUDGET} if slow else {})}))
    await publish_hooks(connections, keys, hooks(rule("fleets", "rm")))
    more: dict[str, Any] = {"budget": 4_000, "patience": str(BUDGET_MS)} if slow else {}
    async with hosting(server.url, keys, user), hosting(server.url, keys, user):
        watcher = Watcher(connections, keys, host=HOST, user_file=None, trust_file=Path("/nonexistent"))
        first = Evaluator(server.url, keys, watcher, connections)
        await first.prepare()
        running = asyncio.create_task(first.run(asyncio.Event()))
        name, reply = await put(connections, keys, bash(), host=LAPTOP, **more)
        await until_true(lambda: lines(ran), "the hook runs")
        if slow:
            await until(
                lambda: do(connections, "EXISTS", f"{reply}:wait"), "the agent is told that it waits for a slow hook"
            )
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await do(connections, "DEL", keys("beat", first.name))
        waited, part_of_first = await _waits(connections), await asked(connections, keys)
        async with evaluating(server.url, keys):

            async def joined() -> bool:
                another = await asked(connections, keys) != part_of_first
                return another and await do(connections, "XLEN", keys("requests", LAPTOP)) == 1

            await until(joined, "the second evaluator asks, and its part is that of the first")
            if slow:

                async def goes_on() -> bool:
                    return await _waits(connections) >= waited + 7  # a second each, and the budget is 4 s

                await until(goes_on, "it waits on when the budget is used up")
            go.touch()
            said = await verdict(connections, reply)
        assert (said.decision, [part.hook for part in said.parts], lines(ran)) == ("deny", ["theirs"], ["x"])
        (event,) = await stream(connections, keys)
        assert event.fields[b"id"] == name.encode()
        part = Event(id=name, type="tool:pre_execute", tool="bash", source="generic", host=LAPTOP)
        late = await Hosts(connections, keys).ask(part, {}, "allow", 2**42, 0, 5.0)
        assert late is not None
        assert (late.decision, lines(ran)) == ("deny", ["x"]), "who asks after its end is told what it said"


async def _waits(connections: Connections) -> int:
    """How many waits for a host's answer have ended."""
    said: bytes = await do(connections, "INFO", "commandstats")
    found = re.search(rb"cmdstat_blpop:calls=(\d+)", said)
    return int(found[1]) if found else 0
