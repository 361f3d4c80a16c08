"""The hook command's connection to a gateway: it sends the same entries as to Redis, by HTTP/1.1.

`bus/shim/main.py` loads this only if the answer file has the line `gateway`, and passes in the functions that both need. Like
`main`, this imports only C-level modules. The gateway's side is `workers/gateway/calls/entries.py`.
"""

import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_HEAD = 65536
SEND_S = 1.0
"""The most seconds that sending a small request may take."""
SEND_BYTES = 2 << 20
"""A large one may take a second more for so many bytes."""
LOOK_S = 0.5
"""Seconds that a call waits before it checks whether the gateway still answers, and the most seconds of that check."""
LATE_S = 2.0
"""The same while a slow hook runs."""
AWAY = (500, 502, 503, 504)
"""The statuses, without a code, of a balancer that reaches no gateway, and of a gateway that ends before its drain is over."""
FULL = (b"connections", b"busy")
"""The error codes of a gateway that takes no more at this moment."""
HAS_REQUEST = (b"no-verdict", b"no-evaluator")
"""The error codes of a gateway that has passed the request on to Redis."""
REASONS = {b"no-verdict": "no answer in time", b"no-evaluator": "no evaluator", b"bus-away": "redis away"}


class GatewayLink:
    """One connection to a gateway. `add`, `ping`, `sock` and `until` are those of `main.Link`, the connection to Redis."""

    def __init__(
        self,
        connect: "Callable[[float], Any]",
        until: float,
        host: bytes,
        token: bytes,
        no_answer: "type[Exception]",
        pack: "Callable[..., bytes]",
    ) -> None:
        """`connect` opens a `main.Link` until a monotonic time; its errors are passed on."""
        self.connect, self.host, self.token, self.no_answer, self.pack = connect, host, token, no_answer, pack
        self.link, self.until, self.code = connect(until), until, b""
        self.sock = self.link.sock

    def add(self, _prefix: bytes, *entries: "list[bytes]") -> None:
        """Adds entries to the stream of events. When it returns, Redis or the gateway's disk has them."""
        self.post(b"".join([self.pack(b"events", *fields) for fields in entries]))
        self.answer()

    def ping(self, seconds: float) -> None:
        """Raises OSError or NoAnswer unless the gateway answers within `seconds`."""
        self.until = time.monotonic() + seconds
        self.send(b"GET /livez HTTP/1.1\r\nHost: %b\r\n\r\n" % self.host)
        self.answer()

    def look(self, call: "Any", seconds: float) -> None:
        """Raises OSError or NoAnswer unless the gateway answers within `seconds`; asks it whether the call waits for a person.

        A gateway that has no such path, or no answer because Redis is away, answers all the same.
        """
        self.ping(seconds)
        if call.provisional:
            return
        secret = b"Authorization: Bearer %b\r\n" % self.token if self.token else b""
        try:
            self.send(b"GET /v1/entries/%b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (call.id, self.host, secret))
            call.provisional = self.answer()
        except (OSError, self.no_answer):
            return
        if call.provisional:
            extend(call)

    def ask(self, call: "Any", fields: "list[bytes]") -> bytes:
        """The reply to a request of a `HookCall`; raises NoAnswer, OSError.

        A request that is sent again has the same id, and is evaluated once.
        """
        now, until, more = time.monotonic(), self.until, call.hard > call.end or call.waits
        wait = [b"budget", b"%d" % max(1, (call.soft - now) * 1000)]
        wait += [b"patience", b"%d" % ((call.hard - now) * 1000)] if more else []
        body = self.pack(b"requests", *fields[:2], *wait, *fields[2:])
        large = len(body) / SEND_BYTES
        self.until = min(until, now + SEND_S + large)
        try:
            self.post(body)
            raw = self.wait(call, until, more, LOOK_S + large)
        finally:
            call.acked = call.acked or self.code in HAS_REQUEST
        call.reached = True
        return raw

    def wait(self, call: "Any", until: float, more: bool, late: float) -> bytes:
        """The answer by `until`; with `more`, waits longer while the gateway waits for a slow hook.

        After `late` seconds a waiting call checks that the gateway still answers: one that hangs costs a moment, not the whole
        deadline. A call that waits for a person waits for as long as its agent does.
        """
        while True:
            try:
                self.until = min(until, time.monotonic() + late)
                return self.answer()
            except TimeoutError:
                now = time.monotonic()
            if now >= until:
                call.acked = True
                if not more or now >= call.hard - 0.15:
                    raise self.no_answer("no answer in time")
                extend(call)
                until, late = call.soft, LATE_S
            other = GatewayLink(self.connect, now + late, self.host, self.token, self.no_answer, self.pack)
            other.look(call, late)
            other.sock.close()
            if call.provisional:
                until, late, more = call.soft, LATE_S, True

    def post(self, body: bytes) -> None:
        """Sends entries, in the format of the spool."""
        head = b"POST /v1/entries HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n" % (self.host, len(body))
        self.send(head + (b"Authorization: Bearer %b\r\n" % self.token if self.token else b"") + b"\r\n" + body)

    def send(self, request: bytes) -> None:
        """Sends a request; raises OSError."""
        self.link.until = self.until
        self.link.send(request)

    def answer(self) -> bytes:
        """The body of the response. Raises NoAnswer for an error of the gateway, OSError without a response."""
        status, body = self.response()
        if 200 <= status < 300:
            return body
        _, _, rest = body.partition(b'"code":"')
        self.code = rest.partition(b'"')[0][:40] or b"%d" % status
        if (not rest and status in AWAY) or self.code in FULL:  # worth another try
            raise ConnectionError(f"answered {status}")
        raise self.no_answer(REASONS.get(self.code) or "gateway refused: " + self.code.decode("ascii", "replace"))

    def response(self) -> "tuple[int, bytes]":
        """Status and body of the next response. If it is not complete in time, its beginning is kept for the next call."""
        link = self.link
        link.until = self.until
        while (end := link.data.find(b"\r\n\r\n")) < 0:
            if len(link.data) > MOST_HEAD:
                raise self.no_answer("what answers there is not a gateway")
            link.more()
        head = link.data[:end].lower()
        try:
            if head[:7] != b"http/1.":
                raise ValueError
            status, (_, _, length) = int(head[9:12]), head.partition(b"\r\ncontent-length:")
            size = end + 4 + (int(length.partition(b"\r\n")[0]) if length else 0)
        except ValueError:
            raise self.no_answer("what answers there is not a gateway") from None
        while len(link.data) < size:
            link.more()
        body, link.data = link.data[end + 4 : size], link.data[size:]
        return status, body


def extend(call: "Any") -> None:
    """Lets the call wait for as long as its agent does: a slow hook runs, or a person is asked."""
    call.waits, call.soft, call.end = True, call.hard - 0.15, call.hard
