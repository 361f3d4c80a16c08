"""How a loop takes its turns, and how it ends what it began."""

from __future__ import annotations

import asyncio

import pytest

from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from workers.runtime.consumer_loop import cancel_tasks, consume, wait_for_tasks


@pytest.mark.req("B-05")
async def test_what_ends_while_its_worker_beats_is_not_waited_for() -> None:
    last = asyncio.Event()
    tasks = {asyncio.create_task(last.wait())}
    for task in tasks:
        task.add_done_callback(tasks.discard)

    async def beat() -> None:  # as on a slow line: when the reply comes, nothing is under way any more
        last.set()
        await asyncio.wait(set(tasks))

    await wait_for_tasks(tasks, 60, beat)
    assert not tasks


async def test_what_does_not_end_in_time_is_left_under_way() -> None:
    endless = asyncio.create_task(asyncio.Event().wait())
    beats: list[int] = []

    async def beat() -> None:
        beats.append(1)

    await wait_for_tasks({endless}, 0.01, beat)
    assert beats
    assert not endless.done()
    endless.cancel()


async def test_a_turn_that_fails_is_prepared_and_taken_again() -> None:
    connections, keys = Connections("unix:///nowhere/redis.sock"), Keys("test")
    consumer = Consumer(connections, keys, group="g", name="one", streams=(keys("events"),), role="evaluator")
    steps: list[str] = []

    async def prepare() -> None:
        steps.append("prepare")

    async def turn() -> bool:
        steps.append("turn")
        if steps.count("turn") == 1:
            await consumer.beat()  # no server is there
        return steps.count("turn") < 3

    await consume(consumer, turn, asyncio.Event(), who="test", prepare=prepare)
    assert steps == ["prepare", "turn", "prepare", "turn", "turn"]
    assert consumer.must_recheck_pending
    assert consumer.failed_at > 0
    await connections.close()


async def test_a_loop_that_was_told_to_stop_takes_no_turn() -> None:
    consumer = Consumer(Connections(""), Keys("test"), group="g", name="one", streams=(), role="evaluator")
    stop = asyncio.Event()
    stop.set()

    async def turn() -> bool:
        raise AssertionError

    await consume(consumer, turn, stop, who="test")


async def test_a_task_that_lost_its_cancellation_is_cancelled_again() -> None:
    lost: list[str] = []

    async def work() -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append("as asyncio.wait_for may lose it")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel_tasks([task])
    assert task.cancelled()
