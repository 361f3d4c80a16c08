"""What an install or uninstall does to each file, event by event (issue 11, section 3: `install` as a table)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.installs.base import NAMES
from bus.installs.manifest import InstallPlan, apply
from bus.installs.plan import plan_uninstall
from bus.system.directories import directories
from workers.admin.agent_setup import plan, where_is
from workers.admin.file_changes import FileSummary, event_names, install_changes, uninstall_changes

pytestmark = pytest.mark.req("B-08")


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with a project."""
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def planned(agent: str, *events: str) -> tuple[InstallPlan, FileSummary]:
    """The install of these events (default: all of use), and its one row."""
    change = plan(agent, "user", directories(), closed=False, events=events or None)
    (row,) = install_changes(change, "user", where_is())
    return change, row


@pytest.mark.parametrize("agent", NAMES)
def test_every_agent_is_one_row_that_is_new_then_unchanged_then_removed(agent: str) -> None:
    change, new = planned(agent)
    assert (new.state, new.updated, new.removed, new.kept) == ("new", (), (), ())
    assert new.files == len(change.changes)
    state = directories().state
    apply(change, state)
    again, kept = planned(agent)
    assert (again.changes, kept.state, sorted(kept.kept)) == ((), "unchanged", sorted(new.added))
    (gone,) = uninstall_changes(plan_uninstall(agent, state, where=where_is()))
    assert (gone.path, gone.state, sorted(gone.removed)) == (new.path, "removed", sorted(new.added))
    assert event_names([gone])["added"] == []


def test_what_others_changed_since_is_told_apart_by_event(person: Path) -> None:
    """An entry that somebody removed is added, one with another timeout is updated, one left out goes."""
    change, _ = planned("codex", "PreToolUse", "PostToolUse", "Stop")
    apply(change, directories().state)
    path = person / ".codex/hooks.json"
    text = path.read_text("utf-8")
    start = text.index('"PostToolUse"')
    path.write_text(text[:start] + text[start:].replace('"timeout": 30', '"timeout": 7', 1), "utf-8")
    _, row = planned("codex", "PreToolUse", "PostToolUse", "SessionStart")
    assert row == FileSummary(
        path=str(path),
        state="changed",
        added=("SessionStart",),
        updated=("PostToolUse",),
        removed=("Stop",),
        kept=("PreToolUse",),
    )


def test_a_script_that_was_edited_is_updated_though_its_command_is_its_path(person: Path) -> None:
    """Cline has a script for each event: one row for their folder."""
    change, new = planned("cline")
    apply(change, directories().state)
    script = Path(new.path) / "PreToolUse"
    assert script.parent == person / "Documents/Cline/Hooks"
    script.write_text(script.read_text("utf-8").replace(" -I ", " "), "utf-8")
    _, row = planned("cline")
    assert (row.path, row.state, row.updated, len(row.kept)) == (new.path, "changed", ("PreToolUse",), new.files - 1)
