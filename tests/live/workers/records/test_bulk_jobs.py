"""Maintenance jobs: many deliveries retried, redriven, dropped or sent again, each exactly once, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rq import Queue

from bus.config.settings import Settings
from bus.errors import Unreachable
from bus.hooksets.in_force import Watcher
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import server_now
from tests.live.workers.test_jobs import PROGRAM
from tests.support.delivering import (
    Asked,
    carrying,
    dispatch_event,
    dispatching,
    left,
    publish,
    settled,
    turn_end,
    watcher_of,
)
from tests.support.forked import Snippet
from tests.support.receivers import Receiver, receiving
from tests.support.running import HOST, do, namespace, publish_hooks
from tests.support.servers import Server
from tests.support.waiting import until, wait_until
from workers.delivery.dead_letters import dead_letters
from workers.delivery.deliveries import deliveries, retry
from workers.delivery.filters import Filter
from workers.jobs import CHORES, enqueue, queue
from workers.records import bulk_jobs
from workers.records.bulk_jobs import BulkJob, begin, job, jobs, run_waiting_jobs, stop_job, waiting_jobs, work_at
from workers.records.replay import ReplaySpec
from workers.records.selection import walk

OFFLINE = 'endpoints:\n  - {id: a, url: "https://a.example"}\n'


def endpoints(receiver: Receiver, *names: str, **more: Any) -> str:
    """A hook file with endpoints of these names at a receiver."""
    lines = "".join(
        f"  - {msgspec.json.encode({'id': name, 'url': receiver.url(f'/{name}'), **more}).decode()}\n" for name in names
    )
    return f'network: {{allow: ["127.0.0.1:{receiver.port}"]}}\nendpoints:\n{lines}'


async def bury(connections: Connections, keys: Keys, count: int, reason: str = "for a test", at: int = 1) -> list[str]:
    """So many dead deliveries, all of one millisecond."""
    names = [f"e{at}x{number:05}.a" for number in range(count)]
    with connections.lease() as connection:
        for name in names:
            fields = (
                "state",
                "dead",
                "stream",
                keys("deliveries"),
                "target",
                "endpoint:a",
                "hook",
                "a",
                "reason",
                reason,
                "kind",
                "webhook",
                "updated",
                at,
            )
            await connection.exchange(
                [
                    ("HSET", keys("delivery", name), *fields),
                    ("ZADD", keys("dead"), at, name),
                    ("ZADD", keys("recent"), at, name),
                ]
            )
    return names


async def worked(connections: Connections, keys: Keys, name: str, **more: Any) -> BulkJob:
    """The job after somebody has worked at it."""
    watcher: Watcher = watcher_of(connections, keys)
    await watcher.refresh(force=True)
    await work_at(connections, keys, watcher, name, asyncio.Event(), **more)
    return await job(connections, keys, name)


async def events(connections: Connections, keys: Keys, count: int, **more: Any) -> list[str]:
    """So many events in the record, which nobody has dispatched."""
    return [await publish(connections, keys, turn_end(data={"n": n}, **more)) for n in range(count)]


async def ready(connections: Connections, keys: Keys) -> list[str]:
    """The ids of the deliveries in the stream, in order."""
    rows = await do(connections, "XRANGE", keys("deliveries"), "-", "+")
    return [fields[1].decode() for _, fields in rows]


@pytest.mark.req("G-10", "G-22")
async def test_a_walk_comes_past_everything_once_though_pages_leave_and_times_are_alike(
    server: Server, keys: Keys, connections: Connections
) -> None:
    names = await bury(connections, keys, 450)
    names += await bury(connections, keys, 3, at=2)
    seen: list[str] = []
    async for place, page in walk(connections, keys, "dead", Filter()):
        seen += page
        await do(connections, "ZREM", keys("dead"), *page[::2])
        assert place == (float(page[-1][1]), page[-1])
    assert seen == names
    assert [page async for _, page in walk(connections, keys, "recent", Filter(since=2, until=2))] == [names[-3:]]


@pytest.mark.req("G-10")
async def test_redriving_takes_each_that_matches_once_though_it_dies_again(
    server: Server, keys: Keys, connections: Connections
) -> None:
    names = await bury(connections, keys, 450)
    other = await bury(connections, keys, 5, "another", at=2)
    name = await begin(connections, keys, "redrive", Filter(reason="for a TEST", endpoint="a"))
    late = await server_now(connections) + 1_000
    await do(connections, "ZADD", keys("dead"), late, names[7])  # it died again after the job began
    done = await worked(connections, keys, name)
    assert (done.state, done.done, done.looked) == ("done", 449, 454)
    assert sorted(await ready(connections, keys)) == sorted({*names} - {names[7]})
    assert {one.id for one in await dead_letters(connections, keys)} == {names[7], *other}
    again = await worked(connections, keys, name)
    assert (again.done, again.updated) == (449, done.updated), "what is over stays so"
    dropped = await worked(connections, keys, await begin(connections, keys, "drop", Filter(ids=tuple(other[:2]))))
    assert (dropped.done, await do(connections, "ZCARD", keys("dead"))) == (2, 4)
    assert [one.kind for one in await jobs(connections, keys)][-1] == "redrive"
    assert await do(connections, "ZCARD", keys("jobs:open")) == 0


@pytest.mark.req("G-10")
async def test_what_waits_is_tried_at_once(server: Server, keys: Keys, connections: Connections) -> None:
    """Due in an hour, parked, dead: all three go; what is under way or delivered stays as it is."""
    async with receiving() as receiver:
        receiver.usual = receiver.usual._replace(status=503)
        await publish_hooks(connections, keys, endpoints(receiver, "a", retry=[3600], max_in_flight=1))
        async with dispatching(server.url, keys), carrying(server.url, keys):
            due = await publish(connections, keys, turn_end())
            ((one,),) = [await settled(connections, keys, due, "due")]
            assert one.log[0].next - one.log[0].ms == pytest.approx(3_600_000, rel=0.2)
            assert one.log[0].head.startswith("503 X\nContent-Length: 0")
            assert one.log[0].phases is not None
            assert one.log[0].phases.first_byte > 0
            receiver.usual = receiver.usual._replace(status=200)
            receiver.hold()
            blocks = await publish(connections, keys, turn_end())
            await until(lambda: _running(connections, keys, f"{blocks}.a"), "it takes the only place")
            parked = await publish(connections, keys, turn_end())
            await settled(connections, keys, parked, "parked")
            names = [f"{name}.a" for name in (due, blocks, parked)]
            assert await retry(connections, keys, [*names, "no.such"]) == 2
            assert await retry(connections, keys, names, before=one.updated) == 0, "changed since then"
            receiver.release()
            for name in (due, blocks, parked):
                await settled(connections, keys, name, "delivered")
        assert receiver.ids == {f"{due}_a": 2, f"{blocks}_a": 1, f"{parked}_a": 1}
        assert await left(connections, keys) == {}


async def _running(connections: Connections, keys: Keys, name: str) -> bool:
    return bool(await do(connections, "HGET", keys("delivery", name), "state") == b"running")


@pytest.mark.req("G-22")
async def test_past_events_are_sent_again_under_ids_of_their_own(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, "a", "b"))
        first = await dispatch_event(connections, keys, turn_end(data={"n": 1}))
        await dispatch_event(connections, keys, turn_end(data={"n": 2}))
        async with dispatching(server.url, keys), carrying(server.url, keys):
            await settled(connections, keys, first, "delivered", "delivered")
            receiver.got.clear()
            past = ReplaySpec(since=0, until=0, where="event.data.n == 1", endpoint="b")
            name = await begin(connections, keys, "replay", past)
            done = await worked(connections, keys, name)
            assert (done.state, done.looked, done.done) == ("done", 2, 1)
            await until(lambda: _count(receiver, 1), "it is sent again")
            await settled(connections, keys, first, "delivered", "delivered", "delivered")
        (got,) = receiver.got
        assert (got.path, got.id, got.headers["fleethook-replay-of"]) == ("/b", f"{first}_b_r{name}", first)
        assert (
            got.json["data"]["id"] == first
            if "data" in got.json and "id" in got.json["data"]
            else first in str(got.json)
        )
        assert await left(connections, keys) == {}, "the bodies that it kept are gone"


async def _count(receiver: Receiver, count: int) -> bool:
    return len(receiver.got) >= count


async def test_a_page_that_is_sent_twice_is_owed_once(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, OFFLINE)
    names = await events(connections, keys, 250)
    name = await begin(connections, keys, "replay", ReplaySpec(since=0, until=0))
    assert (await worked(connections, keys, name)).done == 250
    await do(connections, "HSET", keys("job", name), "state", "running", "cursor", "0-1", "done", 0, "looked", 0)
    again = await worked(connections, keys, name)
    assert (again.state, again.done, again.looked) == ("done", 250, 250)
    assert await ready(connections, keys) == [f"{one}.a.r{name}" for one in names]
    assert await do(connections, "HGET", keys("body", names[0]), "refs") == b"1"


async def test_a_rate_is_kept_and_a_stop_ends_it(server: Server, keys: Keys, connections: Connections) -> None:
    await publish_hooks(connections, keys, OFFLINE)
    await events(connections, keys, 60)
    name = await begin(connections, keys, "replay", ReplaySpec(since=0, until=0, rate=40.0))
    start = asyncio.get_running_loop().time()
    working = asyncio.create_task(worked(connections, keys, name))
    await until(lambda: _done(connections, keys, name, 20), "half a second's worth is sent")
    took = asyncio.get_running_loop().time() - start
    assert took > 0.2, "and no earlier"
    assert await waiting_jobs(connections, keys) == [], "somebody works at it"
    assert await stop_job(connections, keys, name)
    stopped = await working
    assert (stopped.state, await stop_job(connections, keys, name)) == ("stopped", False)
    assert 20 <= stopped.done < 60
    assert len(await ready(connections, keys)) in {stopped.done, stopped.done + 10}, "the page under way was ended"
    assert await waiting_jobs(connections, keys) == []


async def _done(connections: Connections, keys: Keys, name: str, count: int) -> bool:
    return (await job(connections, keys, name)).done >= count


async def test_what_cannot_be_done_ends_as_failed_and_is_not_tried_for_ever(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await events(connections, keys, 1)
    name = await begin(connections, keys, "replay", ReplaySpec(since=0, until=0, where="event.nonsense("))
    failed = await worked(connections, keys, name)
    assert (failed.state, "bad condition" in failed.error) == ("failed", True)
    await do(connections, "HSET", keys("job", name), "state", "running", "spec", '{"since": "x"}')
    assert "cannot be read" in (await worked(connections, keys, name)).error
    assert await waiting_jobs(connections, keys) == []


async def test_work_is_laid_down_after_its_time_and_two_workers_never_have_the_same(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, OFFLINE)
    await events(connections, keys, 30)
    name = await begin(connections, keys, "replay", ReplaySpec(since=0, until=0, rate=20.0))
    laid = await worked(connections, keys, name, seconds=0.0)
    assert (laid.state, laid.done, await waiting_jobs(connections, keys)) == ("queued", 5, [name])
    both = [
        asyncio.create_task(run_waiting_jobs(connections, keys, watcher_of(connections, keys), asyncio.Event()))
        for _ in range(2)
    ]
    assert sorted(await asyncio.gather(*both)) == [0, 25]
    ended = await job(connections, keys, name)
    assert (ended.state, ended.done) == ("done", 30)
    assert len(set(await ready(connections, keys))) == 30


@pytest.mark.req("G-10", "G-22")
async def test_a_killed_chores_worker_costs_nothing_and_repeats_nothing(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """kill -9 in the middle of a replay, twice; the dispatcher has the next worker take it up: every event exactly once."""
    asked = Chores(queue(Settings(namespace=namespace(keys)), server.url, CHORES))
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, "a", max_in_flight=50))
        async with dispatching(server.url, keys, asked=asked), carrying(server.url, keys):
            names = await events(connections, keys, 300)
            await until(lambda: _count(receiver, 300), "they are delivered")
            receiver.got.clear()
            name = await begin(connections, keys, "replay", ReplaySpec(since=0, until=0, rate=120.0))
            for enough in (60, 150):
                with chores_process(keys, server.url, tmp_path) as process:
                    await until(partial(_done, connections, keys, name, enough), f"{enough} are sent")
                    process.kill()
                    await asyncio.to_thread(process.wait)
                assert not (await job(connections, keys, name)).over
            with chores_process(keys, server.url, tmp_path) as process:
                await until(lambda: _over(connections, keys, name), "the next one ends it")
                await until(lambda: _count(receiver, 300), "and all are delivered")
                process.terminate()
                assert await asyncio.to_thread(process.wait, 15) == 0
            ended = await job(connections, keys, name)
            assert (ended.state, ended.done, ended.looked) == ("done", 300, 300)
            await until(lambda: _all_delivered(connections, keys, 600), "each is settled")
        assert receiver.ids == dict.fromkeys((f"{one}_a_r{name}" for one in names), 1)
        assert {got.headers["fleethook-replay-of"] for got in receiver.got} == {*names}
        assert await left(connections, keys) == {}
    asked.on.connection.close()


@pytest.mark.req("G-10")
async def test_a_worker_that_dies_within_a_page_redrives_nothing_twice(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a page was done and before its cursor was written: whoever comes next does it again, to no effect."""
    names = await bury(connections, keys, 450)
    name = await begin(connections, keys, "redrive", Filter(reason="for a test"))
    real, pages = bulk_jobs.ACTS["redrive"], []

    async def dies(*args: Any, **more: Any) -> int:
        pages.append(await real(*args, **more))
        if len(pages) == 2:
            raise Unreachable("killed here")
        return pages[-1]

    monkeypatch.setitem(bulk_jobs.ACTS, "redrive", dies)
    with pytest.raises(Unreachable):
        await worked(connections, keys, name)
    half = await job(connections, keys, name)
    assert (half.state, half.done, half.looked) == ("running", 400, 200)
    await do(connections, "DEL", keys("alive", f"job-{name}"))  # its lease has run out
    await do(
        connections, "ZADD", keys("dead"), await server_now(connections) + 1_000, names[250]
    )  # it died again meanwhile
    await do(connections, "HSET", keys("delivery", names[250]), "state", "dead")
    ended = await worked(connections, keys, name)
    assert (ended.state, ended.done) == ("done", 450)
    assert sorted(await ready(connections, keys)) == names


class Chores(Asked):
    """Asks RQ for maintenance as the dispatcher's own way does; everything else is only counted."""

    def __init__(self, on: Queue) -> None:
        super().__init__()
        self.on = on

    async def __call__(self, name: str) -> int:
        return await asyncio.to_thread(enqueue, self.on, name) if name == "maintain" else await super().__call__(name)


@contextmanager
def chores_process(keys: Keys, url: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real chores worker, which the test may kill."""
    log = tmp_path / "chores.log"
    env = {**os.environ, "FLEETHOOK_REDIS_URL": url, "FLEETHOOK_NAMESPACE": namespace(keys), "FLEETHOOK_HOST": HOST}
    with log.open("wb") as output:
        process = Snippet(PROGRAM, CHORES, env=env, stdout=output, stderr=output)
    try:
        wait_until(lambda: b"ready" in log.read_bytes(), "the chores worker is ready")
        yield process
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


async def _over(connections: Connections, keys: Keys, name: str) -> bool:
    return (await job(connections, keys, name)).over


async def _all_delivered(connections: Connections, keys: Keys, count: int) -> bool:
    return [one.state for one in await deliveries(connections, keys, most=1_000)] == ["delivered"] * count
