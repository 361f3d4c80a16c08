"""`import:`: hook files of other systems read in place, whosesoever they are; what is wrong is said, the rest loads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.config import documents
from bus.config.documents import TEXT_LIMIT
from bus.config.file_types import ImportEntry
from bus.config.schema import hook_file_schema
from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import HOOK_DIALECTS
from bus.hooksets.detect import detect_dialect
from bus.hooksets.hookfile import from_document, load_foreign, load_hook_file, to_document
from bus.hooksets.in_force import HookSet, Layered, Watcher
from bus.installs.hook_command import MARK
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.examples import examples
from workers.admin.plugins import plugins

PIGO = {"plugins": [{"name": "gate", "hooks": {"tool_start": [{"command": "exit 1", "match": {"tool": "bash"}}]}}]}
FORGE = {"hooks": [{"event": "tool:pre_execute:bash", "command": "exit 1"}]}
CLAUDE = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}}
GOBBY = {
    "hook_extensions": {
        "webhooks": {
            "enabled": True,
            "endpoints": [
                {"name": "policy", "url": "https://p.example/x", "events": ["before_tool"], "can_block": True},
                {"name": "told", "url": "https://p.example/y", "events": ["after_tool"]},
            ],
        }
    }
}
OURS = {"hooks": [{"on": "tool:pre_execute", "rule": {"decision": "ask"}}]}
MANIFEST = {"name": "memory", "version": "1.0.0"}


def put(folder: Path, name: str, value: Any) -> Path:
    """A file below the folder: text as it is, anything else as JSON."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2), encoding="utf-8")
    return path


@pytest.mark.req("G-23", "I-08", "P-01", "F-13")
@pytest.mark.parametrize(
    ("name", "value", "asked", "dialect"),
    [
        (".pigo/config.json", PIGO, "", "pigo"),
        ("old.json", PIGO, "", "pigo"),
        (".pigo/config.json", PIGO, ".pigo", "pigo"),
        (".forge/hooks.json", FORGE, "", "forge"),
        ("src/forge/hooks.json", FORGE, "src/forge", "forge"),
        ("anything.json", FORGE["hooks"], "", "forge"),
        (".gobby/config.yaml", GOBBY, "", "gobby"),
        (".gobby/config.yaml", GOBBY, ".gobby", "gobby"),
        (".claude/settings.json", CLAUDE, "", "claude"),
        (".claude/settings.json", CLAUDE, ".claude", "claude"),
        (".claude/settings.json", {"hooks": {"Stop": [{"hooks": [{"timeout": 5000}]}]}}, ".claude", "claude"),
        ("plug/hooks/hooks.json", CLAUDE, "", "claude"),
        ("plug/.claude-plugin/plugin.json", MANIFEST, "plug", "claude"),
        ("plugins/one/.claude-plugin/plugin.json", MANIFEST, "plugins", "claude"),
        (".ion/plugins/memory/.claude-plugin/plugin.json", MANIFEST, ".ion/plugins/memory", "ion"),
        (".ion/plugins/memory/.claude-plugin/plugin.json", MANIFEST, ".ion/plugins", "ion"),
        (".ion/plugins/memory/hooks/hooks.json", CLAUDE, "", "ion"),
        ("more/fleethook.yaml", OURS, "more", "fleethook"),
        ("ours.yaml", OURS, "", "fleethook"),
        ("empty.yaml", "", "", ""),
        ("strange.json", {"a": 1}, "", ""),
        ("folder/readme.md", "hello", "folder", ""),
    ],
)
def test_whose_hooks_these_are_is_told_by_name_and_content(
    tmp_path: Path, name: str, value: Any, asked: str, dialect: str
) -> None:
    path = put(tmp_path, name, value)
    assert detect_dialect(tmp_path / asked if asked else path)[1] == dialect


def _hooks(event: str = "Stop", **handler: Any) -> dict[str, Any]:
    return {"hooks": {event: [{"hooks": [{"type": "command", "command": "x", **handler}]}]}}


_SAYS: dict[str, tuple[str, Any]] = {
    "ion: its variable": ("hooks/hooks.json", _hooks(command="${PLUGIN_ROOT}/x.sh")),
    "ion: as a shell has it": ("hooks/hooks.json", _hooks(command="cat $ION_CWD/notes")),
    "ion: its variable beside Claude Code's, which it sets too": (
        "hooks/hooks.json",
        _hooks(command="${PLUGIN_ROOT}/x.sh ${CLAUDE_PLUGIN_ROOT}/y"),
    ),
    "ion: milliseconds": ("hooks/hooks.json", _hooks(timeout=5000)),
    "ion: its field": ("hooks/hooks.json", _hooks(command="jq -r .tool_output | tail")),
    "ion: its event field": ("hooks/hooks.json", _hooks(command="jq -r .event >> log")),
    "ion: its servers": ("mcp/mcp.json", {"mcp": {"command": "serve"}}),
    "ion: its scripts": ("commands/recall.sh", "echo hello"),
    "ion: its skills": ("skills/tidy.md", "Tidy"),
    "claude: its variable": ("hooks/hooks.json", _hooks(command="${CLAUDE_PLUGIN_ROOT}/x.sh")),
    "claude: its event": ("hooks/hooks.json", _hooks("WorktreeRemove")),
    "claude: its type": ("hooks/hooks.json", _hooks(type="mcp_tool", server="s", tool="t")),
    "claude: its key": ("hooks/hooks.json", _hooks(asyncRewake=True)),
    "claude: its servers": (".mcp.json", {"mcpServers": {"one": {"command": "serve"}}}),
}


@pytest.mark.req("I-04", "I-05", "I-07", "I-08")
@pytest.mark.parametrize("case", _SAYS)
@pytest.mark.parametrize("place", [".ion/plugins/one", ".claude/plugins/one", "elsewhere/one"])
def test_content_says_before_the_place_whose_a_plugin_is(tmp_path: Path, place: str, case: str) -> None:
    name, value = _SAYS[case]
    put(tmp_path / place, ".claude-plugin/plugin.json", MANIFEST)
    put(tmp_path / place, name, value)
    said = case.partition(":")[0]
    asked = (tmp_path / place, tmp_path / place / ".claude-plugin/plugin.json", (tmp_path / place).parent)
    assert {detect_dialect(one)[1] for one in asked} == {said}


@pytest.mark.req("I-04", "I-08")
@pytest.mark.parametrize("place", [".ion/plugins", "elsewhere"])
def test_each_plugin_of_a_folder_is_read_as_its_own(tmp_path: Path, place: str) -> None:
    for name, handler in (
        ("a", {"command": "${PLUGIN_ROOT}/x.sh", "timeout": 7000}),
        ("b", {"command": "${CLAUDE_PLUGIN_ROOT}/x.sh", "timeout": 7}),
        ("c", {"timeout": 700}),
    ):
        put(tmp_path / place, f"{name}/.claude-plugin/plugin.json", {"name": name})
        put(tmp_path / place, f"{name}/hooks/hooks.json", _hooks(**handler))
        put(tmp_path / place, f"{name}/x.sh", "#!/bin/sh\n").chmod(0o755)
    read, _ = load_foreign(tmp_path / place, "user")
    usual = ("ion", 0.7) if place.startswith(".ion") else ("claude", 700.0)
    assert [(hook.dialect, hook.timeout) for hook in read.hooks] == [("ion", 7.0), ("claude", 7.0), usual]
    assert [text for text in read.warnings if "timeout is" in text] == [], "none of them looks like the other unit"
    assert {hook.dialect for hook in load_foreign(tmp_path / place, "user", "ion")[0].hooks} == {"ion"}
    listed = plugins(
        [Layered("user", "1", load_hook_file(put(tmp_path, "fleethook.yaml", f"import: [{place}]"), "user"))]
    )
    assert [one.dialect for one in listed] == ["ion", "claude", usual[0]]


@pytest.mark.req("I-04", "I-08")
@pytest.mark.parametrize("timeout", [30, 600, 1800, 3600])
def test_content_that_says_nothing_or_both_leaves_it_to_the_place(tmp_path: Path, timeout: int) -> None:
    for place, dialect in ((".ion/plugins/one", "ion"), ("elsewhere/one", "claude")):
        put(tmp_path / place, ".claude-plugin/plugin.json", MANIFEST)
        hooks = put(tmp_path / place, "hooks/hooks.json", _hooks(timeout=timeout))
        assert {detect_dialect(hooks)[1], detect_dialect(tmp_path / place)[1]} == {dialect}
        put(tmp_path / place, "hooks/hooks.json", _hooks(timeout=5000, command="${CLAUDE_PLUGIN_ROOT}/x"))
        assert detect_dialect(hooks)[1] == dialect
        put(tmp_path / place, "hooks/hooks.json", '{"hooks": nothing')
        assert detect_dialect(tmp_path / place)[1] == dialect


@pytest.mark.req("F-11", "P-01", "G-06")
def test_files_of_other_systems_are_read_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hook keeps its own place, the importing file's layer, and an id that nobody else has; in order."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    put(home, ".pigo/config.json", PIGO)
    put(tmp_path, "project/.forge/hooks.json", FORGE)
    put(tmp_path, "gobby.yaml", GOBBY)
    file = put(
        tmp_path,
        "project/fleethook.yaml",
        """
on_failure: ask
hooks:
  - {id: policy, on: "*", command: own}
import:
  - ~/.pigo/config.json
  - {path: .forge, on_failure: deny}
  - {path: ../gobby.yaml, dialect: gobby}
  - {path: not/there, enabled: false}
""",
    )
    read = load_hook_file(file, "project")
    assert read.problems == ()
    own, pigo, forge, gobby = read.hooks
    assert [hook.dialect for hook in read.hooks] == ["fleethook", "pigo", "forge", "gobby"]
    assert [hook.position for hook in read.hooks] == [0, 1, 2, 3]
    assert {hook.layer for hook in read.hooks} == {"project"}
    assert (own.on_failure, pigo.on_failure, forge.on_failure, gobby.on_failure) == ("ask", "ask", "deny", "ask")
    assert pigo.origin == f"{home}/.pigo/config.json:7"
    assert forge.origin == f"{tmp_path}/project/.forge/hooks.json:3"
    assert own.id == "policy"
    assert gobby.id.startswith("policy-"), "an explicit id of the file itself stays"
    assert [one.dialect for one in read.endpoints] == ["gobby"]
    assert [(one.dialect, one.guessed, len(one.hooks)) for one in read.imports] == [
        ("pigo", True, 1),
        ("forge", True, 1),
        ("gobby", False, 1),
        ("", False, 0),
    ]
    assert load_hook_file(file, "project") == read, "the same at every reading, ids and all"
    published = from_document(to_document(read))
    assert [hook.id for hook in published.hooks] == [hook.id for hook in read.hooks]
    assert published.digest == read.digest

    put(tmp_path, "project/fleethook.yaml", 'import: [~/.pigo/config.json]\nhooks: [{on: "*", command: own}]')
    assert [hook.dialect for hook in load_hook_file(file, "user").hooks] == ["pigo", "fleethook"]


@pytest.mark.req("F-11", "F-18", "P-13")
def test_what_is_missing_or_broken_is_named_with_its_place_and_the_rest_loads(tmp_path: Path) -> None:
    put(tmp_path, "broken.json", '{"plugins": [\n  {"name": ]\n')
    put(tmp_path, "strange.yaml", "a: 1")
    put(tmp_path, "huge.json", '{"plugins": [' + " " * TEXT_LIMIT + "]}")
    put(
        tmp_path,
        "half.yaml",
        {
            "hook_extensions": {
                "webhooks": {"enabled": True, "endpoints": [{"url": "ftp://h/"}, {"url": "https://h.example/"}]}
            }
        },
    )
    os.mkfifo(tmp_path / "fifo.json")
    file = put(
        tmp_path,
        "fleethook.yaml",
        r"""
import:
  - missing.json
  - broken.json
  - strange.yaml
  - huge.json
  - fifo.json
  - "nul\0.json"
  - {path: half.yaml, dialect: gobbi}
  - {path: half.yaml, colour: red}
  - 3
  - half.yaml
  - half.yaml
hooks: [{id: own, on: "*", command: x}]
""",
    )
    read = load_hook_file(file, "user")
    found = [str(error).removeprefix(f"{tmp_path}/") for error in read.problems]
    expected = {
        "fleethook.yaml:3:": "missing.json is not imported: there is no such file or folder",
        "broken.json:2:": f"imported by {file}:4",
        "fleethook.yaml:5:": "it is not clear which system's hooks these are; name it with `dialect:`",
        "fleethook.yaml:6:": "the file is larger than 4 MiB",
        "fleethook.yaml:7:": "this is not a regular file",
        "fleethook.yaml:8:": "the path holds a NUL",
        "fleethook.yaml:9:": "dialect has to be",
        "fleethook.yaml:10:": 'unknown key "colour"',
        "fleethook.yaml:11:": "an import is a path",
        "fleethook.yaml:13:": f"it is imported twice; the first is in {file}:12",
        "half.yaml:": "the URL has to begin with https:// or http://",
    }
    for place, words in expected.items():
        assert any(one.startswith(place) and words in one for one in found), (place, words, found)
    assert len(found) == len(expected), found
    assert [hook.id for hook in read.hooks] == ["own"]
    assert [one.url for one in read.endpoints] == ["https://h.example/"]
    assert [one.broken for one in read.imports if one.path.endswith("broken.json")] == [True]


@pytest.mark.req("F-18")
def test_files_that_import_each_other_are_named_and_read_once(tmp_path: Path) -> None:
    def file(name: str, *imports: str) -> Path:
        text = f"hooks: [{{id: {name}, on: '*', command: x}}]\nimport: {json.dumps(imports)}\n"
        return put(tmp_path, f"{name}.yaml", text)

    top = file("a", "b.yaml", "d.yaml")
    file("b", "c.yaml", "./b.yaml")
    file("c", "a.yaml", "d.yaml")
    file("d")
    read = load_hook_file(top, "user")
    assert sorted(hook.id for hook in read.hooks) == ["a", "b", "c", "d"]
    circles = [str(error) for error in read.problems if "circle" in str(error)]
    assert len(circles) == 2
    assert any(
        "a.yaml -> " in one and "c.yaml -> " in one and one.startswith(f"{tmp_path}/c.yaml:2") for one in circles
    )
    assert any("imported twice" in str(error) for error in read.problems), "d is imported by a and c"
    with pytest.raises(ConfigError, match="no such file"):
        load_foreign(tmp_path / "none", "user")


def test_hooks_with_equal_names_get_ids_of_their_own_that_stay(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        put(tmp_path, f"{name}/.pigo/config.json", PIGO)
    imports = [f"{name}/.pigo/config.json" for name in ("one", "two", "three")]
    file = put(tmp_path, "fleethook.json", {"import": imports})
    before = {hook.origin: hook.id for hook in load_hook_file(file, "user").hooks}
    assert len(set(before.values())) == 3
    put(tmp_path, "fleethook.json", {"import": imports, "hooks": [{"id": "x", "on": "*", "command": "x"}]})
    after = {hook.origin: hook.id for hook in load_hook_file(file, "user").hooks}
    assert before.items() <= after.items()


def test_an_imported_fleethook_file_brings_its_guards_and_not_its_settings(tmp_path: Path) -> None:
    put(tmp_path, "shared.yaml", "guards: {destructive-commands: true}\nnetwork: {allow: ['127.0.0.1:9']}\nhooks: []")
    file = put(tmp_path, "fleethook.yaml", "import: [shared.yaml]\nguards: {destructive-commands: {observe: true}}")
    read = load_hook_file(file, "user")
    assert read.problems == ()
    assert read.guards["destructive-commands"].observe, "the importing file's own word counts"
    assert read.network_allow == ("127.0.0.1:9",)


def test_hooks_that_fleethook_itself_installed_are_not_asked_again(tmp_path: Path) -> None:
    """An agent's settings hold our own command after `fleethook install`: run by the bus, it would ask the bus."""
    entries = [{"type": "command", "command": command} for command in (f"python shim.py claude {MARK}", "exit 0")]
    put(tmp_path, ".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": entries}]}})
    read = load_hook_file(put(tmp_path, "fleethook.yaml", "import: [.claude/settings.json]"), "user")
    assert [hook.command for hook in read.hooks] == ["exit 0"]
    assert any("Fleethook's own hooks in it (1) are left out" in one for one in read.warnings)


def test_hooks_of_type_http_that_fleethook_installed_are_not_asked_again(tmp_path: Path) -> None:
    """As the commands: run by the bus, a call of the gateway would come back to the bus."""
    handlers = [
        {"type": "http", "url": url, "headers": {"Authorization": "Bearer $FLEETHOOK_TOKEN"}}
        for url in ("http://127.0.0.1:4665/v1/hooks/claude/PreToolUse?on_failure=deny", "https://policy.example/decide")
    ]
    put(tmp_path, ".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": handlers}]}})
    read = load_hook_file(put(tmp_path, "fleethook.yaml", "import: [.claude/settings.json]"), "user")
    assert [hook.http.url for hook in read.hooks if hook.http] == ["https://policy.example/decide"]
    assert any("Fleethook's own hooks in it (1) are left out" in one for one in read.warnings)


def test_the_schema_knows_every_dialect() -> None:
    schema = hook_file_schema()["$defs"]["ImportEntry"]
    assert set(schema["properties"]) == set(ImportEntry.__struct_fields__)
    found = json.dumps(schema["properties"]["dialect"])
    assert all(f'"{name}"' in found for name in HOOK_DIALECTS)


# --- Watching


@pytest.fixture
def watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watcher:
    """A watcher that looks at every event."""
    monkeypatch.setattr("bus.hooksets.in_force.POLL_SECONDS", 0.0)
    user, trust = tmp_path / "fleethook.yaml", tmp_path / "trust.json"
    return Watcher(Connections(""), Keys("t"), host="here", user_file=user, trust_file=trust)


def in_force(watcher: Watcher, cwd: str = "") -> list[str]:
    """The commands of the hooks in force."""
    return [hook.command for hook in watcher.for_event(Event(type="x", host="here", cwd=cwd)).hooks.values()]


@pytest.mark.req("B-04", "F-11")
def test_a_change_of_an_imported_file_is_seen(
    tmp_path: Path, watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "fleethook.yaml", "import: [later.json, plugins]\nhooks: [{id: a, on: '*', command: own}]")
    (tmp_path / "plugins").mkdir()
    assert in_force(watcher) == ["own"]
    pigo = put(tmp_path, "later.json", PIGO)
    assert in_force(watcher) == ["exit 1", "own"], "one that was missing is there now"
    put(tmp_path, "later.json", json.dumps(PIGO).replace("exit 1", "exit 9"))
    assert in_force(watcher) == ["exit 9", "own"]
    put(tmp_path, "later.json", "{")
    assert in_force(watcher) == ["exit 9", "own"], "broken while somebody edits it: what was in force stays"
    assert "the last good content stays in force" in caplog.text
    pigo.unlink()
    assert in_force(watcher) == ["own"], "taken away is another matter"
    put(tmp_path, "plugins/one/.claude-plugin/plugin.json", MANIFEST)
    assert in_force(watcher) == ["own"]
    put(tmp_path, "plugins/one/hooks/hooks.json", CLAUDE)
    assert in_force(watcher) == ["exit 2", "own"], "a file that appears in an imported folder"


# --- Anything at all

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**6),
    st.text(max_size=6),
    st.just("tool:pre_execute"),
    st.just("PreToolUse"),
    st.just("tool_start"),
    st.just("https://h.example/"),
)
_keys = st.sampled_from(
    [
        "hooks",
        "plugins",
        "name",
        "event",
        "command",
        "match",
        "tool",
        "matcher",
        "type",
        "timeout",
        "url",
        "hook_extensions",
        "webhooks",
        "endpoints",
        "enabled",
        "events",
        "headers",
        "PreToolUse",
        "args",
        "tool_start",
        "websocket",
        "env",
        "if",
        "x",
    ]
)
_anything = st.recursive(
    _leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=4)),
    max_leaves=14,
)


_SAMPLES = {"pigo": PIGO, "forge": FORGE, "claude": CLAUDE, "ion": CLAUDE, "gobby": GOBBY, "fleethook": OURS}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path in a value."""
    yield at
    if isinstance(value, (dict, list)):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(below, (*at, key))


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """The value with something else at a path."""
    if not at:
        return new
    here = dict(value) if isinstance(value, dict) else list(value)
    here[at[0]] = replaced(value[at[0]], at[1:], new)
    return here


_broken = st.sampled_from(sorted(_SAMPLES)).flatmap(
    lambda name: st.builds(
        lambda at, new: (name, replaced(_SAMPLES[name], at, new)),
        st.sampled_from(list(places(_SAMPLES[name]))),
        _anything | st.dictionaries(st.text(max_size=4), _anything, max_size=2),
    )
)


@given(_broken | st.tuples(st.sampled_from(HOOK_DIALECTS), _anything))
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.req("F-11", "P-13", "I-09")
def test_whatever_a_file_holds_it_is_read_or_named(tmp_path: Path, given_: tuple[str, Any]) -> None:
    """No content of any dialect's file breaks the file that imports it; what is in force can be compiled and published."""
    dialect, value = given_
    put(tmp_path, "given.json", value)
    entry = {"path": "given.json", "dialect": dialect}
    own = {"id": "own", "on": "*", "command": "x"}
    read = load_hook_file(put(tmp_path, "fleethook.json", {"import": [entry], "hooks": [own]}), "user")
    assert [hook.id for hook in read.hooks if hook.command == "x" and hook.dialect == "fleethook"][-1:] == ["own"]
    assert len(HookSet([Layered("user", "1", read)]).hooks) <= len(read.hooks)
    assert from_document(to_document(read)).digest == read.digest
    assert all(error.file for error in read.problems)


@pytest.mark.req("F-11")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (".pigo/config.json", PIGO),
        ("hooks.json", FORGE),
        ("settings.json", CLAUDE),
        ("config.json", GOBBY),
        ("fleethook.json", OURS),
    ],
)
def test_half_a_character_in_a_file_is_named_and_takes_nothing_with_it(tmp_path: Path, name: str, value: Any) -> None:
    whole, _ = load_foreign(put(tmp_path, f"a/{name}", value), "user")
    read, _ = load_foreign(put(tmp_path, f"b/{name}", value | {"_note": "\ud800"}), "user")
    assert (len(read.hooks), len(read.endpoints)) == (len(whole.hooks), len(whole.endpoints))
    (said,) = [text for text in read.warnings if "half of a character" in text]
    assert f"b/{name}:" in said


def test_a_file_is_read_once_for_whose_it_is_and_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = put(tmp_path, "hooks.json", CLAUDE), documents.read_file
    names: list[str] = []

    def read_file(path: Path) -> str:
        names.append(str(path))
        return real(path)

    monkeypatch.setattr(documents, "read_file", read_file)
    for count in (1, 2):
        assert len(load_foreign(path, "user")[0].hooks) == 1
        assert names == [str(path)] * count
