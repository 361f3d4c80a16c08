"""Processes: the hook command and a command hook, each compared with the same work without Fleethook."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec

from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import POLL_SECONDS
from bus.hooksets.published import apply
from bus.ids import host_name
from bus.shim import native
from bus.shim.answer_file import AnswerFile, EventLine, compile_shim, hook_command, server_from_url, write_answer_file
from bus.wire.keys import Keys
from workers.bench.request import RULE, event, process
from workers.bench.rounds import Figure, Sizes, alternate, figure, spawns
from workers.bench.server import bench_bus, bench_connections

COMMAND = "cat > /dev/null; exit 0"

PAYLOAD = json.dumps(
    {
        "session_id": "bench",
        "cwd": "/srv",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls -la", "description": "d" * 700},
    }
).encode()

REDIS_PY = """
import os, sys, redis
url, requests, reply = sys.argv[1:]
client = redis.Redis.from_url(os.environ["BENCH_URL"])
client.xadd(requests, {"reply": reply, "body": sys.stdin.buffer.read()})
client.blpop([reply], timeout=10)
"""


AT_ONCE = 8
"""So many agents call their hook command at the same time."""

NATIVE = (
    ("native hook command, spawn to exit with a verdict", "python -I -S -c pass", 0.35),
    (f"native hook command, {AT_ONCE} agents at once, p99", "its p50", 3.0),
)


async def shim_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The hook command from spawn to exit with a verdict, against an empty interpreter; and the same with redis-py."""
    keys, connections = Keys("bench"), bench_connections(url)
    await apply(connections, keys, parse_hook_file(RULE, "fleet"))
    compile_shim()
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder, "claude.answers")
        write_answer_file(
            answers,
            AnswerFile(
                agent="claude",
                server=server_from_url(url),
                prefix=keys.prefix,
                host=host_name(),
                spool=str(Path(folder, "spool")),
                events=(EventLine(name="PreToolUse"),),
            ),
        )
        shim = hook_command(sys.executable, "claude", "PreToolUse", answers)
        empty = (sys.executable, "-I", "-S", "-c", "pass")
        program = native.prepare(Path(folder)).path
        compiled = hook_command(sys.executable, "claude", "PreToolUse", answers, native=program)
        plain = (sys.executable, "-c", REDIS_PY, "-", "bench:bare", "bench:shim")

        async def ours() -> float:
            return await asyncio.to_thread(spawned, shim, {})

        async def theirs() -> float:
            return await asyncio.to_thread(spawned, empty, {})

        async def in_c() -> float:
            return await asyncio.to_thread(spawned, compiled, {})

        async def through_redis_py() -> float:
            return await asyncio.to_thread(spawned, plain, {"BENCH_URL": url})

        evaluator = ("-m", "workers.cli", "worker", "evaluator")
        async with process(url, *evaluator), process(url, "-m", "workers.bench.bare", "bench:bare"):
            # The sides alternate after each process, because a shared machine is fast or slow for a few processes at a time.
            one, other = await alternate(ours, theirs, rounds, slices=sizes.processes, warm_ups=sizes.warm_ups)
            both: list[tuple[list[float], list[float]]] = []
            if program:
                both.append(await alternate(in_c, theirs, rounds, slices=sizes.processes, warm_ups=sizes.warm_ups))
                both.append(await asyncio.to_thread(_several_at_once, compiled, rounds, sizes))
            slow, _ = await alternate(through_redis_py, theirs, rounds, slices=sizes.slices, warm_ups=0)
    await connections.close()
    floor = statistics.median(other)
    bar = 1.25 + 1.0 / floor
    return [
        *(
            figure(name, baseline, "ms", mine, base, bar=most)
            for (name, baseline, most), (mine, base) in zip(NATIVE, both, strict=False)
        ),
        figure(
            "shim, spawn to exit with a verdict",
            "python -I -S -c pass",
            "ms",
            one,
            other,
            bar=bar,
            note="the bar is 1.25 times plus 1 ms",
        ),
        figure("the same through redis-py", "python -I -S -c pass", "ms", slow, other, note="for comparison"),
    ]


def _several_at_once(command: tuple[str, ...], rounds: int, sizes: Sizes) -> tuple[list[float], list[float]]:
    """The p99 and the p50 of each round, in which several processes start the command one time after the other."""
    slowest: list[float] = []
    usual: list[float] = []
    with tempfile.NamedTemporaryFile() as payload, ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as pool:
        payload.write(PAYLOAD)
        payload.flush()
        for _ in range(1 + rounds):  # the first one starts the pool, and does not count
            jobs = [pool.submit(spawns, command, payload.name, 2 * sizes.processes) for _ in range(AT_ONCE)]
            took = sorted(one for job in jobs for one in job.result())
            slowest.append(took[int(len(took) * 0.99)])
            usual.append(statistics.median(took))
    return slowest[1:], usual[1:]


def spawned(command: tuple[str, ...], extra: dict[str, str]) -> float:
    """Milliseconds of one process with the payload on stdin."""
    environment = {**os.environ, **extra}
    start = time.perf_counter()
    subprocess.run(command, input=PAYLOAD, stdout=subprocess.DEVNULL, env=environment, check=True)
    return (time.perf_counter() - start) * 1e3


async def command_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """How much longer a command hook takes than a rule hook, compared with a bare spawn of the same command and pipes."""
    keys, connections = Keys("bench"), bench_connections(url)
    hooks = f"""
hooks:
  - {{id: rule, on: tool:pre_execute:bash, rule: {{command: [mkfs], decision: deny, reason: no}}}}
  - {{id: command, on: tool:pre_execute:write, command: '{COMMAND}'}}
"""
    await apply(connections, keys, parse_hook_file(hooks, "fleet"))
    sent = event()
    body = json.dumps(sent.input).encode()

    async with bench_bus(url, "bench") as bus, process(url, "-m", "workers.cli", "worker", "evaluator"):
        await asyncio.sleep(POLL_SECONDS)

        async def extra() -> float:
            took = {"bash": 0.0, "write": 0.0}
            for tool in took:
                start = time.perf_counter()
                await bus.request(event_for(tool))
                took[tool] = time.perf_counter() - start
            return (took["write"] - took["bash"]) * 1e3

        async def bare() -> float:
            return await asyncio.to_thread(_bare_spawn, body)

        await extra()  # the first request opens connections
        one, other = await alternate(extra, bare, rounds, slices=sizes.processes, warm_ups=sizes.warm_ups)
    await connections.close()
    return [figure("command hook minus rule hook", "the same spawn with the same pipes", "ms", one, other, bar=1.3)]


def event_for(tool: str) -> Event:
    """The event of the request benchmark, for another tool."""
    return msgspec.structs.replace(event(), tool=tool)


def _bare_spawn(body: bytes) -> float:
    start = time.perf_counter()
    child = subprocess.Popen(
        ["/bin/sh", "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    child.communicate(body)
    return (time.perf_counter() - start) * 1e3
