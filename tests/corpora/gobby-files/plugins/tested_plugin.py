"""A plugin that reads its own source, package data and configuration of Gobby."""
import asyncio
import inspect
import json
import logging
import sys
from pathlib import Path

from gobby.config.app import HookExtensionsConfig, PluginItemConfig, PluginsConfig
from gobby.hooks.events import HookEvent, HookEventType, HookResponse, SessionSource
from gobby.hooks.plugins import HookPlugin, PluginLoader, PluginRegistry, hook_handler, run_plugin_handlers

log = logging.getLogger("my.own.logger")


class Inner(HookPlugin):
    name = ""

    @hook_handler(HookEventType.BEFORE_TOOL, priority=1)
    def no(self, event):
        return HookResponse(decision="deny", reason="inner")


class Introspective(HookPlugin):
    name = "introspective"

    def on_load(self, config):
        self.source = inspect.getsource(type(self))
        self.here = Path(__file__).resolve()
        assert sys.modules[__name__].Introspective is type(self)
        assert isinstance(self.logger, logging.Logger) and self.logger.name == "gobby.plugins.introspective"
        log.info("loaded")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=18)
    def check(self, event: HookEvent):
        if event.data.get("tool_input", {}).get("command") != "introspect":
            return None
        try:
            asyncio.get_running_loop()
            loop = "a loop"
        except RuntimeError:
            loop = "no loop"
        found = asyncio.run(self.later()) if loop == "no loop" else "not run"
        registry = PluginRegistry()
        return HookResponse(decision="deny", reason=json.dumps([self.here.name, "class Introspective" in self.source, found, registry.list_plugins(), self.check._hook_priority, self.check._hook_event_type.value]))

    async def later(self):
        await asyncio.sleep(0)
        return "later"
