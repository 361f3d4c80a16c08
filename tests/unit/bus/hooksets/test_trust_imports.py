"""Trust covers what a project's file imports, and nothing of an untrusted folder does anything at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.hooksets.trust import covered_files, imported_files, is_trusted, trust
from bus.wire.connections import Connections
from bus.wire.keys import Keys

MANIFEST = {"name": "memory", "version": "1.0.0"}
FILES: dict[str, Any] = {
    "project/fleethook.yaml": {"import": [".pigo/config.json", "plugins", "../common/fleethook.yaml", "later.json"]},
    "project/.pigo/config.json": {
        "plugins": [{"name": "p", "hooks": {"tool_start": [{"command": "sh scripts/gate.sh"}]}}]
    },
    "project/scripts/gate.sh": "exit 0",
    "project/plugins/memory/.claude-plugin/plugin.json": MANIFEST,
    "project/plugins/memory/hooks/hooks.json": {
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "python3 ${CLAUDE_PLUGIN_ROOT}/check.py"}]}]}
    },
    "project/plugins/memory/check.py": "pass",
    "project/plugins/memory/notes.md": "not named",
    "common/fleethook.yaml": {"hooks": [{"on": "*", "command": "./shared.sh"}]},
    "common/shared.sh": "exit 0",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that imports three kinds of hooks, one of them from outside."""
    for name, value in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    (tmp_path / "project" / ".git").mkdir()
    return tmp_path / "project" / "fleethook.yaml"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The user's list."""
    return tmp_path / "state" / "trust.json"


@pytest.mark.req("G-20")
@pytest.mark.parametrize(
    "changed",
    [
        "project/.pigo/config.json",
        "project/scripts/gate.sh",
        "project/plugins/memory/hooks/hooks.json",
        "project/plugins/memory/check.py",
        "project/plugins/memory/.claude-plugin/plugin.json",
        "common/fleethook.yaml",
        "common/shared.sh",
    ],
)
def test_changed_imports_and_their_scripts_ask_again(project: Path, store: Path, tmp_path: Path, changed: str) -> None:
    trust(project, store)
    assert is_trusted(project, store)
    path = tmp_path / changed
    before, stamps = path.read_text(), path.stat()
    path.write_text(before.replace("exit 0", "exit 1").replace("pass", "exit") if before[0] != "{" else before + " ")
    assert not is_trusted(project, store)
    path.write_text(before)
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert is_trusted(project, store)
    path.unlink()
    assert not is_trusted(project, store)


def test_a_content_that_hides_behind_the_same_time_and_size_is_seen(project: Path, store: Path, tmp_path: Path) -> None:
    trust(project, store)
    script = tmp_path / "project/scripts/gate.sh"
    times = script.stat()
    script.write_text("exit 7")
    os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not is_trusted(project, store)


def test_what_appears_later_asks_again(project: Path, store: Path, tmp_path: Path) -> None:
    trust(project, store)
    (tmp_path / "project/plugins/memory/notes.md").write_text("changed, and named by nobody")
    assert is_trusted(project, store)
    (tmp_path / "project/later.json").write_text('{"plugins": []}')
    assert not is_trusted(project, store), "a file that was missing"
    trust(project, store)
    new = tmp_path / "project/plugins/another"
    (new / ".claude-plugin").mkdir(parents=True)
    (new / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "another"}))
    assert not is_trusted(project, store), "a plugin in an imported folder"


def test_what_is_shown_is_what_is_covered(project: Path, tmp_path: Path) -> None:
    shown = {os.path.relpath(one, tmp_path) for one in imported_files(project)}
    assert shown == {name for name in FILES if name.endswith((".json", ".yaml"))} - {"project/fleethook.yaml"}
    covered = {
        os.path.normpath(os.path.join("project", one)) if not os.path.isabs(one) else os.path.relpath(one, tmp_path)
        for one in covered_files(project)
    }
    assert set(FILES) - {"project/fleethook.yaml", "project/plugins/memory/notes.md"} <= covered
    alone = tmp_path / "alone" / "fleethook.yaml"
    alone.parent.mkdir()
    alone.write_text("hooks: []")
    assert covered_files(alone) == []


@pytest.mark.req("G-20")
def test_nothing_of_an_untrusted_folder_is_run_matched_or_read(
    project: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is full of traps: whoever opens one of its imports, or looks at its scripts, is caught."""
    monkeypatch.setattr("bus.hooksets.in_force.POLL_SECONDS", 0.0)
    watcher = Watcher(Connections(""), Keys("t"), host="h", user_file=None, trust_file=store)
    event = Event(type="tool:pre_execute", tool="bash", host="h", cwd=str(project.parent / "scripts"))
    opened: list[str] = []
    real = os.open

    def trap(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).startswith((str(tmp_path / "project"), str(tmp_path / "common"))):
            opened.append(str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", trap)
    for _ in range(2):
        found = watcher.for_event(event)
        assert (found.hooks, found.endpoints, found.layers) == ({}, {}, ())
    assert opened == [], "not even read"
    monkeypatch.setattr(os, "open", real)

    trust(project, store)
    assert len(watcher.for_event(event).hooks) == 3
    (tmp_path / "project/scripts/gate.sh").write_text("touch /tmp/owned")
    assert len(watcher.for_event(event).hooks) == 3, "what was trusted stays"
    assert "newer content waits for your trust" in watcher.for_event(event).waiting[0]
    trust(project, store)
    assert not any("newer content" in text for text in watcher.for_event(event).waiting)
    (tmp_path / "common/fleethook.yaml").write_text("hooks: [{on: '*', command: other}]")
    assert "other" not in {hook.command for hook in watcher.for_event(event).hooks.values()}
    assert watcher.for_event(event).waiting
