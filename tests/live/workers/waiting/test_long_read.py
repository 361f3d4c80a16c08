"""One long read ends for an entry, for what a look finds, for a word and for the end of its process, and loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until
from workers.waiting.long_read import LongRead
from workers.waiting.looks import Look


def reader(server: Server, keys: Keys, connections: Connections) -> tuple[LongRead, Connections]:
    """A worker that reads requests, and looks at the published version."""
    reading = Connections(server.url, connect=CONNECT)
    consumer = Consumer(
        connections, keys, group="evaluators", name="evaluator-a", role="evaluator", streams=(keys("requests"),)
    )
    return LongRead(consumer, reading, (), [Look(("GET", keys("hookset", "current")))], ()), reading


async def blocked(connections: Connections) -> None:
    """Wait until the server has a client in a blocked read."""

    async def there() -> bool:
        with connections.lease() as connection:
            (clients,) = await connection.exchange([("INFO", "clients")])
        return b"blocked_clients:1" in clients

    await until(there, "a read waits")


@pytest.mark.req("X-14", "B-01")
async def test_a_long_read_ends_for_each_reason_and_loses_no_entry(
    server: Server, keys: Keys, connections: Connections
) -> None:
    long_read, reading = reader(server, keys, connections)
    await long_read._consumer.create()
    stop = asyncio.Event()
    assert not await long_read.may_begin(), "a turn has to be quiet first"
    long_read.note_turn(quiet=True)
    assert await long_read.may_begin()

    assert (await long_read.read(stop, 8), long_read.found) == ([], True), "the first look finds everything new"

    read = asyncio.create_task(long_read.read(stop, 8))
    await blocked(connections)
    with connections.lease() as connection:
        await connection.exchange([("XADD", keys("requests"), "*", "n", "1")])
    (entry,) = await read
    assert entry.fields == {b"n": b"1"}

    read = asyncio.create_task(long_read.read(stop, 8))
    await blocked(connections)
    with connections.lease() as connection:
        await connection.exchange([("SET", keys("hookset", "current"), 7)])
    assert (await read, long_read.found) == ([], True), "a new version is published"

    word: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    read = asyncio.create_task(long_read.read(stop, 8, words=(word,)))
    await blocked(connections)
    word.set_result(None)
    assert (await read, long_read.found) == ([], False)

    read = asyncio.create_task(long_read.read(stop, 8))
    await blocked(connections)
    with connections.lease() as connection:  # handed out with what has changed before it
        await connection.exchange([("SET", keys("hookset", "current"), 8), ("XADD", keys("requests"), "*", "n", "2")])
    (entry,) = await read
    assert (entry.fields, long_read.found) == ({b"n": b"2"}, True)

    read = asyncio.create_task(long_read.read(stop, 8))
    await blocked(connections)
    stop.set()
    assert await read == []
    with connections.lease() as connection:
        beat, pending = await connection.exchange(
            [("PTTL", keys("beat", "evaluator-a")), ("XPENDING", keys("requests"), "evaluators")]
        )
    assert 1_000 < beat <= 2_500, "the loop that waits has written its heartbeat"
    assert pending[0] == 2
    await reading.close()


@pytest.mark.req("X-14", "B-01")
async def test_entries_that_never_arrived_are_noticed_within_a_look(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """A connection may be dead without a word; the read on it alone would notice that only at its end."""
    long_read, reading = reader(server, keys, connections)
    await long_read._consumer.create()
    long_read.note_turn(quiet=True)
    assert (await long_read.read(asyncio.Event(), 8), long_read.found) == ([], True)
    with connections.lease() as connection:  # as if the reply to it were lost
        handed_out = ("XREADGROUP", "GROUP", "evaluators", "evaluator-a", "STREAMS", keys("requests"), ">")
        await connection.exchange([("XADD", keys("requests"), "*", "n", "1"), handed_out])
    assert (await long_read.read(asyncio.Event(), 8), long_read.found) == ([], True)
    (entry,) = await long_read._consumer.own_pending()
    assert entry.fields == {b"n": b"1"}
    await reading.close()


@pytest.mark.req("X-14", "P-11")
async def test_without_the_right_to_end_a_read_none_is_long(
    server: Server, keys: Keys, connections: Connections
) -> None:
    name = "an-older-acl"
    with connections.lease() as connection:
        await connection.exchange(
            [("ACL", "SETUSER", name, "reset", "on", ">pw", "~*", "&*", "+@all", "-client|unblock")]
        )
    old = Connections(server.url.replace("unix://", f"unix://{name}:pw@").replace("redis://", f"redis://{name}:pw@"))
    long_read, reading = reader(server, keys, old)
    try:
        long_read.note_turn(quiet=True)
        assert not await long_read.may_begin()
    finally:
        await asyncio.gather(old.close(), reading.close())
        with connections.lease() as connection:
            await connection.exchange([("ACL", "DELUSER", name)])
