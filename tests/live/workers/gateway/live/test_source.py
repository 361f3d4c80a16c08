"""The feed as it is read out of Redis, against a real carrier: outcomes that share an entry, and cursors between them."""

from __future__ import annotations

import json

import pytest

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.delivering import carrying, dispatch_event, settled, turn_end
from tests.support.receivers import Receiver, receiving
from tests.support.running import do, publish_hooks
from tests.support.servers import Server
from workers.gateway.live.cursors import Cursor, parse_cursor
from workers.gateway.live.messages import FeedMessage
from workers.gateway.live.source import FeedSource

ENDPOINTS = 40
EVENTS = 3


async def rest(source: FeedSource, cursor: Cursor) -> list[FeedMessage]:
    """Everything after a cursor."""
    found: list[FeedMessage] = []
    while (page := await source.after(cursor)).messages:
        found += page.messages
        cursor = page.at
    return found


async def carried(server: Server, connections: Connections, keys: Keys, receiver: Receiver) -> set[tuple[str, str]]:
    """Have a carrier send some events to many endpoints; returns each delivery with its outcome."""
    urls = "\n".join(f'  - {{id: e{n}, url: "{receiver.url()}"}}' for n in range(ENDPOINTS))
    await publish_hooks(connections, keys, f'network: {{allow: ["127.0.0.1:{receiver.port}"]}}\nendpoints:\n{urls}\n')
    names = [await dispatch_event(connections, keys, turn_end()) for _ in range(EVENTS)]
    async with carrying(server.url, keys):
        done = [one for name in names for one in await settled(connections, keys, name, *["delivered"] * ENDPOINTS)]
    return {(one.id, one.state) for one in done}


@pytest.mark.req("G-05")
async def test_every_outcome_is_sent_once_from_whichever_cursor_a_client_goes_on(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        expected = await carried(server, connections, keys, receiver)
    assert int(await do(connections, "XLEN", keys("outcomes"))) <= len(expected) / 2, "several outcomes share an entry"
    source = FeedSource(connections, keys, events="*", payload=True)
    messages = [one for one in await rest(source, Cursor()) if not one.is_event]
    bodies = [one.body for one in messages]
    records = [json.loads(body) for body in bodies]
    assert {(record["id"], record["outcome"]) for record in records} == expected
    assert len(bodies) == len(expected)
    for sent, one in enumerate(messages, 1):
        cursor = parse_cursor(str(one.at))
        assert cursor == one.at
        assert await source.covers(cursor)
        left = [other.body for other in await rest(source, cursor) if not other.is_event]
        assert left == bodies[sent:]


async def test_a_cursor_within_an_entry_that_is_kept_no_longer_is_not_covered(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        await carried(server, connections, keys, receiver)
    source = FeedSource(connections, keys, events="*", payload=True)
    messages = await rest(source, Cursor())
    within = next(one.at for one in messages if not one.at.outcomes.is_whole)
    assert await source.covers(within)
    await do(connections, "XDEL", keys("outcomes"), within.outcomes.entry_id)
    assert not await source.covers(within)
    assert await source.covers(messages[-1].at)
