"""Rates and sessions in order, against a real server and a real receiver."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict

import pytest

from bus.events import Event
from bus.ids import event_id
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.live.workers.delivery.test_breakers import are, hook_one, running
from tests.support.delivering import carrying, dispatching, left, publish, turn_end
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.running import HOST, do
from tests.support.servers import Server
from tests.support.waiting import until
from workers.delivery.breakers import BreakerLimits
from workers.delivery.dead_letters import redrive
from workers.delivery.deliveries import deliveries, retry, waits_for
from workers.delivery.endpoint_controls import disable, enable, pause
from workers.delivery.filters import Filter
from workers.dispatcher import GROUP
from workers.records.status import count_waiting

TARGET = "endpoint:one"
NEVER = BreakerLimits(first_probe=0.05, most_probe=0.05)
"""A breaker that hardly holds anything up: receivers that fail at random open it."""


def of_session(name: str) -> Event:
    """An event of a session."""
    return Event(type="turn:end", source="codex", session=name, host=HOST, id=event_id())


class Timed(Receiver):
    """Notes when each request came."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def serve(self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self.times.append(time.monotonic())
        await super().serve(request, reader, writer)


class Sessions(Receiver):
    """Fails by chance, and sees whether two of a session are under way at once."""

    def __init__(self, chance: float = 0.3) -> None:
        super().__init__()
        self.chance, self.random = chance, random.Random(5)
        self.order: dict[str, list[str]] = defaultdict(list)
        """By session, the events that were answered with 2xx, as they were."""
        self.under_way: Counter[str] = Counter()
        self.overlaps: list[str] = []
        self.final: set[str] = set()
        """Events that are refused for good."""

    async def serve(self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        import json

        data = json.loads(request.partition(b"\r\n\r\n")[2])["data"]
        session = data["session"]
        if session and self.under_way[session]:
            self.overlaps.append(session)
        self.under_way[session] += 1
        status = 422 if data["id"] in self.final else 503 if self.random.random() < self.chance else 200
        await asyncio.sleep(self.random.random() * 0.01)
        self.under_way[session] -= 1  # before the answer, which lets the next one go
        if status == 200:
            self.order[session].append(data["id"])
        self.next_answers.append(Answer(status))
        await super().serve(request, reader, writer)


def use(monkeypatch: pytest.MonkeyPatch, kind: type[Receiver]) -> None:
    """Receivers of this kind from now on."""
    monkeypatch.setattr("tests.support.receivers.Receiver", kind)


@pytest.mark.req("B-06")
async def test_a_rate_holds_over_all_carriers_and_what_is_over_it_waits(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Timed)
    async with running(server, keys, connections, "rate: 20/s, max_in_flight: 50", carriers=3) as receiver:
        assert isinstance(receiver, Timed)
        for _ in range(60):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=60), "all in the end")
        times = sorted(receiver.times)
        assert len(times) == 60
        assert 1.8 < times[-1] - times[0] < 8
        for start in range(60):
            for end in range(start, 60):
                assert end - start + 1 <= 20 + 20 * (times[end] - times[start]) + 6, (
                    "a second's worth at once at most, and what a busy machine shifts"
                )
        assert await left(connections, keys) == {}


@pytest.mark.req("B-06")
async def test_a_slow_rate_is_kept_without_looking_all_the_time(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "rate: 1/h", carriers=1) as receiver:
        for _ in range(5):
            await publish(connections, keys, turn_end())
        await until(are(connections, keys, delivered=1, parked=4), "one, and the others wait")
        assert len(receiver.got) == 1
        (when,) = (await do(connections, "ZRANGE", keys("openings"), 0, -1, "WITHSCORES"))[1::2]
        seconds, _ = await do(connections, "TIME")
        assert 3_000 < float(when) / 1000 - int(seconds) <= 3_601
        before = int(await _calls(connections, "evalsha"))
        assert await do(connections, "LLEN", keys("parked", TARGET)) == 4
        assert int(await _calls(connections, "evalsha")) - before < 100


async def _calls(connections: Connections, command: str) -> str:
    info = await do(connections, "INFO", "commandstats")
    fields = info if isinstance(info, dict) else {}
    if not fields:
        text = info.decode() if isinstance(info, bytes) else str(info)
        line = next((one for one in text.splitlines() if one.startswith(f"cmdstat_{command}:")), "calls=0,")
        return line.partition("calls=")[2].partition(",")[0]
    return str(fields.get(f"cmdstat_{command}", {}).get("calls", 0))


@pytest.mark.req("B-06")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_session_is_in_order_and_never_twice_under_way_whatever_fails(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    use(monkeypatch, Sessions)
    chance = random.Random(seed)
    waits = ", ".join(["0.01"] * 40)
    async with running(
        server,
        keys,
        connections,
        f'events: "turn:*", order: fifo, retry: [{waits}], max_in_flight: 6',
        carriers=3,
        limits=NEVER,
    ) as receiver:
        assert isinstance(receiver, Sessions)
        receiver.random.seed(seed)
        sent: dict[str, list[str]] = defaultdict(list)
        for number in range(60):
            event = of_session(chance.choice(["a", "b", "c", "d/../é", ""]))
            if number % 10 == 7:
                receiver.final.add(event.id)
            else:
                sent[event.session].append(event.id)
            await publish(connections, keys, event)
        await until(are(connections, keys, delivered=54, dead=6), "each is delivered or refused")
        assert receiver.overlaps == []
        for session, names in sent.items():
            if session:
                assert receiver.order[session] == names, session
        assert sorted(receiver.order[""]) == sorted(sent[""])
        assert await left(connections, keys) == {"dead": 6, "body": 6}
        assert await _lines(connections, keys) == []


async def _lines(connections: Connections, keys: Keys) -> list[bytes]:
    _, found = await do(connections, "SCAN", 0, "MATCH", keys("line", "*"), "COUNT", 10_000)
    return list(found)


@pytest.mark.req("B-06")
async def test_a_failing_head_holds_up_its_own_session_alone(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "order: fifo, retry: [60]") as receiver:
        receiver.fail(1)
        first = await publish(connections, keys, of_session("ill"))
        await until(are(connections, keys, due=1), "it failed")
        for _ in range(3):
            await publish(connections, keys, of_session("ill"))
            await publish(connections, keys, of_session("well"))
        await until(are(connections, keys, due=1, parked=3, delivered=3), "the others go out")
        (head,) = await deliveries(connections, keys, Filter(event=first))
        for waiting in await deliveries(connections, keys, Filter(states=("parked",))):
            assert await waits_for(connections, keys, waiting.id) == f"for {head.id}, which is before it in its session"
        assert await waits_for(connections, keys, head.id) == ""
        assert await count_waiting(connections, keys) == 3
        assert await retry(connections, keys, [head.id]) == 1
        await until(are(connections, keys, delivered=7), "and then its own")
        assert await left(connections, keys) == {}
        assert await _lines(connections, keys) == []


@pytest.mark.req("B-06")
async def test_a_dead_head_lets_the_next_go_and_waits_its_turn_when_it_is_tried_again(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, "order: fifo") as receiver:
        receiver.next_answers.append(Answer(422))
        first = await publish(connections, keys, of_session("a"))
        await until(are(connections, keys, dead=1), "refused")
        receiver.hold()
        await publish(connections, keys, of_session("a"))
        await publish(connections, keys, of_session("a"))
        await until(are(connections, keys, dead=1, running=1, parked=1), "one under way")
        (dead,) = await deliveries(connections, keys, Filter(event=first))
        assert await redrive(connections, keys, [dead.id]) == 1
        await until(are(connections, keys, running=1, parked=2), "it waits")
        receiver.release()
        await until(are(connections, keys, delivered=3), "all of them")
        assert receiver.got[0].json["data"]["id"] == first
        assert receiver.got[2].json["data"]["id"] == first, "before what came after it"
        assert receiver.most_in_flight["/"] == 1
        assert await _lines(connections, keys) == []


@pytest.mark.req("B-06")
async def test_a_disabled_endpoints_lines_become_dead_letters_and_go_on_in_order(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with running(server, keys, connections, 'events: "turn:*", order: fifo, max_in_flight: 1') as receiver:
        await pause(connections, keys, TARGET)
        names = [await publish(connections, keys, of_session("a")) for _ in range(8)]
        await until(are(connections, keys, parked=8), "all wait")
        await disable(connections, keys, TARGET)
        await until(are(connections, keys, dead=8), "the line too")
        assert await _lines(connections, keys) == []
        assert (await enable(connections, keys, TARGET, recover=True)).recovered == 8
        await until(are(connections, keys, delivered=8), "recovered")
        assert sorted(one.json["data"]["id"] for one in receiver.got) == sorted(names)
        assert await _lines(connections, keys) == []


@pytest.mark.req("B-06")
async def test_a_carrier_that_dies_in_the_middle_of_a_line_breaks_no_order(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Sessions)
    async with running(
        server, keys, connections, "order: fifo, retry: [0.01, 0.01, 0.01, 0.01]", carriers=0
    ) as receiver:
        assert isinstance(receiver, Sessions)
        receiver.chance = 0.0
        sent = [await publish(connections, keys, of_session("a")) for _ in range(6)]
        receiver.hold()
        async with carrying(server.url, keys, drain=0.05):
            await until(are(connections, keys, running=1, parked=5), "the head is under way")
        receiver.release()
        async with carrying(server.url, keys):
            await until(are(connections, keys, delivered=6), "carried on")
        once = list(dict.fromkeys(receiver.order["a"]))
        assert once == sent


@pytest.mark.req("B-06", "X-05")
async def test_what_a_dead_dispatcher_held_goes_out_before_what_came_after_it(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        await hook_one(connections, keys, receiver, "order: fifo")
        await do(connections, "XGROUP", "CREATE", keys("events"), GROUP, "0", "MKSTREAM")
        first = await publish(connections, keys, of_session("a"))
        assert await do(connections, "XREADGROUP", "GROUP", GROUP, "dead", "STREAMS", keys("events"), ">")
        await do(connections, "SET", keys("beat", "dead"), "1", "PX", 700)  # it outlives the lease
        second = await publish(connections, keys, of_session("a"))
        async with carrying(server.url, keys), dispatching(server.url, keys):
            await until(are(connections, keys, delivered=2), "both")
        assert [one.json["data"]["id"] for one in receiver.got] == [first, second]
