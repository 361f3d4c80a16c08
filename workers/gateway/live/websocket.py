"""`/v1/live`: the feed over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from bus.errors import FleethookError
from bus.wire.codec import write_json
from workers.gateway.access import until_refused
from workers.gateway.live.client_messages import asked_subscriptions, read_command
from workers.gateway.live.cursors import Cursor, parse_cursor
from workers.gateway.live.feed import Client, Feed
from workers.gateway.live.feed_sender import ABORT, run_until_first, send_feed
from workers.gateway.live.messages import FeedMessage
from workers.gateway.problems import Problem, problem_of

log = logging.getLogger("fleethook.gateway")

SUBPROTOCOL: Final = "fleethook.v1"
"""The subprotocol that a browser's client asks for, besides the one with its token."""

_FAREWELL_SECONDS: Final = 1.0
_TRY_AGAIN_LATER: Final = 1013
_POLICY_VIOLATION: Final = 1008


class LiveSocket:
    """The WebSocket endpoint."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def handle(self, socket: WebSocket) -> None:
        """Serve one client until it leaves; raises FleethookError only before the WebSocket is accepted."""
        client = Client(asked_subscriptions(socket.query_params), "websocket")
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
        results = await run_until_first(
            send_feed(self._feed, client, channel, complete=complete),
            self._receive(socket, client, channel),
            client.overflowed.wait(),
            until_refused(socket.scope),
        )
        if isinstance(results[0], TimeoutError):
            client.overflowed.set()
        if isinstance(results[3], Problem):
            await _close(socket, client, channel, results[3])
        elif client.overflowed.is_set():
            await _drop(socket, client, channel)
        for error in results[:3]:
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
        chosen = [{"events": one.pattern, "where": one.where} for one in client.subscriptions.current]
        await channel.say("subscriptions", self._feed.progress(client), subscriptions=chosen)


class _SocketChannel:
    """Messages as text frames."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def message(self, message: FeedMessage, at: Cursor) -> None:
        await self._socket.send_text(message.frame(at))

    async def say(self, kind: str, at: Cursor, **fields: Any) -> None:
        await self._socket.send_text(write_json({"kind": kind, "cursor": str(at), **fields}).decode())


async def _close(socket: WebSocket, client: Client, channel: _SocketChannel, problem: Problem) -> None:
    """Close the connection of a client whose token has lost its right."""
    try:
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await channel.say("error", client.at, code=problem.code, detail=problem.detail)
            await socket.close(_POLICY_VIOLATION, problem.code)
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        socket.scope[ABORT]()


async def _drop(socket: WebSocket, client: Client, channel: _SocketChannel) -> None:
    """Close the connection of a client that is too far behind, with the reason if the client still reads."""
    try:
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await channel.say("dropped", client.at, messages=len(client.waiting))
            await socket.close(_TRY_AGAIN_LATER, f"{len(client.waiting)} messages behind; connect with your cursor")
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        socket.scope[ABORT]()  # it reads nothing, so the unsent messages would stay in memory
