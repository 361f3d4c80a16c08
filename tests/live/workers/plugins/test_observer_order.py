"""The order of the handlers at 50 and above: by priority, whether they are async or not, and over several plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.config.hook_file_value import HookFile
from bus.hooksets.in_force import HookSet, Layered
from tests.support.plugins import enabled, plugin, read, tool_call
from tests.support.running import until_true
from tests.support.waiting import PATIENCE
from workers.plugins.host import PluginHost

HEAD = """import asyncio
LOG = {log!r}


def note(text):
    with open(LOG, "a") as file:
        file.write(text + " ")


async def later(text):
    for _ in range(50):
        await asyncio.sleep(0)
    note(text)
"""
MIXED = """
@hook_handler(HookEventType.BEFORE_TOOL, priority=50)
async def z_first(self, event):
    await later("50")

@hook_handler(HookEventType.BEFORE_TOOL, priority=55)
def plain(self, event, core_response):
    note("55")

@hook_handler(HookEventType.BEFORE_TOOL, priority=70)
async def a_late(self, event, core_response):
    await later("70a")

@hook_handler(HookEventType.BEFORE_TOOL, priority=70)
def b_late(self, event):
    note("70b")
"""
BETWEEN = """
@hook_handler(HookEventType.BEFORE_TOOL, priority=60)
async def between(self, event):
    await later("60")
"""


@pytest.mark.req("G-12")
async def test_observers_run_by_priority_and_then_by_registration(tmp_path: Path) -> None:
    log = tmp_path / "log"
    head = HEAD.format(log=str(log))
    sources = {"mixed": plugin(MIXED, "mixed", head=head), "between": plugin(BETWEEN, "between", head=head)}
    file: HookFile = read(enabled(tmp_path, sources))
    hooks, event = HookSet([Layered("user", "1", file)]), tool_call()
    host = PluginHost(lambda _event: hooks, "test-host")
    try:
        host.adopt(hooks)
        await host.settle(PATIENCE)
        for _ in range(3):
            host.observe(hooks.observers(event, None), event, None)
            await until_true(lambda: log.exists() and len(log.read_text().split()) == 5, "all have seen it")
            assert log.read_text().split() == ["50", "55", "60", "70a", "70b"]
            log.unlink()
    finally:
        await host.close()
