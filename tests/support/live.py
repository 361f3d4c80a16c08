"""A client of the live feed with a real WebSocket."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.gateway import Gateway
from tests.support.waiting import PATIENCE

Frame = dict[str, Any]


class LiveClient:
    """One connection to `/v1/live`; `cursor` is where it is."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.cursor = ""

    def next(self, seconds: float = PATIENCE) -> Frame:
        """The next frame of any kind."""
        frame: Frame = json.loads(self.connection.recv(seconds))
        self.cursor = frame["cursor"]
        return frame

    def until(self, kind: str) -> Frame:
        """The next frame of this kind; others are passed over."""
        while (frame := self.next())["kind"] != kind:
            pass
        return frame

    def events(self, count: int) -> list[Frame]:
        """The next events."""
        return [self.until("event")["event"] for _ in range(count)]

    def rest(self) -> list[Frame]:
        """The events that still come until the connection is lost."""
        found: list[Frame] = []
        while True:
            try:
                frame = self.next()
            except ConnectionClosed:
                return found
            if frame["kind"] == "event":
                found.append(frame["event"])

    def say(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        self.connection.send(json.dumps({"type": kind, **fields}))


def sse(gateway: Gateway, token: str, query: str = "", **headers: str) -> Generator[tuple[str, str, Frame], None, None]:
    """The server-sent events of `/v1/live/sse`: kind, id and data of each, until the caller ends the generator."""
    with (
        gateway.tcp(token, **headers) as client,
        client.stream("GET", f"/v1/live/sse{query}") as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            else:
                yield fields["event"], fields["id"], json.loads(fields["data"])


@contextmanager
def live(gateway: Gateway, token: str, query: str = "", **more: Any) -> Iterator[LiveClient]:
    """A client that is connected to the feed of a gateway, and has read where it is."""
    url = f"ws://127.0.0.1:{gateway.port}/v1/live{query}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with connect(url, additional_headers=headers, **more) as connection:
        yield LiveClient(connection)
