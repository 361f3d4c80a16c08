"""How a worker is told to stop."""

from __future__ import annotations

import os
import signal

import pytest

from workers.runtime.lifeline import stop_event


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
