"""A dispatcher and carriers inside the test's own process, and what Redis holds of their work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.ids import event_id
from bus.transport import event_entry
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import call_all
from tests.support.running import HOST, do
from tests.support.waiting import CONNECT, until
from workers.carrier import Carrier
from workers.delivery.deliveries import Delivery, deliveries, deliveries_of, dispatch_call, now_ms, pack_fields
from workers.delivery.filters import Filter
from workers.dispatcher import GROUP, Dispatcher


def watcher_of(connections: Connections, keys: Keys, user_file: Path | None = None) -> Watcher:
    """The hooks in force on this host."""
    return Watcher(connections, keys, host=HOST, user_file=user_file, trust_file=Path("/nonexistent"))


def turn_end(**more: Any) -> Event:
    """An event that nobody waits for."""
    return Event(**{"type": "turn:end", "source": "codex", "session": "s1", "host": HOST, "id": event_id(), **more})


@asynccontextmanager
async def carrying(
    url: str, keys: Keys, *, user_file: Path | None = None, idle: float = 60.0, **more: Any
) -> AsyncIterator[Carrier]:
    """A running carrier, ended as SIGTERM ends it."""
    connections, stop = Connections(url, connect=CONNECT), asyncio.Event()
    carrier = Carrier(url, keys, connections, watcher_of(connections, keys, user_file), **more)
    running = asyncio.create_task(carrier.run(stop, idle=idle))
    try:
        yield carrier
        assert not running.done(), "the carrier ended by itself"
    finally:
        stop.set()
        await running
        await connections.close()


class Asked:
    """Stands in RQ's place: counts the jobs that the dispatcher asks for."""

    def __init__(self, workers: int = 1) -> None:
        self.jobs: list[str] = []
        self.workers = workers
        self.error: Exception | None = None

    async def __call__(self, name: str) -> int:
        self.jobs.append(name)
        if self.error is not None:
            raise self.error
        return self.workers


@asynccontextmanager
async def dispatching(
    url: str, keys: Keys, *, user_file: Path | None = None, asked: Asked | None = None, **more: Any
) -> AsyncIterator[Dispatcher]:
    """A running dispatcher, ended as SIGTERM ends it."""
    connections, stop = Connections(url, connect=CONNECT), asyncio.Event()
    dispatcher = Dispatcher(url, keys, watcher_of(connections, keys, user_file), connections, asked or Asked(), **more)
    await dispatcher.prepare()
    running = asyncio.create_task(dispatcher.run(stop))
    try:
        yield dispatcher
        assert not running.done(), "the dispatcher ended by itself"
    finally:
        stop.set()
        await running
        await connections.close()


async def killed(connections: Connections, keys: Keys, name: str, running: asyncio.Task[Any]) -> None:
    """End a worker as kill -9 does, and let its heartbeat run out at once."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await do(connections, "DEL", keys("beat", name))


async def publish(connections: Connections, keys: Keys, event: Event, **more: str | bytes) -> str:
    """Put an event on the stream as a program does; its id."""
    flattened = [part for pair in more.items() for part in pair]
    added = await do(connections, "XADD", keys("events"), "*", *event_entry(event), *flattened)
    assert isinstance(added, bytes), added
    return event.id


async def dispatch_event(connections: Connections, keys: Keys, event: Event, user_file: Path | None = None) -> str:
    """Publish an event and dispatch it at once, without a dispatcher; its id."""
    await do(connections, "XGROUP", "CREATE", keys("events"), GROUP, "0", "MKSTREAM")
    watcher = watcher_of(connections, keys, user_file)
    await watcher.refresh(force=True)
    await publish(connections, keys, event)
    reply = await do(connections, "XREADGROUP", "GROUP", GROUP, "by-hand", "COUNT", 1, "STREAMS", keys("events"), ">")
    entry = _entry(keys("events"), reply)
    found = deliveries_of(event, None, watcher.for_event(event), keys)
    (added,) = await call_all(
        connections, [dispatch_call(entry, event, found, keys, GROUP, pack_fields(entry), now_ms())]
    )
    assert added == len(found), added
    return event.id


def _entry(stream: str, reply: Any) -> Any:
    from bus.wire.streams import StreamEntry, flat

    ((_, ((name, fields),)),) = reply
    return StreamEntry(stream, name.decode(), flat(fields))


async def settled(connections: Connections, keys: Keys, event: str, *states: str) -> list[Delivery]:
    """The deliveries of an event, by hook, as soon as their states are these."""
    found: list[Delivery] = []

    async def done() -> bool:
        found[:] = sorted(await deliveries(connections, keys, Filter(event=event)), key=lambda one: one.hook)
        return [one.state for one in found] == list(states)

    try:
        await until(done, f"deliveries of {event} are {states}")
    except AssertionError:
        raise AssertionError(f"{found}, not {states}") from None
    return found


async def left(connections: Connections, keys: Keys) -> dict[str, int]:
    """What still lies about: entries, bodies, places, parked and due ones; all empty when everything is done."""
    counts = {
        name: await do(connections, kind, keys(name))
        for name, kind in (("deliveries", "XLEN"), ("due", "ZCARD"), ("dead", "ZCARD"))
    }
    pending = await do(connections, "XPENDING", keys("deliveries"), "carriers")
    counts["pending"] = pending[0] if isinstance(pending, list) else 0
    for name in ("body", "flight", "parked"):
        cursor, found = b"0", 0
        while True:
            cursor, page = await do(connections, "SCAN", cursor, "MATCH", keys(name, "*"), "COUNT", 1000)
            found += len(page)
            if cursor == b"0":
                break
        counts[name] = found
    return {name: int(count) for name, count in counts.items() if count}
