"""Limits, facts and workflows: the time that they add to a request, against the same request to a rule without them."""

from __future__ import annotations

import statistics
from typing import Final

import msgspec

from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from workers.bench.placing import on_one_core, server_pid
from workers.bench.request import event, latency, process, put_in_force
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.server import bench_bus, bench_connections

ADDED_US: Final = 200.0
"""The most microseconds that a limit may add where it fits."""
_PLAIN: Final = """
hooks:
  - {id: plain, on: tool:pre_execute:write, rule: {decision: abstain, reason: it fits}}
  - {id: other, on: tool:pre_execute:bash, rule: {decision: abstain, reason: it fits}}
"""
_LIMITED: Final = """
hooks:
  - {id: plain, on: tool:pre_execute:write, rule: {decision: abstain, reason: it fits}}
  - {id: limited, on: tool:pre_execute:bash, rule: {limit: 10000 per second, reason: it fits}}
  - {id: facts, on: tool:pre_execute:read, when: 'session.repeats > 100', rule: {decision: deny, reason: a loop}}
"""


_WORKFLOW: Final = """
hooks:
  - {id: plain, on: tool:pre_execute, rule: {decision: abstain, reason: it fits}}
workflows:
  - name: measured
    steps:
      - name: one
        rules: [{tools: [bash], command_pattern: "^never"}]
        transitions: [{to: two, on: tool:pre_execute:read}]
      - name: two
        rules: [{tools: [bash], command_pattern: "^never"}]
        transitions: [{to: one, on: tool:pre_execute:read}]
    sources: [codex]
"""


async def workflow_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """What a workflow adds to a call that its step judges, and to one that takes it to the next step."""
    keys, connections, bus = Keys("bench"), bench_connections(url), bench_bus(url, "bench")
    plain = msgspec.structs.replace(event(), source="claude", session="bench")
    judged = msgspec.structs.replace(plain, source="codex", tool="bash", input={"command": "ls"})
    moving = msgspec.structs.replace(judged, tool="read", input={"path": "a.py"})
    figures: list[Figure] = []
    await apply(connections, keys, parse_hook_file(_WORKFLOW, "fleet"))

    async def without() -> float:
        return await latency(lambda: bus.request(plain), sizes.requests)

    async with process(url, "-m", "workers.cli", "worker", "evaluator"):
        for name, sent in (("a workflow whose step judges it", judged), ("a workflow that goes on to a step", moving)):

            async def inside(sent: Event = sent) -> float:
                return await latency(lambda: bus.request(sent), sizes.requests)

            ours, theirs = await alternate(inside, without, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
            figures.append(figure(f"request p50, {name}", "a session without the workflow", "us", ours, theirs))
    await bus.close()
    await connections.close()
    return figures


async def limit_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """What a limit adds where it fits, what facts add where they are read, and what both add where none fits."""
    keys, connections, bus = Keys("bench"), bench_connections(url), bench_bus(url, "bench")
    plain, limited, facts = (msgspec.structs.replace(event(), tool=tool) for tool in ("write", "bash", "read"))
    figures: list[Figure] = []
    await apply(connections, keys, parse_hook_file(_LIMITED, "fleet"))

    async def ours() -> float:
        return await latency(lambda: bus.request(limited), sizes.requests)

    async def with_facts() -> float:
        return await latency(lambda: bus.request(facts), sizes.requests)

    async def theirs() -> float:
        return await latency(lambda: bus.request(plain), sizes.requests)

    async with process(url, "-m", "workers.cli", "worker", "evaluator") as answering:
        for name, one in (("a limit that fits", ours), ("a condition that reads facts", with_facts)):
            with_it, without = await alternate(one, theirs, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
            figures.append(figure(f"request p50, {name}", "a rule that fits, without it", "us", with_it, without))
            added = [mine - other for mine, other in zip(with_it, without, strict=True)]
            bar = 1.0 if one is ours else None
            figures.append(
                figure(f"added by {name}", "the bar of 200 us", "us", added, [ADDED_US] * len(added), bar=bar)
            )
        server = await server_pid(url)
        few: list[float] = []
        full: list[float] = []
        sets = [parse_hook_file(text, "fleet") for text in (_PLAIN, _LIMITED)]
        for _ in range(rounds):
            for file, series in zip(sets, (few, full), strict=True):
                await put_in_force(bus, await apply(connections, keys, file))
                with on_one_core(server, answering):
                    series.append(statistics.median([await theirs() for _ in range(sizes.slices)]))
        figures.append(
            figure(
                "request p50, limits that do not fit",
                "the same without limits",
                "us",
                full,
                few,
                bar=1.1,
                note="all on one core",
            )
        )
    await bus.close()
    await connections.close()
    return figures
