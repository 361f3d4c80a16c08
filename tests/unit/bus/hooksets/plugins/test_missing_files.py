"""Who publishes plugins is told what other machines need: files are not published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.plugins.missing_files import not_published

GUARD = "from bus.plugins import HookPlugin\n\n\nclass Guard(HookPlugin):\n    name = 'guard'\n"


@pytest.mark.req("B-04", "G-13", "I-05")
def test_names_and_folders_are_published_and_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    root = tmp_path / "plug"
    (root / "hooks").mkdir(parents=True)
    hook = {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/x.sh"}
    (root / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    (tmp_path / "guard.py").write_text(GUARD)
    file = tmp_path / "fleethook.yaml"
    file.write_text("import: [{path: plug, dialect: claude}]\nplugins: {guard: {path: guard.py}}\n")
    python, claude = not_published(load_hook_file(file, "fleet"))
    own = tmp_path / "home" / "config" / "plugins"
    assert python == (
        f"{file}:2: only the name of the plugin 'guard' is published: every machine with a worker needs its file in {own}, or "
        "its package; a worker on this machine would not find it either"
    )
    assert f"which needs the same folder {root}; commands, skills, agents and MCP servers are not published" in claude
    own.mkdir(parents=True)
    (own / "guard.py").write_text(GUARD)
    python, _ = not_published(load_hook_file(file, "fleet"))
    assert python.endswith("or its package")
    file.write_text("hooks: [{on: 'session:start', command: 'true'}]")
    assert list(not_published(load_hook_file(file, "fleet"))) == []
