"""A probe: answered by whoever evaluates, seen by no hook, recorded nowhere; and what `up` takes for ready."""

from __future__ import annotations

import asyncio
import os

import pytest

from bus.ids import host_name
from bus.probe import answering_evaluator, is_process
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import evaluating, publish_hooks, stream
from tests.support.servers import Server
from tests.support.waiting import PATIENCE
from workers.runtime.readiness import until_answered


@pytest.mark.req("X-10")
async def test_a_probe_names_who_answered_and_leaves_nothing(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, "hooks: [{id: all, on: '*', rule: {decision: deny, reason: never}}]")
    async with evaluating(server.url, keys):
        who = await answering_evaluator(connections, keys)
        assert is_process(who, host_name(), {os.getpid()})
        assert not is_process(who, host_name(), {os.getpid() + 1})
        assert not is_process(who, "elsewhere", {os.getpid()})
    assert await stream(connections, keys) == []
    assert await stream(connections, keys, "requests") == []


@pytest.mark.req("X-10")
async def test_ready_is_an_answer_of_this_start(server: Server, keys: Keys, connections: Connections) -> None:
    """Evaluators of another start answer too, and prove nothing."""
    pids: list[int] = [0]
    waiting = asyncio.create_task(until_answered(server.url, keys, lambda: pids, lambda _text: None))
    async with evaluating(server.url, keys):
        assert await answering_evaluator(connections, keys)
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        pids.append(os.getpid())
        await asyncio.wait_for(waiting, PATIENCE)
