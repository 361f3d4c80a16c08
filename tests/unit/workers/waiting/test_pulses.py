"""The pulse of a process: once a second for all that waits for it, and at another moment than that of its neighbours."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from workers.waiting.pulses import PULSE_SECONDS, next_pulse, pulse, seconds_left


@pytest.mark.req("X-14")
def test_processes_that_start_together_have_their_pulses_apart() -> None:
    left = sorted(seconds_left(1000.0, pid) % PULSE_SECONDS for pid in range(500, 504))
    gaps = [after - before for before, after in pairwise(left)]
    assert min(gaps) > 0.1
    assert all(0.1 <= seconds_left(n / 7, 41) <= 1.1 for n in range(50))


async def test_who_stops_waiting_takes_the_pulse_from_nobody() -> None:
    one, other = asyncio.create_task(pulse()), asyncio.create_task(pulse())
    await asyncio.sleep(0)
    shared = next_pulse()
    one.cancel()
    await other
    assert shared.done()
    assert one.cancelled()
    assert next_pulse() is not shared
