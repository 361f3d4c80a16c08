"""`/v1/live/sse`: the feed as server-sent events, with the same cursor."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bus.wire.codec import write_json
from workers.gateway.access import until_refused
from workers.gateway.live.client_messages import asked_subscriptions
from workers.gateway.live.cursors import Cursor, parse_cursor
from workers.gateway.live.feed import Client, Feed
from workers.gateway.live.feed_sender import ABORT, run_until_first, send_feed
from workers.gateway.live.messages import FeedMessage
from workers.gateway.problems import Problem

_FAREWELL_SECONDS: Final = 1.0


class LiveEvents:
    """The path of server-sent events."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def handle(self, request: Request) -> Response:
        """The response that sends the feed. A browser that connects again sends its cursor as `Last-Event-ID`."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        client = Client(asked_subscriptions(request.query_params), "sse")
        asked = request.headers.get("last-event-id", "") or request.query_params.get("cursor", "")
        complete = await self._feed.enter(client, parse_cursor(asked) if asked else None)
        return _Stream(self._feed, client, complete=complete)


class _Stream(Response):
    """The response to one client."""

    def __init__(self, feed: Feed, client: Client, *, complete: bool) -> None:
        super().__init__(
            media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        del self.headers["content-length"]
        self._feed, self._client, self._complete = feed, client, complete

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the feed until the client leaves, is dropped, or the gateway ends."""
        client = self._client
        channel, results = _EventChannel(send), list[Any]([None])
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            results = await run_until_first(
                send_feed(self._feed, client, channel, complete=self._complete),
                _left(receive),
                client.overflowed.wait(),
                self._feed.ended.wait(),
                until_refused(scope),
            )
        finally:
            if isinstance(results[0], TimeoutError):
                client.overflowed.set()
            await self._feed.leave(client)
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                if client.overflowed.is_set():
                    await channel.say("dropped", client.at, messages=len(client.waiting))
                elif isinstance(refused := results[-1], Problem):
                    await channel.say("error", client.at, code=refused.code, detail=refused.detail)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            scope[ABORT]()  # the client reads nothing: without this, what is not sent would stay in memory


class _EventChannel:
    """Messages as server-sent events."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def message(self, message: FeedMessage, at: Cursor) -> None:
        await self._write(message.name, at, message.body)

    async def say(self, kind: str, at: Cursor, **fields: Any) -> None:
        await self._write(kind, at, write_json({"cursor": str(at), **fields}).decode())

    async def _write(self, kind: str, at: Cursor, data: str) -> None:
        text = f"event: {kind}\nid: {at}\ndata: {data}\n\n"
        await self._send({"type": "http.response.body", "body": text.encode("ascii"), "more_body": True})


async def _left(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
