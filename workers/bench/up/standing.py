"""Measures what a laptop notices of `fleethook up`: memory and wake-ups while nothing happens, and how soon it is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from typing import Final

from bus.system.directories import Directories, directories
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.up.processes import PROC, memory, tree, wake_ups
from workers.bench.up.starting import environment_of, started_up
from workers.supervisor import running

MEMORY_BAR: Final = 100.0
"""The most memory of all processes together, server and gateway included, in MB (each shared page counts once)."""
WAKE_BAR: Final = 25.0
"""The most wake-ups a second of all threads of all processes."""
READY_BAR: Final = 1_000.0
"""Milliseconds from the server's first answer until `up` is ready."""
BACK_BAR: Final = 100.0
"""Milliseconds until a killed evaluator is ready again."""

_SETTLED: Final = 5.0
"""Seconds to wait after everything is ready; by then nothing of the start goes on."""
_POLL: Final = 0.001
_KILLS: Final = 5


async def standing_figures(rounds: int, sizes: Sizes) -> list[Figure]:
    """Memory, wake-ups, readiness and restart of `up`. Only on Linux, whose /proc has them."""
    if not PROC.is_dir():
        return []
    await asyncio.to_thread(_compile)
    runs = [await asyncio.to_thread(_run, sizes) for _ in range(max(sizes.starts, rounds // 2))]
    sizes_mb, wakes, ready, back = (list(values) for values in zip(*runs, strict=True))
    note = f"{sizes.idle:g} s each"
    return [
        figure("up, idle: memory", "100 MB", "MB", sizes_mb, [MEMORY_BAR], bar=1.0),
        figure("up, idle: wake-ups", "25 a second", "/s", wakes, [WAKE_BAR], bar=1.0, note=note),
        figure("up, ready after its server's first answer", "a second", "ms", ready, [READY_BAR], bar=1.0),
        figure("up, a killed evaluator is back", "a tenth of a second", "ms", back, [BACK_BAR], bar=1.0),
    ]


def _compile() -> None:
    """Start once, so that Python has compiled everything: an installation does that at its first start only."""
    with tempfile.TemporaryDirectory(prefix="fh-bench-") as home, started_up(environment_of(home)):
        pass


def _run(sizes: Sizes) -> tuple[float, float, float, float]:
    """MB, wake-ups a second, milliseconds from the server's first answer to ready, and from a kill to the next readiness."""
    with tempfile.TemporaryDirectory(prefix="fh-bench-") as home:
        environment = environment_of(home)
        places = directories(environment)
        answered: list[float] = []
        watching = threading.Thread(target=_first_answer, args=(places, answered), daemon=True)
        watching.start()
        with started_up(environment) as pid:
            ready = time.perf_counter()
            watching.join()
            time.sleep(min(sizes.idle, _SETTLED))
            before, since = wake_ups(tree(pid)), time.perf_counter()
            time.sleep(sizes.idle)
            woken = (wake_ups(tree(pid)) - before) / (time.perf_counter() - since)
            held = memory(tree(pid))
            back = min(_back(places) for _ in range(_KILLS if sizes.starts > 1 else 1))
        return held, woken, (ready - answered[0]) * 1e3, back * 1e3


def _first_answer(places: Directories, answered: list[float]) -> None:
    """Note when the server answered first; it refuses a caller without a password, which is an answer."""
    while not answered:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(str(places.socket))
            link.sendall(b"PING\r\n")
            if link.recv(100):
                answered.append(time.perf_counter())
        time.sleep(_POLL)


def _back(places: Directories) -> float:
    """Seconds from the kill of an evaluator until the one in its place is ready."""

    def evaluator() -> tuple[int, bool]:
        state = running(places)
        children = state.children if state is not None else ()
        return next(((one.pid, one.ready) for one in children if one.name == "evaluator.1"), (0, False))

    killed, _ = evaluator()
    os.kill(killed, signal.SIGKILL)
    since = time.perf_counter()
    while (now := evaluator())[0] in {0, killed} or not now[1]:
        time.sleep(_POLL)
    return time.perf_counter() - since
