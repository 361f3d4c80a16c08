"""A hook of any system fires for the same tool of every agent: each tool that the vocabulary knows, through the index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooksets.in_force import HookSet, Layered
from bus.tools import TABLE, canonical_input, canonical_tool

CLAUDES = {
    "bash": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "task": "Task",
    "todo": "TodoWrite",
}
"""By canonical tool, the name that an author of hooks for Claude Code writes."""

OWN_NAMES = frozenset({"PowerShell", "Monitor", "NotebookRead", "MultiEdit"})
"""Tools beside the usual one for which Claude Code has names of their own: its authors have to write these."""

CALLS = [
    (source, native, use.tool)
    for source, tools in TABLE.items()
    for native, use in tools.items()
    if use.tool in CLAUDES
] + [("generic", tool, tool) for tool in CLAUDES]


def hooks(dialect: str, folder: Path, content: object) -> HookSet:
    path = folder / ("settings.json" if dialect == "claude" else f"{dialect}.json")
    path.write_text(json.dumps(content))
    file = find_hooks(dialect).read(path, "user")
    assert file.problems == ()
    return HookSet([Layered("user", "1", file)])


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HookSet]:
    """For each system one hook a tool, in that system's own name for it; the tool stands in the command."""
    folder = tmp_path_factory.mktemp("hooks")
    pigo = [{"command": f"check {tool}", "match": {"tool": tool}} for tool in CLAUDES]
    groups: list[dict[str, Any]] = [
        {"matcher": name, "hooks": [{"type": "command", "command": f"check {tool}"}]} for tool, name in CLAUDES.items()
    ]
    ruled = [{"hooks": [{"type": "command", "command": f"check {tool}", "if": name}]} for tool, name in CLAUDES.items()]
    forge = [{"event": f"tool:pre_execute:{tool}", "command": f"check {tool}"} for tool in CLAUDES]
    return {
        "pigo": hooks("pigo", folder, {"plugins": [{"name": "x", "hooks": {"tool_start": pigo}}]}),
        "forge": hooks("forge", folder, {"hooks": forge}),
        "claude": hooks("claude", folder, {"hooks": {"PreToolUse": groups}}),
        "claude's if": hooks("claude", folder, {"hooks": {"PreToolUse": ruled}}),
    }


@pytest.mark.req("X-01", "I-06", "P-03", "F-04")
@pytest.mark.parametrize("system", ["pigo", "forge", "claude", "claude's if"])
def test_every_agents_tool_meets_the_hook_for_it(system: str, systems: dict[str, HookSet]) -> None:
    missed = []
    for source, native, tool in CALLS:
        if system.startswith("claude") and native in OWN_NAMES:
            continue
        event = Event(
            type="tool:pre_execute",
            source=source,
            native_tool=native,
            tool=canonical_tool(source, native),
            input=canonical_input(source, native, {}),
        )
        met = [hook.command for hook in systems[system].blocking(event)]
        if f"check {tool}" not in met:
            missed.append((source, native, met))
    assert missed == []
