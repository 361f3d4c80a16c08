"""What keeps installed hooks from running, for each agent: switches, layers that outrank others, trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.installs import find
from bus.installs.base import InstallProblem, InstallScope, Scope
from bus.installs.codex import trusted_hash
from bus.installs.hook_command import Setup
from bus.installs.manifest import apply
from bus.installs.plan import events_for, other_readers, plan_install


@pytest.fixture
def where(tmp_path: Path) -> InstallScope:
    return InstallScope(tmp_path / "home", tmp_path / "proj", {}, tmp_path / "machine")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def said(agent: str, where: InstallScope, scope: Scope = "user") -> list[str]:
    return [trouble.what for trouble in find(agent).troubles(where, scope)]


def _managed(where: InstallScope) -> Path:
    return where.machine(
        "/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json"
    )


def _gemini(where: InstallScope) -> Path:
    return where.machine("/etc/gemini-cli/settings.json", "/Library/Application Support/GeminiCli/settings.json")


def test_nothing_is_wrong_where_nothing_is_set(where: InstallScope) -> None:
    for agent in ("claude", "codex", "qwen", "cursor", "opencode", "copilot", "windsurf", "cline"):
        assert said(agent, where) == [], agent


def test_claude_codes_layers(where: InstallScope) -> None:
    """The strongest layer that says something about it decides: policy, local, project, user."""
    user = write(where.home / ".claude/settings.json", '{"disableAllHooks": true}')
    assert said("claude", where) == [f"{user}: `disableAllHooks` is true, so no hook runs"]
    local = write(where.project / ".claude/settings.local.json", '{"disableAllHooks": false}')
    assert said("claude", where) == []
    managed = write(_managed(where), '{"allowManagedHooksOnly": true}')
    (one,) = find("claude").troubles(where, "user")
    assert one.what.startswith(f"{managed}: `allowManagedHooksOnly`")
    more = write(_managed(where).parent / "managed-settings.d/9.json", '{"disableAllHooks": true}')
    local.write_text("{")
    assert [text.partition(":")[0] for text in said("claude", where)] == [
        f"{local} cannot be read, so it may switch hooks off",
        str(more),
        str(managed),
    ]


def test_what_switches_hooks_off_is_said_by_the_plan(where: InstallScope) -> None:
    write(where.home / ".claude/settings.json", '{"disableAllHooks": true}')
    setup = Setup("/py", "/answers", ("Stop",))
    assert "disableAllHooks" in plan_install("claude", "user", where, setup).warnings[0]
    shared = plan_install("claude", "project", where, setup)
    assert "shared with its repository" in shared.warnings[-1]
    assert shared.changes[0].path == where.project / ".claude/settings.json"


def test_who_else_runs_claude_codes_hooks_is_said(where: InstallScope) -> None:
    """Copilot CLI reads a project's settings of Claude Code, Cursor all of them where it is told to (documented)."""

    def readers(scope: Scope) -> list[str]:
        return [trouble.what.partition(" runs")[0] for trouble in other_readers("claude", scope, where)]

    assert readers("project") == []  # neither is here
    shared = plan_install("claude", "project", where, Setup("/py", "/answers", ("Stop",)))
    assert sum("its calls then count as Claude Code's" in text for text in shared.warnings) == 2  # whoever shares it
    (where.home / ".copilot").mkdir(parents=True)
    (where.home / ".cursor").mkdir()
    assert readers("user") == ["Cursor"]
    assert readers("project") == readers("local") == ["Copilot CLI", "Cursor"]
    copilot, cursor = other_readers("claude", "local", where)
    assert (copilot.sure, cursor.sure) == (True, False)
    assert "--scope user" in copilot.fix
    assert "leave that off" in cursor.fix
    assert list(other_readers("codex", "user", where)) == []


def test_codex_switches(where: InstallScope) -> None:
    config = write(where.home / ".codex/config.toml", "[features]\nhooks = false\n")
    assert said("codex", where) == [f"{config}: `features.hooks` is false, so no hook runs"]
    config.write_text("[features]\ncodex_hooks = false\n")  # its older spelling
    assert "codex_hooks" in said("codex", where)[0]
    config.write_text("not toml")
    assert "cannot be read" in said("codex", where)[0]
    config.write_text("")
    rules = write(where.root / "etc/codex/requirements.toml", "allow_managed_hooks_only = true\n")
    assert said("codex", where) == [f"{rules}: `allow_managed_hooks_only` is true, so only hooks of the policy run"]


def test_codex_reads_no_project_that_it_does_not_trust(where: InstallScope) -> None:
    where.project.mkdir()
    assert "does not trust the folder" in said("codex", where, "project")[0]
    write(where.home / ".codex/config.toml", f'[projects."{where.project}"]\ntrust_level = "trusted"\n')
    assert said("codex", where, "project") == []


@pytest.mark.parametrize(
    ("event", "matcher", "handler", "wanted"),
    [
        (
            "PreToolUse",
            None,
            {"command": "exit 0 # fleethook", "timeout": 30},
            "8bbc494b2549750a8fbb6e51f29ca7a1bec42f92d1068b641c60d59fba063bdc",
        ),
        (
            "PreToolUse",
            "Bäsh|x",
            {"command": "exit 0 '日' \" # fleethook", "timeout": 30},
            "346513e1a65f8f95f390081a34f9e93bd0f4de504fc4b199700ef71e01dcf9ef",
        ),
        (
            "SessionEnd",
            None,
            {"command": "a", "timeout": 9},  # it gives no more than 3 s there
            "42a5307396a3311376788cd874aae704206cb585b4da5dbcc11a59a23e824111",
        ),
    ],
)
def test_codex_own_hash_of_a_hook(event: str, matcher: object, handler: dict[str, object], wanted: str) -> None:
    """As `hooks/list` of Codex CLI 0.169.0's app-server said."""
    assert trusted_hash(event, matcher, handler) == f"sha256:{wanted}"


def test_codex_trusts_what_a_person_has_seen(where: InstallScope, tmp_path: Path) -> None:
    """By the hook's place in the file and by its content; a hook may also be trusted and switched off."""
    path = write(
        where.home / ".codex/hooks.json", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}'
    )
    setup = Setup("/py", "/answers", events_for("codex", ["PreToolUse", "Stop"]))
    apply(plan_install("codex", "user", where, setup), tmp_path / "state")
    hooks = json.loads(path.read_bytes())["hooks"]
    (tool,), (_, stop) = hooks["PreToolUse"], hooks["Stop"]
    keys = {f"{path}:pre_tool_use:0:0": ("PreToolUse", tool), f"{path}:stop:1:0": ("Stop", stop)}

    def state(**more: str) -> str:
        return "".join(
            f'[hooks.state."{key}"]\ntrusted_hash = "{more.get(event, trusted_hash(event, None, group["hooks"][0]))}"\n'
            for key, (event, group) in keys.items()
        )

    def trust() -> list[InstallProblem]:
        return list(find("codex").trust(where, "user", path))

    assert [one.what for one in trust()] == ["Codex CLI: 2 of 2 hooks are not trusted yet, so they do not run"]
    assert "/hooks" in trust()[0].fix
    config = write(where.home / ".codex/config.toml", state())
    assert trust() == []
    config.write_text(state(Stop="sha256:old"))
    assert [one.what for one in trust()] == ["Codex CLI: 1 of 2 hooks have changed since they were trusted"]
    config.write_text(state() + "enabled = false\n")
    assert [one.what for one in trust()] == ["Codex CLI: 1 of 2 hooks are switched off in /hooks"]


def test_geminis_layers(where: InstallScope) -> None:
    """The machine's settings outrank the project's, and these the user's."""
    user = write(where.home / ".gemini/settings.json", '{"hooksConfig": {"enabled": false}} // off')
    env = InstallScope(where.home, where.project, {"GEMINI_CLI_TRUST_WORKSPACE": "true"}, where.root)
    assert said("gemini", env) == [f"{user}: `hooksConfig.enabled` is false, so no hook runs"]
    write(_gemini(where), '{"hooksConfig": {"enabled": true, "disabled": ["fleethook"]}}')
    (text,) = said("gemini", env)
    assert "`hooksConfig.disabled` names 'fleethook'" in text
    moved = {**env.environ, "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(write(where.root / "own.json", "{}"))}
    assert said("gemini", InstallScope(where.home, where.project, moved, where.root)) == [
        f"{user}: `hooksConfig.enabled` is false, so no hook runs"
    ]


@pytest.mark.parametrize(
    ("environ", "settings", "folders", "sure"),
    [
        ({}, "{}", "{}", False),  # it asks when it starts there
        ({}, "{}", '{"PROJ": "TRUST_FOLDER"}', None),
        ({}, "{}", '{"PROJ/sub": "TRUST_PARENT"}', None),
        ({}, "{}", '{"HOME": "TRUST_FOLDER", "PROJ": "DO_NOT_TRUST"}', True),
        ({}, "{}", '{"ROOT": "TRUST_FOLDER" /* all of it */}', None),
        ({}, '{"security": {"folderTrust": {"enabled": false}}}', "{}", None),
        ({"GEMINI_CLI_TRUST_WORKSPACE": "true"}, "{}", "{}", None),
        ({"GEMINI_CLI_TRUST_WORKSPACE": "false"}, "{}", '{"PROJ": "TRUST_FOLDER"}', True),
    ],
)
def test_gemini_runs_hooks_in_trusted_folders_alone(
    where: InstallScope, environ: dict[str, str], settings: str, folders: str, sure: bool | None
) -> None:
    """Not even the user's own (as 0.61.0 does); the longest rule that fits holds."""
    where.project.mkdir()
    write(where.home / ".gemini/settings.json", settings)
    for name, path in (("PROJ", where.project), ("HOME", where.home), ("ROOT", where.project.parent)):
        folders = folders.replace(name, str(path))
    write(where.home / ".gemini/trustedFolders.json", folders)
    found = list(find("gemini").troubles(InstallScope(where.home, where.project, environ, where.root), "user"))
    assert [one.sure for one in found] == ([] if sure is None else [sure])


def test_a_foreign_hook_of_our_name_may_run_in_qwens_place_of_ours(where: InstallScope) -> None:
    """Qwen Code runs hooks of one name once (issue 10, A7); a hook of ours is no trouble."""
    theirs = {"type": "command", "name": "fleethook", "command": "true"}
    ours = {**theirs, "command": "exec python main.py # fleethook"}
    settings = {"hooks": {"PreToolUse": [{"hooks": [theirs]}, 3], "Stop": [{"hooks": [ours, "x"]}], "X": "y"}}
    project = write(where.project / ".qwen/settings.json", json.dumps(settings))
    (found,) = said("qwen", where)
    assert found.startswith(f"{project}: a hook for PreToolUse that is not Fleethook's is called `fleethook`")


def test_qwens_switches(where: InstallScope) -> None:
    user = write(where.home / ".qwen/settings.json", '{"disableAllHooks": true}')
    assert said("qwen", where) == [f"{user}: `disableAllHooks` is true, so no hook runs"]
    user.write_text('{"security": {"folderTrust": {"enabled": true}}}')
    assert said("qwen", where) == []  # the user's own hooks run anywhere
    assert "is not trusted by Qwen Code" in said("qwen", where, "project")[0]
    write(where.home / ".qwen/trustedFolders.json", json.dumps({str(where.project): "TRUST_FOLDER"}))
    assert said("qwen", where, "project") == []


def test_copilots_and_opencodes_switches(where: InstallScope) -> None:
    write(where.home / ".copilot/settings.json", '{"disableAllHooks": true}')
    assert "disableAllHooks" in said("copilot", where)[0]
    pure = InstallScope(
        where.home, where.project, {"OPENCODE_PURE": "1", "OPENCODE_DISABLE_PROJECT_CONFIG": "1"}, where.root
    )
    assert len(said("opencode", pure)) == 1
    assert len(said("opencode", pure, "project")) == 2


def test_cline_switches_a_hook_off_by_its_mode(where: InstallScope, tmp_path: Path) -> None:
    setup = Setup("/py", "/answers", events_for("cline", ["PreToolUse", "TaskStart"]))
    apply(plan_install("cline", "user", where, setup), tmp_path / "state")
    assert said("cline", where) == []
    script = where.home / "Documents/Cline/Hooks/TaskStart"
    script.chmod(0o644)
    assert said("cline", where) == [f"{script} may not be run, which is how Cline switches a hook off"]
