"""Measures how long `fleethook up` takes to be ready, and how much CPU it uses while nothing happens."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bus.config.settings import Settings
from bus.system.directories import directories
from bus.wire.embedded_server import bus_url
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.up.processes import PROC, cpu, tree
from workers.runtime.lifeline import VARIABLE, lifeline
from workers.supervisor import running

IDLE_BAR: Final = 50.0
"""The most CPU that all processes together may use while nothing happens, in milliseconds a second: a twentieth of a core."""

_SETTLED: Final = 1.0
"""Seconds to wait after everything is ready; by then the first housekeeping is done."""


async def start_figures(rounds: int, sizes: Sizes) -> list[Figure]:
    """`--help` compared with `import click`, the start of `up` with that of one worker process, and the CPU of an idle `up`."""
    calls = max(1, sizes.processes // 5)

    async def help_page() -> float:
        return await asyncio.to_thread(_timed, (sys.executable, "-m", "workers.cli", "--help"), calls)

    async def import_click() -> float:
        return await asyncio.to_thread(_timed, (sys.executable, "-c", "import click"), calls)

    one, other = await alternate(help_page, import_click, rounds, warm_ups=sizes.warm_ups)
    ups, alones, idle = [], [], []
    for _ in range(max(sizes.starts, rounds // 2)):
        up, alone, standing = await asyncio.to_thread(_up_alone_and_idle, sizes.idle)
        ups.append(up)
        alones.append(alone)
        idle.append(standing)
    figures = [
        figure("fleethook --help", "python -c 'import click'", "ms", one, other),
        figure("up, from start to ready", "one worker process from start to ready", "ms", ups, alones),
    ]
    if PROC.is_dir():
        figures.append(
            figure(
                "up, idle: CPU of all processes",
                "a twentieth of one core",
                "ms/s",
                idle,
                [IDLE_BAR],
                bar=1.0,
                note=f"{sizes.idle:g} s each",
            )
        )
    return figures


def _timed(command: tuple[str, ...], count: int) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e3


def _up_alone_and_idle(seconds: float) -> tuple[float, float, float]:
    """Milliseconds until `up` is ready, and until one evaluator on its server is; the CPU of an idle `up` in ms a second."""
    with tempfile.TemporaryDirectory(prefix="fh-bench-") as home:
        environment = environment_of(home)
        start = time.perf_counter()
        with started_up(environment) as pid:
            all_up = time.perf_counter() - start
            one = _alone(environment | {"FLEETHOOK_REDIS_URL": bus_url(Settings(), "worker", directories(environment))})
            idle = 0.0
            if PROC.is_dir():
                time.sleep(_SETTLED)
                before, since = cpu(tree(pid)), time.perf_counter()
                time.sleep(seconds)
                idle = (cpu(tree(pid)) - before) / (time.perf_counter() - since)
    return all_up * 1e3, one * 1e3, idle * 1e3


def environment_of(home: str) -> dict[str, str]:
    """The environment of a measured `up`: no settings, and bytecode is kept, as after the first start of an installation."""
    left_out = ("FLEETHOOK_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "FLEETHOOK_HOME": home}


@contextmanager
def started_up(environment: Mapping[str, str]) -> Iterator[int]:
    """Start `fleethook up`, and yield its process id when it is ready."""
    places = directories(environment)
    with lifeline() as held:
        up = subprocess.Popen(
            [sys.executable, "-m", "workers.cli", "up"],
            env={**environment, VARIABLE: str(held)},
            pass_fds=(held,),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while (state := running(places)) is None or not state.ready:
                if up.poll() is not None:
                    raise RuntimeError(f"up ended with {up.returncode}")
                time.sleep(0.005)
            yield up.pid
        finally:
            up.terminate()
            up.wait()


def _alone(environment: Mapping[str, str]) -> float:
    """Seconds that one evaluator takes to be ready."""
    start = time.perf_counter()
    alone = subprocess.Popen(
        [sys.executable, "-m", "workers.cli", "worker", "evaluator"], env=environment, stderr=subprocess.PIPE
    )
    assert alone.stderr is not None  # noqa: S101 - it was asked for
    while b"ready" not in alone.stderr.readline():
        pass
    one = time.perf_counter() - start
    alone.kill()
    alone.communicate()
    return one
