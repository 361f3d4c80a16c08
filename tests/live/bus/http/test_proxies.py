"""Webhooks through a real forward proxy: where the configuration says so, and never past the address policy (G-20)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from urllib.parse import quote

import pytest

from bus.http.address_policy import policy
from bus.http.webhook_client import Reply, WebhookClient
from tests.support.doors import Full
from tests.support.forward import ForwardProxy, forwarding
from tests.support.http_servers import PEM, answer, receiver
from workers.delivery.outcome_table import judge

PUBLIC = "203.0.114.9"
"""What names are here: an address that a direct connection from a test would never reach."""

PASSWORD = "p@ss:w/rd"
KNOWN = {"hooks.test": [PUBLIC], "inside.test": ["10.0.0.7"], "mixed.test": [PUBLIC, "169.254.169.254"]}


async def lookup(host: str, port: int) -> list[str]:
    if host not in KNOWN:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return KNOWN[host]


def through(proxy: str, allow: tuple[str, ...] = (), tls: ssl.SSLContext | None = None) -> WebhookClient:
    return WebhookClient(policy(allow), proxy=proxy, tls=tls, lookup=lookup)


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The receiver's, and one that trusts it."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(PEM)
    return theirs, ssl.create_default_context(cafile=str(PEM))


async def send(client: WebhookClient, url: str, seconds: float = 20.0) -> Reply:
    return await client.post(url, b"{}", {"content-type": "application/json"}, seconds=seconds)


class Kept:
    """The requests as the receiver had them, and their connections."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.peers: list[object] = []

    async def serve(self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.got.append(request)
        self.peers.append(writer.get_extra_info("peername"))
        await answer(body=b"ok")(request, reader, writer)


@pytest.mark.req("G-20")
async def test_http_goes_in_absolute_form_and_the_password_only_to_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    kept = Kept()
    async with receiver(kept.serve) as port, forwarding() as proxy:
        proxy.login = f"agent:{PASSWORD}"
        url = f"http://hooks.test:{port}/a?b=%2F"
        async with through(proxy.url("agent:${PROXY_PASSWORD}")) as client:
            replies = [await send(client, url) for _ in range(2)]
            monkeypatch.setenv("PROXY_PASSWORD", "another")
            proxy.login = "agent:another"
            replies.append(await send(client, url))
    assert [(reply.status, reply.body, reply.error) for reply in replies] == [(200, b"ok", "")] * 3
    assert proxy.asked == [f"POST {url} HTTP/1.1"] * 3
    assert proxy.connections == 1, "a connection to the proxy is kept"
    assert all(request.startswith(b"POST /a?b=%2F HTTP/1.1\r\n") for request in kept.got)
    assert not any(b"roxy-" in request for request in kept.got)


@pytest.mark.req("G-20")
async def test_https_goes_through_a_tunnel_that_is_kept_and_holds_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    kept, (theirs, ours) = Kept(), contexts()
    async with receiver(kept.serve, theirs) as port, forwarding() as proxy:
        proxy.login = f"agent:{PASSWORD}"
        url = f"https://hooks.test:{port}/a"
        async with through(proxy.url("agent:${PROXY_PASSWORD}"), tls=ours) as client:
            replies = [await send(client, url) for _ in range(3)]
    assert [(reply.status, reply.body, reply.error) for reply in replies] == [(200, b"ok", "")] * 3
    assert proxy.asked == [f"CONNECT hooks.test:{port} HTTP/1.1"]
    assert len(set(kept.peers)) == 1
    assert not any(b"roxy-" in request for request in kept.got)
    assert all(request.startswith(b"POST /a HTTP/1.1\r\n") for request in kept.got)
    assert min(replies[0].phases.tls, replies[0].phases.connect) > 0
    assert replies[2].phases.tls == 0


async def test_a_certificate_is_the_receivers_and_not_the_proxys_matter() -> None:
    theirs, ours = contexts()
    async with receiver(answer(), theirs) as port, forwarding() as proxy:
        KNOWN["other.test"] = [PUBLIC]
        async with through(proxy.url(), tls=ours) as client:
            other = await send(client, f"https://other.test:{port}/")
        async with through(proxy.url()) as client:
            unknown = await send(client, f"https://hooks.test:{port}/")
    for reply in (other, unknown):
        assert (reply.error, "certificate" in reply.detail) == ("tls", True), reply


@pytest.mark.req("X-05", "G-20")
async def test_what_the_policy_refuses_the_proxy_never_hears_of() -> None:
    refused = (
        "http://10.1.2.3/",
        "https://169.254.169.254/latest",
        "http://[::ffff:10.0.0.1]/",
        "https://[fd00::1]/",
        "http://127.0.0.1:9/",
        "http://inside.test/",
        "https://inside.test/",
        "https://mixed.test/",
        "http://metadata.google.internal/",
    )
    async with forwarding() as proxy:
        for setting in (proxy.url(), "environment"):
            async with through(setting, ("metadata.test",)) as client:
                for url in refused:
                    reply = await send(client, url)
                    assert reply.error in ("refused", "dns"), (url, reply)
                    assert reply.error == "refused" or "metadata" in url
    assert (proxy.connections, proxy.asked) == (0, [])


async def test_a_name_is_looked_at_for_every_attempt_also_over_a_kept_connection() -> None:
    async with receiver(answer()) as port, forwarding() as proxy, through(proxy.url()) as client:
        KNOWN["moving.test"] = [PUBLIC]
        url = f"http://moving.test:{port}/"
        assert (await send(client, url)).status == 200
        KNOWN["moving.test"] = ["10.0.0.7"]
        assert (await send(client, url)).error == "refused"
        assert len(proxy.asked) == 1


async def test_a_name_that_only_the_proxy_knows_has_to_be_listed() -> None:
    async with receiver(answer()) as port, forwarding() as proxy:
        url = f"http://hooks.corp:{port}/"
        async with through(proxy.url()) as client:
            reply = await send(client, url)
        assert (reply.error, proxy.connections) == ("dns", 0)
        assert "network.allow" in reply.detail
        async with through(proxy.url(), (f"hooks.corp:{port}",)) as client:
            assert (await send(client, url)).status == 200
        async with through(proxy.url(), (f"hooks.corp:{port + 1}", "10.0.0.0/8")) as client:
            assert (await send(client, url)).error == "dns"
    assert len(proxy.asked) == 1


async def test_this_machine_is_never_reached_through_a_proxy() -> None:
    async with receiver(answer()) as port, forwarding() as proxy:
        client = WebhookClient(policy(["localhost"]), proxy=proxy.url())
        for host in ("127.0.0.1", "localhost"):
            assert (await send(client, f"http://{host}:{port}/")).status == 200
        await client.close()
    assert proxy.connections == 0


@pytest.mark.req("G-20")
async def test_the_environment_counts_only_where_the_configuration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    theirs, ours = contexts()
    async with (
        receiver(answer()) as plain,
        receiver(answer(), theirs) as secure,
        forwarding() as first,
        forwarding() as second,
    ):
        first.login = f"agent:{PASSWORD}"
        monkeypatch.setenv("HTTP_PROXY", first.url(f"agent:{quote(PASSWORD, safe='')}"))
        monkeypatch.setenv("HTTPS_PROXY", second.place)
        KNOWN["near.test"] = ["127.0.0.1"]
        urls = [f"http://near.test:{plain}/", f"https://hooks.test:{secure}/"]
        async with through("environment", ("127.0.0.1",), ours) as client:
            assert [(await send(client, url)).status for url in urls] == [200, 200]
            assert (first.asked, second.asked) == (
                [f"POST {urls[0]} HTTP/1.1"],
                [f"CONNECT hooks.test:{secure} HTTP/1.1"],
            )
            monkeypatch.setenv("NO_PROXY", "example.com, .test")
            assert (await send(client, urls[0])).status == 200, "directly"
        monkeypatch.delenv("NO_PROXY")
        for setting in ("", "none"):
            async with through(setting, ("127.0.0.1",)) as client:
                assert (await send(client, urls[0])).status == 200, "directly"
    assert (len(first.asked), len(second.asked)) == (1, 1)
    assert (first.connections, second.connections) == (1, 1)


async def test_direct_and_proxied_connections_to_one_place_are_never_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    kept = Kept()
    async with receiver(kept.serve) as port, forwarding() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url())
        monkeypatch.delenv("http_proxy", raising=False)
        KNOWN["here.test"] = ["127.0.0.1"]
        url = f"http://here.test:{port}/"
        async with through("environment", ("127.0.0.1",)) as client:
            for excepted in ("", "here.test", "", f"here.test:{port}", f"here.test:{port + 1}"):
                monkeypatch.setenv("NO_PROXY", excepted)
                assert (await send(client, url)).status == 200
    assert len(proxy.asked) == 3
    assert [request.startswith(b"POST / ") for request in kept.got] == [True] * 5


def _says(answer: bytes) -> Callable[[ForwardProxy], None]:
    def set_up(proxy: ForwardProxy) -> None:
        proxy.answer = answer

    return set_up


def _login(proxy: ForwardProxy) -> None:
    proxy.login = "agent:other"


@pytest.mark.req("G-09")
@pytest.mark.parametrize(
    ("scheme", "set_up", "why"),
    [
        ("http", _login, "it answered the request with 407 Who Are You"),
        ("https", _login, "it answered CONNECT with 407 Who Are You"),
        (
            "https",
            _says(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 9\r\n\r\nno route!"),
            "it answered CONNECT with 502 Bad Gateway",
        ),
        (
            "https",
            _says(b"HTTP/1.1 302 Away\r\nLocation: http://10.0.0.1/\r\n\r\n"),
            "it answered CONNECT with 302 Away",
        ),
        ("https", _says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "the answer is no HTTP"),
        ("https", _says(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), "the answer is no HTTP"),
        ("https", _says(b"HTTP/1.1 2"), "the connection was closed before an answer came"),
    ],
)
async def test_what_a_proxy_refuses_is_tried_again(
    scheme: str, set_up: Callable[[ForwardProxy], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)
    async with forwarding() as proxy, through(proxy.url("agent:${PROXY_PASSWORD}")) as client:
        set_up(proxy)
        reply = await send(client, f"{scheme}://hooks.test/secret-path")
    assert (reply.status, reply.error) == (0, "proxy"), reply
    assert reply.detail.startswith(f"{proxy.place}: {why}"), reply.detail
    result = judge(reply)
    assert result.outcome == "retry"
    assert result.reason.startswith(f"proxy: {proxy.place}: ")
    assert not [text for text in (PASSWORD, "secret-path") if text in result.reason]


async def test_a_proxy_that_is_not_there_or_says_nothing_costs_the_deadline_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    with Full() as full, socket.create_server(("127.0.0.1", 0)) as silent:
        for place, url, why in (
            ("127.0.0.1:1", "http://hooks.test/", "127.0.0.1:1: no connection, or it was lost"),
            ("gone.test:3128", "https://hooks.test/", "gone.test:3128: the name cannot be resolved"),
            (f"127.0.0.1:{full}", "http://hooks.test/", f"127.0.0.1:{full}: no connection through it within 0.3 s"),
            (f"127.0.0.1:{silent.getsockname()[1]}", "https://hooks.test/", "no connection through it within 0.3 s"),
            ("agent:${NOT_SET}@127.0.0.1:1", "https://hooks.test/", "127.0.0.1:1: the variable NOT_SET is not set"),
        ):
            async with through(f"http://{place}") as client:
                reply = await send(client, url, 0.3)
            assert (reply.error, why in reply.detail) == ("proxy", True), reply
            assert reply.ms < 1500


async def test_one_deadline_covers_the_tunnel_and_the_answer() -> None:
    async def silent(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    theirs, ours = contexts()
    async with receiver(silent, theirs) as port, forwarding() as proxy, through(proxy.url(), tls=ours) as client:
        reply = await send(client, f"https://hooks.test:{port}/", 0.4)
    assert (reply.error, reply.detail) == ("timeout", "no complete answer within 0.4 s")
    assert reply.ms < 1500
