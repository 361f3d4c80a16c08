"""Loading plugins, their config and their actions, and the fixture that does it in a test's process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bus.errors import ConfigError
from bus.events import Event
from bus.plugins.plugin import PluginAction
from bus.plugins.schema import problems_of
from bus.testing.memory_bus import SyncMemoryBus
from tests.support.plugins import DENIES, plugin, tool_call

ROOT = Path(__file__).parents[4]
SCHEMA = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "minLength": 1},
        "times": {"type": "integer", "minimum": 1, "default": 3},
        "words": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["a", "b"]},
        "share": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "step": {"multipleOf": 5},
        "two": {"type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": True},
        "who": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"]}]},
        "one": {"oneOf": [{"type": "integer"}, {"minimum": 10}]},
        "both": {"allOf": [{"type": "string"}, {"pattern": "^a"}], "not": {"const": "ab"}},
        "limits": {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "patternProperties": {"^x-": {"type": "string"}},
        },
        "version": {"const": 1},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"url": "x"}, ""),
        ({"url": "x", "times": 2, "words": ["a"], "mode": "b"}, ""),
        ({}, "url is missing"),
        ({"url": 1}, "url has an invalid type: it has to be string, it is integer"),
        ({"url": ""}, "url has to have at least 1 characters"),
        ({"url": "x", "times": True}, "times has an invalid type: it has to be integer, it is boolean"),
        ({"url": "x", "times": 0}, "times has to be at least 1"),
        ({"url": "x", "words": [1]}, "words[0] has an invalid type: it has to be string, it is integer"),
        ({"url": "x", "mode": "c"}, "mode has to be one of 'a', 'b'"),
        ({"url": "x", "uri": "y"}, "uri is not known"),
        ({"url": "x", "share": 0.5, "step": 10, "two": [1, 2], "who": "ana", "one": 5, "both": "ac", "version": 1}, ""),
        ({"url": "x", "share": 1}, "share has to be less than 1"),
        ({"url": "x", "step": 7}, "step has to be a multiple of 5"),
        ({"url": "x", "two": []}, "two has to have at least 1 members"),
        ({"url": "x", "two": [1, 1, 1]}, "two has a member twice"),
        ({"url": "x", "who": {"name": "ana"}}, "who fits none of its forms: who has an invalid type"),
        ({"url": "x", "one": 12}, "one fits 2 of its forms, and has to fit one"),
        ({"url": "x", "both": "b"}, "both does not fit '^a'"),
        ({"url": "x", "both": "ab"}, "both has the form that it must not have"),
        ({"url": "x", "limits": {"x-a": "b", "cpu": 2}}, ""),
        ({"url": "x", "limits": {"cpu": "2"}}, "limits.cpu has an invalid type: it has to be integer"),
        ({"url": "x", "limits": {"x-a": 1}}, "limits.x-a has an invalid type: it has to be string"),
        ({"url": "x", "version": 2}, "version has to be 1"),
    ],
)
def test_a_value_is_checked_against_a_schema(value: dict[str, object], problem: str) -> None:
    found = problems_of(SCHEMA, value)
    assert any(problem in text for text in found) if problem else found == []
    assert PluginAction("x", print, SCHEMA).validate_input(value)[0] is (not problem)


@pytest.mark.req("G-11")
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "objekt"}, "'type' of the schema is 'objekt'; there are string, number"),
        ({"type": "object", "properties": ["words"]}, "'properties' of the schema is not a mapping"),
        ({"properties": {"words": {"type": "list"}}}, "'type' of 'words' is 'list'"),
        ({"properties": {"words": "string"}}, "'words' is neither a mapping nor true or false"),
        ({"properties": {"id": {"pattern": "(["}}}, "the pattern '([' of 'id' is none"),
        ({"required": "url"}, "'required' of the schema is not a list"),
        ({"items": {"minimum": "1"}}, "'minimum' of 'items' of the schema is not a number"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_place(
    schema: dict[str, object], problem: str, tmp_path: Path, hook_plugin: Callable[..., SyncMemoryBus]
) -> None:
    """A mistake in a schema would let every config pass."""
    file = tmp_path / "tested.py"
    file.write_text(plugin(f"config_schema = {schema!r}\n{DENIES}"))
    with pytest.raises(ConfigError, match="its config_schema is no JSON Schema") as caught:
        hook_plugin(file).request(tool_call())
    assert problem in str(caught.value)


CONFIGURED = """
import dataclasses

@dataclasses.dataclass
class Config:
    word: str
    times: int = 3
"""


@pytest.mark.req("G-11", "G-21")
def test_the_fixture_runs_a_plugin_without_a_server(tmp_path: Path, hook_plugin: Callable[..., SyncMemoryBus]) -> None:
    file = tmp_path / "p.py"
    body = """
    config_schema = Config
    def on_load(self, config):
        self.config, self.seen = config, []
        self.register_condition("is_calm", lambda: True)
        self.register_workflow_action("post", {"required": ["url"]}, print)
    @hook_handler(HookEventType.BEFORE_TOOL, priority=60)
    def saw(self, event, core_response):
        self.seen.append(core_response.decision)
    """
    file.write_text(plugin(DENIES + body.replace("\n    ", "\n"), head=CONFIGURED))
    bus = hook_plugin(file, {"word": "x"})
    assert bus.request(tool_call("forbidden")).reason == "the plugin says no"
    assert bus.request(tool_call("ls")).decision == "abstain"
    loaded = bus.plugin("tested")
    assert loaded.config == {"word": "x", "times": 3}  # type: ignore[attr-defined]
    assert loaded.seen == ["deny", "allow"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="has an action 'post' already"):
        loaded.register_workflow_action("post", {}, print)
    with pytest.raises(ConfigError, match="required field `word`"):
        hook_plugin(file, {"times": 4}).plugin("tested")
    with pytest.raises(ConfigError, match="colour not known"):
        hook_plugin(file, {"word": "x", "colour": "red"}).plugin("tested")


@pytest.mark.req("G-11", "G-12")
def test_an_event_that_fits_a_method_twice_is_one_call(
    tmp_path: Path, hook_plugin: Callable[..., SyncMemoryBus]
) -> None:
    source = """
from gobby.hooks import HookEventType as E, HookPlugin, HookResponse, hook_handler

class Twice(HookPlugin):
    name = "twice"
    calls = 0

    @hook_handler(E.STOP, priority=10)
    @hook_handler(E.AFTER_AGENT, priority=10)
    def stop(self, event):
        self.calls += 1
        return HookResponse(context=f"call {self.calls}")
"""
    (tmp_path / "twice.py").write_text(source)
    bus = hook_plugin(tmp_path / "twice.py")
    assert bus.request(Event(type="agent:stop", source="claude", session="s")).contexts == ("call 1",)


@pytest.mark.req("G-11")
@pytest.mark.parametrize("root", ["gobby", "src"])
def test_gobbys_module_names_are_ours(root: str, tmp_path: Path, hook_plugin: Callable[..., SyncMemoryBus]) -> None:
    """Both package roots that Gobby had; and a class that another file's base class makes a plugin."""
    source = plugin(DENIES).replace("from gobby.", f"from {root}.")
    source += f"""
from {root}.hooks.plugins import PluginRegistry
from {root}.workflows.actions import ActionContext

class Later(Tested):
    name = "later"

    @hook_handler(HookEventType(value="PreToolUse"), priority=int("1"))
    def first(self, event):
        return HookResponse(decision="ask", reason=ActionContext(event_data={{"a": "found"}}).get("a"))
"""
    file = tmp_path / "both.py"
    file.write_text(source)
    verdict = hook_plugin(file).request(tool_call("forbidden"))
    assert [part.hook for part in verdict.parts] == ["tested_check"]
    asked = hook_plugin(file).request(tool_call("ls"))
    assert (asked.decision, asked.reason) == ("ask", "found"), "a handler that the source does not show is called too"


@pytest.mark.req("X-14")
def test_a_plugins_process_starts_without_the_readers_of_commands_and_hook_files() -> None:
    """Each reload starts one, so it imports what it runs plugins with, and no more."""
    code = "import sys, bus.plugins.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"bus.shell", "bus.matching.rules", "bus.config.documents", "bus.hookfiles.gobby", "email", "yaml"}
    assert not heavy & {*done.stdout.split()}
