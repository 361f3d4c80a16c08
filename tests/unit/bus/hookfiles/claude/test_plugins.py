"""A plugin's folder as it is listed, and where Claude Code and ion keep hooks and plugins on a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.hookfiles.claude.locations import locations
from bus.hookfiles.claude.mcp_servers import McpServer
from bus.hookfiles.claude.plugins import plugin_contents


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return path


def plugin(root: Path, manifest: object) -> Path:
    write(root / ".claude-plugin" / "plugin.json", manifest)
    return root


@pytest.mark.req("I-13", "I-05")
def test_what_a_plugin_holds(tmp_path: Path) -> None:
    root = plugin(
        tmp_path / "plug",
        {
            "name": "plug",
            "version": "1.2",
            "description": "d",
            "commands": ["./commands", "./extra.md", "../x.md"],
            "mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "args": ["--x"], "env": {"A": "b"}}},
            "mcp": {"command": "node", "args": ["${PLUGIN_ROOT}/s.js"]},
        },
    )
    write(root / ".mcp.json", {"mcpServers": {"web": {"type": "http", "url": "https://x.io"}, "bad": {}}})
    write(root / "commands" / "review.md", "---\ndescription: Reviews it\n---\nDo it")
    write(root / "commands" / "git" / "push.md", "no front matter")
    write(root / "extra.md", "---\n: broken: [\n---\n")
    write(root / "skills" / "s1" / "SKILL.md", "---\nname: skill one\ndescription: d1\n---\n")
    (root / "skills" / "s2").mkdir()
    (root / "skills" / "s2" / "SKILL.md").symlink_to("/etc/hostname")
    got = plugin_contents(root)
    assert (got.name, got.version, got.description, got.root) == ("plug", "1.2", "d", str(root))
    assert [(one.name, one.description) for one in got.commands] == [
        ("git:push", ""),
        ("review", "Reviews it"),
        ("extra", ""),
    ]
    assert [(one.name, one.description) for one in got.skills] == [("skill one", "d1")]
    assert [(one.name, one.command, one.args, one.url) for one in got.mcp_servers] == [
        ("web", "", (), "https://x.io"),
        ("db", f"{root}/db", ("--x",), ""),
        ("plug", "node", (f"{root}/s.js",), ""),
    ]
    assert isinstance(got.mcp_servers[0], McpServer)
    assert got.mcp_servers[0].origin == f"{root}/.mcp.json:3"
    words = " ".join(map(str, got.problems))
    for word in ("the MCP server 'bad' has no command", "'../x.md' leads out", "SKILL.md' is a link that leads out"):
        assert word in words
    assert "extra.md" in got.warnings[0]
    only = plugin_contents(root, hooks_only=True)
    assert (only.commands, only.skills, only.mcp_servers, only.name) == ((), (), (), "plug")
    with pytest.raises(ConfigError, match="this is no folder"):
        plugin_contents(tmp_path / "gone")


@pytest.mark.req("I-08")
def test_where_hooks_are_on_a_machine(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "work"
    cache = home / ".claude" / "plugins" / "cache"
    for name in ("on", "off", "bound", "other"):
        plugin(cache / name, {"name": name})
    write(home / ".claude" / "settings.json", {"enabledPlugins": {"on@m": True, "off@m": False, "bound@m": True}})
    write(project / ".claude" / "settings.local.json", {"enabledPlugins": {"other@m": True}})
    write(
        home / ".claude" / "plugins" / "installed_plugins.json",
        {
            "version": 2,
            "plugins": {
                "on@m": [{"scope": "user", "installPath": "~/.claude/plugins/cache/on"}],
                "off@m": [{"scope": "user", "installPath": str(cache / "off")}],
                "bound@m": [{"scope": "project", "projectPath": str(project), "installPath": str(cache / "bound")}],
                "other@m": [{"scope": "project", "projectPath": "/else", "installPath": str(cache / "other")}],
            },
        },
    )
    (home / ".config" / "ion" / "plugins").mkdir(parents=True)
    (project / ".ion" / "plugins").mkdir(parents=True)
    found = locations(project, plugin_dirs=[cache / "other"], environ={"HOME": str(home)})
    assert [(one.dialect, one.layer, str(one.path.relative_to(tmp_path)), one.plugin) for one in found] == [
        ("claude", "user", "home/.claude/settings.json", ""),
        ("ion", "user", "home/.config/ion/plugins", ""),
        ("claude", "project", "work/.claude/settings.local.json", ""),
        ("ion", "project", "work/.ion/plugins", ""),
        ("claude", "session", "home/.claude/plugins/cache/other", ""),
        ("claude", "user", "home/.claude/plugins/cache/on", "on@m"),
        ("claude", "user", "home/.claude/plugins/cache/bound", "bound@m"),
    ]
