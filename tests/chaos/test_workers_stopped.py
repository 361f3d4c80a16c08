"""Workers stopped with SIGSTOP until others have carried their entries on, and resumed: nothing happens twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import delivery_id, event_id, webhook_id
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import HEARTBEAT_MS, Keys
from tests.chaos.counting import Counts, tell, when
from tests.chaos.fleet import Fleet, Worker
from tests.chaos.receiver import Receiver
from tests.chaos.test_deliverers_killed import publish
from tests.chaos.test_evaluators_killed import HOOKS as REQUEST_HOOKS
from tests.chaos.test_evaluators_killed import asked
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT


def event_hooks(port: int, cap: int, *endpoints: str) -> str:
    """Endpoints of these names and paths, each tried again within seconds."""
    lines = [
        f'  - {{id: {name}, url: "http://127.0.0.1:{port}/{name}", events: ["turn:end"], max_in_flight: {cap}, '
        f"retry: {[0.1, 0.2] if name == 'flaky' else [0.2, 0.4, 0.8, 1.6]}}}"
        for name in endpoints
    ]
    return "\n".join([f'network: {{allow: ["127.0.0.1:{port}"]}}', "endpoints:", *lines])


BRIEF = HEARTBEAT_MS / 1000 - 0.1
"""Seconds of a stop after which the heartbeat is doubtful, and nobody has taken anything over."""


async def gone(counts: Counts, worker: Worker, role: str) -> None:
    """Wait until no heartbeat of a stopped worker is left."""
    pattern = counts.keys("beat", f"{role}-test-host-{worker.popen.pid}-*").replace("{", "\\{").replace("}", "\\}")
    await when(lambda: not list(counts.client.scan_iter(match=pattern, count=1000)), "it is gone")


async def in_the_middle(receiver: Receiver, some: int) -> None:
    """Wait until so many attempts have been begun."""
    await when(lambda: len(receiver.attempts) >= some, "in the middle of it")


async def pause(seconds: float) -> None:
    """Let a stop last for a time: its length is what is tested."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


@pytest.mark.req("B-01", "B-05", "F-03")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("total", "stops"), [(160, 1), pytest.param(5_000, 20, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
async def test_an_evaluator_that_was_stopped_says_nothing_twice(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    tmp_path: Path,
    total: int,
    stops: int,
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    await apply(connections, keys, parse_hook_file(REQUEST_HOOKS.format(effects=effects), "fleet"))
    fleet.start("evaluator", 2, FLEETHOOK_SLOTS="4")
    await asyncio.to_thread(fleet.ready)
    after = sorted(random.Random(9).sample(range(total // 10, total * 8 // 10), stops))
    ids = [event_id() for _ in range(total)]
    answered: dict[str, Verdict] = {}
    tick = asyncio.Event()
    async with Bus(server.url, namespace=namespace(keys), on_failure="deny", connect=CONNECT) as bus:
        agents = [asyncio.create_task(asked(bus, ids[n::8], answered, {}, tick)) for n in range(8)]
        for number, count in enumerate(after):
            while len(answered) < count:
                await tick.wait()
                tick.clear()
            stopped = fleet.of("evaluator")[number % 2]
            stopped.freeze()
            await gone(counts, stopped, "evaluator")
            # It may have been stopped between two requests: then there is nothing to carry on, and the other answers all.
            await when(
                lambda: "took over" in fleet.said("evaluator") or len(answered) == total, "the other carries it on"
            )
            stopped.thaw()
        await asyncio.gather(*agents)
    await counts.settled()
    record = counts.record()
    assert record.ids == Counter(ids), "one event for each request"
    assert not record.reports
    assert {name: verdict.fallback for name, verdict in answered.items() if verdict.fallback} == {}
    assert answered == record.verdicts
    ran = Counter(effects.read_text().split())
    assert not {name for name, times in ran.items() if times > 1 and not answered[name].repeated}


@pytest.mark.req("B-05", "F-03")
async def test_a_hook_that_ran_again_after_a_stop_is_told_whoever_answers_first(
    server: Server, keys: Keys, connections: Connections, fleet: Fleet, counts: Counts, tmp_path: Path
) -> None:
    effects, go = tmp_path / "effects", tmp_path / "go"
    hook = f"""
hooks:
  - id: effect
    on: tool:pre_execute:write
    command: echo x >> {effects}; n=$(($(wc -l < {effects}))); until [ -e {go}.$n ]; do sleep 0.02; done; exit 2
    timeout: 30
"""
    await apply(connections, keys, parse_hook_file(hook, "fleet"))
    fleet.start("evaluator", 2)
    await asyncio.to_thread(fleet.ready)

    def lines() -> int:
        return len(effects.read_text().split()) if effects.exists() else 0

    async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        event = Event(type="tool:pre_execute", source="codex", tool="write", id=event_id(), host="test-host")
        request = asyncio.create_task(bus.request(event, budget=25.0))
        await when(lambda: lines() == 1, "the hook runs")
        (claim,) = await _get(connections, keys("claim", event.id))
        stopped = next(one for one in fleet.of("evaluator") if f"-{one.popen.pid}-" in claim.decode())
        stopped.freeze()
        await when(lambda: lines() == 2, "another runs it again")
        Path(f"{go}.1").touch()  # the first run can end now, and whoever was stopped learns it first
        stopped.thaw()
        await asyncio.wait([request], timeout=1.0)
        Path(f"{go}.2").touch()
        verdict = await request
    await counts.settled()
    assert verdict.decision == "deny"
    assert verdict.repeated, "it ran twice, and the verdict says so"
    assert counts.record().ids == Counter([event.id])


@pytest.mark.req("B-05", "F-03")
@pytest.mark.parametrize("ends", ["while it is stopped", "after it has read the request again"])
async def test_a_hook_runs_once_where_its_request_was_put_aside_meanwhile(
    server: Server, keys: Keys, connections: Connections, fleet: Fleet, counts: Counts, tmp_path: Path, ends: str
) -> None:
    effects, go = tmp_path / "effects", tmp_path / "go"
    hooks = f"""
hooks:
  - id: effect
    on: tool:pre_execute:write
    command: echo x >> {effects}; n=$(($(wc -l < {effects}))); until [ -e {go}.$n ]; do sleep 0.02; done; exit 2
    timeout: 30
  - id: busy
    on: tool:pre_execute:edit
    command: touch {go}.busy; until [ -e {go}.end ]; do sleep 0.02; done
    timeout: 30
"""
    await apply(connections, keys, parse_hook_file(hooks, "fleet"))
    fleet.start("evaluator", 1, FLEETHOOK_SLOTS="1")
    await asyncio.to_thread(fleet.ready)
    async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        event, other = (
            Event(type="tool:pre_execute", source="codex", tool=tool, id=event_id(), host="test-host")
            for tool in ("write", "edit")
        )
        busy = asyncio.create_task(bus.request(other, budget=25.0))
        await when(Path(f"{go}.busy").exists, "this evaluator has no free slot")
        (stopped,) = fleet.start("evaluator", 1, FLEETHOOK_SLOTS="2")
        request = asyncio.create_task(bus.request(event, budget=25.0))
        await when(effects.exists, "the hook runs")
        stopped.freeze()
        await when(lambda: event.id in _ids(counts, "waiting"), "it is taken over and put aside")
        if ends == "while it is stopped":
            Path(f"{go}.1").touch()
            stopped.thaw()
        else:
            stopped.thaw()
            await when(lambda: _has_read(counts, "waiting", stopped), "it has the request again")
            Path(f"{go}.1").touch()
        verdict = await request
        Path(f"{go}.end").touch()
        await busy
    await counts.settled()
    assert (verdict.decision, verdict.repeated, effects.read_text().split()) == ("deny", False, ["x"])
    assert counts.record().ids == Counter([event.id, other.id])


def _ids(counts: Counts, stream: str) -> set[str]:
    rows: list[tuple[bytes, dict[bytes, bytes]]] = counts.client.xrange(counts.keys(stream))
    return {fields[b"id"].decode() for _, fields in rows}


def _has_read(counts: Counts, stream: str, worker: Worker) -> bool:
    rows = counts.client.xpending_range(counts.keys(stream), "evaluators", "-", "+", 10)
    return any(f"-{worker.popen.pid}-" in row["consumer"].decode() for row in rows)


async def _get(connections: Connections, name: str) -> list[bytes]:
    with connections.lease() as connection:
        return await connection.exchange([("GET", name)])


@pytest.mark.req("B-02", "B-03", "G-20")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["carrier", "dispatcher"])
@pytest.mark.parametrize(
    ("total", "stops"), [(80, 1), pytest.param(2_000, 12, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
async def test_a_deliverer_that_was_stopped_begins_nothing_that_others_have_taken_over(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    kind: str,
    total: int,
    stops: int,
) -> None:
    chance = random.Random(4)
    names = [event_id() for _ in range(total)]
    begun: set[str] = set()
    owed = {delivery_id(name, endpoint) for name in names for endpoint in ("good", "picky")}
    async with Receiver(seconds=0.03) as receiver, Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        await apply(connections, keys, parse_hook_file(event_hooks(receiver.port, 8, "good", "picky"), "fleet"))
        fleet.start("dispatcher", 2)
        fleet.start("carrier", 2)
        fleet.start("chores")
        await asyncio.to_thread(fleet.ready)
        heaps = [names[n::stops] for n in range(stops)]
        for heap in heaps:
            publishing = asyncio.create_task(publish(bus, heap))
            some = len(receiver.attempts) + chance.randrange(1, len(heap))
            await in_the_middle(receiver, some)
            stopped = chance.choice(fleet.of(kind))
            stopped.freeze()
            await pause(0.5)  # what it had begun has arrived by now, and nobody has taken anything over yet
            begun |= set(receiver.attempts)
            await gone(counts, stopped, kind)
            await pause(1.0)  # time for others to take over
            stopped.thaw()
            await publishing
        await counts.settled(len(owed))
    assert set(counts.deliveries()) == owed
    assert set(counts.states()) == {"delivered"}
    again = {name for name, times in receiver.attempts.items() if times > 1}
    assert again <= begun, "sent again though it had not been begun when its carrier was stopped"
    assert max(receiver.attempts.values()) <= (2 if kind == "carrier" else 1)
    logged = {name: int(counts.client.hget(keys("delivery", name), "attempts")) for name in owed}
    assert set(logged.values()) == {1}, "each settled once"
    assert set(receiver.attempts) == {webhook_id(name) for name in owed}
    assert counts.record().ids == Counter(names)
    tell(f"{kind}: {len(owed)} deliveries, {stops} stops, {len(again)} sent twice")


@pytest.mark.req("B-02", "G-20")
@pytest.mark.parametrize("seconds", [BRIEF, pytest.param(3.0, marks=pytest.mark.slow)])
async def test_a_carrier_that_is_alone_goes_on_where_it_was_stopped(
    server: Server, keys: Keys, connections: Connections, fleet: Fleet, counts: Counts, seconds: float
) -> None:
    names = [event_id() for _ in range(60)]
    async with Receiver(seconds=0.05) as receiver, Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        await apply(
            connections, keys, parse_hook_file(event_hooks(receiver.port, 40, "good", "flaky", "picky"), "fleet")
        )
        fleet.start("dispatcher")
        fleet.start("carrier")
        fleet.start("chores")
        await asyncio.to_thread(fleet.ready)
        await publish(bus, names)
        await in_the_middle(receiver, 20)
        (carrier,) = fleet.of("carrier")
        carrier.freeze()
        await pause(seconds)
        carrier.thaw()
        await counts.settled(3 * len(names), 15)
    assert {name for name, times in receiver.taken.items() if times > 1} == set(), "nobody else was there"
