"""An install for each agent: in its own file and form, beside what others wrote there, taken back to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus import installs
from bus.agents import find as find_dialect
from bus.errors import ConfigError
from bus.events import GATES
from bus.installs.base import NAMES, InstallScope, Scope, never_events
from bus.installs.hook_command import Setup
from bus.installs.manifest import apply, undo
from bus.installs.plan import diff, events_for, installed, plan_install, plan_uninstall

GROUPED = '{"X": 1,\n "hooks": {"%s": [{"matcher": "a|b",  "hooks": [{"type": "command", "command": "mine"}]}]}}\n'
FLAT = '{ "version": 1, "hooks": { "%s": [ {"command": "mine",  "timeout": 5} ] } }'
JSON = {
    "claude": (".claude/settings.json", GROUPED.replace('"X": 1', '"model": "opus"'), "timeout", 600),
    "codex": (".codex/hooks.json", GROUPED.replace('"X": 1', '"description": "mine"'), "timeout", 30),
    "gemini": (".gemini/settings.json", "// a note\n" + GROUPED.replace('"X": 1', '"ui": {}'), "timeout", 600_000),
    "qwen": (".qwen/settings.json", "/* a note */" + GROUPED.replace('"X": 1', '"ui": {}'), "timeout", 600_000),
    "cursor": (".cursor/hooks.json", FLAT, "timeout", 600),
    "copilot": (".copilot/hooks/fleethook.json", FLAT, "timeoutSec", 600),
    "windsurf": (".codeium/windsurf/hooks.json", FLAT, "", 0),
}
"""The user's file of each agent, what somebody has in it, and the timeout that ours gets, in the agent's unit."""


class Home:
    """A machine of this test alone."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state"
        self.where = InstallScope(root / "home", root / "proj", {"PATH": str(root / "bin")}, root / "machine")
        for folder in ("home", "proj", "bin"):
            (root / folder).mkdir()

    def setup(self, agent: str, events: list[str] | None = None, *, closed: bool = False) -> Setup:
        return Setup("/usr/bin/py 3", str(self.root / "answers"), events_for(agent, events), closed)

    def install(self, agent: str, events: list[str] | None = None, *, scope: Scope = "user", **more: Any) -> None:
        apply(plan_install(agent, scope, self.where, self.setup(agent, events, **more)), self.state)

    def uninstall(self, agent: str) -> None:
        undo(plan_uninstall(agent, self.state, where=self.where), self.state)

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and self.state not in path.parents
        }

    def folders(self) -> list[str]:
        found = (path for path in self.root.rglob("*") if path.is_dir() and path != self.state)
        return sorted(str(path.relative_to(self.root)) for path in found)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def handlers(settings: Any, event: str) -> list[dict[str, Any]]:
    """The handlers of an event, in groups or not."""
    return [one for group in settings["hooks"].get(event, []) for one in group.get("hooks", [group])]


def gate(agent: str) -> str:
    """The event before its shell runs something."""
    return installs.find(agent).canary(Path("/"), "t", "ls").event


@pytest.mark.req("B-08")
@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("agent", NAMES)
def test_an_install_and_its_undo_leave_no_trace(home: Home, agent: str, scope: Scope) -> None:
    """Every event that is of use is subscribed, a second install changes no byte, and the undo takes all away."""
    before = home.folders()
    home.install(agent, scope=scope)
    written = home.files()
    assert written
    calls = [call for _, _, found in installed(agent, home.where) for call in found]
    assert sorted(call.event for call in calls) == sorted(events_for(agent))
    assert {found for found, _, _ in installed(agent, home.where)} == {scope}
    again = plan_install(agent, scope, home.where, home.setup(agent))
    assert (again.changes, diff(again)) == ((), "")
    home.uninstall(agent)
    assert home.files() == {}
    assert home.folders() == before
    assert plan_uninstall(agent, home.state, where=home.where).changes == ()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("agent", JSON)
def test_hooks_of_others_stay_to_the_byte(home: Home, agent: str) -> None:
    """Ours come after theirs, with the timeout in the agent's own unit; theirs and every comment keep their characters."""
    name, text, key, timeout = JSON[agent]
    path, event = home.where.home / name, gate(agent)
    path.parent.mkdir(parents=True)
    path.write_text(text % event)
    path.chmod(0o640)
    home.install(agent, [event])
    now = path.read_text()
    assert text.partition('"')[0] in now  # a comment
    assert (GROUPED if "matcher" in text else FLAT).partition("[")[2].partition("}")[0].strip() in now
    theirs, ours = handlers(json.loads(_bare(now)), event)
    assert theirs["command"] == "mine"
    assert ours.get(key, 0) == timeout
    assert path.stat().st_mode & 0o777 == 0o640
    home.uninstall(agent)
    assert path.read_text() == text % event
    assert list(home.files()) == [f"home/{name}"]


@pytest.mark.req("B-08")
@pytest.mark.parametrize("agent", JSON)
def test_from_a_file_that_somebody_changed_only_ours_goes(home: Home, agent: str) -> None:
    name, text, _, _ = JSON[agent]
    path, event = home.where.home / name, gate(agent)
    path.parent.mkdir(parents=True)
    path.write_text(text % event)
    home.install(agent)
    path.write_text(path.read_text().replace('"mine"', '"theirs"'))
    plan = plan_uninstall(agent, home.state, where=home.where)
    assert "only fleethook's own entries" in plan.warnings[0]
    undo(plan, home.state)
    assert json.loads(_bare(path.read_text())) == json.loads(_bare(text.replace("mine", "theirs") % event))
    assert "fleethook" not in path.read_text()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("agent", JSON)
def test_events_that_are_named_are_all_there_is(home: Home, agent: str) -> None:
    """`--events` with an own name or a canonical type; a smaller set replaces a larger one."""
    home.install(agent)
    home.install(agent, ["tool:pre_execute"])
    calls = [call.event for _, _, found in installed(agent, home.where) for call in found]
    wanted = [name for name in events_for(agent) if find_dialect(agent).capabilities[name].type == "tool:pre_execute"]
    assert calls == wanted
    home.uninstall(agent)
    assert home.files() == {}


@pytest.mark.req("X-14")
@pytest.mark.parametrize("agent", NAMES)
def test_all_and_default_are_names_of_events_too(agent: str) -> None:
    every = set(find_dialect(agent).capabilities) - never_events(agent)
    assert set(events_for(agent, ["all"])) == every
    assert events_for(agent, ["default"]) == events_for(agent)
    for event in every:
        assert set(events_for(agent, ["default", event])) == {*events_for(agent), event}


@pytest.mark.req("B-08")
@pytest.mark.parametrize("agent", NAMES)
def test_fail_closed_is_for_gates_alone(home: Home, agent: str) -> None:
    """And uses the agent's own switch where it has one."""
    home.install(agent, closed=True)
    calls = [call for _, _, found in installed(agent, home.where) for call in found]
    table = find_dialect(agent).capabilities
    assert {call.event for call in calls if call.closed} == {
        name for name in events_for(agent) if table[name].type in GATES and table[name].waits
    }
    switches: dict[str, tuple[str, object]] = {"claude": ("onFailure", "block"), "cursor": ("failClosed", True)}
    if agent in switches:
        name, value = switches[agent]
        settings = json.loads((home.where.home / JSON[agent][0]).read_bytes())
        for event in settings["hooks"]:
            (handler,) = handlers(settings, event)
            shut = event in {call.event for call in calls if call.closed}
            assert handler.get(name) == (value if shut else None)
    home.install(agent)
    assert not any(call.closed for _, _, found in installed(agent, home.where) for call in found)


def test_codex_refuses_a_file_with_a_name_that_it_does_not_know(home: Home) -> None:
    """Then none of the file's hooks would run (observed), and it says so in one line only."""
    path = home.where.home / ".codex/hooks.json"
    path.parent.mkdir()
    path.write_text('{"$schema": "x", "hooks": {}}')
    with pytest.raises(ConfigError, match="'\\$schema' makes codex refuse the whole file"):
        plan_install("codex", "user", home.where, home.setup("codex"))
    path.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "http://x"}]}]}}')
    plan = plan_install("codex", "user", home.where, home.setup("codex"))
    assert "type 'http', which makes Codex CLI refuse the whole file" in plan.warnings[0]
    assert "/hooks" in plan.steps[0]


def test_switches_beside_the_events_are_no_events(home: Home) -> None:
    """Older settings of Gemini have `enabled` and `disabled` among the hooks."""
    path = home.where.home / ".gemini/settings.json"
    path.parent.mkdir()
    old = '{"hooks": {"enabled": true, "disabled": ["x"]}}'
    path.write_text(old)
    home.install("gemini", ["BeforeTool"])
    assert list(json.loads(path.read_bytes())["hooks"]) == ["enabled", "disabled", "BeforeTool"]
    path.write_text(path.read_text().replace('"x"', '"y"'))
    home.uninstall("gemini")
    assert path.read_text() == old.replace('"x"', '"y"')


def test_a_script_of_somebody_else_is_not_touched(home: Home) -> None:
    """Cline takes one script for an event; ours can be had for the others."""
    folder = home.where.home / "Documents/Cline/Hooks"
    folder.mkdir(parents=True)
    (folder / "PreToolUse").write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(ConfigError, match="PreToolUse: is a script of another program"):
        plan_install("cline", "user", home.where, home.setup("cline"))
    home.install("cline", ["UserPromptSubmit"])
    script = folder / "UserPromptSubmit"
    assert script.stat().st_mode & 0o777 == 0o755
    assert script.read_text().startswith("#!/bin/sh\n# Written by")
    home.install("cline", ["TaskStart"])
    assert sorted(path.name for path in folder.iterdir()) == ["PreToolUse", "TaskStart"]
    home.uninstall("cline")
    assert list(home.files()) == ["home/Documents/Cline/Hooks/PreToolUse"]


@pytest.mark.parametrize("agent", ["opencode", "cline"])
def test_of_a_file_of_ours_that_somebody_changed_a_copy_stays(home: Home, agent: str) -> None:
    home.install(agent, [gate(agent)])
    (name,) = home.files()
    path = home.root / name
    changed = path.read_bytes().replace(b"Written by", b"Hacked by")
    path.write_bytes(changed)
    plan = plan_uninstall(agent, home.state, where=home.where)
    assert "a copy stays" in plan.warnings[0]
    (copy,) = undo(plan, home.state)
    assert list(home.files()) == [str(copy.relative_to(home.root))]
    assert copy.read_bytes() == changed


def test_a_plugin_of_somebody_else_is_not_touched(home: Home) -> None:
    path = home.where.home / ".config/opencode/plugins/fleethook.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = async () => ({})\n")
    with pytest.raises(ConfigError, match="is a plugin of another program"):
        plan_install("opencode", "user", home.where, home.setup("opencode"))
    assert plan_uninstall("opencode", home.state, where=home.where).changes == ()


@pytest.mark.parametrize(
    ("agent", "variable", "file"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("qwen", "QWEN_HOME", "settings.json"),
        ("copilot", "COPILOT_HOME", "hooks/fleethook.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugins/fleethook.js"),
    ],
)
def test_a_folder_that_was_moved_is_where_hooks_go(home: Home, agent: str, variable: str, file: str) -> None:
    """And the undo finds it again when the variable is gone."""
    there = InstallScope(
        home.where.home, home.where.project, {variable: str(home.root / "elsewhere")}, home.root / "machine"
    )
    apply(plan_install(agent, "user", there, home.setup(agent)), home.state)
    assert list(home.files()) == [f"elsewhere/{file}"]
    assert not list(installed(agent, home.where))
    home.uninstall(agent)
    assert home.files() == {}
    assert not (home.root / "elsewhere").exists()


@pytest.mark.parametrize("agent", NAMES)
def test_an_agent_is_found_by_its_program_or_its_folder(home: Home, agent: str) -> None:
    program = installs.find(agent)
    assert installs.evidence(program, home.where) == ""
    program.folder(home.where).mkdir(parents=True)
    assert installs.present(home.where) == (agent,)
    binary = home.root / "bin" / program.binaries[0]
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert installs.evidence(program, home.where) == str(binary)


def test_what_an_agent_does_not_have_is_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match="Codex CLI has no settings of scope 'local'; it has user, project"):
        plan_install("codex", "local", home.where, home.setup("codex"))
    with pytest.raises(ConfigError, match="does not know the agent 'vim'"):
        installs.find("vim")
    assert installs.find("claude-code").name == "claude"


def _bare(text: str) -> str:
    """Without the comments that these texts have."""
    return text.replace("// a note\n", "").replace("/* a note */", "")
