"""Tests of plugins that were written for Gobby: its modules, `PluginLoader` and `run_plugin_handlers`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from bus.plugins import HookEvent, HookEventType, HookPlugin, HookResponse, SessionSource, hook_handler
from bus.plugins.gobby_config import HookExtensionsConfig, PluginItemConfig, PluginsConfig, WebhookEndpointConfig
from bus.plugins.gobby_loader import PluginLoader, run_plugin_handlers
from bus.plugins.registry import PluginRegistry

pytestmark = pytest.mark.req("G-11", "G-13", "G-15")

SOURCE = """
from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

class First(HookPlugin):
    name = "first"

    def on_load(self, config):
        self.word = config.get("word", "forbidden")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def check(self, event):
        if self.word in str(event.data):
            return HookResponse(decision="block", reason="WHY")

class Second(HookPlugin):
    name = "second"
"""


def event(kind: HookEventType = HookEventType.BEFORE_TOOL, **data: Any) -> HookEvent:
    return HookEvent(kind, "s", SessionSource.CLAUDE, datetime.now(UTC), data)


def test_its_modules_are_found_by_the_names_that_its_tests_import() -> None:
    names = ("HookPlugin", "PluginLoader", "PluginRegistry", "RegisteredHandler", "hook_handler", "run_plugin_handlers")
    plugins = import_module("gobby.hooks.plugins")
    assert [getattr(plugins, name).__name__ for name in names] == list(names)
    for module in ("gobby.config.app", "gobby.config.extensions"):
        assert import_module(module).PluginsConfig is PluginsConfig
    assert import_module("gobby.hooks.events").HookEventType is HookEventType
    with pytest.raises(ModuleNotFoundError):
        import_module("gobby.sessions.manager")


@pytest.mark.req("G-16")
async def test_an_executor_runs_the_actions_of_plugins_and_they_render_texts() -> None:
    actions = import_module("gobby.workflows.actions")

    class Acting(HookPlugin):
        name = "acting"

        async def greet(self, context: Any, **_: Any) -> dict[str, Any]:
            context.state.variables["n"] = 1
            return {"text": context.template_engine.render("hello {{ who }}", {"who": context.state.session_id})}

    plugin, registry, executor = Acting(), PluginRegistry(), actions.ActionExecutor(db=None)
    plugin.register_workflow_action("greet", {"properties": {"n": {"type": "integer"}}}, plugin.greet)
    plugin.register_action("raises", lambda _context, **_: 1 / 0)
    registry.register_plugin(plugin)
    executor.register_plugin_actions(registry)
    state = import_module("gobby.workflows.definitions").WorkflowState(session_id="s1", workflow_name="w", step="x")
    context = actions.ActionContext(session_id="s1", state=state)
    assert await executor.execute("plugin:acting:greet", context, n=1) == {"text": "hello s1"}
    assert (state.variables, state.step) == ({"n": 1}, "x")
    assert "Schema validation failed" in str(await executor.execute("plugin:acting:greet", context, n="1"))
    assert await executor.execute("plugin:acting:raises", context) == {"error": "division by zero"}
    assert await executor.execute("unknown", context) is None


def test_the_config_has_gobbys_defaults_and_takes_mappings() -> None:
    assert PluginsConfig() == PluginsConfig(False, ["~/.gobby/plugins", ".gobby/plugins"], True, {})
    made = HookExtensionsConfig(plugins={"enabled": True, "plugins": {"one": {"enabled": False}}})  # type: ignore[arg-type]
    assert made.plugins.plugins == {"one": PluginItemConfig(enabled=False)}
    with pytest.raises(ValueError, match="timeout has to be between 1 and 60"):
        WebhookEndpointConfig("one", "https://example.com", timeout=0.5)


def test_it_finds_loads_reloads_and_unloads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, why in ((user, "the user's"), (project, "the project's")):
        folder.mkdir()
        (folder / "some.py").write_text(dedent(SOURCE).replace("WHY", why))
    (user / "_helper.py").write_text("raise RuntimeError")
    (user / "broken.py").write_text("import nothing_like_this")
    settings = {"first": PluginItemConfig(config={"word": "secret"}), "second": PluginItemConfig(enabled=False)}
    config = PluginsConfig(
        enabled=True, plugin_dirs=[str(tmp_path / "none"), str(user), str(project)], plugins=settings
    )
    loader = PluginLoader(config)
    assert [kind.name for kind in loader.discover_plugins()] == ["first", "second"]
    assert "broken.py cannot be imported" in caplog.text
    assert [plugin.name for plugin in loader.load_all()] == ["first"]
    refused = run_plugin_handlers(loader.registry, event(command="a secret"))
    assert refused is not None
    assert (refused.decision, refused.reason) == ("block", "the project's")
    with pytest.raises(ValueError, match="disabled"):
        loader.load_plugin(next(kind for kind in loader.discover_plugins() if kind.name == "second"))
    with pytest.raises(ValueError, match="already registered"):
        loader.load_plugin(next(kind for kind in loader.discover_plugins() if kind.name == "first"))

    (project / "some.py").write_text(dedent(SOURCE).replace("WHY", "a newer one"))
    assert loader.reload_plugin("first") is not None
    refused = run_plugin_handlers(loader.registry, event(command="a secret"))
    assert refused is not None
    assert refused.reason == "a newer one"
    (project / "some.py").write_text("1 +")
    assert loader.reload_plugin("first") is None
    assert loader.reload_plugin("first") is None, "it is not loaded any more"
    loader.unload_all()
    assert loader.registry.list_plugins() == []
    assert PluginLoader(PluginsConfig()).load_all() == []


async def test_handlers_are_called_as_they_were_meant(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[object] = []

    class Mixed(HookPlugin):
        name = "mixed"

        @hook_handler(HookEventType.BEFORE_TOOL, priority=1)
        def fails(self, event: HookEvent) -> None:
            raise RuntimeError("a mistake")

        @hook_handler(HookEventType.BEFORE_TOOL, priority=2)
        async def tells(self, event: HookEvent) -> HookResponse:
            return HookResponse(context="mind the gap")

        @hook_handler(HookEventType.BEFORE_TOOL, priority=3)
        def denies(self, event: HookEvent) -> HookResponse | None:
            return HookResponse(decision="deny", reason="no") if event.data else None

        @hook_handler(HookEventType.AFTER_TOOL)
        def old(self, event: HookEvent) -> None:
            seen.append(event.event_type)

        @hook_handler(HookEventType.AFTER_TOOL, priority=60)
        async def new(self, event: HookEvent, core_response: HookResponse | None) -> None:
            seen.append(core_response)

    registry = PluginRegistry()
    registry.register_plugin(Mixed())
    with caplog.at_level(logging.ERROR):
        told = run_plugin_handlers(registry, event())
    assert told is not None
    assert (told.decision, told.context) == ("allow", "mind the gap")
    assert "a mistake" in caplog.text
    denied = run_plugin_handlers(registry, event(command="x"), pre=True)
    assert denied is not None
    assert denied.reason == "no"
    core = HookResponse()
    assert run_plugin_handlers(registry, event(HookEventType.AFTER_TOOL), pre=False, core_response=core) is None
    assert seen == [HookEventType.AFTER_TOOL, core]
