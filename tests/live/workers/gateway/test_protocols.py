"""The limits of a gateway's connections, with real sockets and limits that are small enough to be reached."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.support.waiting import PATIENCE, wait_until
from workers.gateway.limits import LATE, Admission, SocketLimits
from workers.gateway.server import server_config

pytestmark = pytest.mark.req("G-02", "F-15")

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SMALL = SocketLimits(
    connections=6,
    per_peer=4,
    head_bytes=4096,
    headers=20,
    head_seconds=0.3,
    body_seconds=0.3,
    idle_seconds=1,
    write_seconds=0.3,
)


async def _hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def _large(_: Request) -> Response:
    return PlainTextResponse("x" * (64 << 20))


async def _echo(request: Request) -> Response:
    return PlainTextResponse(await request.body())


async def _late(request: Request) -> Response:
    return PlainTextResponse(request.scope[LATE].detail)


APP = Starlette(
    routes=[
        Route("/", _hello, methods=["GET", "POST"]),
        Route("/large", _large),
        Route("/echo", _echo, methods=["POST"]),
        Route("/v1/hooks/a/b", _late, methods=["POST"]),
    ]
)


@contextmanager
def serving(limits: SocketLimits) -> Iterator[tuple[int, Admission]]:
    """A server with these limits on a port of its own."""
    admission = Admission(limits)
    server = uvicorn.Server(server_config(APP, admission))
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([sock])))
    thread.start()
    try:
        wait_until(lambda: server.started, "the server listens")
        yield sock.getsockname()[1], admission
    finally:
        server.should_exit = True
        thread.join()


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0))
    sock.settimeout(PATIENCE)
    return sock


def rest(sock: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    try:
        while part := sock.recv(1 << 20):
            found += part
    except ConnectionResetError:
        pass
    return found


def answer(sock: socket.socket, request: bytes = GET) -> bytes:
    """The answer to a request on a connection that stays open."""
    sock.sendall(request)
    found = b""
    while not found.endswith(b"hello"):
        part = sock.recv(4096)
        assert part, found
        found += part
    return found


def works(port: int, source: str = "127.0.0.1") -> bool:
    """Whether a new connection gets an answer."""
    with connect(port, source) as sock:
        return answer(sock).startswith(b"HTTP/1.1 200")


def refusal(port: int, source: str = "127.0.0.1") -> tuple[int, str]:
    """What a new connection is refused with."""
    with connect(port, source) as sock:
        return problem(rest(sock))


def problem(raw: bytes) -> tuple[int, str]:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["code"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(SMALL._replace(connections=100, per_peer=100)) as (number, _):
        yield number


def test_few_connections_over_the_cap_may_send_one_request_and_only_a_hook_reaches_the_application() -> None:
    limits = SMALL._replace(connections=1, per_peer=1, late=1, late_seconds=PATIENCE, idle_seconds=PATIENCE)
    with serving(limits._replace(head_seconds=PATIENCE)) as (port, _), connect(port) as first:
        assert answer(first).startswith(b"HTTP/1.1 200")
        with connect(port) as late:
            late.sendall(b"GET")
            assert refusal(port) == (503, "connections"), "there is one such place"
            late.sendall(GET[3:])
            assert problem(rest(late)) == (503, "connections")

        def is_handled() -> bool:
            with connect(port) as late:
                late.sendall(b"POST /v1/hooks/a/b HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
                raw = rest(late)
            return raw.count(b"HTTP/1.1") == 1 and b"connections and takes no more" in raw and b"503" not in raw

        wait_until(is_handled, "a hook is handled, and nothing after it")
        assert answer(first).startswith(b"HTTP/1.1 200")


def test_connections_over_the_cap_are_refused_and_others_go_on() -> None:
    with serving(SMALL._replace(idle_seconds=30, head_seconds=30)) as (port, admission):
        first = [connect(port) for _ in range(4)]
        wait_until(lambda: admission.count == 4, "they are admitted")
        assert refusal(port) == (503, "connections")
        other = [connect(port, "127.0.0.2") for _ in range(2)]
        assert answer(other[0]).startswith(b"HTTP/1.1 200"), "one peer cannot take all"
        assert refusal(port, "127.0.0.3") == (503, "connections")
        assert answer(first[0]).startswith(b"HTTP/1.1 200")
        for sock in first:
            sock.close()
        wait_until(lambda: admission.count == 2, "they have left")
        assert works(port)
        for sock in other:
            sock.close()


def test_a_refusal_arrives_also_while_the_caller_still_sends() -> None:
    with serving(SMALL._replace(per_peer=1)) as (port, admission):
        kept = connect(port)
        wait_until(lambda: admission.count == 1, "it is admitted")
        with connect(port) as late:
            late.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50_000)
            assert problem(rest(late)) == (503, "connections")
        kept.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 100_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 20 + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 5000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 500_000,
        b"GET /" + b"y" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"y" * 500_000,
    ],
    ids=["100,000 headers", "one header too many", "long header", "endless header", "long path", "endless path"],
)
def test_too_large_a_head_is_refused(port: int, head: bytes) -> None:
    with connect(port) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(head)
        assert problem(rest(sock)) == (431, "headers-too-large")
    assert works(port)


def test_the_limit_counts_for_each_request_of_a_connection(port: int) -> None:
    with connect(port) as sock:
        for _ in range(5):  # 5 times 1,500 bytes are more than one head may have
            answer(sock, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 1500 + b"\r\n\r\n")
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000 + b"\r\n\r\n")
        assert problem(rest(sock)) == (431, "headers-too-large")


@pytest.mark.parametrize("part", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"\r\n"])
@pytest.mark.parametrize("later", [False, True], ids=["first request", "second request"])
def test_headers_that_come_too_slowly_are_refused(port: int, part: bytes, later: bool) -> None:
    with connect(port) as sock:
        if later:
            answer(sock)
        sock.sendall(part)
        stop = threading.Event()

        def dribble() -> None:
            while not stop.wait(0.05):
                try:
                    sock.sendall(b"\r\n" if part == b"\r\n" else b"y")
                except OSError:
                    return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert problem(rest(sock)) == (408, "headers-slow") if part != b"G" else True
        finally:
            stop.set()
            thread.join()


def test_a_connection_that_says_nothing_is_closed(port: int) -> None:
    with connect(port) as sock:
        assert rest(sock) == b""


def test_an_idle_connection_is_closed(port: int) -> None:
    with connect(port) as sock:
        answer(sock)
        assert rest(sock) == b""


def test_a_body_that_its_answer_did_not_wait_for_may_come_later_and_the_connection_goes_on(port: int) -> None:
    with connect(port) as sock:
        answer(sock, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
        sock.sendall(b"67890")
        assert answer(sock).startswith(b"HTTP/1.1 200")


def test_a_body_that_never_ends_after_its_answer_is_cut(port: int) -> None:
    with connect(port) as sock:
        answer(sock, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n12345")
        assert rest(sock) == b""


def test_a_caller_that_does_not_read_is_cut(port: int) -> None:
    with serving(SMALL) as (small, admission), connect(small) as sock:
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: admission.count == 1, "it is admitted")
        wait_until(lambda: admission.count == 0, "it is cut")
    assert works(port)


@pytest.mark.parametrize("raw", [b"\x16\x03\x01\x02\x00\x01", b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_no_http_is_refused_in_the_shape_of_every_error(port: int, raw: bytes) -> None:
    with connect(port) as sock:
        sock.sendall(raw)
        assert problem(rest(sock)) == (400, "request-invalid")


def test_an_invalid_chunk_ends_the_request_that_is_handled(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert problem(rest(sock)) == (400, "request-invalid")
