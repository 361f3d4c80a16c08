"""A connection carries one exchange at a time: an unasked response ends it, and a receiver that stalls does not hold it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from bus.http.address_policy import policy
from bus.http.webhook_client import WebhookClient
from tests.support.http_servers import answer, receiver
from tests.support.running import until_true
from tests.support.waiting import PATIENCE

LOCAL = policy(["127.0.0.1"])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MUCH = b"x" * 8_000_000
"""More than the buffers between two sockets hold."""


async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    may_speak = asyncio.Event()
    peers: list[object] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername"))
        writer.write(OK)
        await writer.drain()
        if len(peers) == 1:
            await may_speak.wait()
            writer.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")
            assert await reader.read() == b"", "it hangs up and asks nothing more"
            may_speak.clear()

    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        url = f"http://127.0.0.1:{port}/"
        assert (await client.post(url, b"", {}, seconds=20)).status == 200
        may_speak.set()
        await until_true(lambda: not may_speak.is_set(), "the client has closed the connection")
        reply = await client.post(url, b"", {}, seconds=20)
    assert (reply.status, reply.body) == (200, b"ok")
    assert len(set(peers)) == 2


async def test_a_receiver_that_takes_nothing_holds_no_connection_beyond_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        async with WebhookClient(LOCAL) as client:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            sending = asyncio.create_task(client.post(url, MUCH, {}, seconds=0.3))
            peer, _ = await loop.sock_accept(listener)
            with peer:
                assert (await sending).error == "timeout"
                got = 0
                while data := await asyncio.wait_for(loop.sock_recv(peer, 1_000_000), PATIENCE):
                    got += len(data)
    assert got < len(MUCH), "what was not taken by then was not sent after it"


async def test_an_answer_before_the_request_was_taken_is_one_but_the_connection_is_not_kept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        async with WebhookClient(LOCAL) as client:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            sending = asyncio.create_task(client.post(url, MUCH, {}, seconds=20))
            peer, _ = await loop.sock_accept(listener)
            with peer:
                await loop.sock_recv(peer, 1_000)
                await loop.sock_sendall(peer, OK.replace(b"200 OK", b"413 Much"))
                assert (await sending).status == 413
                while await asyncio.wait_for(loop.sock_recv(peer, 1_000_000), PATIENCE):
                    pass


async def test_a_gigabyte_costs_the_receiver_more_than_us() -> None:
    """Counted where it leaves: what is not read stays with whoever pours it."""
    left = 0
    ended = asyncio.Event()

    async def pour(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        writer.transport.set_write_buffer_limits(0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        try:
            while left < 1 << 30:
                writer.write(b"x" * 16_384)
                await writer.drain()
                left += 16_384
        finally:
            ended.set()

    async with receiver(pour) as port, WebhookClient(LOCAL) as client:
        reply = await client.post(f"http://127.0.0.1:{port}/", b"", {}, seconds=20)
        await asyncio.wait_for(ended.wait(), PATIENCE)
    assert (reply.status, reply.error, len(reply.body)) == (200, "", 65_536)
    assert left < 1 << 20


async def test_many_small_headers_are_no_way_around_the_cap() -> None:
    async def pour(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 10_000 + OK)
        await reader.read()

    async with receiver(pour) as port, WebhookClient(LOCAL) as client:
        reply = await client.post(f"http://127.0.0.1:{port}/", b"", {}, seconds=20, cap=1024)
    assert (reply.status, reply.error) == (0, "protocol")
    assert reply.detail == "the answer is too long: it is not complete after 65 KiB"


@pytest.mark.req("G-20")
async def test_their_headers_replace_ours_but_never_say_where_the_body_ends() -> None:
    seen: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await answer()(request, reader, writer)

    theirs = {
        "user-agent": "mine",
        "X-Name": "ä",
        "content-length": "3",
        "Transfer-Encoding": "chunked",
        "Expect": "no",
    }
    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        url = f"http://127.0.0.1:{port}/a?b=%2F"
        for headers in ({}, theirs, {"Host": "other.test"}):
            assert (await client.post(url, b"{}", headers, seconds=20)).status == 200
        for name in ("X:Y", "X Y", "", "X\n", "ä"):
            reply = await client.post(url, b"{}", {name: "x"}, seconds=20)
            assert (reply.status, reply.error) == (0, "protocol")
        for value in ("a\nb", "a\r\nB: c", "a\x00"):
            reply = await client.post(url, b"{}", {"X-Name": value, "X-Other": "x"}, seconds=20)
            assert reply.detail == "ValueError: a header holds a control character"
    host = b"Host: 127.0.0.1:%d\r\n" % port
    ours = b"Accept: */*\r\nAccept-Encoding: identity\r\n"
    assert seen == [
        b"POST /a?b=%2F HTTP/1.1\r\n" + host + ours + b"User-Agent: Fleethook\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /a?b=%2F HTTP/1.1\r\n"
        + host
        + ours
        + "user-agent: mine\r\nX-Name: ä\r\nContent-Length: 2\r\n\r\n{}".encode(),
        b"POST /a?b=%2F HTTP/1.1\r\n"
        + ours
        + b"User-Agent: Fleethook\r\nHost: other.test\r\nContent-Length: 2\r\n\r\n{}",
    ]
