"""Hooks that Claude Code reads too run once for its own events, and for every other agent's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.events import Event
from bus.hooks import Layer
from bus.hooksets.hookfile import HookFile, load_hook_file
from bus.hooksets.in_force import HookSet, Layered

HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}


def put(path: Path, value: Any) -> Path:
    """A file: text as it is, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def call(transcript: object, cwd: Path | str = "/p", source: str = "claude") -> Event:
    """A call of Claude Code's shell, as a session says it whose transcript lies there."""
    payload = {
        "session_id": "s",
        "transcript_path": transcript,
        "cwd": str(cwd),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    return find(source).read("PreToolUse", json.dumps(payload).encode())


def imported(tmp_path: Path, path: Path, layer: Layer = "user") -> HookFile:
    """What a file that imports this path holds."""
    return load_hook_file(put(tmp_path / "fleethook.yaml", f"import: [{{path: '{path}', dialect: claude}}]"), layer)


def runs(read: HookFile, event: Event, layer: Layer = "user") -> bool:
    """Whether its hook runs for the event."""
    return bool(HookSet([Layered(layer, "1", read)]).blocking(event))


@pytest.mark.req("I-01", "I-08")
def test_a_session_that_has_read_the_users_settings_runs_their_hooks_itself(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".claude"
    read = imported(tmp_path, put(folder / "settings.json", {"hooks": HOOKS}))
    mine = f"{folder}/projects/-p/s.jsonl"
    assert not runs(read, call(mine))
    assert runs(read, call(mine), "fleet"), "what was published came from another machine"
    assert runs(read, call("/moved/projects/-p/s.jsonl")), "a session with another CLAUDE_CONFIG_DIR"
    for nothing in ("", None, 5, "s.jsonl"):
        assert runs(read, call(nothing)), "in doubt it runs"
    assert runs(read, call(mine, source="codex"))
    (said,) = read.warnings
    assert said.startswith(f"{folder}/settings.json:1: Claude Code runs the hooks of this file itself (1)")


def test_a_moved_configuration_and_settings_that_nobody_else_reads(tmp_path: Path) -> None:
    moved = put(tmp_path / "config" / "settings.json", {"hooks": HOOKS})
    (moved.parent / "projects").mkdir()
    assert not runs(imported(tmp_path, moved), call(f"{moved.parent}/projects/-p/s.jsonl"))
    alone = imported(tmp_path, put(tmp_path / "team" / "settings.json", {"hooks": HOOKS}))
    assert runs(alone, call(f"{tmp_path}/team/projects/-p/s.jsonl"))
    assert not alone.warnings


def test_a_projects_settings_are_read_by_the_sessions_of_that_project(tmp_path: Path) -> None:
    project = tmp_path / "my.repo"
    read = imported(tmp_path, put(project / ".claude" / "settings.local.json", {"hooks": HOOKS}), "project")
    name = str(project).replace("/", "-").replace(".", "-").replace("_", "-")
    assert not runs(read, call(f"/home/u/.claude/projects/{name}/s.jsonl", project / "src"), "project")
    other = str(tmp_path / "my-repo")
    assert runs(read, call(f"/home/u/.claude/projects/{name}/s.jsonl", other), "project"), "another of the same name"
    assert runs(read, call(f"/home/u/.claude/projects/{name}-src/s.jsonl", project / "src"), "project"), (
        "a session that began further down has not read them"
    )


def test_a_plugin_counts_where_claude_code_has_it_installed_and_enabled(tmp_path: Path) -> None:
    config = tmp_path / ".claude"
    plugin = config / "plugins" / "cache" / "market" / "guard" / "1.0"
    put(plugin / ".claude-plugin" / "plugin.json", {"name": "guard", "hooks": HOOKS})
    event = call(f"{config}/projects/-p/s.jsonl")
    assert runs(imported(tmp_path, plugin), event)
    settings = put(config / "settings.json", {"enabledPlugins": {"guard@market": True}})
    read = imported(tmp_path, plugin)
    assert not runs(read, event)
    assert str(settings) in {one.path for one in read.sources}, "switched off there, it runs here within a second"
    project = imported(tmp_path, plugin, "project")
    assert runs(project, event, "project")
    assert str(settings) not in {one.path for one in project.sources}, "or trust would end with every change of a model"
    put(settings, {"enabledPlugins": {"guard@market": False}})
    assert runs(imported(tmp_path, plugin), event)
    put(settings, "{")
    assert runs(imported(tmp_path, plugin), event)
