"""An endpoint is told of events over HTTP: signed, tried again while it fails, and always under the same id."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bus import Event, SyncBus, verify
from bus.http.signing import generate_secret
from tests.support.fleet import Fleet

SECRET = generate_secret()


class Receiver(HTTPServer):
    """Somebody's server: it fails twice before it takes anything."""

    failures = 2

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []


class Handler(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((dict(self.headers.items()), body))
        self.send_response(503 if len(self.server.got) <= self.server.failures else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.req("B-03", "B-06")
def test_what_arrives_is_signed_and_each_try_has_the_same_id(fleet: Fleet, bus: SyncBus, receiver: Receiver) -> None:
    fleet.publish_hooks(f"""
network: {{allow: ["127.0.0.1:{receiver.server_port}"]}}   # loopback only where it is listed
endpoints:
  - id: chat
    url: http://127.0.0.1:{receiver.server_port}/hooks
    events: [agent:stop]
    secret: {SECRET}
    retry: [0.05, 0.05, 0.05]
""")
    name = bus.publish(Event(type="agent:stop", source="gemini", session="s1"))

    (delivery,) = fleet.delivered(name)
    assert [attempt.status for attempt in delivery.log] == [503, 503, 204]

    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    for headers, body in receiver.got:
        verify([SECRET], headers, body)  # what a receiver does: raises SignatureError for anything forged or old
    told = json.loads(receiver.got[0][1])
    assert told["type"] == "agent.stop", "dots for colons, as Standard Webhooks has it"
    assert told["data"]["session"] == "s1"
