"""The hooks that are installed on a host, as its workers read them for the others (X-15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.installs.base import InstallScope, Scope
from bus.installs.hook_command import Setup
from bus.installs.manifest import MANIFEST, apply
from bus.installs.plan import events_for, plan_install
from workers.coverage.installs import InstalledHooks, installed_here

pytestmark = pytest.mark.req("X-15")


@pytest.fixture
def where(tmp_path: Path) -> InstallScope:
    return InstallScope(tmp_path / "home", tmp_path / "home", {}, tmp_path / "machine")


def install(where: InstallScope, state: Path, agent: str, scope: Scope = "user") -> None:
    setup = Setup("/usr/bin/python3", "/data/agents/claude", events_for(agent))
    apply(plan_install(agent, scope, where, setup), state)


def only(where: InstallScope, state: Path) -> InstalledHooks:
    (file,) = installed_here(state, where)
    return file


def test_hooks_that_are_installed_removed_and_switched_off_are_told_apart(where: InstallScope, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert installed_here(state, where) == []
    install(where, state, "claude")
    file = only(where, state)
    assert (file.agent, file.path) == ("claude", str(where.home / ".claude/settings.json"))
    assert {"PreToolUse", "PostToolUse"} <= set(file.events)
    assert (file.removed, file.disabled, file.untrusted) == ((), (), ())

    path = Path(file.path)
    settings = json.loads(path.read_text())
    del settings["hooks"]["PreToolUse"]
    path.write_text(json.dumps({**settings, "disableAllHooks": True}))
    file = only(where, state)
    assert file.removed == ("PreToolUse",)
    assert "disableAllHooks" in file.disabled[0].what

    path.unlink()
    gone = only(where, state)
    assert (gone.events, "PreToolUse" in gone.removed) == ((), True)


def test_hooks_of_a_project_are_found_where_an_install_wrote_them(where: InstallScope, tmp_path: Path) -> None:
    state, project = tmp_path / "state", tmp_path / "shop"
    install(InstallScope(where.home, project, {}, where.root), state, "claude", "project")
    file = only(where, state)
    assert (file.path, "PreToolUse" in file.events) == (str(project / ".claude/settings.json"), True)


def test_hooks_that_codex_does_not_trust_are_named(where: InstallScope, tmp_path: Path) -> None:
    install(where, tmp_path / "state", "codex")
    assert "not trusted yet" in only(where, tmp_path / "state").untrusted[0].what


def test_a_list_of_installs_that_cannot_be_read_is_no_failure(where: InstallScope, tmp_path: Path) -> None:
    install(where, tmp_path / "state", "claude")
    (tmp_path / "state" / MANIFEST).write_text("{")
    assert "PreToolUse" in only(where, tmp_path / "state").events
