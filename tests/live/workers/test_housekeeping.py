"""What is tidied up, and what never is: events that somebody still needs, deliveries that are still owed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.config.setting_types import MIB
from bus.config.settings import Settings
from bus.wire.connections import Connections
from bus.wire.keys import SENT_MS, Keys
from bus.wire.streams import server_now
from tests.cli_kit import run
from tests.support.delivering import dispatch_event, turn_end
from tests.support.examples import examples
from tests.support.running import do, publish_hooks, stream
from tests.support.servers import Server
from workers.delivery.deliveries import deliveries
from workers.housekeeping import tidy_all, trim_events

GROUP = "dispatchers"


async def fill(connections: Connections, keys: Keys, ids: list[str], size: int = 10) -> None:
    """Events with these entry ids."""
    with connections.lease() as connection:
        await connection.exchange([("XADD", keys("events"), name, "body", b"x" * size) for name in ids])


async def read(
    connections: Connections, keys: Keys, count: int, *, group: str = GROUP, acknowledge: int | None = None
) -> None:
    """Let a group read so many events and acknowledge the first of them (all, unless said)."""
    await do(connections, "XGROUP", "CREATE", keys("events"), group, "0", "MKSTREAM")
    reply = await do(connections, "XREADGROUP", "GROUP", group, "a", "COUNT", count, "STREAMS", keys("events"), ">")
    names = [name for name, _ in reply[0][1]] if reply else []
    for name in names[:acknowledge]:
        await do(connections, "XACK", keys("events"), group, name)


async def trimmed(connections: Connections, keys: Keys, **limits: Any) -> list[str]:
    """The entry ids that are left after trimming."""
    await trim_events(connections, keys, await server_now(connections), Settings(**limits))
    return [entry.id for entry in await stream(connections, keys)]


NONE = {"events_max_age": 0.0, "events_max_count": 0, "events_max_bytes": 0}


async def test_a_limit_of_0_keeps_everything(server: Server, keys: Keys, connections: Connections) -> None:
    ids = [f"{n}-0" for n in range(1, 51)]
    await fill(connections, keys, ids)
    await read(connections, keys, 100)
    assert await trimmed(connections, keys, **NONE) == ids


async def test_events_over_their_number_go_oldest_first(server: Server, keys: Keys, connections: Connections) -> None:
    await fill(connections, keys, [f"{n}-0" for n in range(1, 2_501)])
    await read(connections, keys, 3_000)
    assert await trimmed(connections, keys, **{**NONE, "events_max_count": 7}) == [
        f"{n}-0" for n in range(2_494, 2_501)
    ]


async def test_events_over_their_age_go(server: Server, keys: Keys, connections: Connections) -> None:
    now = await server_now(connections)
    ids = [f"{now - 100_000 + n}-0" for n in range(5)] + [f"{now - 1_000 + n}-0" for n in range(5)]
    await fill(connections, keys, ids)
    await read(connections, keys, 100)
    assert await trimmed(connections, keys, **{**NONE, "events_max_age": 50.0}) == ids[5:]


async def test_events_over_their_bytes_go(server: Server, keys: Keys, connections: Connections) -> None:
    await fill(connections, keys, [f"{n}-0" for n in range(1, 401)], size=10_000)
    await read(connections, keys, 500)
    left = await trimmed(connections, keys, **{**NONE, "events_max_bytes": MIB})
    assert 50 <= len(left) <= 150
    assert left[-1] == "400-0"


@pytest.mark.req("B-05")
@settings(max_examples=examples(40))
@given(
    total=st.integers(1, 30),
    first=st.integers(0, 30),
    first_done=st.integers(0, 30),
    other=st.none() | st.integers(0, 30),
    most=st.integers(0, 5),
    age=st.booleans(),
)
def test_nothing_goes_that_a_group_has_not_acknowledged(
    server: Server, total: int, first: int, first_done: int, other: int | None, most: int, age: bool
) -> None:
    """Whatever has been read and acknowledged by whom, and whichever limit is met."""
    keys = Keys("t-trim")

    async def whole(connections: Connections) -> None:
        await do(connections, "DEL", keys("events"))
        ids = [f"{n}-0" for n in range(1, total + 1)]
        await fill(connections, keys, ids)
        if first:
            await read(connections, keys, first, acknowledge=first_done)
        if other is not None:
            await do(connections, "XGROUP", "CREATE", keys("events"), "archive", "0")
            if other:
                await read(connections, keys, other, group="archive")
        needed = min(first, first_done, total) if first else total
        if other is not None:
            needed = min(needed, other, total) if first else min(other, total)
        elif not first:
            needed = 0  # nobody has read anything, so nobody has acknowledged anything
        limits = {**NONE, "events_max_count": most or 1, "events_max_age": 1.0 if age else 0.0}
        left = await trimmed(connections, keys, **limits)
        assert left == ids[total - len(left) :], "the newest stay"
        assert set(ids[needed:]) <= set(left), "what somebody needs stays"
        expected = needed if age else min(needed, max(0, total - (most or 1)))
        assert total - len(left) == expected, "and the rest goes"
        await do(connections, "DEL", keys("events"))

    run(server.url, whole)


async def test_what_is_over_its_time_is_forgotten_and_what_is_owed_stays_listed(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, 'endpoints:\n  - {id: a, url: "https://a.example"}\n')
    names = [await dispatch_event(connections, keys, turn_end()) for _ in range(3)]
    owed, done, dead = (f"{name}.a" for name in names)
    now = await server_now(connections)
    for one in (owed, done, dead):
        await do(connections, "ZADD", keys("recent"), now - 30 * 86_400_000, one)
    await do(connections, "DEL", keys("delivery", done))  # its time to live has ended
    await do(connections, "HSET", keys("delivery", dead), "state", "dead")
    await do(connections, "ZADD", keys("dead"), now - 5_000, dead)
    await do(connections, "ZADD", keys("sent"), now - SENT_MS - 1, "old", now, "new")
    counted = await tidy_all(connections, keys, Settings(dead_keep=3600.0))
    others = {"events for hosts that are away": 0, "calls without their pre-hook event": 0, "counters of names": 0}
    assert counted == {"events": 0, "dead letters": 0, "old deliveries": 1, "sent ids": 1, **others}
    assert {one.id for one in await deliveries(connections, keys)} == {owed, dead}
    assert await do(connections, "ZRANGE", keys("sent"), 0, -1) == [b"new"]
    counted = await tidy_all(connections, keys, Settings(dead_keep=1.0))
    assert (counted["dead letters"], counted["old deliveries"]) == (1, 1)
    assert await do(connections, "EXISTS", keys("delivery", dead), keys("body", names[2])) == 0, "nothing of it is left"
    assert await do(connections, "EXISTS", keys("body", names[0])) == 1
