"""What comes out of a spool counts once, however often it is sent: nothing is matched, shown or recorded twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bus.events import Event
from bus.ids import event_id
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.delivering import dispatching, publish, settled, turn_end
from tests.support.running import HOST, NO_RM, bash, do, evaluating, publish_hooks, put, stream, verdict
from tests.support.servers import Server
from tests.support.waiting import until
from workers.delivery.deliveries import deliveries
from workers.delivery.filters import Filter
from workers.records.events import RecordedEvent, find_event, follow, recent
from workers.records.trace import trace
from workers.runtime.spooled_once import keep_if_first

pytestmark = [pytest.mark.live, pytest.mark.req("X-06", "X-09")]

ENDPOINT = 'endpoints:\n  - {id: a, url: "https://a.example"}\n'
LONG_AGO = "e0190000000000123456789abcdef0123"


async def shown(connections: Connections, keys: Keys) -> list[RecordedEvent]:
    return await recent(connections, keys, Filter(), most=1_000)


async def acknowledged(connections: Connections, keys: Keys) -> bool:
    """Whether every event has been read and acknowledged."""
    (group,) = await do(connections, "XINFO", "GROUPS", keys("events"))
    facts = dict(zip(group[::2], group[1::2], strict=True))
    last = (await do(connections, "XINFO", "STREAM", keys("events")))[7]
    return bool(facts[b"pending"] == 0 and facts[b"last-delivered-id"] == last)


async def fell_back(connections: Connections, keys: Keys, name: str, command: str = "rm x") -> None:
    """A request that fell back as the drainer sends it: an event with its fallback."""
    event = bash(command, id=name, source="generic", host=HOST)
    await publish(connections, keys, event, policy="allow", fallback="redis away", spooled="1")


async def test_a_record_that_is_drained_twice_is_matched_and_shown_once(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Its first arrival may be days after its making, and its second while nobody has handled the first."""
    await publish_hooks(connections, keys, ENDPOINT)
    one, other = turn_end(id=LONG_AGO), turn_end()
    for event in (one, other, one):
        await publish(connections, keys, event, spooled="1")
    assert len(await stream(connections, keys)) == 3, "nobody has handled any of them"
    assert sorted(seen.id for seen in await shown(connections, keys)) == sorted([one.id, other.id])
    async with dispatching(server.url, keys):
        await settled(connections, keys, one.id, "ready")
        await settled(connections, keys, other.id, "ready")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
        assert [entry.fields[b"id"].decode() for entry in await stream(connections, keys)] == [one.id, other.id]
        await publish(connections, keys, one, spooled="1")
        assert len(await shown(connections, keys)) == 2, "a third one is not shown either"
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    assert len(await stream(connections, keys)) == 2
    assert len(await deliveries(connections, keys)) == 2
    assert await do(connections, "PTTL", keys("first", one.id)) > 0


async def test_what_had_arrived_before_it_was_spooled_counts_once(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, ENDPOINT)
    event = turn_end()
    await publish(connections, keys, event)
    await publish(connections, keys, event, spooled="1")
    assert len(await shown(connections, keys)) == 1
    async with dispatching(server.url, keys):
        await settled(connections, keys, event.id, "ready")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    (left,) = await stream(connections, keys)
    assert b"spooled" not in left.fields


async def test_somebody_who_follows_sees_it_once(server: Server, keys: Keys, connections: Connections) -> None:
    await publish(connections, keys, turn_end())
    following = follow(connections, keys)
    first = asyncio.ensure_future(anext(following))
    while not first.done():  # the reader's look at the end of the stream comes before what it follows
        await publish(connections, keys, turn_end(), before="1")
        await asyncio.sleep(0)
    twice, last = turn_end(id=LONG_AGO), turn_end()
    for event in (twice, twice, last):
        await publish(connections, keys, event, spooled="1")
    seen = [(await first).fields[b"id"].decode()]
    while seen[-1] != last.id:
        seen.append((await anext(following)).fields[b"id"].decode())
    assert seen.count(twice.id) == 1


async def test_an_answered_request_whose_agent_fell_back_is_one_event_and_a_report(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, NO_RM + ENDPOINT)
    async with evaluating(server.url, keys), dispatching(server.url, keys):
        name, reply = await put(connections, keys, bash("rm x"))
        assert (await verdict(connections, reply)).decision == "deny"
        for _ in "twice":
            await fell_back(connections, keys, name)
        await settled(connections, keys, name, "ready")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    seen = await shown(connections, keys)
    assert [(one.of, one.decision) for one in seen] == [(name, "fallback"), ("", "deny")]
    found = await trace(connections, keys, name)
    assert [report.why for report in found.reports] == ["redis away"]


async def test_a_fallback_on_record_gets_the_verdict_that_comes_late(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Redis had the request, and its agent did not know: it is dispatched once, and shows what both sides did."""
    await publish_hooks(connections, keys, NO_RM + ENDPOINT)
    name = event_id()
    async with dispatching(server.url, keys):
        await fell_back(connections, keys, name)
        await settled(connections, keys, name, "ready")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
        assert (await find_event(connections, keys, name)).fallback_reason == "redis away"
        await do(connections, "DEL", keys("delivery", f"{name}.a"))  # no record of its delivery could stop a second one
        async with evaluating(server.url, keys):
            _, reply = await put(connections, keys, bash("rm x"), id=name)
            assert (await verdict(connections, reply)).decision == "deny"
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
        assert await deliveries(connections, keys, Filter(event=name)) == []
        await fell_back(connections, keys, name)
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    (seen,) = await shown(connections, keys)
    assert (seen.decision, seen.fallback, seen.of) == ("deny", "redis away", "")


async def test_reports_and_requests_of_older_drainers_count_once_too(
    server: Server, keys: Keys, connections: Connections
) -> None:
    report: dict[str, Any] = {"of": event_id(), "fallback": "no evaluator", "spooled": "1"}
    name, event = event_id(), turn_end(id=LONG_AGO)
    async with evaluating(server.url, keys), dispatching(server.url, keys):
        for _ in "twice":
            await publish(connections, keys, event, **report)
            await put(connections, keys, bash("rm x"), id=name, fallback="redis away", spooled="1")
        await until(lambda: _recorded(connections, keys, name), "the request is on record")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
        assert await do(connections, "XLEN", keys("requests")) == 0
    assert sorted((seen.id, seen.of) for seen in await shown(connections, keys)) == sorted(
        [(name, ""), (LONG_AGO, report["of"])]
    )


async def _recorded(connections: Connections, keys: Keys, name: str) -> bool:
    return any(seen.id == name for seen in await shown(connections, keys)) and not await do(
        connections, "XLEN", keys("requests")
    )


async def test_many_records_keep_their_order_with_several_evaluators(
    server: Server, keys: Keys, connections: Connections
) -> None:
    names = [event_id() for _ in range(60)]
    async with evaluating(server.url, keys), evaluating(server.url, keys), dispatching(server.url, keys):
        for number, name in enumerate(names):
            if number % 2:
                await fell_back(connections, keys, name)
            else:
                await publish(connections, keys, turn_end(id=name), spooled="1")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    assert [seen.id for seen in await shown(connections, keys)][::-1] == names


async def test_a_mark_that_is_forged_takes_nothing_from_a_request(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, NO_RM)
    event: Event = bash("rm x")
    name = event_id()
    async with evaluating(server.url, keys):
        for _ in "twice":
            _, reply = await put(connections, keys, encode_event(event), id=name, spooled="1")
            assert (await verdict(connections, reply)).decision == "deny"
    assert len(await stream(connections, keys)) == 1


async def test_one_search_is_enough_for_the_events_that_one_outage_left(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """Else each of thousands of events searches among all of them, and the server answers nobody else for minutes.

    One that arrived although it was spooled, one that came twice and one that fell back are still searched for.
    """
    events = [turn_end() for _ in range(20)]
    direct, twice, fallen = turn_end(), turn_end(), event_id()
    await publish(connections, keys, direct)
    for event in (events[0], twice, *events[1:], direct, twice):
        await publish(connections, keys, event, spooled="1")
    await fell_back(connections, keys, fallen)
    by_id = {entry.fields[b"id"].decode(): entry for entry in reversed(await stream(connections, keys))}
    assert await keep_if_first(connections, keys, by_id[events[0].id])
    for event in (*events, twice):
        assert await do(connections, "GET", keys("first", event.id)) == by_id[event.id].id.encode()
    for name in (direct.id, fallen):
        assert await do(connections, "EXISTS", keys("first", name)) == 0, "each searches for itself"
    async with dispatching(server.url, keys):
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    left = [entry.fields[b"id"].decode() for entry in await stream(connections, keys)]
    assert left == [direct.id, events[0].id, twice.id, *(event.id for event in events[1:]), fallen]
