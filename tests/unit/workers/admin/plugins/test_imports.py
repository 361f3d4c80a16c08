"""Plugins of Claude Code and ion in a hook file: added with pins, accepted anew, switched, and taken out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.config.edit_add import replace_file
from bus.errors import ConfigError, NotFound
from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.plugins.folder_digest import folder_digest
from workers.admin.plugins.imports import (
    checked_marketplace,
    checked_plugin,
    file_with_plugin,
    file_with_switch,
    file_without_plugin,
    is_imported,
    offered_root,
)

pytestmark = pytest.mark.req("I-05", "X-10")


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def plugin(root: Path, name: str = "plug", servers: str = "") -> Path:
    put(root / ".claude-plugin" / "plugin.json", json.dumps({"name": name, **json.loads(servers or "{}")}))
    hook = {"type": "command", "command": 'sh "${CLAUDE_PLUGIN_ROOT}/check.sh"'}
    put(root / "hooks" / "hooks.json", json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}))
    put(root / "check.sh", "exit 0\n")
    return root


def add(file: Path, root: Path, *env_pass: str) -> str:
    checked, dialect = checked_plugin(root)
    edited = file_with_plugin(file, "user", checked, dialect, env_pass)
    replace_file(file, edited.after)
    return edited.after


SERVER = '{"mcpServers": {"s": {"command": "x"}}}'


def test_an_added_plugin_is_pinned_and_accepted_anew(tmp_path: Path) -> None:
    file, root = put(tmp_path / "fleethook.yaml", "# mine\nversion: 1\n"), plugin(tmp_path / "a b", servers=SERVER)
    first = add(file, root, "TOKEN")
    assert first.startswith("# mine\nversion: 1\n")
    read = load_hook_file(file, "user")
    assert ([hook.plugin for hook in read.hooks], read.problems) == (["plug"], ())
    assert (read.imports[0].servers, read.imports[0].env_pass) == (folder_digest(root), ("TOKEN",))
    assert [name for name, digest in read.hooks[0].pins.items() if digest] == [str(root / "check.sh")]
    assert add(file, root) == first

    put(root / "check.sh", "exit 2\n")
    assert add(file, root) != first
    put(root / "hooks" / "hooks.json", '{"hooks": {}}')
    (problem,) = load_hook_file(file, "user").problems
    assert "its content changed since you accepted it" in str(problem)
    assert f"`fleethook plugins add '{root}'`" in str(problem)
    add(file, root)
    assert (load_hook_file(file, "user").hooks, load_hook_file(file, "user").problems) == ((), ())


def test_a_plugin_is_switched_and_removed(tmp_path: Path) -> None:
    file = put(tmp_path / "fleethook.yaml", "import:\n  - first\n  - second   # the other\n")
    plugin(tmp_path / "first", "one")
    plugin(tmp_path / "second", "two")
    assert (is_imported(file, "two"), is_imported(file, "three")) == (True, False)
    replace_file(file, file_with_switch(file, "user", "one", False).after)
    assert [entry.enabled for entry in load_hook_file(file, "user").imports] == [True, False]
    assert file_with_switch(file, "user", "one", False).after == file.read_text()
    replace_file(file, file_with_switch(file, "user", "one", True).after)
    assert [hook.plugin for hook in load_hook_file(file, "user").hooks] == ["two", "one"]
    replace_file(file, file_without_plugin(file, "user", "one").after)
    assert file.read_text() == "import:\n  - second   # the other\n"
    replace_file(file, file_without_plugin(file, "user", "two").after)
    assert "import" not in file.read_text()
    with pytest.raises(NotFound, match="has no plugin 'two'"):
        file_without_plugin(file, "user", "two")
    with pytest.raises(NotFound, match="has no plugin 'two'"):
        file_with_switch(file, "user", "two", True)


def test_a_python_plugin_is_removed_by_the_same_command(tmp_path: Path) -> None:
    file = put(tmp_path / "fleethook.yaml", "plugins:\n  guard: false\n  other: false\n")
    replace_file(file, file_without_plugin(file, "user", "guard").after)
    assert file.read_text() == "plugins:\n  other: false\n"
    replace_file(file, file_without_plugin(file, "user", "other").after)
    assert "plugins" not in file.read_text()


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    file = put(tmp_path / "fleethook.yaml", "")
    add(file, plugin(tmp_path / "first"))
    with pytest.raises(ConfigError, match=r"a plugin 'plug' is added already, from .*first"):
        add(file, plugin(tmp_path / "second"))


def test_what_a_marketplace_offers(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "one", "one")
    (tmp_path / "plugins" / "loose").mkdir()
    entries = [
        {"name": "one", "source": "./plugins/one"},
        {"name": "far", "source": {"source": "github", "repo": "a/b"}},
        {"name": "loose", "source": "./plugins/loose", "mcpServers": {"x": {"command": "y"}}},
    ]
    shop = {"name": "shop", "owner": {"name": "a"}, "plugins": entries}
    put(tmp_path / ".claude-plugin" / "marketplace.json", json.dumps(shop))
    market, plugins = checked_marketplace(tmp_path)
    assert (market.problems, [checked.contents.name for checked, _ in plugins]) == ((), ["one", "loose"])
    assert offered_root(market, "one") == tmp_path / "plugins" / "one"
    with pytest.raises(ConfigError, match="github a/b; Fleethook fetches nothing: clone it, and add its folder"):
        offered_root(market, "far")
    with pytest.raises(ConfigError, match=r"defines mcpServers of 'loose'.*; move them into .*plugin.json"):
        offered_root(market, "loose")
    with pytest.raises(NotFound, match='did you mean "one"'):
        offered_root(market, "onee")


def test_the_digest_of_a_folder(tmp_path: Path) -> None:
    root = plugin(tmp_path / "plug")
    first = folder_digest(root)
    put(root / "__pycache__" / "x.pyc", "cache")
    put(root / ".git" / "index", "git")
    (root / "nothing").symlink_to(tmp_path / "gone")
    assert folder_digest(root) == first
    (root / "check.sh").rename(root / "check2.sh")
    assert folder_digest(root) != first
