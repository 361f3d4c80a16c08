"""Plugins in hook files: found by name, refused with their place, in Gobby's configuration too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.config.hook_file_value import from_document, to_document
from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.plugins.sources import find_source, plugin_files
from tests.support.plugins import DENIES, enabled, plugin


def test_a_plugin_is_found_by_the_name_of_its_class_and_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "other_file.py").write_text(plugin(DENIES, "wanted", head="raise SystemExit('ran')"))
    (tmp_path / "broken.py").write_text('class Broken(HookPlugin:\n    name = "broken-name"\n')
    (tmp_path / "_hidden.py").write_text(plugin(DENIES, "hidden"))
    (tmp_path / "test_wanted.py").write_text("from bus.plugins import HookPlugin")
    assert [Path(path).name for path in plugin_files(str(tmp_path))] == ["broken.py", "other_file.py"]
    for name, file in (("wanted", "other_file.py"), ("broken-name", "broken.py"), ("broken", "broken.py")):
        found = find_source(name, [str(tmp_path)])
        assert found is not None
        assert Path(found.path).name == file
    assert find_source("hidden", [str(tmp_path)]) is None


@pytest.mark.req("G-13")
def test_a_projects_plugin_comes_before_the_users(tmp_path: Path) -> None:
    user, project = tmp_path / "home/config/plugins", tmp_path / "project"
    for folder in (user, project / ".fleethook/plugins", project / ".gobby/plugins"):
        folder.mkdir(parents=True)
        (folder / "guard.py").write_text(plugin(DENIES, "guard"))
    file = project / "fleethook.yaml"
    file.write_text("plugins: {guard: true}")
    found = load_hook_file(file, "project")
    assert found.plugins[0].path == str(project / ".fleethook/plugins/guard.py")
    assert [hook.id for hook in found.hooks] == ["guard_check"]
    assert load_hook_file(file, "fleet").plugins[0].path == "", "each worker has its own copy"


@pytest.mark.req("G-13", "G-22")
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"gard": True}, 'no plugin is called "gard"; did you mean "guard"?'),
        ({"guard": {"timeout": -1}}, "timeout"),
        ({"guard": {"colour": "red"}}, "colour"),
        ({"guard": 7}, "has to be true, false or a mapping"),
        ({"needs": True}, "requires the plugin 'guard', which is not enabled here"),
        ({"left": True, "right": True}, "requires itself: left -> right -> left"),
        ({"x": {"path": "nowhere.py"}}, "there is no file"),
    ],
)
def test_what_cannot_be_enabled_is_named_and_the_rest_counts(
    tmp_path: Path, entries: dict[str, object], message: str
) -> None:
    folder = tmp_path / ".gobby" / "plugins"
    folder.mkdir(parents=True)
    needs = {
        "guard": "",
        "needs": "requires = ['guard']\n",
        "left": "requires = ['right']\n",
        "right": "requires = ('left',)\n",
    }
    for name, body in {**needs, "good": ""}.items():
        (folder / f"{name}.py").write_text(plugin(body + DENIES, name))
    file = tmp_path / "fleethook.yaml"
    file.write_text(json.dumps({"plugins": {**entries, "good": True}}))
    found = load_hook_file(file, "project")
    assert any(message in str(problem) for problem in found.problems), [str(problem) for problem in found.problems]
    assert all(problem.line for problem in found.problems)
    assert [loaded.name for loaded in found.plugins] == ["good"]
    assert [hook.id for hook in found.hooks] == ["good_check"]


@pytest.mark.req("G-13", "G-23")
def test_gobbys_configuration_enables_what_it_names(tmp_path: Path) -> None:
    folder = tmp_path / ".gobby" / "plugins"
    folder.mkdir(parents=True)
    for name in ("named", "off", "found"):
        (folder / f"{name}.py").write_text(plugin(DENIES, name))
    section = {
        "enabled": True,
        "plugin_dirs": [".gobby/plugins"],
        "plugins": {"named": {"config": {"a": 1}}, "off": {"enabled": False}},
    }
    (tmp_path / ".gobby" / "config.yaml").write_text(json.dumps({"hook_extensions": {"plugins": section}}))
    file = tmp_path / "fleethook.yaml"
    file.write_text("import: [.gobby/config.yaml]")
    found = load_hook_file(file, "project")
    assert [(loaded.name, loaded.config) for loaded in found.plugins] == [("named", {"a": 1})]
    assert [hook.id for hook in found.hooks] == ["named_check"]
    assert any("not named, so they stay off: found" in text for text in found.warnings)
    (folder / "named.py").write_text(plugin(DENIES + "    import os\n    os.environ.get('FH_X')\n", "named"))
    named = "named.py:16: the plugin 'named' reads the variable FH_X, which it does not get; write `env_pass: [FH_X]`"
    (said,) = [text for text in load_hook_file(file, "project").warnings if "FH_X" in text]
    assert f"{folder}/{named}" in said
    mine = load_hook_file(file, "user")
    assert [(loaded.name, loaded.env_pass) for loaded in mine.plugins] == [("named", ("FH_X",))]
    assert not [text for text in mine.warnings if "FH_X" in text], "the person's own has it, as in Gobby"
    (tmp_path / ".gobby" / "config.yaml").write_text(
        json.dumps({"hook_extensions": {"plugins": {**section, "enabled": False}}})
    )
    assert load_hook_file(file, "project").plugins == ()


@pytest.mark.req("G-13", "G-20", "G-23")
def test_a_plugin_that_gobbys_configuration_and_the_file_name_runs_once(tmp_path: Path) -> None:
    folder = tmp_path / ".gobby" / "plugins"
    folder.mkdir(parents=True)
    source = plugin(DENIES + "    import os\n    os.environ.get('FH_X')\n", "named")
    (folder / "named.py").write_text(source)
    entry = {"named": {"config": {"a": 1}}}
    section = {"enabled": True, "plugin_dirs": [".gobby/plugins"], "plugins": entry}
    (tmp_path / ".gobby" / "config.yaml").write_text(json.dumps({"hook_extensions": {"plugins": section}}))
    file = tmp_path / "fleethook.yaml"
    own = {"path": str(folder / "named.py"), "timeout": 3}
    file.write_text(json.dumps({"import": [".gobby/config.yaml"], "plugins": {"named": own}}))
    found = load_hook_file(file, "user")
    assert [(hook.id, hook.timeout) for hook in found.hooks] == [("named_check", 3.0)]
    assert [(loaded.name, loaded.config, loaded.env_pass) for loaded in found.plugins] == [("named", {}, ())]
    assert sorted(text.partition(": the")[2].split(",")[0] for text in found.warnings) == [
        f" plugin 'named' is also named at {tmp_path}/.gobby/config.yaml:1: it runs once",
        " plugin 'named' reads the variable FH_X",
    ]


def test_plugins_survive_publishing(tmp_path: Path) -> None:
    file = load_hook_file(enabled(tmp_path, {"tested": plugin(DENIES)}, config={"x": [1]}), "fleet")
    again = from_document(json.loads(json.dumps(to_document(file))))
    assert (again.plugins, again.hooks, again.digest) == (file.plugins, file.hooks, file.digest)
