"""Python plugins for tests: written to a file, enabled in a hook file, run in their own process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.hookfile import HookFile, load_hook_file
from workers.plugins.group import PluginGroup

HEAD = """
from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class Tested(HookPlugin):
    name = "tested"
"""


def plugin(body: str, name: str = "tested", head: str = "") -> str:
    """The source of a plugin with these members; `head` comes before its class."""
    text = HEAD.replace('"tested"', repr(name)).replace("class Tested", dedent(head) + "\n\nclass Tested")
    return text + indent(dedent(body), "    ")


DENIES = """
@hook_handler(HookEventType.BEFORE_TOOL, priority=10)
def check(self, event):
    if "forbidden" in str(event.data["tool_input"]):
        return HookResponse(decision="deny", reason="the plugin says no")
"""
"""Members that deny a tool call with the word `forbidden`."""


def enabled(folder: Path, sources: Mapping[str, str], hooks: str = "", **settings: Any) -> Path:
    """A hook file in `folder` that enables these plugins (name: source), each with `settings`."""
    entries = {}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        entries[name] = {"path": f"{name}.py", **settings}
    file = folder / "fleethook.yaml"
    file.write_text(f"plugins: {json.dumps(entries)}\n{hooks}", encoding="utf-8")
    return file


def read(file: Path) -> HookFile:
    """The hook file; fails where it has a mistake."""
    found = load_hook_file(file, "user")
    assert not found.problems, found.problems
    return found


def handler(file: HookFile, method: str, name: str = "tested") -> Hook:
    """The hook that stands for a handler."""
    return next(hook for hook in file.hooks if hook.plugin == name and hook.handler and hook.handler.method == method)


def tool_call(command: str = "ls", **more: Any) -> Event:
    """A tool call of Claude Code, before it runs."""
    fields = {
        "type": "tool:pre_execute",
        "source": "claude",
        "native": "PreToolUse",
        "tool": "bash",
        "native_tool": "Bash",
    }
    return Event(**{**fields, "input": {"command": command}, "session": "s1", "id": "e1", "time": 1_000, **more})


@asynccontextmanager
async def running(file: HookFile) -> AsyncIterator[PluginGroup]:
    """The file's plugins in one process, ended with the block."""
    group = PluginGroup(file.plugins, "user", "/")
    try:
        await group.settled()
        yield group
    finally:
        await group.close()
