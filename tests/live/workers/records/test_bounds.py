"""Finished records are bounded by number and bytes, and go first where the server is nearly full; what is owed stays."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.client import Bus
from bus.config.settings import Settings
from bus.ids import event_id
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.shim_kit import World
from tests.support.delivering import dispatch_event, dispatching, publish, settled, turn_end, watcher_of
from tests.support.running import NO_RM, bash, command_hook, do, evaluating, publish_hooks, put, stream
from tests.support.servers import Server
from tests.support.waiting import BUDGET, CONNECT, until
from workers.delivery.dead_letters import dead_letters
from workers.delivery.deliveries import deliveries, delivery
from workers.evaluator import Evaluator
from workers.housekeeping import tidy_all
from workers.records.bounds import FULL, MemoryRelief, memory_in_use

pytestmark = [pytest.mark.live, pytest.mark.req("B-05", "X-06")]

ENDPOINT = 'endpoints:\n  - {id: a, url: "https://a.example", events: "turn:*"}\n'
MIB = 1024 * 1024


async def records(connections: Connections, keys: Keys, state: str, count: int, *, size: int = 700) -> list[str]:
    """Records of deliveries in this state, oldest first, as settle.lua leaves them."""
    names = [f"{event_id()}.a" for _ in range(count)]
    commands = []
    for place, name in enumerate(names):
        fields = (
            "event",
            name.partition(".")[0],
            "target",
            "endpoint:a",
            "hook",
            "a",
            "state",
            state,
            "reason",
            "x" * size,
        )
        commands += [("HSET", keys("delivery", name), *fields), ("ZADD", keys("recent"), 1_000 + place, name)]
        commands += [("ZADD", keys("dead"), 4 * 10**12 + place, name)] if state == "dead" else []
        commands += [("PEXPIRE", keys("delivery", name), 86_400_000)] if state == "delivered" else []
    with connections.lease() as connection:
        for start in range(0, len(commands), 1_000):
            await connection.exchange(commands[start : start + 1_000])
    return names


async def left(connections: Connections, keys: Keys, names: list[str]) -> list[str]:
    """The records that are still there."""
    with connections.lease() as connection:
        there = await connection.exchange([("EXISTS", keys("delivery", name)) for name in names])
    return [name for name, exists in zip(names, there, strict=True) if exists]


async def test_deliveries_that_are_done_are_bounded_by_number(
    server: Server, keys: Keys, connections: Connections
) -> None:
    owed = await records(connections, keys, "parked", 30)
    dead = await records(connections, keys, "dead", 10)
    done = await records(connections, keys, "delivered", 1_200)
    await tidy_all(connections, keys, Settings(deliveries_max_count=140))
    assert await left(connections, keys, owed) == owed
    assert await left(connections, keys, dead) == dead
    assert await left(connections, keys, done) == done[-100:], "the newest stay"
    assert await do(connections, "ZCARD", keys("recent")) == 140
    await tidy_all(connections, keys, Settings(deliveries_max_count=1))
    assert await left(connections, keys, [*owed, *dead]) == [*owed, *dead], (
        "what is owed or dead is no record to be forgotten"
    )
    assert await left(connections, keys, done) == []


async def test_deliveries_that_are_done_are_bounded_by_bytes(
    server: Server, keys: Keys, connections: Connections
) -> None:
    done = await records(connections, keys, "delivered", 2_000, size=2_000)
    await tidy_all(connections, keys, Settings(deliveries_max_count=0, deliveries_max_bytes=MIB))
    stay = await left(connections, keys, done)
    assert 200 <= len(stay) <= 600
    assert stay == done[-len(stay) :]
    await tidy_all(connections, keys, Settings(deliveries_max_count=0, deliveries_max_bytes=0))
    assert await left(connections, keys, done) == stay


async def test_dead_letters_are_bounded_by_number_and_bytes(
    server: Server, keys: Keys, connections: Connections
) -> None:
    dead = await records(connections, keys, "dead", 900, size=5_000)
    with connections.lease() as connection:  # whose events' bodies are kept for them
        bodies = [("HSET", keys("body", name.partition(".")[0]), "data", "x" * 3_000, "refs", 1) for name in dead]
        await connection.exchange(bodies)
    many = Settings(dead_keep=3650 * 86_400.0, dead_max_count=700)
    now = await do(connections, "TIME")
    for place, name in enumerate(dead):
        await do(connections, "ZADD", keys("dead"), int(now[0]) * 1_000 + place, name)
    await tidy_all(connections, keys, many)
    assert await left(connections, keys, dead) == dead[-700:]
    await tidy_all(connections, keys, Settings(dead_keep=3650 * 86_400.0, dead_max_bytes=2 * MIB))
    stay = await left(connections, keys, dead)
    assert 150 <= len(stay) <= 400
    assert stay == dead[-len(stay) :]
    assert len(await dead_letters(connections, keys, most=1_000)) == len(stay)
    assert await do(connections, "EXISTS", keys("body", dead[0].partition(".")[0])) == 0


@pytest.fixture
async def small() -> AsyncIterator[tuple[Server, Connections]]:
    """A server with little memory, which refuses what does not fit."""
    one = Server(maxmemory=12 * MIB)
    one.start()
    connections = Connections(one.url, connect=CONNECT)
    yield one, connections
    await connections.close()
    one.stop()


async def fill(connections: Connections, part: float) -> None:
    """Take up memory with something that nobody may forget, up to this part of the server's limit."""
    number = 0
    while (await _used(connections)) < 12 * MIB * part:
        await do(connections, "SET", f"ballast:{number}", "x" * 50_000)
        number += 1


async def _used(connections: Connections) -> int:
    return (await memory_in_use(connections))[0]


async def test_near_the_servers_limit_finished_records_go_first(small: tuple[Server, Connections]) -> None:
    one, connections = small
    keys = Keys("t-small")
    await publish_hooks(connections, keys, ENDPOINT)
    name = await dispatch_event(connections, keys, turn_end())
    owed, done = await records(connections, keys, "parked", 50), await records(connections, keys, "delivered", 3_000)
    assert await MemoryRelief(connections, keys).make_room() == 0, "there is room"
    await fill(connections, 0.9)
    async with dispatching(one.url, keys):

        async def roomy() -> bool:
            return await _used(connections) < 12 * MIB * FULL

        await until(roomy, "there is room again")
        event = turn_end()
        await publish(connections, keys, event)
        await settled(connections, keys, event.id, "ready")
    assert await left(connections, keys, owed) == owed
    assert (await delivery(connections, keys, f"{name}.a")).state == "ready"
    assert len(await left(connections, keys, done)) < 3_000


async def test_a_full_server_gets_room_though_nobody_can_write(small: tuple[Server, Connections]) -> None:
    """The dispatcher cannot take its lease there, and makes room all the same; events that everybody has read go, too."""
    one, connections = small
    keys = Keys("t-small")
    await publish_hooks(connections, keys, ENDPOINT)
    async with dispatching(one.url, keys):
        for _ in range(1_500):
            await do(
                connections,
                "XADD",
                keys("events"),
                "*",
                "id",
                event_id(),
                "event",
                "x",
                "of",
                "e1",
                "body",
                "x" * 2_000,
            )

        async def read() -> bool:
            (group,) = await do(connections, "XINFO", "GROUPS", keys("events"))
            return bool(group[5] == 0 and group[7] == (await do(connections, "XINFO", "STREAM", keys("events")))[7])

        await until(read, "all are acknowledged")
    await fill(connections, 0.95)
    await do(connections, "CONFIG", "SET", "maxmemory", await _used(connections) - 100_000)
    refused = await do(connections, "SET", "more", "x")
    assert "maxmemory" in str(refused)
    async with dispatching(one.url, keys):

        async def takes_writes() -> bool:
            return bool(await do(connections, "SET", "more", "x") == b"OK")

        await until(takes_writes, "it takes writes again")
        event = turn_end()
        await publish(connections, keys, event)
        await settled(connections, keys, event.id, "ready")
    assert len(await stream(connections, keys)) < 1_501
    assert len(await deliveries(connections, keys)) == 1


@pytest.mark.parametrize("hooks", [NO_RM, command_hook("exit 2")])
async def test_a_verdict_that_can_be_computed_is_given_on_a_full_server(
    small: tuple[Server, Connections], hooks: str
) -> None:
    """Its agent waits already; the server takes nothing new from anybody, and answers all the same."""
    one, connections = small
    keys, stop = Keys("t-small"), asyncio.Event()
    await publish_hooks(connections, keys, hooks)
    evaluator = Evaluator(one.url, keys, watcher_of(connections, keys), connections)
    await evaluator.prepare()
    _, reply = await put(connections, keys, bash("rm x"))
    bus = Bus(one.url, namespace="t-small", connect=CONNECT)
    agent = asyncio.create_task(bus.request(bash("rm x"), budget=BUDGET))
    await until(lambda: _blocked(connections), "the agent waits")
    await do(connections, "CONFIG", "SET", "maxmemory", 1_000_000)
    assert "maxmemory" in str(await do(connections, "SET", "more", "x"))
    running = asyncio.create_task(evaluator.run(stop))
    said = await agent  # its blocking read is refused as soon as the answer is there; it looks, and finds it
    assert (said.decision, said.fallback) == ("deny", "")
    await until(lambda: _there(connections, reply), "the other one is answered, too")
    stop.set()
    await running
    await bus.close()
    assert len(await stream(connections, keys)) == 2, "and both are on record"


@pytest.mark.req("X-09")
@pytest.mark.usefixtures("each_shim")
async def test_a_hook_call_tries_again_until_there_is_room(small: tuple[Server, Connections], tmp_path: Path) -> None:
    one, connections = small
    with sync_client(one.url) as client:
        world = World(tmp_path, one.socket, client)
        world.install()
        await publish_hooks(connections, world.keys, NO_RM)
        await records(connections, world.keys, "delivered", 3_000)
        async with evaluating(one.url, world.keys):
            await do(connections, "CONFIG", "SET", "maxmemory", await _used(connections) - 100_000)
            await do(connections, "PERSIST", world.keys("alive", "evaluator"))  # a slow machine is no missing evaluator
            before = await _refusals(connections)
            call = asyncio.create_task(asyncio.to_thread(world.hook, json.dumps(RM).encode()))

            async def refused() -> bool:
                return await _refusals(connections) > before

            await until(refused, "its request was refused")
            async with dispatching(one.url, world.keys):
                said = await call
        assert b'"deny"' in said.stdout


RM = {
    "session_id": "s",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "rm x"},
    "cwd": "/",
}


async def _refusals(connections: Connections) -> int:
    """How often the server had no room for the addition of an entry."""
    said: bytes = await do(connections, "INFO", "commandstats")
    found = re.search(rb"cmdstat_xadd:.*rejected_calls=(\d+)", said)
    return int(found[1]) if found else 0


async def _there(connections: Connections, reply: str) -> bool:
    return bool(await do(connections, "LLEN", reply))


async def _blocked(connections: Connections) -> bool:
    said: bytes = await do(connections, "INFO", "clients")
    return bool(b"blocked_clients:1" in said)
