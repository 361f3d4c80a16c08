"""`/v1/live`: the feed over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from bus.errors import FleethookError
from bus.wire.codec import write_json
from workers.gateway.live.commands import asked_subscriptions, read_command
from workers.gateway.live.cursors import Cursor, parse_cursor
from workers.gateway.live.feed import Client, Feed
from workers.gateway.live.messages import Message
from workers.gateway.live.sending import ABORT, send_feed
from workers.gateway.problems import problem_of

log = logging.getLogger("fleethook.gateway")

SUBPROTOCOL: Final = "fleethook.v1"
"""What a browser's client asks for beside the subprotocol with its token."""

_FAREWELL_SECONDS: Final = 1.0
_TRY_AGAIN_LATER: Final = 1013


class LiveSocket:
    """The WebSocket endpoint of one gateway."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def handle(self, socket: WebSocket) -> None:
        """Serve one client until it leaves; raises FleethookError while it can still be refused."""
        client = Client(asked_subscriptions(socket.query_params))
        asked = socket.query_params.get("cursor", "")
        cursor = parse_cursor(asked) if asked else None
        complete = await self._feed.enter(client, cursor)
        try:
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope.get("subprotocols", ()) else None)
            await self._serve(socket, client, complete=complete)
        finally:
            await self._feed.leave(client)

    async def _serve(self, socket: WebSocket, client: Client, *, complete: bool) -> None:
        channel = _SocketChannel(socket)
        sending = asyncio.create_task(send_feed(self._feed, client, channel, complete=complete))
        tasks = [
            sending,
            asyncio.create_task(self._receive(socket, client, channel)),
            asyncio.create_task(client.overflowed.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        if client.overflowed.is_set() or isinstance(results[0], TimeoutError):
            await _drop(socket, client, channel)
        for error in results:
            if isinstance(error, Exception) and not isinstance(error, WebSocketDisconnect | TimeoutError):
                log.error("the live feed of a client", exc_info=error)

    async def _receive(self, socket: WebSocket, client: Client, channel: _SocketChannel) -> None:
        """Carry out the client's messages until it leaves."""
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                received = await socket.receive()
                if received["type"] == "websocket.disconnect":
                    return
                try:
                    await self._carry_out(received.get("text") or "", client, channel)
                except FleethookError as error:
                    problem = problem_of(error)
                    await channel.say("error", self._feed.progress(client), code=problem.code, detail=problem.detail)

    async def _carry_out(self, text: str, client: Client, channel: _SocketChannel) -> None:
        kind, patterns, where = read_command(text)
        if kind == "ping":
            await channel.say("pong", self._feed.progress(client))
            return
        if kind == "subscribe":
            client.subscriptions.subscribe(patterns or ("*",), where)
        else:
            client.subscriptions.unsubscribe(patterns)
        self._feed.resubscribed()
        rules = [{"events": rule.pattern, "where": rule.where} for rule in client.subscriptions.rules]
        await channel.say("subscriptions", self._feed.progress(client), subscriptions=rules)


class _SocketChannel:
    """Messages as text frames."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def message(self, message: Message, at: Cursor) -> None:
        await self._socket.send_text(message.frame(at))

    async def say(self, kind: str, at: Cursor, **fields: Any) -> None:
        await self._socket.send_text(write_json({"kind": kind, "cursor": str(at), **fields}).decode())


async def _drop(socket: WebSocket, client: Client, channel: _SocketChannel) -> None:
    """Close a connection that is too far behind, with words if it takes them."""
    try:
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await channel.say("dropped", client.at, messages=len(client.waiting))
            await socket.close(_TRY_AGAIN_LATER, f"{len(client.waiting)} messages behind; connect with your cursor")
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        socket.scope[ABORT]()  # it reads nothing: what is still to be sent would be kept for it
