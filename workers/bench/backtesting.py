"""How many recorded events a backtest judges in a second of CPU by the default guards, beside reading the same events.

The work is done in one process. We count its CPU time, which other processes of the machine do not change.
"""

from __future__ import annotations

import time
from typing import Final

from bus.config.file_types import GuardSettings
from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hooksets.guards import DEFAULT_PACKS, load_pack
from bus.hooksets.in_force import HookSet
from bus.ids import event_id
from bus.verdicts import Verdict
from bus.wire.codec import encode_event, encode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.server import bench_connections
from workers.runtime.process import collect_garbage_seldom
from workers.simulation.backtest import Backtest
from workers.simulation.candidate import Candidate, candidate
from workers.simulation.past_events import recorded_events

_NAMESPACE: Final = "bench-backtest"
_BAR: Final = 2_000.0
"""The least events in a second by rule hooks (X-04)."""
_CHUNK: Final = 200


async def backtest_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """Events in a second of CPU through the rules of both default guard packs, each event a different command line."""
    keys, connections = Keys(_NAMESPACE), bench_connections(url)
    file = HookFile(guards={name: GuardSettings() for name in DEFAULT_PACKS}).with_digest()
    tried = candidate(file, "the default guards", "fleet", HookSet([]), host="bench", path=None)
    collect_garbage_seldom()
    try:
        await _record(connections, keys, sizes.published)

        async def judge() -> float:
            return await _judged_per_second(connections, keys, tried)

        async def read() -> float:
            return await _read_per_second(connections, keys)

        ours, theirs = await alternate(judge, read, rounds, warm_ups=sizes.warm_ups)
    finally:
        await connections.close()
    return [
        figure(
            "backtest by the default guards", "2,000 a second", "events/CPU-s", ours, [_BAR], bar=1.0, sense="at least"
        ),
        figure("backtest beside reading", "reading and decoding the same events", "events/CPU-s", ours, theirs),
    ]


async def _record(connections: Connections, keys: Keys, count: int) -> None:
    """Record events as evaluators do: the guards' own tests, each with a comment of its own so that no line repeats."""
    lines = [case.event for name in DEFAULT_PACKS for case in load_pack(name).tests if "command" in case.event.input]
    verdict = encode_verdict(Verdict())
    commands = []
    for number in range(count):
        event = lines[number % len(lines)]
        body = encode_event(_numbered(event, number))
        fields = ("id", event_id(), "source", event.source, "host", "bench", "body", body, "verdict", verdict)
        commands.append(("XADD", keys("events"), "*", *fields))
    with connections.lease() as connection:
        for start in range(0, count, _CHUNK):
            await connection.exchange(commands[start : start + _CHUNK])


def _numbered(event: Event, number: int) -> Event:
    command = f"{event.input['command']} # {number}"
    return Event(type=event.type, source=event.source, tool=event.tool, cwd=event.cwd, input={"command": command})


async def _judged_per_second(connections: Connections, keys: Keys, tried: Candidate) -> float:
    begin = time.process_time()
    async with Backtest(tried, seconds=10.0, policy="allow") as run:
        await run.add_all(recorded_events(connections, keys, 0, 0))
    return run.judged / (time.process_time() - begin)


async def _read_per_second(connections: Connections, keys: Keys) -> float:
    begin, count = time.process_time(), 0
    async for page in recorded_events(connections, keys, 0, 0):
        count += len(page)
    return count / (time.process_time() - begin)
