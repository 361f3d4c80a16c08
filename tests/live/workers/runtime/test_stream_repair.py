"""An id that somebody made up ends no verdicts: the stream is moved to a fresh one, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bus.ids import event_id
from bus.requests import defer_call, read_request, sent_by_now
from bus.wire.connections import Connections, sync_client
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, server_now
from tests.support.delivering import Asked, dispatching, publish, settled, turn_end, watcher_of
from tests.support.fleet import fleet
from tests.support.running import (
    NO_RM,
    bash,
    command_hook,
    do,
    evaluating,
    lines,
    member,
    publish_hooks,
    put,
    stream,
    until_true,
    verdict,
)
from tests.support.servers import Server
from tests.support.waiting import at_most, until, wait_until
from workers.delivery.filters import Filter
from workers.dispatcher import Dispatcher
from workers.evaluator import GROUP
from workers.records.events import find_event, follow, moment, recent
from workers.runtime.stream_repair import AHEAD_MS, Repairs, read_repairs

pytestmark = [pytest.mark.live, pytest.mark.req("X-09")]

LAST = "18446744073709551615"
MADE_UP = [f"{LAST}-{LAST}", f"{LAST}-1", f"{LAST[:-1]}0-7", "in an hour", "MAXLEN 0"]
ENDPOINT = 'endpoints:\n  - {id: a, url: "https://a.example", events: "turn:*"}\n'


async def poison(connections: Connections, keys: Keys, how: str, name: str = "requests") -> None:
    """Add an entry with an id of somebody's own choice, as the role `shim` may."""
    entry = f"{await server_now(connections) + 3_600_000}-5" if how == "in an hour" else how
    entry = f"{LAST}-{LAST}" if how == "MAXLEN 0" else entry
    trim = ("MAXLEN", "0") if how == "MAXLEN 0" else ()
    added = await do(connections, "XADD", keys(name), *trim, entry, "id", "x")
    assert isinstance(added, bytes), added


async def sane(connections: Connections, keys: Keys, name: str = "requests") -> bool:
    """Whether anybody can add to the stream, and gets an id of today."""
    facts = await do(connections, "XINFO", "STREAM", keys(name))
    last = dict(zip(facts[::2], facts[1::2], strict=True))[b"last-generated-id"]
    return int(last.split(b"-")[0]) <= await server_now(connections) + AHEAD_MS


def repairs_of(connections: Connections, keys: Keys) -> Repairs:
    return Repairs(connections, keys, "tester")


@asynccontextmanager
async def reader(connections: Connections, keys: Keys, name: str = "one") -> AsyncIterator[Consumer]:
    made = member(connections, keys, name)
    await made.create()
    yield made


@pytest.mark.parametrize("how", MADE_UP)
async def test_verdicts_go_on_within_two_seconds(
    server: Server, keys: Keys, connections: Connections, how: str
) -> None:
    await publish_hooks(connections, keys, NO_RM)
    async with evaluating(server.url, keys):
        await poison(connections, keys, how)
        began = time.monotonic()
        await until(lambda: sane(connections, keys), "the stream is repaired")
        took = time.monotonic() - began
        _, reply = await put(connections, keys, bash("rm x"))
        assert (await verdict(connections, reply)).decision == "deny"
    assert took < at_most(5), "two seconds are promised; the rest is slack"
    (one,) = await read_repairs(connections, keys)
    assert (one.stream, one.times) == ("requests", 1)
    (said,) = await recent(connections, keys, Filter(types=("bus:repaired",)))
    assert said.event.data["stream"] == "requests"


async def test_requests_are_repaired_before_events_of_which_there_are_many(
    server: Server, keys: Keys, connections: Connections
) -> None:
    for name in ("events", "requests"):
        await poison(connections, keys, MADE_UP[0], name)

    assert await repairs_of(connections, keys).repair_if_due()

    assert [one.stream for one in await read_repairs(connections, keys)] == ["requests", "events"]
    said = await recent(connections, keys, Filter(types=("bus:repaired",)))
    newest_first = [one.event.data["stream"] for one in said]
    assert newest_first == ["events", "requests"], "the report about requests waits for the stream of events"


@pytest.mark.parametrize("name", ["requests", "events"])
async def test_nothing_is_lost_neither_entries_nor_groups_nor_what_is_pending(
    server: Server, keys: Keys, connections: Connections, name: str
) -> None:
    """Order, ids of before, fields, who has what how often, up to where each group has read."""
    stream_name = keys(name)
    ids = [
        str((await do(connections, "XADD", stream_name, "*", "id", event_id(), "n", str(n))).decode()) for n in range(9)
    ]
    await do(connections, "XGROUP", "CREATE", stream_name, "evaluators", "0")
    await do(connections, "XGROUP", "CREATE", stream_name, "archive", "$")
    for who, count in (("one", 3), ("other", 2)):
        await do(connections, "XREADGROUP", "GROUP", "evaluators", who, "COUNT", count, "STREAMS", stream_name, ">")
    await do(connections, "XCLAIM", stream_name, "evaluators", "other", 0, ids[1])
    await do(connections, "XACK", stream_name, "evaluators", ids[0])
    for n in (9, 10):
        await do(connections, "XADD", stream_name, f"{LAST}-{n}", "id", event_id(), "n", str(n))
    before = await do(connections, "XPENDING", stream_name, "evaluators", "-", "+", 100)

    assert await repairs_of(connections, keys).repair_if_due()

    rows = await stream(connections, keys, name)
    left = [one for one in rows if b"n" in one.fields]
    assert [one.fields[b"n"] for one in left] == [b"%d" % n for n in range(11)], "in order, each once"
    assert [one.id for one in left[:9]] == ids
    now = await server_now(connections)
    assert all(one.ms <= now for one in left)
    after = await do(connections, "XPENDING", stream_name, "evaluators", "-", "+", 100)
    assert [(row[0], row[1], row[3]) for row in after] == [(row[0], row[1], row[3]) for row in before]
    assert all(later[2] >= earlier[2] for later, earlier in zip(after, before, strict=True))
    got = await do(connections, "XREADGROUP", "GROUP", "evaluators", "one", "STREAMS", stream_name, ">")
    new = [dict(zip(fields[::2], fields[1::2], strict=True)).get(b"n") for _, fields in got[0][1]]
    assert [n for n in new if n is not None] == [b"%d" % n for n in range(5, 11)]
    got = await do(connections, "XREADGROUP", "GROUP", "archive", "one", "STREAMS", stream_name, ">")
    new = [dict(zip(fields[::2], fields[1::2], strict=True)).get(b"n") for _, fields in got[0][1]]
    assert [n for n in new if n is not None] == [b"9", b"10"]
    assert await do(connections, "TTL", stream_name) == -1
    assert await do(connections, "EXISTS", keys("fresh", name)) == 0


async def test_what_was_read_by_a_made_up_id_is_answered_once_and_not_run_again(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """The stream is repaired while a hook runs for an entry that gets another id."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    await publish_hooks(
        connections, keys, command_hook(f"echo x >> {ran}; until test -e {go}; do sleep 0.01; done; exit 2")
    )
    async with evaluating(server.url, keys) as evaluator:
        await do(connections, "XADD", keys("requests"), f"{LAST}-1", "id", "x")
        _, reply = await put(connections, keys, bash())  # what honest agents add meanwhile has such an id too
        await until_true(lambda: lines(ran), "the hook runs")
        await until(lambda: sane(connections, keys), "the stream is repaired")
        evaluator._consumer.must_recheck_pending, evaluator._consumer._rechecked_at = True, 0.0
        go.touch()
        said = await verdict(connections, reply)
        assert (said.decision, said.repeated) == ("deny", False)
    assert lines(ran) == ["x"]
    assert await do(connections, "XLEN", keys("requests")) == 0


@pytest.mark.parametrize("looked", [True, False])
async def test_no_request_gets_a_new_life(server: Server, keys: Keys, connections: Connections, looked: bool) -> None:
    """What was sent while nobody looked says itself when: its hooks do not run an hour later."""
    await publish_hooks(connections, keys, NO_RM)
    worker = repairs_of(connections, keys)
    async with reader(connections, keys):
        if looked:
            assert not await worker.repair_if_due()
        await do(connections, "XADD", keys("requests"), f"{LAST}-1", "id", "x")
        now = await server_now(connections)
        old = f"e{now - 3_600_000:012x}{'a' * 20}"
        await put(connections, keys, bash("rm x"), id=old, budget=10_000, sent=str(now * 10))
        young, reply = await put(connections, keys, bash("rm x"))
        worker._looked = float("-inf")
        assert await worker.repair_if_due()
    sent = {
        one.fields.get(b"id"): int(one.fields.get(b"sent", b"0")) for one in await stream(connections, keys, "requests")
    }
    assert now - 10_000 < sent[young.encode()] <= await server_now(connections)
    assert (sent[old.encode()] < now - 3_000_000) is not looked, "only whoever has looked knows that it is new"
    async with evaluating(server.url, keys):
        assert (await verdict(connections, reply)).decision == "deny"
        await until(lambda: _recorded(connections, keys, old), "it is on record")
    seen = await find_event(connections, keys, old)
    assert (seen.decision == "deny") is looked
    assert ("budget was used up" in seen.fallback_reason) is not looked


async def _recorded(connections: Connections, keys: Keys, name: str) -> bool:
    return any(one.fields.get(b"id") == name.encode() for one in await stream(connections, keys))


@pytest.mark.parametrize("how", MADE_UP)
async def test_events_go_on_and_verdicts_are_given_meanwhile(
    server: Server, keys: Keys, connections: Connections, how: str
) -> None:
    await publish_hooks(connections, keys, NO_RM + ENDPOINT)
    before = turn_end()
    await publish(connections, keys, before)
    await poison(connections, keys, how, "events")
    async with evaluating(server.url, keys) as evaluator:
        evaluator._repairs._looked = time.monotonic() + 3600  # it sees to something else
        name, reply = await put(connections, keys, bash("rm x"))
        assert (await verdict(connections, reply)).decision == "deny", "its record waits, its agent does not"
        async with dispatching(server.url, keys):
            await until(lambda: sane(connections, keys, "events"), "the stream is repaired")
            await until(lambda: _recorded(connections, keys, name), "what waited is on record")
            after = turn_end()
            await publish(connections, keys, after)
            await settled(connections, keys, after.id, "ready")
            if how != "MAXLEN 0":  # which has trimmed it away: no ACL can forbid that
                await settled(connections, keys, before.id, "ready")
    assert await do(connections, "EXISTS", keys("late")) == 0
    assert (await find_event(connections, keys, name)).decision == "deny"


async def test_an_id_of_the_future_breaks_no_reader_and_makes_no_long_deadline(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await do(connections, "XADD", keys("events"), f"{LAST}-1", "id", "x")
    (seen,) = await recent(connections, keys, Filter())
    assert moment(seen.ms).startswith("9999-")
    entry = StreamEntry(keys("requests"), f"{LAST}-1", {b"id": b"x", b"budget": b"2000"})
    request = sent_by_now(read_request(entry, keys), 1_000_000)
    assert (request.added, request.deadline) == (1_000_000, 1_002_000)


@pytest.mark.parametrize("seconds", [-30, -5, 30])
async def test_a_clock_set_by_seconds_is_no_such_case(
    server: Server, keys: Keys, connections: Connections, seconds: int
) -> None:
    for name in ("requests", "events"):
        await do(connections, "XADD", keys(name), f"{await server_now(connections) + seconds * 1000}-0", "id", "x")
    assert not await repairs_of(connections, keys).repair_if_due()
    assert await read_repairs(connections, keys) == []


async def test_a_long_stream_is_moved_in_pages_and_one_worker_does_it(
    server: Server, keys: Keys, connections: Connections
) -> None:
    with connections.lease() as connection:
        for start in range(0, 6_000, 500):
            await connection.exchange(
                [("XADD", keys("events"), "*", "id", f"i{start + n}", "body", b"x" * 1_000) for n in range(500)]
            )
    await do(connections, "XADD", keys("events"), f"{LAST}-{LAST}", "id", "x", *[str(n) for n in range(9_000)])
    two = [Repairs(connections, keys, who) for who in ("one", "other")]
    assert sorted(await asyncio.gather(*[worker.repair_if_due() for worker in two])) == [False, True]
    rows = await stream(connections, keys)
    assert [one.fields[b"id"].decode() for one in rows[:-2]] == [f"i{n}" for n in range(6_000)]
    assert [one.times for one in await read_repairs(connections, keys)] == [1]


async def test_what_was_read_before_the_repair_and_not_done_is_done_afterwards(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """An event that is owed and one of which nobody is told; an evaluator puts a request aside by the id that it had."""
    await publish_hooks(connections, keys, ENDPOINT)
    await do(connections, "XADD", keys("events"), f"{LAST}-1", "id", "x")
    dispatcher = Dispatcher(server.url, keys, watcher_of(connections, keys), connections, Asked())
    await dispatcher.prepare()
    owed, other = turn_end(), bash(id=event_id())
    await publish(connections, keys, owed)
    await publish(connections, keys, other)
    with connections.lease() as connection:
        entries = await dispatcher._consumer.read(connection, 10, 0.01)
    assert len(entries) == 3
    assert await repairs_of(connections, keys).repair_if_due()
    await dispatcher._dispatch(entries)
    assert await do(connections, "EXISTS", keys("delivery", f"{owed.id}.a")) == 0, (
        "by that id there is nothing any more"
    )
    await dispatcher._dispatch(await dispatcher._consumer.own_pending())
    await settled(connections, keys, owed.id, "ready")
    assert (await do(connections, "XPENDING", keys("events"), "dispatchers"))[0] == 0
    await dispatcher._leave()


async def test_a_request_that_is_put_aside_meanwhile_is_answered(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    await publish_hooks(connections, keys, command_hook("exit 2"))
    async with reader(connections, keys) as one:
        await do(connections, "XADD", keys("requests"), f"{LAST}-1", "id", "x")
        _, reply = await put(connections, keys, bash())
        with connections.lease() as connection:
            entries = await one.read(connection, 10, 0.01)
        assert await repairs_of(connections, keys).repair_if_due()
        aside = [defer_call(read_request(entry, keys), keys, GROUP) for entry in entries]
        with connections.lease() as connection:
            await one.read(connection, 10, 0.01, calls=aside)
        assert one.must_recheck_pending
        assert len(await one.own_pending()) == 2
        await do(connections, "DEL", keys("beat", "one"))
    async with evaluating(server.url, keys):
        assert (await verdict(connections, reply)).decision == "deny"


async def test_somebody_who_follows_goes_on(server: Server, keys: Keys, connections: Connections) -> None:
    await publish(connections, keys, turn_end())
    following = follow(connections, keys)
    first = asyncio.ensure_future(anext(following))
    while not first.done():  # the reader's look at the end of the stream comes before what it follows
        await publish(connections, keys, turn_end())
        await asyncio.sleep(0)
    made_up = await do(connections, "XADD", keys("events"), f"{LAST}-1", "id", "x")
    while (await anext(following)).id != made_up.decode():
        pass
    assert await repairs_of(connections, keys).repair_if_due()
    after = await publish(connections, keys, turn_end())
    seen = [(await anext(following)).fields for _ in range(2)]
    assert [one[b"id"].decode() for one in seen][1] == after
    assert seen[0][b"event"] == b"bus:repaired"


def test_an_agents_credentials_are_enough_and_a_workers_too(tmp_path: Path) -> None:
    """The attack and the repair with the rights that the roles really have."""
    with fleet(tmp_path, "evaluator", hooks=NO_RM) as world:
        with sync_client(world.url("shim")) as shim:
            shim.execute_command("XADD", world.keys("requests"), f"{LAST}-{LAST}", "id", "x")
            shim.execute_command("XADD", world.keys("events"), f"{LAST}-{LAST}", "id", "x")
        wait_until(
            lambda: len(world.ask(lambda connections: read_repairs(connections, world.keys))) == 2, "both are repaired"
        )
        wait_until(lambda: len(world.events(types=("bus:repaired",))) == 2, "both are said")
        payload = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "rm x"}, "cwd": "/"}
        said = world.agent().hook("PreToolUse", {"hook_event_name": "PreToolUse", **payload})
        assert b'"deny"' in said.stdout
