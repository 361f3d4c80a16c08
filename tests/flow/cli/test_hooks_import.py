"""Hooks of other systems on the command line: found, shown as understood, imported, listed, tried, published."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import coverage
import pytest

from bus.events import Event
from bus.ids import host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.cli_kit import Result, fleethook, namespace, run
from tests.support.delivering import publish
from tests.support.running import ask, evaluating
from tests.support.servers import Server

PIGO = {
    "plugins": [
        {
            "name": "gate",
            "hooks": {
                "tool_start": [{"command": "echo no; exit 1", "match": {"tool": "bash"}}],
                "turn_end": [{"command": "true", "blocking": False}],
            },
        },
        {"name": "spare", "enabled": False, "hooks": {"agent_end": [{"command": "true"}]}},
        {"name": "wrong", "hooks": {"tool_begin": [{"command": "true"}]}},
    ]
}
FORGE = {"hooks": [{"event": "tool:pre_execute:bash", "command": "exit 0", "description": "Sudo blocker"}]}
GOBBY = Path(__file__).parents[3] / "examples" / "gobby" / "config.yaml"
GOBBY_PLUGIN = """
from gobby.hooks.plugins import HookPlugin


class Guard(HookPlugin):
    name = "migration-guard"
"""
MEMORY = {"name": "memory", "version": "2.1.0", "description": "Remembers"}
HOOKS = {
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/check.sh"}]}]
    }
}


@pytest.fixture
def home(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A person's home, in which we work; the fleet is empty."""
    home = tmp_path / "person"
    (home / "work" / ".git").mkdir(parents=True)
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("HOME", str(home))
    for name in ("PIGO_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "work")
    return home


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    """Where the user's own hooks stand."""
    return tmp_path / "home" / "config" / "fleethook.yaml"


def put(path: Path, value: Any) -> Path:
    """A file: text as it is, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return path


@pytest.mark.req("P-01", "F-11")
def test_a_file_is_shown_as_it_was_understood_and_then_read_in_place(home: Path, user_file: Path) -> None:
    pigo = put(home / ".pigo" / "config.json", PIGO)
    shown = fleethook("hooks", "import", str(pigo), "--dry-run")
    assert (shown.code, "of its entries left out" in shown.err) == (1, True)
    assert "pigo, recognised by its name and content" in shown.err
    row = next(line for line in shown.out.splitlines() if "tool:pre_execute" in line).split("  ")
    assert [cell.strip() for cell in row if cell.strip()][1:] == [
        "tool:pre_execute [bash]",
        "pigo command",
        "blocking",
        "10 s",
        "deny",
        "~/.pigo/config.json:7",
    ]
    assert f"{pigo}:" in shown.out, "what was not understood has its place"
    assert "tool_begin" in shown.out
    assert "+  - ~/.pigo/config.json" in shown.out, "what would be written"
    assert not user_file.exists()

    planned = fleethook("hooks", "import", str(pigo), "--dry-run", "--json").json
    assert (planned["dialect"], planned["guessed"], planned["written"]) == ("pigo", True, False)
    assert [hook["plugin"] for hook in planned["hooks"]] == ["gate", "gate"]
    assert planned["entry"] == "~/.pigo/config.json"
    assert fleethook("hooks", "import", str(pigo)).code == 2, "nobody can be asked here"
    done = fleethook("hooks", "import", str(pigo), "--yes")
    assert done.code == 5, "partly done: what was left out was said"
    assert "not trusted" not in done.err, "the user's own file needs no trust"
    assert "+  - ~/.pigo/config.json" in done.out
    assert user_file.read_text() == "import:\n  - ~/.pigo/config.json\n"
    again = fleethook("hooks", "import", "../.pigo", "--yes", "--json").json
    assert (again["written"], again["diff"]) == (False, ""), "imported once"

    unclear = fleethook("hooks", "import", str(home))
    assert (unclear.code, f"{home}: it is not clear which system's hooks" in unclear.err) == (4, True)
    assert fleethook("hooks", "import", str(put(home / "forge.json", FORGE)), "--dry-run").code == 0
    assert fleethook("hooks", "import", str(home / "none")).code == 2


def test_what_lies_in_the_usual_places_is_found(home: Path, user_file: Path) -> None:
    assert "there are no hook files" in fleethook("hooks", "import").err
    pigo = put(home / ".pigo" / "config.json", PIGO)
    forge = put(home / "work" / ".forge" / "hooks.json", FORGE)
    gobby = put(home / ".gobby" / "config.yaml", GOBBY.read_text())
    put(user_file, "import: [~/.pigo/config.json]")
    found = fleethook("hooks", "import", "--json").json
    assert {(one["dialect"], one["path"]): one["imported"] for one in found} == {
        ("pigo", str(pigo)): f"{user_file}:1",
        ("forge", str(forge)): "",
        ("gobby", str(gobby)): "",
    }
    assert ".forge/hooks.json" in fleethook("hooks", "import").out


@pytest.mark.req("G-13", "G-16", "G-20")
def test_what_a_project_of_gobby_still_needs_is_said(home: Path, user_file: Path) -> None:
    project = home / "work" / ".gobby"
    put(project / "workflows" / "release.yaml", "name: release\nsteps: [{name: test, allowed_tools: [Read]}]\n")
    put(project / "plugins" / "guard.py", GOBBY_PLUGIN)
    put(project / "hooks" / "hook_dispatcher.py", "")
    done = fleethook("hooks", "import", ".gobby", "--yes")
    assert done.code == 0, done.err
    assert "stay off until you enable each: migration-guard (`fleethook plugins enable NAME`)" in done.err
    assert "`settings: {gobby: on}` in your own fleethook.yaml" in done.err
    command = {"type": "command", "command": "python3 .gobby/hooks/hook_dispatcher.py --type=pre-tool-use"}
    settings = put(home / "work" / ".claude" / "settings.json", {"hooks": {"PreToolUse": [{"hooks": [command]}]}})
    twice = fleethook("hooks", "import", str(settings), "--yes")
    assert "these calls would be judged and recorded twice" in twice.err

    on = fleethook("plugins", "enable", "migration-guard", "--yes")
    assert on.code == 0, on.err
    assert "migration-guard: true" in (home / "work" / "fleethook.yaml").read_text(), "only the project has it"
    assert not user_file.exists()
    assert "has to be trusted again" in on.err
    assert fleethook("plugins", "disable", "migration-guard", "--yes").code == 0
    assert "migration-guard: false" in (home / "work" / "fleethook.yaml").read_text()
    assert "stay off" not in fleethook("hooks", "import", ".gobby", "--yes").err, "a person has decided on it"
    assert fleethook("plugins", "enable", "nobody", "--yes").code == 4


@pytest.mark.req("P-14", "I-13")
def test_plugins_are_listed_with_their_hooks(home: Path, user_file: Path) -> None:
    put(home / ".pigo" / "config.json", PIGO)
    plugin = home / ".config" / "ion" / "plugins" / "memory"
    put(plugin / ".claude-plugin" / "plugin.json", MEMORY)
    put(plugin / "hooks" / "hooks.json", json.dumps(HOOKS).replace("CLAUDE_PLUGIN", "PLUGIN"))
    put(plugin / "commands" / "recall.md", "Recall")
    put(plugin / "commands" / "list.sh", "#!/bin/sh\n# Lists what is known\nls\n")
    put(plugin / "skills" / "forget" / "SKILL.md", "---\nname: forget\n---\nForget")
    put(plugin / "skills" / "tidy.md", "---\ndescription: tidies\n---\nTidy")
    put(plugin / "skills" / "README.md", "About these")
    put(plugin / "check.sh", "#!/bin/sh\n").chmod(0o755)
    put(user_file, f"import: [~/.pigo/config.json, ~/.config/ion/plugins, '{GOBBY}', {{path: x, enabled: false}}]")
    listed = {one["name"]: one for one in fleethook("plugins", "list", "--json").json}
    assert {name: (one["enabled"], one["hooks"], one["dialect"]) for name, one in listed.items()} == {
        "gate": (True, 2, "pigo"),
        "spare": (False, 0, "pigo"),
        "wrong": (True, 0, "pigo"),
        "memory": (True, 1, "ion"),
        "x": (False, 0, ""),
    }
    memory = listed["memory"]
    assert (memory["commands"], memory["skills"], memory["version"]) == (
        ["list", "recall"],
        ["forget", "tidy"],
        "2.1.0",
    )
    shown = fleethook("plugins", "list")
    assert "gate" in shown.out
    assert "code-guardian" not in shown.out, "Gobby's Python plugins are switched off in that file"


@pytest.mark.req("I-05", "I-09", "I-13")
def test_no_trick_hides_a_plugin_from_the_list(home: Path, user_file: Path) -> None:
    folder = home / ".config" / "ion" / "plugins"
    put(folder / "bare" / "hooks" / "hooks.json", HOOKS)  # no manifest, and its hooks run
    put(folder / "bare" / "check.sh", "#!/bin/sh\n").chmod(0o755)
    put(
        folder / "odd" / ".claude-plugin" / "plugin.json",
        {"name": "odd", "commands": "../../..", "mcpServers": "/x.json"},
    )
    (folder / "loop").symlink_to("loop")
    (folder / "nowhere").symlink_to("/nowhere")
    put(user_file, "import: [~/.config/ion/plugins]")
    ran = fleethook("plugins", "list", "--json")
    assert [(one["name"], one["hooks"]) for one in ran.json] == [("bare", 1), ("odd", 0)]
    assert "plugin.json:3:14: the path '../../..' leads out of its folder" in ran.json[1]["problem"]
    assert "'/x.json' is not inside the plugin" in ran.json[1]["problem"]

    project = home / "work" / "plugins"
    put(project / "mine" / "hooks" / "hooks.json", {"hooks": {}})
    (project / "linked").symlink_to(folder / "bare")
    put(home / "work" / "fleethook.yaml", "import: [{path: plugins, dialect: ion}]")
    assert fleethook("hooks", "trust", "--yes").code == 0
    listed = {one["name"]: one for one in fleethook("plugins", "list", "--json").json if one["layer"] == "project"}
    assert (listed["mine"]["enabled"], listed["linked"]["enabled"]) == (True, False)
    assert "leads out of the project's plugins" in listed["linked"]["problem"]


@pytest.mark.req("X-01", "G-17")
def test_imported_hooks_are_tried_published_and_list_their_last_run(home: Path, user_file: Path, keys: Keys) -> None:
    put(home / ".pigo" / "config.json", PIGO)
    put(home / "forge.json", FORGE)
    put(user_file, "import: [~/.pigo/config.json, {path: ~/forge.json, dialect: forge}]")
    broken = fleethook("hooks", "check", str(user_file))
    assert broken.code == 4
    assert "tool_begin" in broken.out
    put(home / ".pigo" / "config.json", {"plugins": PIGO["plugins"][:2]})

    tried = ("hooks", "test", "PreToolUse", "--source", "claude", "--tool", "Bash", "--set", "command=ls")
    shown = fleethook(*tried, "--run")
    assert "DENY" in shown.out
    assert "blocked by hook: hook [gate] blocked tool: no" in shown.out
    assert "meets pigo " in shown.out
    assert "meets forge " in shown.out
    matched = fleethook(*tried, "--json").json["matched"]
    assert [one["dialect"] for one in matched] == ["pigo", "forge"]
    assert fleethook("hooks", "test", "tool:pre_execute:bash", "--file", str(home / "forge.json")).code == 4

    applied = fleethook("hooks", "apply", str(user_file), "--yes", "--json").json
    assert (applied["published"], applied["hooks"]) == (True, 3)
    user_file.unlink()
    listed = fleethook("hooks", "list", "--json").json["hooks"]
    assert [(one["dialect"], one["layer"], one["last_run"]) for one in listed] == [
        ("pigo", "fleet", None),
        ("pigo", "fleet", None),
        ("forge", "fleet", None),
    ]


@pytest.mark.req("X-05")
async def test_the_last_run_is_what_the_record_says(
    home: Path, server: Server, keys: Keys, connections: Connections, user_file: Path
) -> None:
    rules = (
        "hooks:\n  - {id: ran, on: 'tool:*', rule: {decision: ask}}\n"
        "  - {id: idle, on: 'session:end', rule: {decision: ask}}\n"
        "  - {id: off, on: '*', command: x, enabled: false}\n"
    )
    put(user_file, rules)
    async with evaluating(server.url, keys, user_file=user_file):
        await ask(connections, keys, "ls")

    def listed() -> Result:
        return fleethook("hooks", "list", "--json")

    hooks = (await asyncio.to_thread(listed)).json["hooks"]
    runs = {one["id"]: one["last_run"] for one in hooks}
    assert runs["ran"]["what"] == "ask"
    assert abs(runs["ran"]["ms"] - time.time() * 1000) < 60_000
    assert (runs["idle"], runs["off"]) == (None, None)
    assert {one["id"]: one["enabled"] for one in hooks}["off"] is False
    shown = await asyncio.to_thread(fleethook, "hooks", "list")
    assert next(line for line in shown.out.splitlines() if line.startswith("off ")).split()[2] == "off"
    assert next(line for line in shown.out.splitlines() if line.startswith("ran ")).split()[-2] == "ask"


# --- Trust


def test_untrusted_projects_that_were_seen_are_listed(home: Path, server: Server, keys: Keys, tmp_path: Path) -> None:
    here, other, fine = (home / name for name in ("work", "other", "fine"))
    for folder in (here, other, fine):
        (folder / ".git").mkdir(parents=True, exist_ok=True)
        put(folder / "fleethook.yaml", "hooks: [{on: '*', command: x}]")
    assert fleethook("hooks", "trust", str(fine), "--yes").code == 0

    async def agents(connections: Connections) -> None:
        for number, folder in enumerate((other, fine, home / "gone")):
            event = Event(type="session:start", id=f"e{number:032x}", host=host_name(), cwd=str(folder))
            await publish(connections, keys, event)

    run(server.url, agents)
    listed = fleethook("hooks", "list", "--untrusted", "--json").json
    assert {(Path(one["path"]).parent.name, one["state"]) for one in listed} == {("work", "never"), ("other", "never")}
    put(fine / "fleethook.yaml", "hooks: [{on: '*', command: y}]")
    assert "changed since it was trusted" in fleethook("hooks", "list", "--untrusted").out
    assert "not trusted any more" in fleethook("hooks", "untrust", str(fine)).out
    assert fleethook("hooks", "untrust", str(fine), "--json").json["was_trusted"] is False
    put(home / "work" / "hooks.json", PIGO)
    shown = fleethook("hooks", "import", "hooks.json", "--yes")
    assert "it is a project's file and not trusted" in shown.err
    assert (here / "fleethook.yaml").read_text().endswith("import:\n  - hooks.json\n")


# --- Cost


def test_a_thousand_imported_hooks_cost_little(home: Path, user_file: Path) -> None:
    """At most 200 ms more than none; the best of several, since the machine has other work."""

    def best() -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            listed = fleethook("hooks", "list")
            times.append(time.process_time() - start)
            assert listed.code == 0
        return min(times)

    none = best()
    entries = [{"command": f"echo {n}; true", "match": {"tool": "bash"}} for n in range(1000)]
    put(home / "many.json", {"plugins": [{"name": "p", "hooks": {"tool_start": entries}}]})
    put(user_file, "import: [~/many.json]")
    assert len(fleethook("hooks", "list", "--json").json["hooks"]) == 1000
    most = 0.2 if coverage.Coverage.current() is None else 0.6  # a run that counts lines takes twice as long, and more
    assert best() - none < most


@pytest.mark.req("G-17")
def test_a_set_that_means_an_option_says_so(home: Path) -> None:
    asked = fleethook("hooks", "test", "tool:pre_execute", "--set", "tool=bash")
    assert asked.code == 2
    assert "use --tool bash, or input.tool=…" in asked.err


@pytest.mark.req("I-08")
def test_a_plugin_dir_counts_for_one_command(home: Path) -> None:
    plugin = home / "elsewhere" / "mine"
    put(plugin / ".claude-plugin" / "plugin.json", {"name": "mine"})
    command = "echo 'not like that' >&2; exit 2"
    group = {"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}
    put(plugin / "hooks" / "hooks.json", {"hooks": {"PreToolUse": [group]}})
    trial = ("hooks", "test", "tool:pre_execute:bash", "--set", "command=ls", "--run", "--json")
    assert fleethook(*trial).json["matched"] == []
    tried = fleethook(*trial, "--plugin-dir", str(plugin)).json
    assert (tried["verdict"]["decision"], tried["verdict"]["reason"]) == ("deny", "not like that")
    assert [(part["hook"], part["layer"]) for part in tried["verdict"]["parts"]] == [("mine-PreToolUse", "session")]
    (listed,) = fleethook("plugins", "list", "--plugin-dir", str(plugin.parent), "--json").json
    assert (listed["name"], listed["layer"], listed["hooks"]) == ("mine", "session", 1)
    assert fleethook("plugins", "list", "--json").json == []
    assert "elsewhere/mine" not in fleethook("hooks", "import", "--json").out
    assert fleethook(*trial, "--plugin-dir", str(plugin), "--file", str(plugin)).code == 2
    guessed = ("plugins", "list", "--plugin-dir", str(plugin), "--json")
    assert [fleethook(*guessed, *more).json[0]["dialect"] for more in ((), ("--as", "ion"))] == ["claude", "ion"]
    assert fleethook(*trial, "--plugin-dir", str(plugin), "--as", "ion").json["matched"][0]["timeout"] == 5.0
    assert fleethook(*trial, "--as", "ion").code == 2, "nothing whose owner could be meant"
    assert fleethook("hooks", "import", str(plugin), "--as", "ion", "--dry-run", "--json").json["dialect"] == "ion"
    (home / "empty").mkdir()
    assert (
        "it is not clear which system's hooks" in fleethook("plugins", "list", "--plugin-dir", str(home / "empty")).err
    )


@pytest.mark.req("X-10", "X-08")
def test_a_repositorys_file_goes_to_its_project_and_asks_for_trust(home: Path, user_file: Path) -> None:
    """Whatever the folder in which it is imported, and never to the user's file by itself."""
    other = home / "other"
    (other / ".git").mkdir(parents=True)
    forge = put(other / "tools" / "hooks.json", FORGE)
    done = fleethook("hooks", "import", str(forge), "--yes")
    assert done.code == 0, done
    assert "not trusted as it is now" in done.err
    assert (other / "fleethook.yaml").read_text() == "import:\n  - tools/hooks.json\n"
    assert not user_file.exists()
    assert fleethook("hooks", "list", "--json").json["hooks"] == [], "it runs nowhere before it is trusted"
    assert fleethook("hooks", "trust", str(other), "--yes").code == 0
    own = fleethook("hooks", "import", str(other / "fleethook.yaml"))
    assert (own.code, "its project's own hook file" in own.err) == (4, True)
    assert fleethook("hooks", "import", str(put(home / "loose.json", FORGE)), "--to", "project").code == 4


@pytest.mark.req("X-10", "X-08")
def test_a_repositorys_file_in_the_users_layer_is_pinned_by_its_content(home: Path, user_file: Path) -> None:
    """A changed file, or a changed script, asks again; what was accepted stays in force."""
    other = home / "other"
    (other / ".git").mkdir(parents=True)
    script = put(other / "check.sh", "#!/bin/sh\nexit 0\n")
    forge = put(other / "hooks.json", {"hooks": [{"event": "tool:pre_execute:bash", "command": f"sh {script}"}]})
    assert fleethook("hooks", "import", str(forge), "--to", "user", "--yes").code == 0
    assert user_file.read_text().count("sha256: ") == 1

    def commands() -> list[str]:
        return [hook["command"] for hook in fleethook("hooks", "list", "--json").json["hooks"]]

    def outcome() -> str:
        tried = fleethook("hooks", "test", "tool:pre_execute:bash", "--set", "command=ls", "--run", "--json").json
        return str(tried["verdict"]["parts"][0].get("fallback", ""))

    assert commands() == [f"sh {script}"]
    assert outcome() == ""
    put(forge, {"hooks": [{"event": "tool:pre_execute:bash", "command": "worse"}]})
    assert commands() == [f"sh {script}"]
    assert "its content changed since you accepted it" in fleethook("status").out
    forge.unlink()
    assert commands() == [f"sh {script}"], "not even without it"
    put(forge, {"hooks": [{"event": "tool:pre_execute:bash", "command": "worse"}]})
    assert fleethook("hooks", "import", str(forge), "--to", "user", "--yes").code == 0
    assert commands() == ["worse"]
    put(forge, {"hooks": [{"event": "tool:pre_execute:bash", "command": f"sh {script}"}]})
    assert fleethook("hooks", "import", str(forge), "--to", "user", "--yes").code == 0
    put(script, "#!/bin/sh\nexit 1\n")
    assert f"{script} changed since" in outcome()
    assert fleethook("hooks", "import", str(forge), "--to", "user", "--yes").code == 0
    assert outcome() == ""


@pytest.mark.req("X-10", "X-08")
def test_a_repositorys_plugin_folder_in_the_users_layer_is_pinned_by_all_of_it(home: Path, user_file: Path) -> None:
    """Issue 10, B5: every file that is read or run; what was accepted stays in force, also when the folder is gone."""
    plugin = home / "other" / "plugins" / "memory"
    (home / "other" / ".git").mkdir(parents=True)
    manifest = put(plugin / ".claude-plugin" / "plugin.json", MEMORY)
    hooks = put(plugin / "hooks" / "hooks.json", HOOKS)
    script = put(plugin / "check.sh", "#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    taken = ("hooks", "import", str(plugin), "--to", "user", "--yes")
    assert fleethook(*taken).code == 0
    assert (user_file.read_text().count("sha256: "), user_file.read_text().count("scripts: ")) == (1, 1)
    assert fleethook(*taken).err.endswith("nothing to change\n")
    trial = ("hooks", "test", "tool:pre_execute:bash", "--set", "command=ls", "--run", "--json")

    def commands() -> list[str]:
        return [hook["command"] for hook in fleethook("hooks", "list", "--json").json["hooks"]]

    def outcome() -> str:
        return str(fleethook(*trial).json["verdict"]["parts"][0].get("fallback", ""))

    accepted = [str(script)]
    assert commands() == accepted
    assert outcome() == ""
    worse = json.loads(json.dumps(HOOKS).replace("check.sh", "worse.sh"))
    for path, content in ((hooks, worse), (hooks, "{"), (manifest, {**MEMORY, "hooks": "./more.json"})):
        before = path.read_text()
        put(path, content)
        assert commands() == accepted, content
        assert outcome() == "", content
        assert "since you accepted it" in fleethook("status").out or "as you accepted it" in fleethook("status").out
        put(path, before)
        assert "accepted" not in fleethook("status").out
    plugin.rename(plugin.with_name("away"))
    assert commands() == accepted, "not even without it"
    assert "is gone" in outcome(), "its script is"
    plugin.with_name("away").rename(plugin)
    put(script, "#!/bin/sh\n# another one\nexit 0\n")
    assert f"{script} changed since" in outcome()
    assert fleethook("hooks", "import", str(hooks), "--to", "user", "--yes").code == 0, "which is the whole folder"
    assert outcome() == ""
    assert user_file.read_text().count("path: ") == 1
    put(hooks, worse)
    assert commands() == accepted
    assert fleethook(*taken).code == 0
    assert commands() == [str(plugin / "worse.sh")]


@pytest.mark.req("X-08")
@pytest.mark.parametrize("dialect", ["pigo", "gobby", "forge"])
def test_a_repositorys_folder_of_any_system_can_be_pinned(dialect: str, home: Path, user_file: Path) -> None:
    folder = home / "other" / "tools"
    (home / "other" / ".git").mkdir(parents=True)
    name, content = {
        "pigo": ("config.json", PIGO),
        "gobby": ("config.yaml", GOBBY.read_text()),
        "forge": ("hooks.json", FORGE),
    }[dialect]
    file = put(folder / name, content)
    done = fleethook("hooks", "import", str(folder), "--to", "user", "--yes", "--as", dialect)
    assert done.code in {0, 5}, (done.out, done.err)
    listed = fleethook("hooks", "list", "--json").json["hooks"]
    assert listed
    file.write_text("{}\n")
    assert fleethook("hooks", "list", "--json").json["hooks"] == listed
    assert "changed since you accepted it" in fleethook("status").out
