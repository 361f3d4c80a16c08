"""Posting to receivers on loopback, honest ones and the other kind."""

from __future__ import annotations

import asyncio
import gzip
import ssl

import pytest

from bus.errors import Unreachable
from bus.http.address_policy import policy
from bus.http.webhook_client import Reply, WebhookClient
from tests.support.http_servers import PEM, answer, receiver
from tests.support.waiting import PATIENCE

LOCAL = policy(["127.0.0.1", "::1"])
JSON = {"content-type": "application/json"}


async def post(port: int, *, seconds: float = 20.0, path: str = "/hook", host: str = "127.0.0.1") -> Reply:
    async with WebhookClient(LOCAL) as client:
        return await client.post(f"http://{host}:{port}{path}", b"{}", JSON, seconds=seconds)


@pytest.mark.req("G-06")
async def test_all_receivers_are_posted_to_through_one_connector() -> None:
    moved = answer("307 Elsewhere", headers=["Location: /other", "Set-Cookie: a=b"])
    async with receiver(answer()) as here, receiver(moved) as elsewhere:
        async with WebhookClient(LOCAL) as client:
            replies = await asyncio.gather(*(send(client, port) for port in (here, elsewhere) for _ in range(5)))
            connector = client.open()
            closed = [connector.closed]
        closed.append(connector.closed)
    assert closed == [False, True]
    assert [reply.status for reply in replies] == [200] * 5 + [307] * 5


async def send(client: WebhookClient, port: int) -> Reply:
    return await client.post(f"http://127.0.0.1:{port}/hook", b"{}", JSON, seconds=20)


@pytest.mark.req("G-20")
async def test_an_answer_comes_back_whole_and_the_connection_is_kept() -> None:
    seen: list[tuple[bytes, object]] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((request, writer.get_extra_info("peername")))
        await answer("503 Busy", b"later", ["Retry-After: 7", "Set-Cookie: a=b"])(request, reader, writer)

    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        for _ in range(3):
            reply = await client.post(f"http://127.0.0.1:{port}/hook?a=%2F", b'{"x":1}', JSON, seconds=20)
            assert (reply.status, reply.body, reply.retry_after, reply.error) == (503, b"later", "7", "")
    assert len({peer for _, peer in seen}) == 1
    request = seen[-1][0]
    assert request.startswith(b"POST /hook?a=%2F HTTP/1.1\r\n")
    assert request.endswith(b'\r\n\r\n{"x":1}')
    assert b"cookie" not in request.lower()
    assert b"Accept-Encoding: identity" in request


async def test_a_slow_receiver_meets_the_deadline_wherever_it_stops() -> None:
    async def silent(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def dripping(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    for serve, status in ((silent, 0), (dripping, 200)):
        async with receiver(serve) as port:
            reply = await post(port, seconds=0.2)
        assert (reply.error, reply.detail) == ("timeout", "no complete answer within 0.2 s")
        assert reply.status == status
        assert 190 < reply.ms < 1500


async def test_a_slow_look_up_meets_the_deadline_too() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with WebhookClient(LOCAL, lookup=never) as client:
        reply = await client.post("http://hooks.test/", b"", {}, seconds=0.1)
    assert reply.error == "timeout"
    assert reply.phases.dns > 50, "the look-up was under way when the time was over"
    assert reply.phases.connect == reply.phases.first_byte == 0


async def test_an_endless_body_is_read_to_the_cap_and_the_connection_dropped() -> None:
    dropped = asyncio.Event()

    async def endless(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                await writer.drain()
        finally:
            dropped.set()

    async with receiver(endless) as port, WebhookClient(LOCAL) as client:
        reply = await client.post(f"http://127.0.0.1:{port}/", b"", {}, seconds=20, cap=10_000)
        assert (reply.status, reply.body, reply.error) == (200, b"x" * 10_000, "")
        await asyncio.wait_for(dropped.wait(), PATIENCE)


async def test_a_body_that_breaks_off_and_answers_that_are_no_http() -> None:
    async def short(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    async def noise(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01 whatever\r\n\r\n")
        await writer.drain()

    async def gone(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    for serve, status, error in ((short, 200, "protocol"), (noise, 0, "protocol"), (gone, 0, "connect")):
        async with receiver(serve) as port:
            reply = await post(port)
        assert (reply.status, reply.error) == (status, error), reply


async def test_a_redirect_to_the_metadata_service_is_an_answer_and_not_followed() -> None:
    async with receiver(answer("307 Go", b"", ["Location: http://169.254.169.254/latest/"])) as port:
        reply = await post(port)
    assert (reply.status, reply.error) == (307, "")


async def test_a_compressed_body_stays_as_it_was_sent() -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    async with receiver(answer(body=bomb, headers=["Content-Encoding: gzip"])) as port:
        assert (await post(port)).body == bomb


async def test_loopback_is_refused_where_it_is_not_listed() -> None:
    hit = asyncio.Event()

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hit.set()

    async with receiver(serve) as port, WebhookClient(policy([])) as client:
        for host in ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"):
            reply = await client.post(f"http://{host}:{port}/", b"", {}, seconds=20)
            assert reply.error == "refused", reply
            assert "allow list" in reply.detail
        refused = await client.post("http://user@example.com/", b"", {}, seconds=20)
    assert refused.error == "refused"
    assert not hit.is_set()


async def test_a_name_is_vetted_at_every_connection_and_by_all_its_addresses() -> None:
    answers = [["127.0.0.1"], ["127.0.0.1", "169.254.169.254"]]

    async def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    closing = answer(headers=["Connection: close"])
    async with receiver(closing) as port, WebhookClient(LOCAL, lookup=rebinding) as client:
        first = await client.post(f"http://hooks.test:{port}/", b"", {}, seconds=20)
        second = await client.post(f"http://hooks.test:{port}/", b"", {}, seconds=20)
    assert (first.status, first.error) == (200, "")
    assert second.error == "refused"
    assert "169.254.169.254" in second.detail


async def test_a_pooled_connection_serves_no_other_name() -> None:
    async def by_name(host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if host == "good.test" else ["10.0.0.1"]

    async with receiver(answer()) as port, WebhookClient(LOCAL, lookup=by_name) as client:
        assert (await client.post(f"http://good.test:{port}/", b"", {}, seconds=20)).status == 200
        assert (await client.post(f"http://evil.test:{port}/", b"", {}, seconds=20)).error == "refused"


async def test_nobody_listens_and_no_such_name() -> None:
    async with receiver(answer()) as port:
        pass
    assert (await post(port)).error == "connect"
    reply = await post(80, host="no-such-name.invalid")
    assert reply.error == "dns"
    assert "resolved" in reply.detail


async def test_tls_is_verified_by_name_while_the_vetted_address_is_used() -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(PEM)
    names: list[str | None] = []
    served.sni_callback = lambda _socket, name, _context: names.append(name)
    requests: list[bytes] = []

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(request)
        await answer()(request, reader, writer)

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    trusting = ssl.create_default_context(cafile=str(PEM))
    async with receiver(serve, served) as port:
        url = f"https://hooks.test:{port}/"
        async with WebhookClient(LOCAL, tls=trusting, lookup=here) as client:
            reply, again = [await client.post(url, b"", {}, seconds=20) for _ in range(2)]
            assert (reply.status, reply.reason) == (200, "OK")
            other = await client.post(f"https://other.test:{port}/", b"", {}, seconds=20)
        async with WebhookClient(LOCAL, lookup=here) as client:
            untrusted = await client.post(url, b"", {}, seconds=20)
    assert f"Host: hooks.test:{port}".encode() in requests[0]
    assert names[0] == "hooks.test"
    assert other.error == untrusted.error == "tls"
    assert "certificate" in other.detail
    assert len(requests) == 2
    took = reply.phases
    assert min(took.dns, took.connect, took.tls, took.first_byte) > 0
    assert took.dns + took.connect + took.tls + took.first_byte <= took.total + 0.01
    assert (again.phases.dns, again.phases.connect, again.phases.tls) == (0, 0, 0), "over the kept connection"
    assert 0 < again.phases.first_byte <= again.phases.total <= again.ms
    assert (other.phases.tls > 0, other.phases.first_byte) == (True, 0)


async def test_plain_http_behind_an_https_url() -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server, WebhookClient(LOCAL) as client:
        port = server.sockets[0].getsockname()[1]
        assert (await client.post(f"https://127.0.0.1:{port}/", b"", {}, seconds=20)).error == "tls"


async def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with receiver(answer()) as port:
        assert (await post(port)).status == 200


async def test_a_header_that_would_split_the_request_is_not_sent() -> None:
    async with receiver(answer()) as port, WebhookClient(LOCAL) as client:
        reply = await client.post(f"http://127.0.0.1:{port}/", b"", {"x": "a\r\nEvil: 1"}, seconds=20)
    assert (reply.status, reply.error) == (0, "protocol")


@pytest.mark.req("B-05")
async def test_whoever_sends_is_asked_on_the_open_connection_and_may_still_refuse() -> None:
    """Stopped while it connected, a sender may no longer want to: then not even the head has left."""
    connected, ended, received = asyncio.Event(), asyncio.Semaphore(0), b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        connected.set()
        received += await reader.read()
        writer.close()
        ended.release()

    async def refuse() -> None:
        await connected.wait()
        raise Unreachable("not any more")

    async def fail() -> None:
        raise KeyError("a mistake")

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    async with WebhookClient(LOCAL) as client:
        with pytest.raises(Unreachable, match="not any more"):
            await client.post(url, b"{}", JSON, seconds=20, before=refuse)
        assert (await client.post(url, b"{}", JSON, seconds=20, before=fail)).error == "protocol", "a fault of ours"
        for _ in range(2):
            await asyncio.wait_for(ended.acquire(), PATIENCE)
    listener.close()
    await listener.wait_closed()
    assert received == b""


async def test_cancelled_it_leaves_no_connection_behind() -> None:
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        closed.set()

    async with receiver(serve) as port, WebhookClient(LOCAL) as client:
        task = asyncio.create_task(client.post(f"http://127.0.0.1:{port}/", b"", {}, seconds=20))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), PATIENCE)
