"""The bus as programs see it, over a wire that loses replies, breaks and goes silent."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bus.client import Bus, SyncBus
from bus.errors import Unreachable
from bus.events import Event
from bus.ids import event_id
from bus.shim.spool import spool_status
from bus.verdicts import Verdict
from bus.wire.codec import decode_body, encode_verdict
from bus.wire.connections import Connection, Connections
from bus.wire.keys import Keys
from bus.wire.protocol import Wire
from tests.support.proxy import Proxy
from tests.support.running import (
    NO_RM,
    bash,
    command_hook,
    do,
    evaluating,
    lines,
    namespace,
    publish_hooks,
    stream,
    until_true,
)
from tests.support.servers import Server
from tests.support.waiting import BUDGET, CONNECT, PATIENCE, at_most, until

# --- Publishing


@pytest.mark.req("B-01")
async def test_an_event_is_published_as_it_is(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_PARENT", "e0")
    async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        name = await bus.publish(bash("ls", session="s"))
        own = Event(type="session:start", id=event_id(), host="h", data={"a": [1]})
        assert await bus.publish_many([own, bash()]) == [
            own.id,
            (await stream(connections, keys))[2].fields[b"id"].decode(),
        ]
        assert await bus.publish_many([]) == []
    first, second, _ = await stream(connections, keys)
    assert (first.fields[b"id"], first.fields[b"host"], first.fields[b"parent"]) == (name.encode(), b"test-host", b"e0")
    assert second.fields[b"parent"] == b"e0", "also where the program gave the event its id and host"
    event = decode_body(second.fields[b"body"])
    assert isinstance(event, Event)
    assert (event.data, event.id, event.parent) == ({"a": [1]}, own.id, "e0")


@pytest.mark.req("X-06")
@pytest.mark.parametrize("lost", ["reply", "command"])
async def test_what_is_lost_costs_no_event_and_repeats_none(
    server: Server, keys: Keys, connections: Connections, lost: str
) -> None:
    """Lost before or after the server had it: the event is sent again, with the mark by which the dispatcher finds what
    stands there twice."""
    async with Proxy(server.url) as proxy, Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bus:
        (proxy.swallow_reply if lost == "reply" else proxy.swallow_command)(2, of="XADD")
        names = await bus.publish_many([bash(str(n)) for n in range(4)])
        assert proxy.swallowed == ["XADD"]
    added = [(entry.fields[b"id"].decode(), entry.fields.get(b"spooled")) for entry in await stream(connections, keys)]
    assert [name for name, mark in added if mark] == names
    assert {name for name, _ in added} == set(names)
    assert len([name for name, mark in added if not mark]) == (4 if lost == "reply" else 2)


@pytest.mark.req("X-06")
async def test_while_redis_is_away_events_go_to_the_spool(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    async with Proxy(server.url) as proxy:
        async with Bus(proxy.url, namespace=namespace(keys), spool=spool, connect=CONNECT) as bus:
            await bus.publish(bash("1"))
            proxy.away()
            names = [await bus.publish(bash("2")), *await bus.publish_many([bash("3"), bash("4")])]
            raw = spool.with_name("spool.draining").read_bytes() + spool.read_bytes()
            assert spool_status(spool).records == 3
            proxy.back()
            last = await bus.publish(bash("5"))
        async with Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bare:
            proxy.away()
            with pytest.raises(Unreachable, match="cannot be reached"):
                await bare.publish(bash())
    assert not spool.exists()
    places = [raw.index(name.encode()) for name in names]
    assert places == sorted(places), "in order"
    assert [entry.fields[b"id"].decode() for entry in await stream(connections, keys)][1:] == [*names, last], (
        "and sent on so"
    )


@pytest.mark.req("X-06")
async def test_a_full_server_is_as_good_as_away(keys: Keys, tmp_path: Path) -> None:
    """On a server of its own, since it is filled."""
    server = Server()
    server.start()
    try:
        connections = Connections(server.url, connect=CONNECT)
        await do(connections, "CONFIG", "SET", "maxmemory", 1)
        async with Bus(server.url, namespace=namespace(keys), spool=tmp_path / "spool", connect=CONNECT) as bus:
            await bus.publish(bash())
            said = await bus.request(bash(), budget=1)
        assert "no evaluator" in said.fallback or "does not take writes" in said.fallback or "OOM" in said.fallback
        assert spool_status(tmp_path / "spool").records == 2, "the event, and the request that fell back"
        async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bare:
            with pytest.raises(Unreachable):
                await bare.publish(bash())
        await connections.close()
    finally:
        server.stop()


# --- Requests

LOST = [("reply", "EXISTS"), ("reply", "XADD"), ("reply", "BLMOVE"), ("command", "XADD"), ("command", "BLMOVE")]


@pytest.mark.req("X-06", "X-10")
@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("program", ["asynchronous", "synchronous"])
async def test_a_server_replaced_by_an_empty_one_lets_no_request_pass(keys: Keys, begun: bool, program: str) -> None:
    """The request was there when the server was killed, or is made before the evaluators are back."""
    server = Server()
    server.start()
    connections = Connections(server.url, connect=CONNECT)
    bus = Bus(server.url, namespace=namespace(keys), connect=CONNECT)

    async def ask() -> Verdict:
        if program == "asynchronous":
            return await bus.request(bash("rm"), budget=BUDGET)
        return await asyncio.to_thread(ask_synchronously)

    def ask_synchronously() -> Verdict:
        with bus.sync() as face:
            return face.request(bash("rm"), budget=BUDGET)

    async def replace() -> None:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

    async def was_asked() -> bool:
        return b"cmdstat_xadd" in await do(connections, "INFO", "commandstats")

    try:
        await do(connections, "SET", keys("alive", "evaluator"), "one", "PX", 60_000)
        await do(connections, "XGROUP", "CREATE", keys("requests"), "evaluators", 0, "MKSTREAM")
        if not begun:
            await replace()
        asked = asyncio.create_task(ask())
        if begun:
            await until(lambda: do(connections, "XLEN", keys("requests")), "it is asked")
            await replace()
        await until(was_asked, "the empty server is asked")
        await publish_hooks(connections, keys, NO_RM)
        async with evaluating(server.url, keys):
            said = await asked
        assert (said.decision, said.fallback) == ("deny", "")
    finally:
        await bus.close()
        await connections.close()
        server.stop()


@pytest.mark.req("X-06", "X-09")
async def test_a_made_up_last_id_lets_no_request_pass_and_loses_no_event(keys: Keys, tmp_path: Path) -> None:
    """No entry can follow the largest id, until a worker has repaired the stream."""
    server = Server()
    server.start()
    connections = Connections(server.url, connect=CONNECT)
    bus = Bus(server.url, namespace=namespace(keys), spool=tmp_path / "spool", connect=CONNECT)

    async def was_refused() -> bool:
        return b"errorstat_ERR:count=2" in await do(connections, "INFO", "errorstats")

    try:
        await publish_hooks(connections, keys, NO_RM)
        await do(connections, "SET", keys("alive", "evaluator"), "one", "PX", 60_000)
        for name in ("requests", "events"):
            await do(connections, "XADD", keys(name), f"{2**64 - 1}-{2**64 - 1}", "made", "up")
        await bus.publish(bash())
        assert spool_status(tmp_path / "spool").records == 1
        asked = asyncio.create_task(bus.request(bash("rm"), budget=BUDGET))
        await until(was_refused, "the request is refused")
        async with evaluating(server.url, keys):
            said = await asked
        assert (said.decision, said.fallback) == ("deny", "")
    finally:
        await bus.close()
        await connections.close()
        server.stop()


@pytest.mark.req("B-02", "X-06")
@pytest.mark.parametrize(("what", "step"), LOST)
async def test_a_verdict_survives_whatever_is_lost(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, what: str, step: str
) -> None:
    """The client looks before it asks again: the hook runs once, the event stands once, the verdict is the hook's."""
    ran = tmp_path / "ran"
    await publish_hooks(connections, keys, command_hook(f"echo x >> {ran}; exit 2"))
    async with evaluating(server.url, keys), Proxy(server.url) as proxy:
        async with Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bus:
            (proxy.swallow_reply if what == "reply" else proxy.swallow_command)(of=step)
            said = await bus.request(bash(), budget=BUDGET)
        assert proxy.swallowed == [step]
    assert (said.decision, said.fallback, said.repeated) == ("deny", "", False)
    assert lines(ran) == ["x"]
    assert [entry.fields[b"id"].decode() for entry in await stream(connections, keys)] == [said.event]


@pytest.mark.req("B-02", "X-06")
async def test_a_cut_while_the_hook_runs_joins_it_again(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    ran, go = tmp_path / "ran", tmp_path / "go"
    await publish_hooks(
        connections, keys, command_hook(f"echo x >> {ran}; until test -e {go}; do sleep 0.01; done; exit 2")
    )
    async with (
        evaluating(server.url, keys),
        Proxy(server.url) as proxy,
        Bus(proxy.url, namespace=namespace(keys), connect=CONNECT) as bus,
    ):
        asked = asyncio.create_task(bus.request(bash(), budget=BUDGET))
        await until_true(lambda: lines(ran), "the hook runs")
        proxy.cut()
        await until(lambda: _joined(connections, keys), "it has joined")
        proxy.cut()
        go.touch()
        said = await asked
    assert (said.decision, said.fallback, lines(ran)) == ("deny", "", ["x"])
    assert len(await stream(connections, keys)) == 1


@pytest.mark.req("X-06", "G-20")
async def test_a_frozen_server_costs_the_budget_and_no_more(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """Falls back in time, says so in the spool; when it thaws the request stands in the record, evaluated or expired."""
    await publish_hooks(connections, keys, NO_RM)
    async with (
        evaluating(server.url, keys),
        Proxy(server.url) as proxy,
        Bus(proxy.url, namespace=namespace(keys), on_failure="deny", spool=tmp_path / "spool", connect=CONNECT) as bus,
    ):
        assert (await bus.request(bash())).fallback == ""
        proxy.freeze()
        start = time.monotonic()
        said = await bus.request(bash(), budget=0.5)
        assert time.monotonic() - start < at_most(1.3)
        proxy.thaw()
    assert (said.decision, bool(said.fallback)) == ("deny", True)
    assert said.event.encode() in (tmp_path / "spool").read_bytes()


@pytest.mark.req("X-06", "X-09")
async def test_a_server_that_stays_frozen_costs_the_next_calls_a_moment(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    await publish_hooks(connections, keys, NO_RM)
    async with (
        evaluating(server.url, keys),
        Proxy(server.url) as proxy,
        Bus(proxy.url, namespace=namespace(keys), spool=tmp_path / "spool", connect=CONNECT) as bus,
    ):
        proxy.freeze()
        assert (await bus.request(bash("rm x"), budget=0.5)).fallback
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bus.client.DEFAULT_BUDGET", 3_600.0)
            patch.setattr("bus.transport.WAIT_SLICE", 3_600.0)  # else it waits so long for its first answer
            async with asyncio.timeout(PATIENCE):
                for _ in range(2):
                    assert (await bus.request(bash("rm x"), budget=3_600.0)).fallback
        proxy.thaw()

        async def denied() -> bool:
            return (await bus.request(bash("rm x"))).decision == "deny"

        await until(denied, "the verdicts are there again")


@pytest.mark.req("X-06", "G-20")
async def test_redis_away_is_said_at_once_and_spooled(server: Server, keys: Keys, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    async with Bus(f"unix://{tmp_path}/nothing?db=0", namespace=namespace(keys), on_failure="ask", spool=spool) as bus:
        start = time.monotonic()
        said = await bus.request(bash())  # only with a longer budget than usual it tries for a while
        stop = await bus.request(Event(type="agent:stop"))
        assert time.monotonic() - start < at_most(2)
    assert (said.decision, "cannot be reached" in said.fallback) == ("ask", True)
    assert (stop.decision, bool(stop.fallback)) == ("abstain", True), "a stop is never held"
    assert b"fallback" in spool.read_bytes()
    assert spool_status(spool).records == 2


@pytest.mark.req("X-06", "G-20")
async def test_a_server_that_hangs_keeps_nobody_waiting_for_a_connection(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel accepts connections, and nothing is said: the answer comes, and the events are in the spool."""
    monkeypatch.setattr("bus.wire.connections.COMMAND_SECONDS", 3_600.0)
    monkeypatch.setattr("bus.transport.COMMAND_SECONDS", 3_600.0)
    spool = tmp_path / "spool"
    async with (
        Proxy(server.url) as proxy,
        Bus(proxy.url, namespace=namespace(keys), on_failure="deny", spool=spool) as bus,
    ):
        proxy.freeze()
        said = await bus.request(bash(), budget=BUDGET)
        await bus.publish(Event(type="session:start"))
        proxy.thaw()
    assert (said.decision, "did not answer in time" in said.fallback) == ("deny", True)
    assert spool_status(spool).records == 2


async def test_a_budget_is_kept_where_nobody_answers(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.transport.CONNECT_SECONDS", CONNECT)  # for the report, where the machine is busy
    await do(connections, "SET", keys("alive", "evaluator"), "one that hangs", "PX", 20_000)
    await do(connections, "XGROUP", "CREATE", keys("requests"), "evaluators", 0, "MKSTREAM")
    async with Bus(server.url, namespace=namespace(keys), on_failure="deny", connect=CONNECT) as bus:
        start = time.monotonic()
        said = await bus.request(bash(), budget=0.3)
        assert 0.3 <= time.monotonic() - start < at_most(0.8)
    assert (said.decision, said.fallback) == ("deny", "no verdict came within the budget")
    (report,) = await stream(connections, keys)
    assert (report.fields[b"of"], report.fields[b"fallback"]) == (said.event.encode(), said.fallback.encode())
    assert len(await stream(connections, keys, "requests")) == 1, "it waits for an evaluator, which records it"


async def test_the_time_to_connect_is_no_time_of_the_hooks(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a hook that times out would be answered after its caller has stopped waiting: its failure policy would be lost."""
    connect, opens, goes_on = Connection._open, asyncio.Event(), asyncio.Event()

    async def open_slowly(self: Connection) -> Wire:
        opens.set()
        await goes_on.wait()
        return await connect(self)

    await do(connections, "SET", keys("alive", "evaluator"), "one that hangs", "PX", 60_000)
    await do(connections, "XGROUP", "CREATE", keys("requests"), "evaluators", 0, "MKSTREAM")
    async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        monkeypatch.setattr(Connection, "_open", open_slowly)
        end = time.monotonic() + BUDGET
        asked = asyncio.create_task(bus.request(bash(), budget=BUDGET))
        await opens.wait()
        begun = time.monotonic()
        await until_true(lambda: time.monotonic() > begun + 0.1, "some of the budget is used")
        left = end - time.monotonic()
        goes_on.set()
        while not (requests := await stream(connections, keys, "requests")):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    assert 0 < int(requests[0].fields[b"budget"]) <= left * 1000


async def test_many_at_once_get_their_own_verdicts(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, NO_RM)
    async with evaluating(server.url, keys), Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        said = await asyncio.gather(*(bus.request(bash("rm" if n % 2 else "ls", id=f"e{n}")) for n in range(40)))
    assert [(one.event, one.decision) for one in said] == [(f"e{n}", "deny" if n % 2 else "abstain") for n in range(40)]


# --- Programs without an event loop


@pytest.mark.req("B-01", "B-02")
async def test_the_synchronous_face_does_the_same(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, NO_RM)

    def program() -> tuple[list[str], str]:
        with SyncBus(Bus(server.url, namespace=namespace(keys), connect=CONNECT)) as bus:
            names = [bus.publish(bash("1")), *bus.publish_many([bash("2"), bash("3")])]
            return names, bus.request(bash("rm"), budget=BUDGET).reason

    async with evaluating(server.url, keys):
        names, reason = await asyncio.to_thread(program)
    assert reason == "no rm"
    assert [entry.fields[b"id"].decode() for entry in await stream(connections, keys)][:3] == names


async def _joined(connections: Connections, keys: Keys) -> bool:
    names = await do(connections, "KEYS", keys("join", "*").replace("{", "\\{").replace("}", "\\}"))
    return bool(names)


@pytest.mark.req("X-06")
async def test_a_server_that_becomes_a_replica_in_a_failover_is_tried_again() -> None:
    """It ends every blocking wait with an error of its own."""
    server, keys = Server(), Keys("failover")
    server.start()
    connections = Connections(server.url)
    try:
        await do(connections, "SET", keys("alive", "evaluator"), "one", "PX", 60_000)
        await do(connections, "XGROUP", "CREATE", keys("requests"), "evaluators", 0, "MKSTREAM")
        async with Bus(server.url, namespace="failover") as bus:
            asked = asyncio.create_task(bus.request(bash(), budget=40))
            await until(lambda: do(connections, "XLEN", keys("requests")), "it is asked")
            ((_, fields),) = await do(connections, "XRANGE", keys("requests"), "-", "+")
            reply = fields[fields.index(b"reply") + 1]
            await do(connections, "REPLICAOF", "127.0.0.1", "1")
            await do(connections, "REPLICAOF", "NO", "ONE")
            await do(connections, "RPUSH", reply, encode_verdict(Verdict(decision="deny", reason="no")))
            verdict = await asked
        assert (verdict.decision, verdict.fallback) == ("deny", "")
    finally:
        await connections.close()
        server.stop()
