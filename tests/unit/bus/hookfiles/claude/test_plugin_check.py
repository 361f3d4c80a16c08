"""A plugin is checked as Claude Code documents it: the forms that are published pass, and each mistake has its place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bus.config.documents import loads
from bus.errors import ConfigError
from bus.hookfiles.claude.manifest import check_manifest
from bus.hookfiles.claude.marketplaces import known_marketplaces, read_marketplace
from bus.hookfiles.claude.plugin_check import check_plugin
from tests.support.rows import rows

pytestmark = pytest.mark.req("I-05", "I-09")

ABOUT = {"name": "plug", "version": "1.0.0", "description": "d", "author": {"name": "a", "email": "a@b.example"}}
SCRIPT = "${CLAUDE_PLUGIN_ROOT}/scripts/x.sh"


def put(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    path.chmod(0o755 if path.suffix == ".sh" else 0o644)


def made(root: Path, manifest: object = None, **files: object) -> Path:
    """A plugin's folder; a file's name has `__` for each slash."""
    if manifest is not None:
        put(root / ".claude-plugin" / "plugin.json", manifest)
    for name, value in files.items():
        put(root / name.replace("__", "/"), value)
    return root


EVENTS = """
PreToolUse PostToolUse PostToolUseFailure PostToolBatch Notification UserPromptSubmit UserPromptExpansion SessionStart
SessionEnd Stop StopFailure SubagentStart SubagentStop PreCompact PostCompact PermissionRequest PermissionDenied Setup
TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult ConfigChange WorktreeCreate WorktreeRemove
InstructionsLoaded CwdChanged FileChanged
"""

PUBLISHED: dict[str, tuple[dict[str, Any], dict[str, object]]] = {
    # The forms of the plugins in anthropics/claude-code, anthropics/claude-plugins-official and others, written anew.
    "commands only": (
        ABOUT,
        {"commands/commit.md": "---\nallowed-tools: Bash(git add:*)\ndescription: d\n---\n!`git status`"},
    ),
    "agents and skills": (
        {
            **ABOUT,
            "keywords": ["review"],
            "license": "MIT",
            "repository": "https://x.example/r",
            "homepage": "https://x.example",
        },
        {
            "agents/a.md": "---\nname: a\ndescription: d\nmodel: inherit\ncolor: green\n---\nYou are",
            "skills/s/SKILL.md": "---\nname: s\ndescription: d\nlicense: Complete terms in LICENSE.txt\n---\n",
            "skills/s/scripts/run.py": "print()",
        },
    ),
    "hooks with a description, a matcher of several tools, no matcher": (
        ABOUT,
        {
            "hooks/hooks.json": {
                "description": "d",
                "hooks": {
                    "PreToolUse": [
                        {
                            "hooks": [{"type": "command", "command": f"python3 {SCRIPT}"}],
                            "matcher": "Edit|Write|MultiEdit",
                        }
                    ],
                    "SessionStart": [{"hooks": [{"type": "command", "command": SCRIPT}]}],
                    "Stop": [{"hooks": [{"type": "command", "command": f'"{SCRIPT}"', "timeout": 10}]}],
                    "PostToolUse": [
                        {
                            "matcher": "*",
                            "hooks": [{"type": "command", "command": SCRIPT, "async": True, "statusMessage": "…"}],
                        }
                    ],
                    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "node", "args": [SCRIPT]}]}],
                },
            },
            "scripts/x.sh": "#!/bin/sh\n",
        },
    ),
    "hooks in the manifest, and by path": (
        {**ABOUT, "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": SCRIPT}]}]}},
        {"scripts/x.sh": ""},
    ),
    "a list of hooks": (
        {**ABOUT, "hooks": ["./hooks/more.json", {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}]},
        {"hooks/more.json": {"hooks": {}}},
    ),
    "flat .mcp.json with http": (
        ABOUT,
        {
            ".mcp.json": {
                "web": {
                    "type": "http",
                    "url": "https://x.example/mcp",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
                "old": {"type": "sse", "url": "https://x.example/sse"},
                "here": {"command": "npx", "args": ["-y", "x@latest"], "env": {"A": "${A:-b}"}},
            }
        },
    ),
    "mcpServers wrapped and inline": (
        {
            **ABOUT,
            "mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "args": [], "cwd": "${CLAUDE_PLUGIN_ROOT}"}},
        },
        {".mcp.json": {"mcpServers": {"o": {"type": "http", "url": "https://o.example", "oauth": {"clientId": "c"}}}}},
    ),
    "ion": ({**ABOUT, "mcp": {"command": "node", "args": ["${PLUGIN_ROOT}/s.js"], "env": {}}}, {"s.js": ""}),
    "everything that is declared": (
        {
            **ABOUT,
            "$schema": "https://x.example/schema.json",
            "displayName": "Plug",
            "defaultEnabled": True,
            "commands": ["./commands", "./more.md"],
            "agents": ["./agents/a.md"],
            "skills": "./skills",
            "outputStyles": "./styles",
            "lspServers": {"go": {"command": "gopls", "extensionToLanguage": {".go": "go"}, "startupTimeout": 1000}},
            "userConfig": {"token": {"type": "string", "title": "t", "description": "d", "sensitive": True}},
            "channels": [{"server": "db", "userConfig": {}}],
            "mcpServers": {"db": {"command": "x"}},
            "dependencies": ["other", "other@shop", {"name": "third", "version": "^1.0.0"}],
            "settings": {"agent": "a"},
            "experimental": {"monitors": [{"name": "m", "command": "tail -f x", "description": "d"}]},
        },
        {
            "commands/c.md": "text",
            "more.md": "text",
            "agents/a.md": "---\ndescription: d\n---\n",
            "skills/s/SKILL.md": "---\ndescription: d\n---\n",
            "styles/x.md": "",
        },
    ),
    "every event that the published schema has": (
        {
            **ABOUT,
            "hooks": {
                event: [{"hooks": [{"type": "command", "command": "true", "timeout": 5}]}] for event in EVENTS.split()
            },
        },
        {},
    ),
    "a script in single quotes, and one with arguments": (
        ABOUT,
        {
            "hooks/hooks.json": {
                "hooks": {
                    "PreToolUse": [
                        {"hooks": [{"type": "command", "command": "python3 '${CLAUDE_PLUGIN_ROOT}/scripts/r.py'"}]}
                    ],
                    "SessionStart": [
                        {
                            "matcher": "startup|resume|clear|compact",
                            "hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}/scripts/x.sh" start'}],
                        }
                    ],
                }
            },
            "scripts/r.py": "",
            "scripts/x.sh": "",
        },
    ),
    "a server with fields of others": (
        ABOUT,
        {
            ".mcp.json": {
                "r": {"type": "stdio", "command": "R", "args": ["-e", "x()"], "extensionToLanguage": {".R": "r"}}
            }
        },
    ),
    "commands by name": (
        {**ABOUT, "commands": {"about": {"source": "./README.md", "description": "d"}, "hi": {"content": "Say hi"}}},
        {"README.md": "text"},
    ),
}


@pytest.mark.parametrize("form", PUBLISHED)
@pytest.mark.parametrize("folder", ["plug", "a folder with  spaces/größe 日本/plug"])
def test_published_forms_pass(form: str, folder: str, tmp_path: Path) -> None:
    manifest, files = PUBLISHED[form]
    root = tmp_path / folder
    made(root, manifest)
    for name, value in files.items():
        put(root / name, value)
    checked = check_plugin(root, "ion" if form == "ion" else "claude")
    assert [str(problem) for problem in checked.problems] == []
    expected = ("is empty", "no event", "WorktreeCreate is not run here", "InstructionsLoaded")
    assert [text for text in checked.warnings if not any(words in text for words in expected)] == []


def test_a_folder_without_a_manifest_is_a_plugin(tmp_path: Path) -> None:
    root = tmp_path / "bare"
    put(root / "hooks" / "hooks.json", {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}})
    checked = check_plugin(root, "claude")
    assert (checked.contents.name, len(checked.file.hooks), checked.problems) == ("bare", 1, ())
    assert "there is no .claude-plugin/plugin.json" in checked.warnings[0]


@rows(
    ("more", "place", "message"),
    [
        ({"version": 2}, (3, 13), "version has to be text, not a whole number; put it in quotes"),
        ({"keywords": "a"}, (3, 14), "keywords has to be a list, not text; put it in brackets: [ … ]"),
        ({"author": "Ana"}, (3, 12), "author has to be a mapping (`key: value`), not text"),
        ({"hooks": {"PreToolUse": {}}}, (4, 17), "hooks.PreToolUse has to be a list"),
        ({"agents": {"a": 1}}, (3, 12), "agents has to be text or a list"),
        ({"userConfig": {"a-b": {"type": "string", "title": "", "description": ""}}}, (4, 3), "cannot name an option"),
        ({"userConfig": {"a": {"type": "text", "title": "", "description": ""}}}, (5, 12), "not 'text'"),
        ({"lspServers": {"go": {"command": "gopls"}}}, (4, 9), '"extensionToLanguage" is missing'),
        ({"channels": [{"server": "x", "sever": "y"}]}, (6, 4), 'unknown key "sever"'),
        ({"monitors": [{"name": "m"}]}, (4, 3), '"command" is missing in monitors[0]'),
        ({"dependencies": [{"nam": "x"}]}, (4, 3), '"name" is missing in dependencies[0]'),
        ({"mcpServers": {"x": 1}}, (4, 8), "mcpServers.x has to be a mapping"),
    ],
)
def test_a_mistake_in_the_manifest_has_its_place(more: dict[str, Any], place: tuple[int, int], message: str) -> None:
    document = loads(json.dumps({"name": "plug", **more}, indent=1), file="plugin.json")
    (problem,) = check_manifest(document).problems
    assert ((problem.line, problem.column), message in str(problem)) == (place, True), str(problem)


def test_what_works_and_is_not_meant_so_is_a_warning(tmp_path: Path) -> None:
    root = made(
        tmp_path / "plug",
        {"name": "My Plug", "comands": 1, "commands": "more.md", "monitors": []},
        commands__x="",
    )
    put(root / "more.md", "")
    put(root / ".claude-plugin" / "skills" / "s.md", "")
    put(root / "skills" / "s" / "SKILL.md", "---\nname: s\n---\n")
    checked = check_plugin(root, "claude")
    assert checked.problems == ()
    words = "\n".join(checked.warnings)
    for text in (
        'unknown field "comands"; did you mean "commands"?',
        "the name 'My Plug' is not in kebab-case",
        "there is no version",
        "Claude Code refuses the path 'more.md'; write ./more.md",
        "the folder commands/ is not read",
        "monitors are experimental",
        ".claude-plugin/skills: it is not read there",
        "the skill 's' has no description",
    ):
        assert text in words, words
    assert "plugin.json:3:2: unknown field" in words


@pytest.mark.req("I-10")
def test_mistakes_in_servers_hooks_and_paths(tmp_path: Path) -> None:
    root = made(tmp_path / "plug", {**ABOUT, "commands": ["./gone"], "hooks": "../x.json", "mcpServers": "./gone.json"})
    put(
        root / ".mcp.json",
        {"a": {}, "b": {"command": "x", "url": "y"}, "c": {"type": "htp", "url": "y"}, "d": {"command": 1}},
    )
    put(root / "hooks" / "hooks.json", '{"hooks": {"PreToolUs": [], "Stop": [{"hooks": [{"type": "command"}]}]}}')
    put(tmp_path / "x.json", {})
    words = "\n".join(map(str, check_plugin(root, "claude").problems))
    for text in (
        "'./gone' is not there",
        "leads out of its folder",
        "there is no file './gone.json'",
        "'a' has no command and no url",
        "'b' has a command and a url",
        "not 'htp'",
        "command has to be text",
        "Claude Code has no event 'PreToolUs'; did you mean",
        "hooks.json:1:",
    ):
        assert text in words, words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"name": "plug", "keywords": ["a",]}',
            "plugin.json:1:34: this is no JSON: Illegal trailing comma before end of array; Claude Code reads"
            if sys.version_info >= (3, 13)
            else "plugin.json:1:35: this is no JSON: Expecting value; Claude Code reads",
        ),
        ("name: plug", "this is no JSON"),
        ('{"name": "plug", "hooks": "./a\\u0000b"}', "cannot be a path"),
        ('{"name": "plug", "commands": ["./' + "x" * 5000 + '"]}', "is not there"),
        ('{"name": "a", "name": "b"}', "is here for the second time"),
        ("[" * 5000, "deeper than 32 levels"),
        ("\x00", "plugin.json:1:1"),
    ],
)
def test_texts_that_are_no_manifest(text: str, message: str, tmp_path: Path) -> None:
    put(tmp_path / "plug" / ".claude-plugin" / "plugin.json", text)
    problems = check_plugin(tmp_path / "plug", "claude").problems
    words = "\n".join(map(str, problems))
    assert message in words, words
    assert len(problems) == 1, "a mistake is said once"


def test_a_marketplace_lists_and_checks_its_plugins(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    made(root / "plugins" / "one", {**ABOUT, "name": "one"})
    (root / "plugins" / "loose").mkdir()
    (root / "plugins" / "out").symlink_to("/etc")
    entries: list[dict[str, Any]] = [
        {"name": "one", "source": "./plugins/one", "version": "1", "category": "x", "tags": ["a"], "strict": True},
        {"name": "hub", "source": {"source": "github", "repo": "a/b", "sha": "a" * 40}},
        {"name": "sub", "source": {"source": "git-subdir", "url": "https://x.example", "path": "p", "ref": "main"}},
        {"name": "npm", "source": {"source": "npm", "package": "@a/b"}},
        {"name": "loose", "source": "./plugins/loose", "strict": False, "hooks": {}, "lspServers": {}},
        {"name": "gone", "source": "./plugins/gone"},
        {"name": "up", "source": "../shop2"},
        {"name": "out", "source": "./plugins/out"},
        {"name": "odd", "source": {"source": "ftp", "url": "x"}},
        {"name": "short", "source": {"source": "url", "url": "x", "sha": "abc"}},
        {"name": "one", "source": "./plugins/one"},
        {"name": "none"},
        {"source": "./plugins/one", "keywords": 3},
    ]
    put(
        root / ".claude-plugin" / "marketplace.json",
        {"name": "shop", "owner": {"name": "a"}, "plugins": entries, "plugns": 1},
    )
    found = read_marketplace(root)
    offers = {offer.name: offer for offer in found.offers}
    assert (found.name, offers["one"].root, offers["one"].version) == ("shop", str(root / "plugins" / "one"), "")
    assert [offers[name].source for name in ("hub", "sub", "npm")] == [
        "github a/b",
        "git-subdir https://x.example p",
        "npm @a/b",
    ]
    assert offers["loose"].defines == ("hooks",)
    words = "\n".join(map(str, found.problems))
    for text in (
        "there is no folder",
        "leads out of its folder",
        "is a link that leads out",
        "the source has to be a path, or an object of kind npm, url",
        "sha has to match",
        "a plugin 'one' is in the list before",
        '"source" is missing; add',
        '"name" is missing',
        "keywords has to be a list",
    ):
        assert text in words, words
    assert all(problem.line for problem in found.problems)
    assert 'unknown field "plugns"; did you mean "plugins"?' in "\n".join(found.warnings)


def test_a_marketplace_needs_a_name_an_owner_and_plugins(tmp_path: Path) -> None:
    put(tmp_path / ".claude-plugin" / "marketplace.json", {"owner": "Ana", "metadata": {"pluginRoot": "./plugins"}})
    assert [str(problem).partition(": ")[2] for problem in read_marketplace(tmp_path).problems] == [
        "owner has to be a mapping (`key: value`), not text",
        '"name" is missing; add "name": "my-marketplace"',
        '"plugins" is missing; add "plugins": []',
    ]
    made(tmp_path / "plugins" / "a", ABOUT)
    entry = {"name": "a", "source": "a"}
    shop = {"name": "s", "owner": {"name": "a"}, "metadata": {"pluginRoot": "./plugins"}, "plugins": [entry]}
    put(tmp_path / ".claude-plugin" / "marketplace.json", shop)
    for source in ("a", "./a", "./plugins/a"):  # people also write the whole path beside `pluginRoot`
        entry["source"] = source
        put(tmp_path / ".claude-plugin" / "marketplace.json", shop)
        (offer,) = read_marketplace(tmp_path).offers
        assert offer.root == str(tmp_path / "plugins" / "a")
    put(tmp_path / ".claude-plugin" / "marketplace.json", '{"name": "s",, }')
    with pytest.raises(ConfigError, match="this is no JSON"):
        read_marketplace(tmp_path)


def test_marketplaces_that_claude_code_knows(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    put(shop / ".claude-plugin" / "marketplace.json", {"name": "shop", "owner": {"name": "a"}, "plugins": []})
    put(
        tmp_path / ".claude" / "plugins" / "known_marketplaces.json",
        {
            "shop": {"source": {"source": "github"}, "installLocation": str(shop)},
            "gone": {"installLocation": "/gone"},
            "x": 1,
        },
    )
    assert known_marketplaces(tmp_path) == {"shop": shop}
    assert known_marketplaces(shop) == {}
