"""How a worker is told to stop, what runs beside its work, and what its log and its garbage collector are set to."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from workers.runtime.lifeline import stop_event
from workers.runtime.process import SELDOM_THRESHOLDS, set_level, with_task


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


def test_a_level_is_set_once_so_that_what_loggers_know_of_it_stays() -> None:
    """A logger knows whether it logs a level, and forgets it when any level is set: a fork would write that anew."""
    logger = logging.getLogger("fleethook.test.level")
    set_level(logger, "error")
    assert logger.level == logging.ERROR
    assert not logger.isEnabledFor(logging.INFO)
    known = dict(logger.__dict__["_cache"])
    set_level(logger, "error")
    assert logger.__dict__["_cache"] == known
    set_level(logger, "info")
    assert logger.isEnabledFor(logging.INFO)


def test_a_program_searches_once_for_garbage_and_a_fork_with_frozen_objects_does_not() -> None:
    """The search would copy what the forks of one supervisor share."""
    program = """
import gc
from workers.runtime.process import collect_garbage_seldom
searches = []
gc.callbacks.append(lambda phase, found: searches.append(found["generation"]) if phase == "stop" else None)
gc.disable()
for _ in range(2):
    collect_garbage_seldom()
    print(searches, gc.get_freeze_count() > 0, gc.get_threshold())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"[2] True {SELDOM_THRESHOLDS}"] * 2
