"""What a plugin's source says about its handlers, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.agents.gobby import handler_events
from bus.errors import ConfigError
from bus.hooksets.plugins.classes import plugin_classes
from bus.hooksets.plugins.sources import find_source
from tests.support.plugins import plugin


def handlers(source: str) -> list[tuple[str, str, int]]:
    (found,) = plugin_classes(source, "p.py")
    assert found.complete, found
    return [(handler.method, handler.event, handler.priority) for handler in found.handlers]


@pytest.mark.req("G-12", "G-13")
def test_every_spelling_of_a_handler_is_read() -> None:
    source = plugin(
        """
        OWN = 7
        @hook_handler(HookEventType.BEFORE_TOOL)
        def a(self, event): ...
        @hook_handler(event_type=HookEventType.PRE_TOOL_CALL, priority=EARLY)
        async def b(self, event): ...
        @hook_handler(EVENT, OWN)
        def c(self, event): ...
        @hook_handler(HookEventType.STOP.value, -1)
        def d(self, event): ...
        @hook_handler("tool:*:write", priority=60)
        def e(self, event, core_response): ...
        def not_a_handler(self): ...
        """,
        head='EARLY = 5\nEVENT = "PreToolUse"',
    )
    expected = [("a", "before_tool", 50), ("b", "pre_tool_call", 5), ("c", "PreToolUse", 7), ("d", "stop", -1)]
    assert handlers(source) == [*expected, ("e", "tool:*:write", 60)]


def test_other_names_base_classes_and_requires_are_followed() -> None:
    source = """
import gobby.hooks.plugins as gobby
from bus.plugins import HookPlugin as Base, hook_handler as on

class Shared(Base):
    @on("stop", 1)
    def ends(self, event): ...
    @on("stop", 2)
    def replaced(self, event): ...

class One(Shared):
    name: str = "one"
    requires = ["two"]
    def replaced_not(self): ...
    @gobby.hook_handler("session_start", 3)
    def replaced(self, event): ...

class Two(gobby.HookPlugin):
    name = "two"
"""
    one, two = plugin_classes(source, "p.py")
    assert [(handler.method, handler.event) for handler in one.handlers] == [
        ("ends", "stop"),
        ("replaced", "session_start"),
    ]
    assert (one.name, one.requires, one.complete, two.name, two.handlers) == ("one", ("two",), True, "two", ())


@pytest.mark.parametrize(
    ("base", "decorator"),
    [
        ("Elsewhere", '"stop"'),
        ("HookPlugin", "choose()"),
        ("HookPlugin", '"stop", priority=int("5")'),
        ("HookPlugin", "**options"),
    ],
)
def test_what_only_loading_shows_is_not_taken_for_all(base: str, decorator: str) -> None:
    method = f"    @hook_handler({decorator})\n    def f(self, event): ...\n"
    (found,) = plugin_classes(f'class A({base}):\n    name = "a"\n{method}', "p.py")
    assert (found.name, found.complete) == ("a", False)


def test_a_source_that_is_not_python_is_an_error_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"p\.py:2: this is not valid Python"):
        plugin_classes("x = 1\nclass :", "p.py")


@pytest.mark.parametrize(
    ("event", "patterns"),
    [
        ("before_tool", ("tool:pre_execute",)),
        ("PreToolUse", ("tool:pre_execute",)),
        ("post-tool-call", ("tool:post_execute", "tool:error")),
        ("after_agent", ("agent:stop", "agent:end")),
        ("stop", ("agent:stop",)),
        ("tool:*:write, session:*", ("tool:*:write", "session:*")),
        ("no_such_event", ("no_such_event",)),
    ],
)
def test_a_handlers_event_is_a_pattern(event: str, patterns: tuple[str, ...]) -> None:
    assert handler_events(event) == patterns


@pytest.mark.req("G-11", "G-13")
def test_names_and_priorities_that_are_put_together_from_constants_are_read() -> None:
    source = (
        plugin(
            """
        @hook_handler(EVENT, priority=Priority.EARLY + 4)
        def a(self, event): ...
        """,
            name="tested",
            head='class Priority:\n    EARLY = 5\nEVENT = HookEventType.BEFORE_TOOL\nNAME = f"{\'guard\'}-" + "one"',
        )
        .replace("'tested'", "NAME")
        .replace('"tested"', "NAME")
    )
    (found,) = plugin_classes(source, "p.py")
    assert (found.name, found.handlers[0][:3]) == ("guard-one", ("a", "before_tool", 9))


@pytest.mark.req("G-13")
def test_a_plugin_that_a_call_makes_is_found_by_its_name_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(plugin("requires = ['made-here']", name="asks"))
    (tmp_path / "factory.py").write_text("from makers import make_plugin\nMade = make_plugin('made-here', 'word')\n")
    found = find_source("made-here", [str(tmp_path)])
    assert found is not None, "no class has this name"
    assert Path(found.path).name == "factory.py"
    assert find_source("nowhere", [str(tmp_path)]) is None
