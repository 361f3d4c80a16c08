"""The hand-over from a client's own catching up to the feed that all clients share."""

from __future__ import annotations

import pytest

from bus.client import Bus
from bus.events import Event
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.proxy import Proxy
from tests.support.running import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until
from workers.gateway.live.feed import Client, Feed
from workers.gateway.live.source import FeedSource
from workers.gateway.live.subscriptions import Subscriptions


@pytest.mark.req("G-03", "X-05")
async def test_a_client_that_caught_up_further_than_the_feed_gets_nothing_twice(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """As after a kill, when a new gateway's feed reads on while the first client reads by itself what it missed."""
    async with Proxy(server.url) as proxy, Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        slow = Connections(proxy.url, connect=CONNECT)
        feed = Feed(slow, keys, events="*", payload=True)
        client = Client(Subscriptions(), "websocket")
        await feed.enter(client, None)
        proxy.freeze()
        seen = [await bus.publish(Event(type="turn:start")) for _ in range(3)]
        page = await FeedSource(connections, keys, events="*", payload=True).after(client.at)
        assert [message.event.id for message in page.messages] == seen
        client.at = page.at
        assert feed.join(client)
        proxy.thaw()
        later = await bus.publish(Event(type="turn:end"))

        async def is_there() -> bool:
            return bool(client.waiting)

        await until(is_there, "the feed has a message for the client")
        assert [message.event.id for message in client.waiting] == [later]
        await feed.leave(client)
        await slow.close()
