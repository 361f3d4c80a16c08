"""Python plugins: what a call costs beside a plain call, and what a plugin that misbehaves costs other hooks."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from bus.client import Bus
from bus.config.hook_file_value import HookFile
from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.system.directories import directories
from bus.testing.plugins_here import PluginsHere
from bus.wire.keys import Keys
from workers.bench.request import RULE, event, process
from workers.bench.rounds import Figure, Sizes, alternate, figure
from workers.bench.server import bench_connections
from workers.plugins.group import PluginGroup

MORE: Final = 150.0
"""The most microseconds that a call of a plugin may take more than a plain call of its handler, at the median."""
BESIDE: Final = 1.2
"""How much longer the 99th percentile of other hooks may be beside a plugin that misbehaves."""
_PER_SECOND: Final = 20.0
"""Calls of the plugin beside the requests that are measured."""
_MANY: Final = 4
"""Requests of one slice for a 99th percentile, as a multiple of those for a median."""

_SOURCE: Final = """
import os, signal, time
from bus.plugins import HookPlugin, HookResponse, hook_handler
{head}

class Measured(HookPlugin):
    name = "{name}"

    @hook_handler("tool:pre_execute:write", priority=10)
    def check(self, event):
        {body}
"""
_WELL: Final = "return None"
CASES: Final[dict[str, tuple[str, str]]] = {
    "in an endless loop": ("", "while True: pass"),
    "that crashes": ("", "os.kill(os.getpid(), signal.SIGSEGV)"),
    "that leaks": ("kept = []", "kept.append(bytearray(64 << 20))"),
    "that imports for 10 s": ("time.sleep(10)", _WELL),
    "that returns garbage": ("", "return object()"),
}
"""What is at the head of the plugin's file, and what its handler does."""


async def plugin_figures(url: str, rounds: int, sizes: Sizes) -> list[Figure]:
    """The cost of a call, then the 99th percentile of a rule beside each kind of plugin that misbehaves."""
    figures = [await _call_figure(rounds, sizes)]
    async with _fleet(url, "well", "", _WELL) as well:
        for number, (what, (head, body)) in enumerate(list(CASES.items())[: sizes.ills]):
            async with _fleet(url, f"ill-{number}", head, body) as ill:
                beside, before = await alternate(
                    lambda ill=ill: _p99(ill, sizes.requests * _MANY),  # type: ignore[misc]
                    lambda: _p99(well, sizes.requests * _MANY),
                    rounds,
                    slices=max(1, sizes.slices // 2),
                    warm_ups=sizes.warm_ups,
                )
            name = f"a rule's p99 beside a plugin {what}"
            figures.append(figure(name, "the same beside a plugin that does nothing", "us", beside, before, bar=BESIDE))
    return figures


async def _call_figure(rounds: int, sizes: Sizes) -> Figure:
    """The median of a handler's call in its process, against a plain call of the same handler and 150 µs."""
    file, sent = _published("call", "", _WELL), event()
    hook = next(hook for hook in file.hooks if hook.handler is not None)
    here, group = PluginsHere(file.plugins), PluginGroup(file.plugins, "fleet", "/")

    async def ours() -> float:
        took = []
        for _ in range(sizes.requests * _MANY):
            start = time.perf_counter()
            outcome = await group.run(hook, _fresh(sent), 10.0)
            took.append(time.perf_counter() - start)
            if outcome.failure:
                raise FleethookError(outcome.failure)
        return statistics.median(took) * 1e6

    async def theirs() -> float:
        took = []
        for _ in range(sizes.requests * _MANY):
            start = time.perf_counter()
            await here.run(hook, sent)
            took.append(time.perf_counter() - start)
        return statistics.median(took) * 1e6 + MORE

    try:
        await group.settled()
        one, other = await alternate(ours, theirs, rounds, slices=sizes.slices, warm_ups=sizes.warm_ups)
    finally:
        await group.close()
        await here.close()
    name = "a call of a plugin's handler, p50"
    return figure(name, f"a plain call of it in the evaluator, plus {MORE:g} us", "us", one, other, bar=1.0)


def _fresh(sent: Event) -> Event:
    """An equal event: one that was just sent is packed already."""
    return Event(
        type=sent.type, source=sent.source, session=sent.session, cwd=sent.cwd, tool=sent.tool, input=sent.input
    )


def _published(name: str, head: str, body: str) -> HookFile:
    """A hook set with a rule and a plugin, whose file is in the workers' own folder."""
    folder = directories().config / "plugins"
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, f"{name.replace('-', '_')}.py").write_text(
        _SOURCE.format(name=name, head=head, body=body), encoding="utf-8"
    )
    file = parse_hook_file(f"{RULE}\nplugins:\n  {name}: {{timeout: 1, memory: 256}}\n", "fleet")
    if file.problems:
        raise file.problems[0]
    return file


@asynccontextmanager
async def _fleet(url: str, name: str, head: str, body: str) -> AsyncIterator[Bus]:
    """An evaluator in a namespace of its own, with the rule and the plugin."""
    namespace = f"bench-{name}"
    connections = bench_connections(url)
    await apply(connections, Keys(namespace), _published(name, head, body))
    bus = Bus(url, namespace=namespace)
    try:
        async with process(url, "-m", "workers.cli", "worker", "evaluator", namespace=namespace, at_once=True):
            yield bus
    finally:
        await bus.close()
        await connections.close()


async def _p99(bus: Bus, count: int) -> float:
    """The 99th percentile of requests that only a rule judges, while others call the plugin."""
    calls: set[asyncio.Task[None]] = set()

    async def call() -> None:
        with suppress(FleethookError):
            await bus.request(Event(type="tool:pre_execute", tool="write", session=os.urandom(4).hex()), budget=2.0)

    async def keep_calling() -> None:
        while True:
            calls.add(task := asyncio.create_task(call()))
            task.add_done_callback(calls.discard)
            await asyncio.sleep(1 / _PER_SECOND)

    calling = asyncio.create_task(keep_calling())
    took = []
    for _ in range(count):
        start = time.perf_counter()
        await bus.request(event())
        took.append(time.perf_counter() - start)
    calling.cancel()
    await asyncio.wait({calling, *calls})
    took.sort()
    return took[min(len(took) - 1, int(len(took) * 0.99))] * 1e6
