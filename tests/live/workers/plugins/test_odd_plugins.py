"""Plugins in odd but legal forms, enabled in a user's file and asked by a real evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.plugins import enabled, read, running, tool_call
from tests.support.running import HOST, evaluating, put, verdict
from tests.support.servers import Server

pytestmark = [pytest.mark.live, pytest.mark.req("G-11", "G-12", "G-13")]

MADE = '''
"""Handlers that no plain decorator shows: by an alias, by partial, assigned, and below an `if`; loops inside plain ones."""
import asyncio
import functools

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

before_tool = hook_handler(HookEventType.BEFORE_TOOL, priority=10)
early = functools.partial(hook_handler, priority=5)


class Made(HookPlugin):
    name = "made"

    @before_tool
    def guard(self, event):
        if event.data["tool_input"]["command"] == "made":
            return HookResponse("deny", None, None, "an alias")

    @early(HookEventType.BEFORE_AGENT)
    async def prompt(self, event):
        await asyncio.sleep(0)
        return HookResponse(context="a partial: " + event.data["prompt"])

    def _compact(self, event):
        return HookResponse(decision="deny", reason="assigned")

    compact = hook_handler("pre-compact", 30)(_compact)

    if True:

        @hook_handler(HookEventType.SESSION_START, priority=1)
        def begin(self, event):
            loop = asyncio.new_event_loop()
            try:
                return HookResponse(context=asyncio.run(later()) + loop.run_until_complete(later()))
            finally:
                loop.close()


async def later():
    await asyncio.sleep(0)
    return "looped "
'''

STACKED = '''
"""One method for several events; Gobby's loader took the outermost alone, and a stop is one call by either name."""
from gobby.hooks import HookEventType, HookPlugin, HookResponse, hook_handler

LOW = 10


class Stacked(HookPlugin):
    name = "stacked"

    @hook_handler(event_type=HookEventType.BEFORE_TOOL, priority=LOW)
    @hook_handler(HookEventType.BEFORE_AGENT, priority=20)
    def both(self, event):
        return HookResponse(context="saw " + event.event_type.value)

    @hook_handler(HookEventType.STOP, priority=40)
    @hook_handler(HookEventType.AFTER_AGENT, priority=40)
    def stop(self, event):
        return HookResponse(context="stopped")

    @hook_handler(HookEventType.SUBAGENT_STOP, priority=LOW * 2)
    @hook_handler(HookEventType.SUBAGENT_START, priority=40)
    def computed(self, event):
        return HookResponse(context="saw " + event.event_type.value)
'''

PARTS = '''
"""Several files: by a relative import, and by a folder that it puts on the path itself."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from parts_words import WORD
from .parts_check import check
from gobby.hooks.plugins import HookPlugin, hook_handler
from gobby.hooks.events import HookEventType, HookResponse


class Parts(HookPlugin):
    name = "parts"

    def on_load(self, config):
        self.register_condition("ready", self.ready)

    async def ready(self):
        return False

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def guard(self, event):
        return HookResponse(decision="block", reason=WORD) if check(event.data) else None
'''

SOURCES = {"made": MADE, "stacked": STACKED, "parts": PARTS}


def event(kind: str, **more: Any) -> Event:
    fields = {"tool": "", "native_tool": "", "input": {}, "native": "", "host": HOST}
    return tool_call(**{**fields, "type": kind, **more})


async def test_handlers_in_odd_forms_take_part(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    (tmp_path / "parts_words.py").write_text("WORD = 'two files'\n")
    (tmp_path / "parts_check.py").write_text("def check(data):\n    return 'parts' in str(data['tool_input'])\n")
    file = enabled(tmp_path, SOURCES)
    read(file)

    async def asked(of: Event) -> Verdict:
        _, reply = await put(connections, keys, of, event=of.type, source=of.source)
        found = await verdict(connections, reply)
        assert not any("plugin" in note for note in found.notes), found.notes
        return found

    async with evaluating(server.url, keys, user_file=file):

        async def bash(command: str) -> Verdict:
            return await asked(tool_call(command, host=HOST))

        assert (await bash("made")).reason == "an alias"
        assert (await bash("parts")).reason == "two files"
        assert (await bash("ls")).contexts == ("saw before_tool",)
        prompted = await asked(event("user:prompt_submit", data={"prompt": "hi"}))
        assert sorted(prompted.contexts) == ["a partial: hi", "saw before_agent"]
        assert (await asked(event("context:pre_compact"))).reason == "assigned"
        assert (await asked(event("session:start"))).contexts == ("looped looped ",)
        assert (await asked(event("agent:stop"))).contexts == ("stopped",), "one call, though both names fit"
        for name in ("subagent:start", "subagent:stop"):
            assert (await asked(event(name))).contexts == (f"saw {name.replace(':', '_')}",)


async def test_an_asynchronous_condition_is_awaited(tmp_path: Path) -> None:
    for name in ("parts_words", "parts_check"):
        (tmp_path / f"{name}.py").write_text("WORD = ''\ncheck = bool\n")
    async with running(read(enabled(tmp_path, {"parts": PARTS}))) as group:
        assert await group.invoke("parts", "condition", "ready", {}, 30) is False
