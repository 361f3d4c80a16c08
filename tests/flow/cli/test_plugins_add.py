"""`plugins add`, `remove` and `validate` on the command line: what is shown, written and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli_kit import fleethook
from tests.support.plugin_server import server_plugin

pytestmark = [pytest.mark.flow, pytest.mark.req("I-05", "I-09", "I-10", "I-13", "X-10")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person who has no server: these commands need none."""
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "fh"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FLEETHOOK_REDIS_URL", raising=False)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def put(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def plugin(root: Path, name: str, **manifest: Any) -> Path:
    put(
        root / ".claude-plugin" / "plugin.json",
        {"name": name, "version": "1", "description": "d", "author": {"name": "a"}, **manifest},
    )
    put(root / "skills" / "s" / "SKILL.md", "---\ndescription: d\n---\n")
    put(root / "agents" / "helper.md", "---\ndescription: d\n---\n")
    return root


def test_what_a_plugin_runs_is_shown_before_it_is_added(place: Path) -> None:
    root = plugin(
        place / "my plug",
        "plug",
        hooks={"Stop": [{"hooks": [{"type": "command", "command": "notify --token=hunter2hunter2"}]}]},
        mcpServers={
            "db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "args": ["a b"]},
            "web": {"type": "http", "url": "https://x.example"},
        },
    )
    shown = fleethook("plugins", "add", str(root), "--env-pass", "REGION", "--dry-run")
    assert shown.code == 0, shown.err
    for text in (
        "plug-Stop: notify",
        f"MCP server db: '{root}/db' 'a b'",
        "MCP server web: https://x.example (http)",
        "skills: s",
        "agents: helper",
        "its MCP servers get REGION of the environment",
        "+import:",
    ):
        assert text in shown.out, shown.out
    assert not (place.parent / "fh" / "config" / "fleethook.yaml").exists()

    added = fleethook("plugins", "add", str(root), "--yes", "--json", "--env-pass", "REGION").json
    assert (added["name"], added["written"], added["layer"], added["problems"]) == ("plug", True, "user", [])
    assert [server["name"] for server in added["mcp_servers"]] == ["db", "web"]
    assert added["env_pass"] == ["REGION"]
    again = fleethook("plugins", "add", str(root), "--yes")
    assert (again.code, "nothing to change" in again.err) == (0, True)
    (listed,) = [found for found in fleethook("plugins", "list", "--json").json if found["name"] == "plug"]
    assert (listed["hooks"], listed["skills"], listed["agents"], listed["mcp_servers"]) == (
        1,
        ["s"],
        ["helper"],
        ["db", "web"],
    )
    (whole,) = fleethook("plugins", "show", "plug", "--json").json
    assert whole["contents"]["MCP server"][0] == {"name": "db", "description": f"'{root}/db' 'a b'"}
    removed = fleethook("plugins", "remove", "plug", "--yes", "--json").json
    assert (removed["name"], removed["written"]) == ("plug", True)
    gone = fleethook("plugins", "show", "plug")
    assert (gone.code, "no plugin is called 'plug'" in gone.err) == (1, True)


def test_a_plugin_with_errors_is_not_added(place: Path) -> None:
    root = plugin(place / "plug", "plug", hooks={"PreToolUs": []}, keywords="x")
    refused = fleethook("plugins", "add", str(root), "--yes")
    assert refused.code == 1
    assert "plug has errors, and was not added" in refused.err
    assert "has no event 'PreToolUs'; did you mean" in refused.out
    checked = fleethook("plugins", "validate", str(root), "--json")
    assert (checked.code, checked.json["passes"]) == (1, False)
    assert [problem["line"] for problem in checked.json["problems"]] == [1, 1]
    assert not (place.parent / "fh" / "config" / "fleethook.yaml").exists()


def test_an_agent_adds_and_removes_no_plugin(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plugin(place / "plug", "plug")
    assert fleethook("plugins", "add", str(root), "--yes").code == 0
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "")
    for words in (("add", str(root)), ("remove", "plug"), ("disable", "plug")):
        refused = fleethook("plugins", *words, "--yes")
        assert (refused.code, "CLAUDECODE" in refused.err) == (1, True), refused.err


def test_a_marketplace_is_listed_and_one_of_its_plugins_added(place: Path) -> None:
    shop = place / "shop"
    plugin(shop / "plugins" / "one", "one")
    entries = [
        {"name": "one", "source": "./plugins/one"},
        {"name": "far", "source": {"source": "npm", "package": "far"}},
    ]
    put(shop / ".claude-plugin" / "marketplace.json", {"name": "shop", "owner": {"name": "a"}, "plugins": entries})
    listed = fleethook("plugins", "add", "shop", "--json").json
    assert [(offer["name"], offer["source"]) for offer in listed["plugins"]] == [
        ("one", "./plugins/one"),
        ("far", "npm far"),
    ]
    shopping = {"name": "shop", "owner": {"name": "a"}, "plugins": [*entries, {"name": "gone", "source": "./gone"}]}
    put(shop / ".claude-plugin" / "marketplace.json", shopping)
    gone = fleethook("plugins", "add", "gone@shop", "--yes")
    assert (gone.code != 0, "marketplace.json:" in gone.err, "there is no folder" in gone.err) == (True, True, True)
    put(shop / ".claude-plugin" / "marketplace.json", {**shopping, "plugins": entries})
    checkout = fleethook("plugins", "add", str(shop / "plugins"), "--yes")
    assert f"name one of the plugins below it: {shop / 'plugins' / 'one'}" in checkout.err
    far = fleethook("plugins", "add", "far@shop", "--yes")
    assert (far.code != 0, "Fleethook fetches nothing" in far.err) == (True, True)
    put(place.parent / ".claude" / "plugins" / "known_marketplaces.json", {"known": {"installLocation": str(shop)}})
    assert fleethook("plugins", "add", "one@known", "--yes").code == 0
    unknown = fleethook("plugins", "add", "one@other")
    assert "Claude Code knows no marketplace 'other' on this machine; name its folder, or one of: known" in unknown.err
    assert fleethook("plugins", "validate", "shop").code == 0
    put(shop / "plugins" / "one" / ".claude-plugin" / "plugin.json", '{"name": "one",}')
    broken = fleethook("plugins", "validate", "shop")
    assert (broken.code, "this is no JSON" in broken.out) == (1, True)


def test_a_project_may_add_plugins_and_its_file_is_trusted_again(place: Path) -> None:
    root = server_plugin(place / "kit", {"s": {}})
    added = fleethook("plugins", "add", str(root), "--layer", "project", "--yes")
    assert (added.code, "once you trust the project's file again" in added.out) == (0, True), added.err
    assert (place / "fleethook.yaml").read_text() == "import:\n  - {path: kit, dialect: claude}\n", (
        "its servers never start"
    )
