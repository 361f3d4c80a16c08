"""The agents' own settings: what is written, that nothing else changes, and that the undo is exact."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus import launcher
from bus.dialects import find
from bus.errors import ConfigError
from bus.installing import (
    MANIFEST,
    Change,
    Plan,
    answer_events,
    apply,
    default_events,
    diff,
    hook_command,
    plan_install,
    plan_uninstall,
    undo,
)
from bus.jsontext import rewrite

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
        self.file = self.home / ".claude/settings.json"

    def write(self, text: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(text.encode())

    def plan(self, **more: Any) -> Plan:
        given: dict[str, Any] = {"command_for": _command, "managed": ()}
        return plan_install("claude", "user", home=self.home, project=self.project, **(given | more))

    def settings(self) -> Any:
        return json.loads(self.file.read_bytes())

    def left(self) -> list[str]:
        return sorted(path.name for path in self.file.parent.iterdir()) if self.file.parent.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _command(event: str) -> str:
    return hook_command("/usr/bin/py 3", "claude", event, "/data/fleethook/agents/claude")


def _install(place: Place, **more: Any) -> tuple[Path, ...]:
    return apply(place.plan(**more), place.state, now=NOW)


def _uninstall(place: Place) -> Plan:
    plan = plan_uninstall("claude", place.state)
    undo(plan, place.state)
    return plan


@pytest.mark.req("B-08")
def test_a_fresh_install_and_its_undo_leave_no_trace(place: Place) -> None:
    assert _install(place) == ()
    assert set(place.settings()["hooks"]) == set(default_events(find("claude")))
    assert not {"MessageDisplay", "WorktreeCreate", "FileChanged"} & set(place.settings()["hooks"])
    assert place.settings()["hooks"]["Stop"] == [
        {"hooks": [{"type": "command", "command": _command("Stop"), "timeout": 30}]}
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
    assert _install(place, events=["Stop"], command_for=lambda event: f"other {event} # fleethook") == ()
    hooks = place.settings()["hooks"]
    assert list(hooks) == ["PreToolUse", "WorktreeCreate", "Stop"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "other Stop # fleethook"
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
    (change,) = plan_uninstall("claude", place.state).changes
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
    plan = plan_uninstall("claude", place.state, paths=[place.file])
    undo(plan, place.state)
    assert place.settings() == json.loads(OLD)
    assert plan_uninstall("claude", place.state, paths=[place.file]).changes == ()


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
        ('{"a": 1,}', "1:9"), ("", "1:1"), ("{} // note", "1:4"), ("[]", "1:1"), ('{"hooks": []}', "hooks"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop"), ('{"a": 1, "a": 2}', "twice"), ("\udcff", "UTF-8"),
    ],
)  # fmt: skip
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
def test_what_switches_hooks_off_is_said(place: Place, tmp_path: Path) -> None:
    place.write('{"disableAllHooks": true}')
    managed = tmp_path / "managed.json"
    managed.write_text('{"allowManagedHooksOnly": true}')
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    told = place.plan(managed=(managed, broken)).warnings
    words = ("disableAllHooks", "allowManagedHooksOnly", "cannot be read")
    assert [word in text for word, text in zip(words, told, strict=True)] == [True] * 3
    shared = plan_install("claude", "project", home=place.home, project=place.project, command_for=_command, managed=())
    assert "shared with its repository" in shared.warnings[-1]
    assert shared.changes[0].path == place.project / ".claude/settings.json"


@pytest.mark.req("B-08")
def test_unknown_agents_and_events_are_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="no event 'Nope'"):
        place.plan(events=["Nope"])
    with pytest.raises(ConfigError, match="does not know the agent"):
        plan_install("vim", "user", home=place.home, project=place.project, command_for=_command)
    assert diff(Plan("claude", ())) == ""
    assert "/dev/null" in diff(Plan("claude", (Change(place.file, b"{}\n", None),)))


@pytest.mark.req("B-08")
def test_the_answer_file_knows_deadlines_and_fallbacks() -> None:
    dialect = find("claude")
    lines = {line.name: line for line in answer_events(dialect, dialect.capabilities, fail_closed=True)}
    assert (lines["PreToolUse"].mode, lines["PreToolUse"].deadline_ms, lines["PreToolUse"].policy) == (
        "request",
        10_000,
        "deny",
    )
    assert b'"permissionDecision":"deny"' in lines["PreToolUse"].fallback.stdout
    assert (lines["Stop"].policy, lines["Stop"].fallback.exit_code) == ("allow", 0)
    assert b"decision" not in lines["Stop"].fallback.stdout
    assert b"systemMessage" in lines["Stop"].fallback.stdout
    assert (lines["SessionEnd"].mode, lines["SessionEnd"].deadline_ms) == ("publish", 1_000)
    assert lines["SessionEnd"].fallback.stdout == b""
    assert lines["MessageDisplay"].deadline_ms == 9_000
    assert {line.policy for line in answer_events(dialect, dialect.capabilities)} == {"allow"}


def _run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=20, stdin=subprocess.DEVNULL
    )


@pytest.mark.req("B-08")
@pytest.mark.parametrize("gone", ["python", "launcher"])
def test_the_command_of_a_removed_fleethook(tmp_path: Path, gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    python = str(tmp_path / "no py") if gone == "python" else sys.executable
    if gone == "launcher":
        monkeypatch.setattr(launcher, "__file__", str(tmp_path / "it's gone.py"))

    def command(event: str, *, fail_closed: bool) -> str:
        return hook_command(python, "claude", event, tmp_path / "answers", fail_closed=fail_closed)

    for event in ("PreToolUse", "Stop"):
        opened = _run(command(event, fail_closed=False))
        assert (opened.returncode, opened.stdout, opened.stderr) == (0, "", "")
    closed = _run(command("PreToolUse", fail_closed=True))
    assert (closed.returncode, closed.stdout) == (2, "")
    assert "install fleethook again" in closed.stderr
    assert _run(command("Stop", fail_closed=True)).returncode == 0
    asked = _run(command("PermissionRequest", fail_closed=True))
    assert asked.returncode == 0
    assert json.loads(asked.stdout)["hookSpecificOutput"]["decision"]["behavior"] == "deny"


@pytest.mark.req("B-08")
@pytest.mark.parametrize("fail_closed", [False, True])
def test_the_command_runs_the_launcher_with_these_words(
    tmp_path: Path, fail_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "a launcher's; echo.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    monkeypatch.setattr(launcher, "__file__", str(script))
    answers = tmp_path / "$(touch pwned) 'fleethook'"
    ran = _run(hook_command(sys.executable, "claude", "PreToolUse", answers, fail_closed=fail_closed))
    assert ran.returncode == 7
    assert ran.stdout.strip() == str(["claude", "PreToolUse", str(answers), *(["closed"] if fail_closed else [])])


@pytest.mark.req("B-08")
def test_the_real_launcher_answers_by_policy_where_the_answer_file_is_missing(tmp_path: Path) -> None:
    def run(*, fail_closed: bool) -> int:
        command = hook_command(sys.executable, "claude", "PreToolUse", tmp_path / "none", fail_closed=fail_closed)
        return _run(command).returncode

    assert (run(fail_closed=False), run(fail_closed=True)) == (0, 2)
    assert shlex.split(_command("Stop"), comments=True)[-2].endswith("claude;")
    assert os.path.isabs(launcher.__file__)


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
OBJECTS: Any = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
DUMPS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, indent=2) + "\n",
    lambda value: json.dumps(value, indent="\t", ensure_ascii=False).replace("\n", "\r\n"),
    lambda value: " " + json.dumps(value, separators=(",", ":")) + "\n\n",
]


@pytest.mark.req("B-08")
@given(OBJECTS, OBJECTS, st.sampled_from(DUMPS))
def test_rewriting_a_text_gives_the_new_value_and_keeps_the_same_one(
    old: dict[str, Any], new: dict[str, Any], dump: Callable[[Any], str]
) -> None:
    text = dump(old)
    assert rewrite(text, old) == text
    merged = old | new
    assert json.loads(rewrite(text, merged)) == merged
    assert json.loads(rewrite(text, new)) == new
