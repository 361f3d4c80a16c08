"""Receivers that misbehave, each in its own way, as raw servers on loopback; with what the table of outcomes says to each."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, NamedTuple

from tests.support.doors import Full, listening
from tests.support.http_servers import PEM
from tests.support.listening import stop_listening

SECONDS = 3.0
"""The deadline that every endpoint of the zoo has."""

ENDLESS = "protocol: the answer is too long: it is not complete after 128 KiB"

Outcome = Literal["delivered", "due", "dead"]
Keeper = Callable[["Cage"], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BOMB = gzip.compress(bytes(30_000_000))


class Cage(NamedTuple):
    """One connection to an animal."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    name: str
    poured: Counter[str]

    async def request(self) -> bytes:
        """The next request, whole."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return head + await self.reader.readexactly(length)

    async def say(self, data: bytes) -> None:
        """Send, no faster than it is taken; counted."""
        self.writer.write(data)
        await self.writer.drain()
        self.poured[self.name] += len(data)

    async def hush(self) -> None:
        """Say nothing more until the other side ends."""
        await self.reader.read()

    def reset(self) -> None:
        """RST instead of FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Animal(NamedTuple):
    """One misbehaviour and what is to come of it."""

    name: str
    keep: Keeper
    outcome: Outcome
    says: str = ""
    """A part of the attempt's error."""
    status: int | None = 0
    """None where it hangs on how the system cuts what is sent into pieces."""
    tls: bool = False
    secure: ssl.SSLContext | None = None
    later: Outcome | None = None
    """The second delivery's outcome where it is another."""


async def _silent(cage: Cage) -> None:
    await cage.hush()


async def _resets_at_once(cage: Cage) -> None:
    cage.reset()


async def _resets_after_request(cage: Cage) -> None:
    await cage.request()
    cage.reset()


async def _resets_in_answer(cage: Cage) -> None:
    await cage.request()
    await cage.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await asyncio.sleep(0.05)
    cage.reset()


async def _drip(cage: Cage, start: bytes, drop: bytes) -> None:
    await cage.request()
    await cage.say(start)
    while True:
        await cage.say(drop)
        await asyncio.sleep(0.05)


async def _drips_body(cage: Cage) -> None:
    await _drip(cage, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x")


async def _drips_head(cage: Cage) -> None:
    await _drip(cage, b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x")


async def _once(cage: Cage, answer: bytes) -> None:
    await cage.request()
    await cage.say(answer)


async def _always(cage: Cage, answer: bytes) -> None:
    while True:
        await _once(cage, answer)


async def _too_short(cage: Cage) -> None:
    await _once(cage, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


async def _too_long(cage: Cage) -> None:
    """Says 2 bytes, sends the answer to a request that nobody has made behind them."""
    await _always(cage, OK + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")


async def _endless(cage: Cage, head: bytes, piece: bytes) -> None:
    await cage.request()
    await cage.say(head)
    while True:
        await cage.say(piece)


async def _endless_body(cage: Cage) -> None:
    await _endless(
        cage, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"4000\r\n" + b"x" * 16_384 + b"\r\n"
    )


async def _endless_until_eof(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 16_384)


async def _endless_header(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 16_384)


async def _endless_headers(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\n", b"X-Many: x\r\n" * 1_000)


async def _endless_trailers(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Many: x\r\n" * 1_000)


async def _endless_length(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b"x" * 16_384)


async def _endless_answers(cage: Cage) -> None:
    await _endless(cage, OK, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" * 400)


async def _tiny_chunks(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 2_000)


async def _chunk_extension(cage: Cage) -> None:
    await _endless(cage, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x" * 16_384)


async def _gzip_bomb(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB)


async def _informs_for_ever(cage: Cage) -> None:
    await _endless(cage, b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 100)


async def _speaks_first(cage: Cage) -> None:
    while True:
        await cage.say(b"x" * 16_384)


async def _informs_first(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3 + OK)


async def _bad_chunks(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n")


async def _two_lengths(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nok")


async def _negative_length(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok")


async def _redirects_inside(cage: Cage) -> None:
    await _always(
        cage, b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n\r\n"
    )


async def _switches_protocols(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")


async def _answers_late(cage: Cage) -> None:
    await cage.request()
    await asyncio.sleep(SECONDS * 1.5)
    await cage.say(OK)


async def _answers_just_in_time(cage: Cage) -> None:
    while True:
        await cage.request()
        await asyncio.sleep(SECONDS / 4)
        await cage.say(OK)


async def _hangs_up_on_the_second(cage: Cage) -> None:
    await _once(cage, OK)
    await cage.reader.readexactly(10)


async def _speaks_no_http(cage: Cage) -> None:
    await _always(cage, b"hello, this is no HTTP\r\n")


async def _garbage(cage: Cage) -> None:
    await cage.reader.read(1)
    await cage.say(bytes(range(256)) * 4)
    await cage.hush()


async def _null_in_header(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 200 OK\r\nX-Null: a\x00b\r\nContent-Length: 2\r\n\r\nok")


async def _space_in_header_name(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 200 OK\r\nX Null : b\r\nContent-Length: 2\r\n\r\nok")


async def _half_closes_after(cage: Cage) -> None:
    """An answer without a length ends with the connection; this one keeps its other half open."""
    await _once(cage, b"HTTP/1.1 200 OK\r\n\r\nok")
    cage.writer.write_eof()
    await cage.hush()


async def _half_closes_before(cage: Cage) -> None:
    await cage.request()
    cage.writer.write_eof()
    await cage.hush()


async def _strange_status(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 999 Enough\r\nContent-Length: 0\r\n\r\n")


async def _refuses_for_years(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 429 No\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n")


async def _lies_about_the_date(cage: Cage) -> None:
    await _always(cage, b"HTTP/1.1 503 No\r\nRetry-After: Fri, 99 Foo 99999 99:99:99 GMT\r\nContent-Length: 0\r\n\r\n")


async def _well_behaved(cage: Cage) -> None:
    await _always(cage, OK)


async def _nobody(_cage: Cage) -> None:
    """Never called: its connections are not accepted."""


def _self_signed() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


def animals() -> list[Animal]:
    """All of them; `good` is the one that behaves."""
    return [
        Animal("good", _well_behaved, "delivered", status=200),
        Animal("never-accepts", _nobody, "due", "timeout"),
        Animal("silent", _silent, "due", "timeout"),
        Animal("resets-at-once", _resets_at_once, "due", "connect"),
        Animal("resets-after-request", _resets_after_request, "due", "connect"),
        Animal("resets-in-answer", _resets_in_answer, "due", "", 200),
        Animal("drips-body", _drips_body, "due", "timeout", 200),
        Animal("drips-head", _drips_head, "due", "timeout"),
        Animal("too-short", _too_short, "due", "protocol", 200),
        Animal("too-long", _too_long, "delivered", status=200),
        Animal("endless-body", _endless_body, "delivered", status=200),
        Animal("endless-until-eof", _endless_until_eof, "delivered", status=200),
        Animal("endless-header", _endless_header, "due", "protocol"),
        Animal("endless-headers", _endless_headers, "due", "protocol"),
        Animal("endless-trailers", _endless_trailers, "due", "protocol", None),
        Animal("endless-length", _endless_length, "delivered", status=200),
        Animal("endless-answers", _endless_answers, "delivered", status=200),
        Animal("endless-tiny-chunks", _tiny_chunks, "due", ENDLESS, 200),
        Animal("endless-chunk-extension", _chunk_extension, "due", ENDLESS, 200),
        Animal("gzip-bomb", _gzip_bomb, "delivered", status=200),
        Animal("endless-informing", _informs_for_ever, "due", ENDLESS),
        Animal("endless-before-the-request", _speaks_first, "due"),
        Animal("informs-first", _informs_first, "delivered", status=200),
        Animal("bad-chunks", _bad_chunks, "due", "protocol"),
        Animal("two-lengths", _two_lengths, "due", "protocol"),
        Animal("negative-length", _negative_length, "due", "protocol"),
        Animal("redirects-inside", _redirects_inside, "dead", "redirects are never followed", 307),
        Animal("switches-protocols", _switches_protocols, "dead", "101", 101),
        Animal("answers-late", _answers_late, "due", "timeout"),
        Animal("just-in-time", _answers_just_in_time, "delivered", status=200),
        Animal("hangs-up-on-the-second", _hangs_up_on_the_second, "delivered", status=200, later="due"),
        Animal("speaks-no-http", _speaks_no_http, "due", "protocol"),
        Animal("tls-garbage", _garbage, "due", "tls", tls=True),
        Animal("tls-silent", _silent, "due", "timeout", tls=True),
        Animal("tls-self-signed", _well_behaved, "due", "tls", tls=True, secure=_self_signed()),
        Animal("null-in-header", _null_in_header, "due", "protocol"),
        Animal("space-in-header-name", _space_in_header_name, "due", "protocol"),
        Animal("half-closes-after", _half_closes_after, "delivered", status=200),
        Animal("half-closes-before", _half_closes_before, "due", "connect"),
        Animal("strange-status", _strange_status, "due", "999", 999),
        Animal("refuses-for-years", _refuses_for_years, "due", "429", 429),
        Animal("lies-about-the-date", _lies_about_the_date, "due", "503", 503),
    ]


class Zoo(NamedTuple):
    """The animals, where each listens, and how many bytes each got rid of."""

    animals: list[Animal]
    urls: dict[str, str]
    poured: Counter[str]


@asynccontextmanager
async def zoo() -> AsyncIterator[Zoo]:
    """Every animal on a port of its own."""
    kept = Zoo(animals(), {}, Counter())
    tasks: set[asyncio.Task[None]] = set()
    async with AsyncExitStack() as stack:
        for animal in kept.animals:
            if animal.keep is _nobody:
                port = stack.enter_context(Full())
            else:
                server = await asyncio.start_server(
                    _cage(animal, kept.poured, tasks), sock=listening(), ssl=animal.secure
                )
                stack.push_async_callback(server.wait_closed)
                stack.push_async_callback(stop_listening, server)
                port = server.sockets[0].getsockname()[1]
            kept.urls[animal.name] = f"{'https' if animal.tls else 'http'}://127.0.0.1:{port}/{animal.name}"
        try:
            yield kept
        finally:
            for task in tuple(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _cage(
    animal: Animal, poured: Counter[str], tasks: set[asyncio.Task[None]]
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = asyncio.current_task()
        assert me is not None
        tasks.add(me)
        writer.transport.set_write_buffer_limits(0)
        try:
            await animal.keep(Cage(reader, writer, animal.name, poured))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # cancelled above; Python 3.11 would report it as an error of the callback
        finally:
            writer.transport.abort()
            tasks.discard(me)

    return connected
