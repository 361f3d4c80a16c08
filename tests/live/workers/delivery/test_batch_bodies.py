"""Several events in one body, against a real server and a real receiver."""

from __future__ import annotations

from typing import Any

import pytest
from standardwebhooks import Webhook

from bus.http.signing import generate_secret
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.live.workers.delivery.test_breakers import are, hook_one, running, states
from tests.support.delivering import carrying, dispatching, left, publish, turn_end
from tests.support.running import do
from tests.support.servers import Server
from tests.support.waiting import until
from workers.delivery.dead_letters import redrive
from workers.delivery.deliveries import deliveries, retry, waits_for
from workers.delivery.endpoint_controls import disable, enable, pause, resume
from workers.delivery.filters import Filter
from workers.records.status import count_waiting

TARGET = "endpoint:one"


@pytest.mark.req("G-22")
async def test_a_batch_goes_out_when_it_is_full_and_when_its_first_has_waited(
    server: Server, keys: Keys, connections: Connections
) -> None:
    secret = generate_secret()
    more = f'events: "turn:*", batch: {{max_events: 5, max_wait: 2}}, secret: {secret}'
    async with running(server, keys, connections, more) as receiver:
        names = [await publish(connections, keys, turn_end()) for _ in range(12)]
        await until(are(connections, keys, delivered=12), "all")
        sizes = [len(one.json["events"]) for one in receiver.got]
        assert sizes == [5, 5, 2]
        assert [event["data"]["id"] for one in receiver.got for event in one.json["events"]] == names
        assert all(one.json["type"] == "batch" for one in receiver.got)
        for one in receiver.got:
            Webhook(secret).verify(one.body, one.headers)
        assert len(set(receiver.ids)) == 3
        for delivery in await deliveries(connections, keys):
            assert [attempt.status for attempt in delivery.log] == [200]
        assert await left(connections, keys) == {}
        await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=13), "one alone, after its wait")
        assert len(receiver.got[-1].json["events"]) == 1


@pytest.mark.req("G-22")
async def test_a_batch_of_cloudevents_is_their_own_list(server: Server, keys: Keys, connections: Connections) -> None:
    more = 'events: "turn:*", format: cloudevents, batch: {max_events: 3, max_wait: 0.2}'
    async with running(server, keys, connections, more) as receiver:
        names = [await publish(connections, keys, turn_end()) for _ in range(3)]
        await until(are(connections, keys, delivered=3), "all")
        (got,) = receiver.got
        assert got.headers["content-type"] == "application/cloudevents-batch+json"
        assert [(one["specversion"], one["id"]) for one in got.json] == [("1.0", name) for name in names]


@pytest.mark.req("G-22")
async def test_a_batch_that_fails_is_tried_again_as_it_was_and_dies_as_deliveries_of_their_own(
    server: Server, keys: Keys, connections: Connections
) -> None:
    more = 'events: "turn:*", batch: {max_events: 3, max_wait: 0.2}, retry: [0.05, 0.05]'
    async with running(server, keys, connections, more) as receiver:
        receiver.fail(2)
        for _ in range(3):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=3), "the third attempt")
        assert list(receiver.ids.values()) == [3], "one webhook-id"
        assert len({one.body for one in receiver.got}) == 1
        assert [one.attempts for one in await deliveries(connections, keys)] == [3, 3, 3]
        first_id = receiver.got[0].id
        receiver.fail(3)
        for _ in range(3):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=3, dead=3), "given up together")
        dead = [one.id for one in await deliveries(connections, keys, Filter(states=("dead",)))]
        assert await redrive(connections, keys, dead[:2]) == 2
        await until(are(connections, keys, delivered=5, dead=1), "a batch of two")
        assert [event["data"]["id"] + ".one" for event in receiver.got[-1].json["events"]] == dead[:2]
        assert receiver.got[-1].id not in {first_id, receiver.got[-2].id}
        assert await left(connections, keys) == {"dead": 1, "body": 1}


@pytest.mark.req("G-22")
async def test_a_paused_endpoints_batches_wait_and_a_disabled_ones_die(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(
        server, keys, connections, 'events: "turn:*", batch: {max_events: 3, max_wait: 0.2}'
    ) as receiver:
        await pause(connections, keys, TARGET)
        for _ in range(7):
            await publish(connections, keys, turn_end())

        async def formed() -> bool:
            return bool(await do(connections, "LLEN", keys("parked", TARGET)) == 3)

        await until(formed, "three batches wait")
        await resume(connections, keys, TARGET)
        await until(are(connections, keys, delivered=7), "all go on")
        assert sorted(len(one.json["events"]) for one in receiver.got) == [1, 3, 3]
        await pause(connections, keys, TARGET)
        for _ in range(4):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=7, parked=4), "wait")
        await disable(connections, keys, TARGET, by="kay")
        await until(are(connections, keys, delivered=7, dead=4), "each a dead letter of its own")
        assert (await enable(connections, keys, TARGET, recover=True)).recovered == 4
        await until(are(connections, keys, delivered=11), "recovered")
        assert await left(connections, keys) == {}


@pytest.mark.req("G-22")
async def test_a_batch_whose_carrier_dies_goes_out_again_under_its_id(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, 'events: "turn:*", batch: {max_events: 3}', carriers=0) as receiver:
        receiver.hold()
        async with carrying(server.url, keys, drain=0.05):
            for _ in range(3):
                await publish(connections, keys, turn_end())
            await until(are(connections, keys, running=3), "under way")
        receiver.release()
        async with carrying(server.url, keys):
            await until(are(connections, keys, delivered=3), "carried on")
        assert list(receiver.ids.values()) == [2]
        assert len({one.body for one in receiver.got}) == 1


@pytest.mark.req("G-22")
async def test_a_batch_that_waits_for_others_dies_with_its_endpoint_and_not_an_hour_later(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, 'events: "turn:*", batch: {max_events: 9, max_wait: 3600}'):
        for _ in range(2):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, parked=2), "both wait")
        (one, _) = await deliveries(connections, keys)
        assert await waits_for(connections, keys, one.id) == "for others of its batch"
        assert await count_waiting(connections, keys) == 2
        await disable(connections, keys, TARGET)
        await until(are(connections, keys, dead=2), "dead letters at once")
        assert (await enable(connections, keys, TARGET, recover=True)).recovered == 2
        await until(are(connections, keys, parked=2), "they wait again")


@pytest.mark.req("G-22")
async def test_one_of_a_batch_is_tried_now_with_the_others(
    server: Server, keys: Keys, connections: Connections
) -> None:
    more = 'events: "turn:*", batch: {max_events: 3}, retry: [600]'
    async with running(server, keys, connections, more) as receiver:
        receiver.fail(1)
        for _ in range(3):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, due=3), "later, all of them")
        last = (await deliveries(connections, keys))[0].id
        assert last not in receiver.got[0].id
        assert await retry(connections, keys, [last]) == 1
        await until(are(connections, keys, delivered=3), "now, all of them")
        assert list(receiver.ids.values()) == [2]
        assert await left(connections, keys) == {}


@pytest.mark.req("G-22")
async def test_a_batch_whose_endpoint_has_another_format_by_now_says_so(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, 'events: "turn:*", batch: {max_events: 2}', carriers=0) as receiver:
        for _ in range(2):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, ready=1, parked=1), "a batch waits for a carrier")
        await hook_one(connections, keys, receiver, 'events: "turn:*", format: slack')
        async with carrying(server.url, keys):
            await until(are(connections, keys, dead=2), "given up")
        assert {"has format slack now" in one.reason for one in await deliveries(connections, keys)} == {True}
        assert receiver.got == []


async def test_a_dispatcher_that_starts_later_forms_what_has_waited(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(
        server, keys, connections, 'events: "turn:*", batch: {max_events: 50, max_wait: 0.05}', carriers=0
    ):
        await publish(connections, keys, turn_end())
        await until(lambda: _any(connections, keys), "it is owed")
    async with carrying(server.url, keys), dispatching(server.url, keys):
        await until(lambda: _tried(connections, keys), "it was tried: its receiver is gone by now")


async def _any(connections: Connections, keys: Keys) -> Any:
    return await states(connections, keys)


async def _tried(connections: Connections, keys: Keys) -> bool:
    return any(one.attempts for one in await deliveries(connections, keys))
