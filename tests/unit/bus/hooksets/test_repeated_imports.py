"""A file that two imports read, and variables with a default in header values."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.hooksets.hookfile import load_hook_file
from bus.secrets.references import fill

pytestmark = pytest.mark.req("G-06", "G-23")

CONFIG = """
hook_extensions:
  webhooks: {enabled: true, timeout: 4, endpoints: [
    {name: gate, url: "https://a.example/x", can_block: true}, {name: log, url: "https://a.example/y"}]}
  plugins: {enabled: true, plugins: {guard: {}}}
"""
PLUGIN = """
from gobby.hooks.plugins import GobbyPlugin, hook_handler

class Guard(GobbyPlugin):
    name = "guard"

    @hook_handler("before_tool", priority=10)
    def check(self, event):
        return {"continue": True}
"""


@pytest.mark.parametrize("imports", [["config.yaml", ""], ["", "config.yaml"], ["", "workflows"]])
def test_what_two_imports_read_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: list[str]) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".gobby"
    for name in ("plugins", "workflows"):
        (home / name).mkdir(parents=True)
    (home / "config.yaml").write_text(CONFIG)
    (home / "plugins/guard.py").write_text(PLUGIN)
    (home / "workflows/flow.yaml").write_text("name: flow\nsteps: [{name: a}]\n")
    file = tmp_path / "fleethook.yaml"
    file.write_text("import:\n" + "".join(f"  - ~/.gobby/{name}\n" for name in imports))
    read = load_hook_file(file, "user")
    assert sorted(hook.id for hook in read.hooks) == ["flow", "gate", "guard_check"]
    assert {hook.timeout for hook in read.hooks if hook.id == "gate"} == {4}
    assert [(target.id, plugin.name) for target in read.endpoints for plugin in read.plugins] == [("log", "guard")]
    assert sum("is imported twice" in warning for warning in read.warnings) == 1


def test_a_variable_with_a_default_is_filled_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_SET", "s")
    monkeypatch.setenv("KIT_EMPTY", "")
    monkeypatch.delenv("KIT_NONE", raising=False)
    values = {"a": "${KIT_SET:-d}", "b": "${KIT_EMPTY:-d}", "c": "Bearer ${env:KIT_NONE:-}", "d": "${KIT_NONE:-x:-y}"}
    assert fill(values) == {"a": "s", "b": "d", "c": "Bearer ", "d": "x:-y"}
