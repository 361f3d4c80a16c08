"""The agents' own settings: what is written, that nothing else changes, and that the undo is exact."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bus.errors import ConfigError
from bus.installs.base import InstallScope, Scope
from bus.installs.hook_command import Setup, hook_command
from bus.installs.manifest import MANIFEST, FileChange, InstallPlan, apply, undo
from bus.installs.plan import diff, events_for, plan_install, plan_uninstall

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
OLD = """{
    "model": "opus",  "permissions": {"allow": ["Bash(ls:*)", "Read"],
        "deny": []},
    "temperature": 1e0,
    "hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [ {"type": "command", "command": "fleethook-like --mine"} ] }
        ],
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": "mk"}]}]
    },
    "env": {"API_KEY": "sk-ant-REDACTED", "NOTE": "caf\u00e9"}
}
"""


class Place:
    """A home, a project and a state directory of this test alone."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.state = root / "home", root / "proj", root / "state"
        self.where = InstallScope(self.home, self.project, {}, root / "machine")
        self.file = self.home / ".claude/settings.json"

    def write(self, text: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(text.encode())

    def plan(
        self, events: Iterable[str] | None = None, *, python: str = "/usr/bin/py 3", scope: Scope = "user"
    ) -> InstallPlan:
        return plan_install("claude", scope, self.where, _setup(events_for("claude", events), python))

    def settings(self) -> Any:
        return json.loads(self.file.read_bytes())

    def left(self) -> list[str]:
        return sorted(path.name for path in self.file.parent.iterdir()) if self.file.parent.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _setup(events: Iterable[str] = (), python: str = "/usr/bin/py 3") -> Setup:
    return Setup(python, "/data/fleethook/agents/claude", tuple(events))


def _install(place: Place, events: Iterable[str] | None = None, **more: Any) -> tuple[Path, ...]:
    return apply(place.plan(events, **more), place.state, now=NOW)


def _uninstall(place: Place) -> InstallPlan:
    plan = plan_uninstall("claude", place.state, where=place.where)
    undo(plan, place.state)
    return plan


@pytest.mark.req("B-08")
def test_a_fresh_install_and_its_undo_leave_no_trace(place: Place) -> None:
    assert _install(place) == ()
    assert set(place.settings()["hooks"]) == set(events_for("claude"))
    assert not {"MessageDisplay", "WorktreeCreate", "FileChanged"} & set(place.settings()["hooks"])
    assert place.settings()["hooks"]["Stop"] == [
        {"hooks": [{"type": "command", "command": hook_command(_setup(), "claude", "Stop"), "timeout": 600}]}
    ]
    assert oct((place.state / MANIFEST).stat().st_mode & 0o777) == "0o600"
    _uninstall(place)
    assert not place.file.parent.exists()


@pytest.mark.req("B-08")
def test_an_install_adds_its_entries_and_changes_no_other_character(place: Place) -> None:
    place.write(OLD)
    place.file.chmod(0o640)
    plan = place.plan(events=["PreToolUse", "Stop"])
    shown = diff(plan)
    removed = [line for line in shown.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert len(removed) == 2  # the lines that get a comma
    assert "sk-ant" not in shown

    (backup,) = apply(plan, place.state, now=NOW)
    assert backup.name == "settings.json.fleethook-backup-20261121T220000Z"
    assert backup.read_text() == OLD
    assert {oct(path.stat().st_mode & 0o777) for path in (backup, place.file)} == {"0o640"}
    text = place.file.read_text()
    mine = '{ "matcher": "Bash", "hooks": [ {"type": "command", "command": "fleethook-like --mine"} ] }'
    for untouched in ('"model": "opus"', '["Bash(ls:*)", "Read"],\n        "deny": []}', "1e0", "caf\u00e9", mine):
        assert untouched in text
    assert list(place.settings()) == list(json.loads(OLD))
    assert '\n                "matcher": "*",\n' in text  # four spaces a level, as in the rest
    groups = place.settings()["hooks"]["PreToolUse"]
    assert [group["matcher"] for group in groups] == ["Bash", "*"]

    _uninstall(place)
    assert place.file.read_text() == OLD
    assert place.left() == ["settings.json"]


@pytest.mark.req("B-08")
def test_a_second_install_changes_no_byte(place: Place) -> None:
    place.write(OLD)
    _install(place)
    before = place.file.read_bytes()
    plan = place.plan()
    assert plan.changes == ()
    assert diff(plan) == ""
    assert apply(plan, place.state) == ()
    assert place.file.read_bytes() == before


@pytest.mark.req("B-08")
def test_an_install_after_an_install_replaces_ours_and_still_undoes_to_the_first(place: Place) -> None:
    place.write(OLD)
    _install(place)
    assert _install(place, events=["Stop"], python="/other/py") == ()
    hooks = place.settings()["hooks"]
    assert list(hooks) == ["PreToolUse", "WorktreeCreate", "Stop"]
    assert "[ -x /other/py ]" in hooks["Stop"][0]["hooks"][0]["command"]
    assert len(hooks["PreToolUse"]) == 1
    _uninstall(place)
    assert place.file.read_text() == OLD


@pytest.mark.req("B-08")
def test_from_a_file_that_the_user_changed_only_ours_goes(place: Place) -> None:
    place.write(OLD)
    _install(place)
    settings = place.settings()
    settings["model"] = "sonnet"
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "mine"})
    place.write(json.dumps(settings, indent="\t"))
    (change,) = plan_uninstall("claude", place.state, where=place.where).changes
    assert change.after is not None
    plan = _uninstall(place)
    assert "only fleethook's own entries" in plan.warnings[0]
    expected = json.loads(OLD)
    expected["model"] = "sonnet"
    expected["hooks"]["Stop"] = [{"hooks": [{"type": "command", "command": "mine"}]}]
    assert place.settings() == expected
    assert place.file.read_text() == json.dumps(expected, indent="\t")
    assert any("backup" in name for name in place.left())  # the old bytes are still to be had


@pytest.mark.req("B-08")
def test_an_undo_without_the_record_still_removes_ours_alone(place: Place) -> None:
    place.write(OLD)
    _install(place)
    (place.state / MANIFEST).unlink()
    plan = plan_uninstall("claude", place.state, where=place.where)
    undo(plan, place.state)
    assert place.settings() == json.loads(OLD)
    assert plan_uninstall("claude", place.state, where=place.where).changes == ()


@pytest.mark.req("B-08")
def test_reinstalling_over_a_changed_file_never_brings_old_entries_back(place: Place) -> None:
    place.write(OLD)
    _install(place)
    place.write(place.file.read_text().replace('"opus"', '"haiku"'))
    (backup,) = _install(place, events=["Stop"])
    assert backup.name.endswith("Z-1")
    _uninstall(place)
    assert place.settings() == json.loads(OLD) | {"model": "haiku"}


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("text", "place_named"),
    [
        ('{"a": 1, x}', "1:10"),
        ("", "1:1"),
        ("{} // note", "1:4"),
        ("[]", "1:1"),
        ('{"hooks": []}', "hooks"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop"),
        ('{"a": 1, "a": 2}', "twice"),
        ("\udcff", "UTF-8"),
    ],
)
def test_settings_that_cannot_be_read_are_refused_and_kept(place: Place, text: str, place_named: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    place.write("")
    place.file.write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        place.plan()
    assert str(place.file) in str(caught.value)
    assert place_named in str(caught.value)
    assert place.file.read_bytes() == raw


@pytest.mark.req("B-08")
def test_a_file_that_changed_since_the_diff_is_not_touched(place: Place) -> None:
    place.write(OLD)
    plan = place.plan()
    place.write('{"new": 1}')
    with pytest.raises(ConfigError, match="changed meanwhile"):
        apply(plan, place.state)
    assert place.settings() == {"new": 1}
    assert place.left() == ["settings.json"]


@pytest.mark.req("B-08")
def test_a_linked_settings_file_stays_a_link(place: Place, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    place.file.parent.mkdir(parents=True)
    place.file.symlink_to(real)
    _install(place)
    assert place.file.is_symlink()
    assert "hooks" in json.loads(real.read_text())
    _uninstall(place)
    assert real.read_text() == "{}"


@pytest.mark.req("B-08")
def test_unknown_agents_and_events_are_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="no event 'Nope'"):
        place.plan(events=["Nope"])
    with pytest.raises(ConfigError, match="does not know the agent"):
        plan_install("vim", "user", place.where, _setup())
    assert diff(InstallPlan("claude", ())) == ""
    assert "/dev/null" in diff(InstallPlan("claude", (FileChange(place.file, b"{}\n", None),)))


@pytest.mark.req("B-08", "I-01")
def test_the_settings_that_subscribe(place: Place) -> None:
    """A matcher where there is a tool, seconds, and Claude Code's own switch where it fails closed."""
    setup = Setup("/py", "/answers", (*events_for("claude"), "WorktreeCreate"), fail_closed=True)
    apply(plan_install("claude", "user", place.where, setup), place.state)
    hooks = place.settings()["hooks"]
    assert "WorktreeCreate" not in hooks  # a hook that only looks makes creating one fail
    (group,) = hooks["PreToolUse"]
    assert group["matcher"] == "*"
    (handler,) = group["hooks"]
    assert (handler["type"], handler["timeout"], handler["onFailure"]) == ("command", 600, "block")
    assert "matcher" not in hooks["Stop"][0]
    assert hooks["SessionEnd"][0]["hooks"][0]["timeout"] == 2
    assert [event for event in hooks if "onFailure" in hooks[event][0]["hooks"][0]] == [
        "UserPromptSubmit",
        "UserPromptExpansion",
        "PreToolUse",
        "PermissionRequest",
    ]
