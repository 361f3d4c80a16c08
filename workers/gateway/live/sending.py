"""What one client gets, in order: what it missed, then everything live, heartbeats, and how far behind it is."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final, Protocol

from bus.errors import FleethookError
from workers.gateway.live.cursors import Cursor
from workers.gateway.live.feed import MOST_WAITING, Client, Feed
from workers.gateway.live.messages import Message
from workers.gateway.live.subscriptions import Router
from workers.gateway.problems import problem_of

ABORT: Final = "fleethook.abort"
"""The entry of an ASGI scope with the function that cuts the connection, whatever is still to be sent."""

HEARTBEAT_SECONDS: Final = 15.0
_SEND_SECONDS: Final = 20.0
"""How long one message may take while a client catches up; then it is dropped."""
_RETRY_SECONDS: Final = 1.0


class Channel(Protocol):
    """How messages get to one client."""

    async def message(self, message: Message, at: Cursor) -> None:
        """Send an event or outcome; returns when the client's connection has taken it."""
        ...

    async def say(self, kind: str, at: Cursor, **fields: Any) -> None:
        """Send what is about the feed itself."""
        ...


async def send_feed(feed: Feed, client: Client, channel: Channel, *, complete: bool) -> None:
    """Send the feed to a client until cancelled; raises TimeoutError if the client takes nothing."""
    await channel.say("position", client.at, complete=complete)
    await _catch_up(feed, client, channel)
    told = False
    while True:
        client.changed.clear()
        if not client.waiting:
            told = False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.changed.wait(), HEARTBEAT_SECONDS)
            if not client.waiting:
                await channel.say("heartbeat", feed.progress(client))
            continue
        if client.is_slow and not told:
            told = True
            await channel.say("behind", client.at, messages=len(client.waiting), most=MOST_WAITING)
        message, at = client.next()
        await channel.message(message, at)
        client.sent(at)


async def _catch_up(feed: Feed, client: Client, channel: Channel) -> None:
    """Send what the client missed, read for it alone, until the feed can go on from there."""
    source = feed.source()
    while not feed.join(client):
        try:
            page = await source.after(client.at)
        except FleethookError as error:
            await channel.say("error", client.at, detail=str(problem_of(error)))
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        router = Router([(client, client.subscriptions.rules)])
        for message in page.messages:
            if any(router.clients(message)):
                async with asyncio.timeout(_SEND_SECONDS):
                    await channel.message(message, message.at)
            client.at = message.at
        client.at = page.at
