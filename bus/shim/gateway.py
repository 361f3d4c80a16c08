"""How the hook command speaks with a gateway: the same entries as with Redis, by HTTP/1.1 over the same kinds of socket.

`bus/shim/main.py` loads this only where the answer file has the line `gateway`, and passes in what both need. Like it, this
imports only C-level modules. The other side is `workers/gateway/entries.py`.
"""

import time

TYPE_CHECKING = False  # typing costs 7 ms, and type checkers know this name without it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_HEAD = 65536
SEND_S = 1.0
"""How long a gateway may take to take a request."""
LOOK_S = 0.5
"""How long a call waits before it looks whether the gateway still answers, and how long that may take."""
LATE_S = 2.0
"""The same while a slow hook runs."""
AWAY = (502, 503, 504)
"""What a balancer answers whose gateways are away."""
HAS_REQUEST = (b"no-verdict", b"no-evaluator")
"""The errors of a gateway whose Redis has the request."""
REASONS = {b"no-verdict": "no answer in time", b"no-evaluator": "no evaluator", b"bus-away": "redis away"}


class GatewayLink:
    """One connection to a gateway. It has `add`, `ping`, `sock` and `until` as the connection to Redis has them."""

    def __init__(
        self,
        connect: "Callable[[float], Any]",
        until: float,
        host: bytes,
        token: bytes,
        no_answer: "type[Exception]",
        pack: "Callable[..., bytes]",
    ) -> None:
        """`connect` opens a connection (`main.Link`); raises what it raises."""
        self.connect, self.host, self.token, self.no_answer, self.pack = connect, host, token, no_answer, pack
        self.link, self.until, self.code = connect(until), until, b""
        self.sock = self.link.sock

    def add(self, _prefix: bytes, *entries: "list[bytes]") -> None:
        """Adds entries to the stream of events; once the gateway says so, Redis or the gateway's disk has them."""
        self.post(b"".join([self.pack(b"events", *fields) for fields in entries]))
        self.answer()

    def ping(self, seconds: float) -> None:
        """Raises OSError or NoAnswer unless the gateway answers within so many seconds."""
        self.until = time.monotonic() + seconds
        self.send(b"GET /livez HTTP/1.1\r\nHost: %b\r\n\r\n" % self.host)
        self.answer()

    def ask(self, call: "Any", fields: "list[bytes]") -> bytes:
        """The reply to a request of a `HookCall`; raises NoAnswer, OSError.

        One that is sent again has the same id and is evaluated once.
        """
        now, until, more = time.monotonic(), self.until, call.hard > call.end or call.waits
        wait = [b"budget", b"%d" % max(1, (call.soft - now) * 1000)]
        wait += [b"patience", b"%d" % ((call.hard - now) * 1000)] if more else []
        self.until = min(until, now + SEND_S)
        try:
            self.post(self.pack(b"requests", *fields[:2], *wait, *fields[2:]))
            raw = self.wait(call, until, more)
        finally:
            call.acked = call.acked or self.code in HAS_REQUEST
        call.reached = True
        return raw

    def wait(self, call: "Any", until: float, more: bool) -> bytes:
        """The answer by `until`; with `more` that of a slow hook, for which the gateway waits while the hook runs.

        A call that waits looks whether the gateway still answers: one that hangs costs a moment, not the whole deadline.
        """
        late = LOOK_S
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
                call.waits, call.soft, call.end = True, call.hard - 0.15, call.hard
                until, late = call.soft, LATE_S
            other = GatewayLink(self.connect, now + late, self.host, self.token, self.no_answer, self.pack)
            other.ping(late)
            other.sock.close()

    def post(self, body: bytes) -> None:
        """Sends entries, in the form of the spool."""
        head = b"POST /v1/entries HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n" % (self.host, len(body))
        self.send(head + (b"Authorization: Bearer %b\r\n" % self.token if self.token else b"") + b"\r\n" + body)

    def send(self, request: bytes) -> None:
        """Sends a request; raises OSError."""
        self.link.until = self.until
        self.link.send(request)

    def answer(self) -> bytes:
        """The body of the response; raises NoAnswer for an error of the gateway, OSError where none came."""
        status, body = self.response()
        if 200 <= status < 300:
            return body
        _, _, rest = body.partition(b'"code":"')
        if not rest and status in AWAY:
            raise ConnectionError(f"a balancer answers {status}")
        self.code = rest.partition(b'"')[0][:40] or b"%d" % status
        raise self.no_answer(REASONS.get(self.code) or "gateway refused: " + self.code.decode("ascii", "replace"))

    def response(self) -> "tuple[int, bytes]":
        """Status and body of the next response. Where it is not complete in time, what has come is kept for the next try."""
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
