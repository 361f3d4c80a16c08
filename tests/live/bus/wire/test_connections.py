"""What is said of a server that refuses: the words tell a person what to do, and name no password. And the bytes below."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hiredis
import pytest
from redis.exceptions import ResponseError

from bus.errors import Unreachable
from bus.wire.connections import Connections, sync_client, unreachable_text
from bus.wire.protocol import Wire
from tests.support.memory import MIB
from tests.support.servers import Server
from tests.support.waiting import CONNECT, PATIENCE, until


def without_memory(client: Any) -> str:
    """Refuses writes from now on."""
    client.config_set("maxmemory", 1)
    return "SET"


def without_master(client: Any) -> str:
    """As a replica it takes no writes."""
    client.replicaof("127.0.0.1", 1)
    return "SET"


def without_rights(client: Any) -> str:
    """May no longer do what is asked."""
    client.execute_command("ACL", "SETUSER", "default", "-lpush")
    return "LPUSH"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (without_memory, "redis does not take writes ("),
        (without_master, "redis does not take writes ("),
        (without_rights, "redis refused the credentials ("),
    ],
)
def test_a_refusal_is_said_in_words(spoil: Callable[[Any], str], says: str) -> None:
    one = Server()
    one.start()
    try:
        with sync_client(one.url) as client:
            with pytest.raises(ResponseError) as refusal:
                client.execute_command(spoil(client), "k", "v")
            assert unreachable_text(refusal.value).startswith(says)
    finally:
        one.stop()


async def test_wrong_credentials_are_not_a_server_that_is_away(server: Server) -> None:
    connections = Connections(server.url.replace("unix://", "unix://nobody:canary1@"))
    refused = r"^redis refused the credentials .*; see `fleethook acl`$"
    with pytest.raises(Unreachable, match=refused) as refusal, connections.lease() as connection:
        await connection.exchange([("PING",)])
    await connections.close()
    assert "canary1" not in str(refusal.value)


async def test_a_command_waits_for_a_server_that_still_reads_its_data(tmp_path: Path) -> None:
    """A restart takes as long as its data: `fleethook` commands wait for a while, and nothing else is sent twice."""
    asked: list[bytes] = []
    serving: list[asyncio.Task[Any] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        parser = hiredis.Reader()
        while data := await reader.read(1000):
            parser.feed(data)
            while command := parser.gets():
                asked.append(command[0])
                loading = len(asked) <= 3
                writer.write(b"-LOADING Valkey is loading the dataset in memory\r\n" if loading else b"+OK\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_unix_server(answer, tmp_path / "redis.sock"):
        for seconds, commands in ((0.0, [b"INCR"]), (PATIENCE, [b"PING", b"PING", b"PING", b"INCR"])):
            connections = Connections(f"unix://{tmp_path}/redis.sock", connect=CONNECT, loading=seconds)
            with connections.lease() as connection:
                if seconds:
                    assert await connection.exchange([("INCR", "k")]) == [b"OK"]
                else:
                    with pytest.raises(Unreachable, match=r"still reads its data \(.*\); try again in a moment"):
                        await connection.exchange([("INCR", "k")])
            await connections.close()
            assert asked[-len(commands) :] == commands
        await asyncio.gather(*filter(None, serving))
    assert asked.count(b"INCR") == 2


@asynccontextmanager
async def wire(*answers: bytes) -> AsyncIterator[tuple[Wire, list[asyncio.StreamWriter]]]:
    """A wire to a server that gives these answers, one a command; and the other end of it."""
    ends: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        for answer in answers:
            await reader.readuntil(b"PING\r\n")
            writer.write(answer)

    def parsed(text: str) -> Exception:
        return ConnectionError(text) if text.startswith("LOADING") else ValueError(text)

    door = await asyncio.start_server(serve, "127.0.0.1", 0)
    made, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, *door.sockets[0].getsockname())
    try:
        yield Wire(made, parsed), ends
    finally:
        made.abort()
        for end in ends:
            end.close()
        door.close()
        await door.wait_closed()


PING = (("PING",),)


async def test_what_nobody_asked_for_ends_the_connection() -> None:
    """Else whoever asks next would take it for the answer."""
    async with wire(b"+ONE\r\n-no such thing\r\n", b"") as (one, ends):
        assert [str(reply) for reply in await one.exchange([*PING, *PING], 5, None)] == ["b'ONE'", "no such thing"]
        assert not one.lost
        ends[0].write(b"+AGAIN\r\n")

        async def lost() -> bool:
            return one.lost

        await until(lost, "the connection is given up")


@pytest.mark.parametrize("answer", [b"-LOADING it reads its data\r\n", b"?what\r\n"])
async def test_an_error_that_speaks_for_the_whole_connection_is_no_reply(answer: bytes) -> None:
    async with wire(answer) as (one, _):
        with pytest.raises(ConnectionError):
            await one.exchange(PING, 5, None)


async def test_a_first_reply_may_end_the_wait_for_the_others() -> None:
    def look(reply: Any) -> None:
        raise KeyError(reply)

    async with wire(b":0\r\n") as (one, _):
        with pytest.raises(KeyError, match="0"):
            await one.exchange([*PING, *PING], 5, look)


async def test_a_reply_that_never_comes_costs_the_time_that_was_given() -> None:
    async with wire(b"$5\r\nhal") as (one, _):
        with pytest.raises(TimeoutError):
            await one.exchange(PING, 0.05, None)


@pytest.mark.parametrize(
    ("count", "begin", "part", "parts", "end"),
    [(1, b"$1000000\r\n", b"x", 1_000_000, b"\r\n"), (100_000, b"+OK\r\n", b"+OK\r\n", 99_999, b"")],
    ids=["one large reply", "many small ones"],
)
async def test_replies_that_still_arrive_get_more_time_than_was_given(
    count: int, begin: bytes, part: bytes, parts: int, end: bytes
) -> None:
    """Else an entry of 16 MB on a slow line, or a page of scripts on a busy server, would never be read."""
    async with wire(begin) as (one, ends):
        reply = one.exchange(PING * count, None, None)
        while not one._received:
            await asyncio.sleep(0)
        given = one._due = asyncio.get_running_loop().time()  # its time is over when the reply has only begun
        one._last = given + PATIENCE
        one._start_timer()
        sent = 0
        while one._due == given:  # a part in each turn of the loop, until it was given more time
            assert not reply.done(), "it ended while its bytes moved"
            ends[0].write(part)
            sent += 1
            await asyncio.sleep(0)
        ends[0].write(part * (parts - sent) + end)
        assert len(await reply) == count


async def test_a_large_command_that_the_server_still_takes_gets_more_time_than_was_given() -> None:
    command: Any = ("SET", "k", b"x" * 16 * MIB)
    whole, begun = len(hiredis.pack_command(command)), asyncio.Event()
    serving: list[asyncio.Task[Any] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        await begun.wait()
        while one._due == given:  # it takes no more than the system does, until it was given more time
            await asyncio.sleep(0)
        await reader.readexactly(whole)
        writer.write(b"+OK\r\n")
        writer.close()
        await writer.wait_closed()

    door = await asyncio.start_server(serve, "127.0.0.1", 0)
    made, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, *door.sockets[0].getsockname())
    one = Wire(made, ValueError)
    try:
        reply = one.exchange([command], 0.05, None)
        one._last += PATIENCE
        given = one._due
        begun.set()
        assert await reply == [b"OK"]
    finally:
        made.abort()
        one._due = 0.0  # if it was given none, the server need not wait for that
        await asyncio.gather(*filter(None, serving))
        door.close()
        await door.wait_closed()


async def test_a_server_that_accepts_connections_and_says_nothing_costs_the_time_for_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hung server, or one behind a cut line: its kernel still accepts."""
    monkeypatch.setattr("bus.wire.connections.COMMAND_SECONDS", 3_600.0)
    ends: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, end: ends.append(end), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    connections = Connections(f"redis://:secret@127.0.0.1:{port}", connect=0.05)
    try:
        for seconds in (0.1, 3_600.0):
            with connections.lease() as connection, pytest.raises(Unreachable, match="did not answer in time"):
                await connection.exchange(PING, seconds)
    finally:
        await connections.close()
        for end in ends:
            end.close()
        silent.close()
        await silent.wait_closed()


async def test_an_exchange_of_no_commands_waits_for_nothing(connections: Connections) -> None:
    """`limits list` without a counter waited until the time of a command was over."""
    with connections.lease() as connection:
        assert await asyncio.wait_for(connection.exchange([]), 2.0) == []
        assert await connection.exchange([("PING",)]) == [b"PONG"]
