"""The live feed over a WebSocket in the messages of Gobby's daemon."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from bus.errors import DecodeError, FleethookError
from bus.ids import event_id
from bus.wire.codec import read_json, write_json
from workers.gateway.access import until_refused
from workers.gateway.gobby.broadcast import Chosen, hook_event
from workers.gateway.gobby.config import GobbyConfig
from workers.gateway.live.cursors import Cursor
from workers.gateway.live.feed import Client, Feed
from workers.gateway.live.feed_sender import ABORT, LATENCY, run_until_first, send_feed
from workers.gateway.live.messages import FeedMessage
from workers.gateway.live.subscriptions import Router, Subscription, Subscriptions
from workers.gateway.problems import Problem

log = logging.getLogger("fleethook.gateway")

_MOST_NAMES: Final = 200
_MOST_REMEMBERED: Final = 64
_GOING_AWAY: Final = 1001
_POLICY_VIOLATION: Final = 1008


def gobby_socket(feed: Feed) -> GobbySocket:
    """The feed in Gobby's messages at the gateway's own address, with every event of the feed."""
    return GobbySocket(feed, GobbyConfig(broadcast_events=("*",)), feed.ended)


class GobbySocket:
    """The WebSocket in the format of Gobby's daemon; `ended` closes its connections."""

    def __init__(self, feed: Feed, config: GobbyConfig, ended: asyncio.Event) -> None:
        self._feed, self._config, self._ended = feed, config, ended
        rules = Chosen(config.broadcast_events).rules
        self._sent: Router[str] = Router([("", rules)])
        self._frames: dict[str, dict[str, Any]] = {}

    async def handle(self, socket: WebSocket) -> None:
        """Serve one client until it leaves; raises FleethookError only before the WebSocket is accepted."""
        chosen, client = Chosen(self._config.broadcast_events), Client(Subscriptions(), "gobby")
        client.subscriptions.replace(chosen.rules)
        await self._feed.enter(client, None)
        try:
            await socket.accept()
            await self._serve(socket, client, chosen)
        finally:
            await self._feed.leave(client)

    async def _serve(self, socket: WebSocket, client: Client, chosen: Chosen) -> None:
        latency = socket.scope.get(LATENCY, float)
        await _send(
            socket,
            type="connection_established",
            client_id=event_id(),
            user_id=f"local-{secrets.token_hex(4)}",
            latency=latency(),
            conversation_ids=[],
        )
        results = await run_until_first(
            send_feed(self._feed, client, _GobbyChannel(self, socket, chosen), complete=True),
            self._receive(socket, client, chosen),
            self._ended.wait(),
            client.overflowed.wait(),
            until_refused(socket.scope),
        )
        if isinstance(results[-1], Problem):
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(_POLICY_VIOLATION, results[-1].code)
        elif client.overflowed.is_set():
            socket.scope[ABORT]()  # the client reads nothing, so the unsent messages would stay in memory
        elif self._ended.is_set():
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(_GOING_AWAY)
        for error in results[:-1]:
            if isinstance(error, Exception) and not isinstance(error, WebSocketDisconnect):
                log.error("the live feed of a client of Gobby", exc_info=error)

    def frame(self, message: FeedMessage, chosen: Chosen) -> str:
        """The text of a message for one client; empty if the client does not get it. The shared part is made once."""
        if not message.is_event or not any(True for _ in self._sent.clients(message)):
            return ""
        key = str(message.at)
        known = self._frames.get(key)
        if known is None:
            if len(self._frames) >= _MOST_REMEMBERED:
                self._frames.clear()
            known = self._frames[key] = hook_event(message, payload=self._config.include_payload)
        return write_json({**known, "event_type": chosen.spelled(message.event)}).decode()

    async def _receive(self, socket: WebSocket, client: Client, chosen: Chosen) -> None:
        """Carry out the client's messages until it leaves."""
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                received = await socket.receive()
                if received["type"] == "websocket.disconnect":
                    return
                text = received.get("text")
                raw = text.encode("utf-8", "surrogatepass") if text is not None else received.get("bytes") or b""
                await self._carry_out(socket, raw, client, chosen)

    async def _carry_out(self, socket: WebSocket, raw: bytes, client: Client, chosen: Chosen) -> None:
        asked = _read(raw)
        if asked is None:
            await _error(socket, "Invalid JSON format")
            return
        kind, request = asked.get("type"), asked.get("request_id")
        if kind is None:  # `{"subscribe": [...]}` is the form of Gobby's plan
            kind = next((name for name in ("subscribe", "unsubscribe") if name in asked), None)
            asked = {**asked, "events": asked.get(str(kind))}
        if kind == "ping":
            await _send(socket, type="pong", latency=socket.scope.get(LATENCY, float)())
        elif kind in {"subscribe", "unsubscribe"}:
            await self._choose(socket, str(kind), asked, client, chosen)
        elif kind == "tool_call":
            await _error(
                socket,
                "this port calls no tools: it needs no token; the tools of plugins are at /mcp of the gateway",
                request,
            )
        else:
            await _error(socket, f"Unknown message type: {str(kind)[:80]}", request)

    async def _choose(
        self, socket: WebSocket, kind: str, asked: dict[str, Any], client: Client, chosen: Chosen
    ) -> None:
        names, where = asked.get("events"), asked.get("where") or ""
        names = [] if names is None and kind == "unsubscribe" else names
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            await _error(socket, "events must be a list of strings", asked.get("request_id"))
            return
        before = dict.fromkeys(chosen.names)
        if not isinstance(where, str) or len({*before, *names}) > _MOST_NAMES:
            await _error(
                socket, f"where is a CEL condition, and events are at most {_MOST_NAMES}", asked.get("request_id")
            )
            return
        try:
            if kind == "subscribe":
                trial = Subscriptions()
                trial.replace([Subscription("*", where)])  # a condition that cannot be read changes nothing
                chosen.subscribe(names, where)
            else:
                chosen.unsubscribe(names)
            client.subscriptions.replace(chosen.rules)
        except FleethookError as error:
            await _error(socket, str(error), asked.get("request_id"))
            return
        self._feed.resubscribed()
        await _send(socket, type=f"{kind}_success", events=chosen.names)


class _GobbyChannel:
    """Events as `hook_event` messages. Gobby has no messages about the feed itself."""

    def __init__(self, owner: GobbySocket, socket: WebSocket, chosen: Chosen) -> None:
        self._owner, self._socket, self._chosen = owner, socket, chosen

    async def message(self, message: FeedMessage, at: Cursor) -> None:  # noqa: ARG002 - the protocol's argument
        if text := self._owner.frame(message, self._chosen):
            await self._socket.send_text(text)

    async def say(self, kind: str, at: Cursor, **fields: Any) -> None:
        pass


def _read(raw: bytes) -> dict[str, Any] | None:
    try:
        found = read_json(raw)
    except DecodeError:
        return None
    return found if isinstance(found, dict) else None


async def _send(socket: WebSocket, **fields: Any) -> None:
    await socket.send_text(write_json(fields).decode())


async def _error(socket: WebSocket, message: str, request: object = None) -> None:
    more = {"request_id": request} if isinstance(request, str | int) else {}
    await _send(socket, type="error", code="ERROR", message=message, **more)
