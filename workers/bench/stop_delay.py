"""One stop for all: how long after the command a call of 500 simulated hosts still passes.

Each host is an agent's hook command that asks the bus as fast as it gets answers, with a short pause. The hosts and two
evaluators share the machine, so a call waits for the processor too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from bus.errors import FleethookError
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.shim.answer import unpack_answer
from bus.transport import Fields, Transport
from bus.wire.codec import encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.bench.request import process
from workers.bench.rounds import Figure, Sizes, figure
from workers.bench.server import bench_connections
from workers.bench.spawning import PAYLOAD
from workers.fleet_control.stops import lift_stops, place_stop

HOSTS: Final = 500
BAR_MS: Final = 1_000.0
_PAUSE: Final = 0.5
"""Seconds between an answer and the host's next call: 500 hosts make about 1,000 calls a second."""
_PATIENCE: Final = 60.0
_HOOKS: Final = (
    'hooks:\n  - {id: no-rm, on: tool:pre_execute, rule: {decision: deny, command: ["^rm"], reason: no rm}}\n'
)


class _Hosts(NamedTuple):
    """What the simulated hosts have seen, by monotonic time."""

    passed: list[float]
    """When each host's last call passed."""
    denied: list[float]


async def stop_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The worst host of each round."""
    count = HOSTS if sizes.processes > 2 else 20
    keys, connections = Keys("bench"), bench_connections(url)
    await apply(connections, keys, parse_hook_file(_HOOKS, "fleet"))  # another part's rules may hold every call
    worker = ("-m", "workers.cli", "worker", "evaluator")
    delays: list[float] = []
    async with process(url, *worker), process(url, *worker):
        seen = _Hosts([0.0] * count, [0.0] * count)
        calls = [asyncio.create_task(_call(connections, keys, number, seen)) for number in range(count)]
        try:
            await _until(partial(_all_after, seen.passed, 0.0), calls)
            for _ in range(rounds):
                start = time.monotonic()
                await place_stop(connections, keys, by="fleethook bench")
                done = time.monotonic()  # the command's own time counts, if no call passes after it
                await _until(partial(_all_after, seen.denied, start), calls)
                delays.append((max(done, *seen.passed) - start) * 1e3)
                start = time.monotonic()
                await lift_stops(connections, keys, by="fleethook bench")
                await _until(partial(_all_after, seen.passed, start), calls)
        finally:
            for one in calls:
                one.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            with contextlib.suppress(FleethookError):
                await lift_stops(connections, keys, by="fleethook bench")
            await connections.close()
    name = f"stop: the last call of {count} hosts that passes, after the command"
    return [figure(name, "the bar of 1 s", "ms", [max(delays)], [BAR_MS], bar=1.0, note=f"worst of {rounds} stops")]


async def _call(connections: Connections, keys: Keys, number: int, seen: _Hosts) -> None:
    """One host: its calls, one after the other, until it is cancelled."""
    transport = Transport(connections, keys)
    await asyncio.sleep(_PAUSE * number / HOSTS)
    while True:
        entry: Fields = (
            *("id", event_id(), "source", "claude", "event", "PreToolUse", "policy", "allow"),
            *("host", f"host-{number}", "flag", "none", "body", encode_payload(PAYLOAD)),
        )
        raw = await transport.ask(entry, time.monotonic() + _PATIENCE)
        denied = b'"deny"' in unpack_answer(raw).stdout
        (seen.denied if denied else seen.passed)[number] = time.monotonic()
        await asyncio.sleep(_PAUSE)


def _all_after(times: list[float], start: float) -> bool:
    return min(times) > start


async def _until(holds: Callable[[], bool], calls: list[asyncio.Task[None]]) -> None:
    """Return when it holds; raises what a host raised, and FleethookError after a minute."""
    until = time.monotonic() + _PATIENCE
    while not holds():
        for one in calls:
            if one.done():
                one.result()
        if time.monotonic() > until:
            raise FleethookError(f"not every host was answered within {_PATIENCE:g} s")
        await asyncio.sleep(0.01)
