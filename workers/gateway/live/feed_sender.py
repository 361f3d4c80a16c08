"""Sends the feed to one client: the messages that it missed, then live ones, heartbeats, and how far behind it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from bus.errors import FleethookError
from workers.gateway.live.cursors import Cursor
from workers.gateway.live.feed import MOST_WAITING, Client, Feed
from workers.gateway.live.messages import FeedMessage
from workers.gateway.live.subscriptions import Router
from workers.gateway.problems import problem_of
from workers.runtime.consumer_loop import cancel_tasks

ABORT: Final = "fleethook.abort"
"""The entry of an ASGI scope with the function that cuts the connection without sending the rest."""

LATENCY: Final = "fleethook.latency"
"""The entry of a WebSocket's scope with the function that gives the round trip of its last ping, in seconds."""

HEARTBEAT_SECONDS: Final = 15.0
_SEND_SECONDS: Final = 20.0
"""The most seconds for one message while a client catches up; then the client is dropped."""
_RETRY_SECONDS: Final = 1.0


class Channel(Protocol):
    """One client's connection: a WebSocket or server-sent events."""

    async def message(self, message: FeedMessage, at: Cursor) -> None:
        """Send an event or outcome; returns when the client's connection has taken it."""
        ...

    async def say(self, kind: str, at: Cursor, **fields: Any) -> None:
        """Send a message about the feed itself."""
        ...


async def send_feed(feed: Feed, client: Client, channel: Channel, *, complete: bool) -> None:
    """Send the feed to a client until cancelled; raises TimeoutError if the client reads nothing."""
    await channel.say("position", client.at, complete=complete)
    await _catch_up(feed, client, channel)
    warned = False
    while True:
        client.changed.clear()
        if not client.waiting:
            warned = False
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: until Python 3.12 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await client.changed.wait()
            if not client.waiting:
                await channel.say("heartbeat", feed.progress(client))
            continue
        if client.is_slow and not warned:
            warned = True
            await channel.say("behind", client.at, messages=len(client.waiting), most=MOST_WAITING)
        message, at = client.next()
        await channel.message(message, at)
        client.sent(at)


async def run_until_first(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run all at the same time until the first one ends, and cancel the others. Returns their results or exceptions."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_tasks(tasks)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def _catch_up(feed: Feed, client: Client, channel: Channel) -> None:
    """Send the messages that the client missed, read for it alone, until it can join the feed."""
    source = feed.source()
    while not feed.join(client):
        try:
            page = await source.after(client.at)
        except FleethookError as error:
            await channel.say("error", client.at, detail=str(problem_of(error)))
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        router = Router([(client, client.subscriptions.current)])
        for message in page.messages:
            if any(router.clients(message)):
                async with asyncio.timeout(_SEND_SECONDS):
                    await channel.message(message, message.at)
            client.at = message.at
        client.at = page.at
