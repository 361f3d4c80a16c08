"""How a worker ends what it began."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from workers.runtime.lifeline import stop_event
from workers.runtime.process import drained


@pytest.mark.req("B-05")
async def test_what_ends_while_its_worker_beats_is_not_waited_for() -> None:
    last = asyncio.Event()
    busy = {asyncio.create_task(last.wait())}
    for task in busy:
        task.add_done_callback(busy.discard)

    async def beat() -> None:  # as on a slow line: by its answer nothing is under way any more
        last.set()
        await asyncio.wait(set(busy))

    await drained(busy, 60, beat)
    assert not busy


async def test_what_does_not_end_in_time_is_left_under_way() -> None:
    endless = asyncio.create_task(asyncio.Event().wait())
    beats: list[int] = []

    async def beat() -> None:
        beats.append(1)

    await drained({endless}, 0.01, beat)
    assert beats
    assert not endless.done()
    endless.cancel()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_who_was_started_deaf_to_a_signal_stays_so(number: signal.Signals) -> None:
    """`nohup` and a shell's `&` mean it: only SIGTERM ends what they started."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        stop = stop_event()
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
