"""How a worker is told to stop, and what runs beside its work."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from workers.runtime.lifeline import stop_event
from workers.runtime.process import with_task


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


async def test_a_task_beside_the_work_that_fails_is_logged_and_the_work_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, finished = asyncio.Event(), []

    async def work(keys: Any, connections: Any, watcher: Any) -> None:
        await began.wait()
        await asyncio.sleep(0)
        finished.append(True)

    async def broken(keys: Any, connections: Any) -> None:
        began.set()
        raise AttributeError("no such thing")

    nothing: Any = None
    await with_task(work, broken)(nothing, nothing, nothing)
    assert finished == [True]
    assert "broken has ended" in caplog.text
    assert "no such thing" in caplog.text
