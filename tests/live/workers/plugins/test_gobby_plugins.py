"""Plugins as people wrote them for Gobby, in its older and newer forms, run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus.plugins.messages import VerdictSummary
from tests.support.plugins import enabled, handler, read, running, tool_call
from tests.support.running import until_true

PLAN = '''
"""The plan's form: first package root, PRE_TOOL_CALL, a handler with one argument at the default priority."""
from src.hooks.events import HookEvent, HookEventType, HookResponse
from src.hooks.plugins import HookPlugin, hook_handler

class SessionLogger(HookPlugin):
    name = "session-logger"

    @hook_handler(HookEventType.PRE_TOOL_CALL, priority=10)
    def check(self, event: HookEvent) -> HookResponse | None:
        if event.data["tool_name"] == "Bash" and "rm -rf" in event.data["tool_input"]["command"]:
            return HookResponse(decision="deny", reason="not that")

    @hook_handler(HookEventType.POST_TOOL_CALL)
    def log_it(self, event: HookEvent) -> None:
        with open(self.file, "a") as file:
            file.write(f"{event.session_id} {event.source.value} {event.metadata.get('is_failure', False)}\\n")

    def on_load(self, config):
        self.file = config["file"]
'''

FIRST = '''
"""The first plugin code: an action without a schema, an observer with two arguments, its own __init__."""
from __future__ import annotations
from typing import TYPE_CHECKING, Any
from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler
if TYPE_CHECKING:
    from gobby.workflows.actions import ActionContext

class CountingPlugin(HookPlugin):
    name = "counting"
    version = "0.2.0"

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_action("count", self._count)
        self.register_condition("many", lambda most=2: self.calls > most)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=60)
    def after(self, event: HookEvent, core_response: HookResponse | None) -> None:
        self.calls += 1 if core_response and core_response.decision == "allow" else 0

    async def _count(self, context: ActionContext, **kwargs: Any) -> dict[str, Any]:
        return {"calls": self.calls + kwargs.get("add", 0), "session": context.session_id, "tag": context.get("tag")}
'''

LAST = '''
"""The last form: an action with a schema, `block`, metadata, a decision that asks."""
from typing import Any
from gobby.hooks.events import HookEvent, HookEventType, HookResponse, SessionSource
from gobby.hooks.plugins import HookPlugin, PluginAction, hook_handler

class GuardPlugin(HookPlugin):
    name = "example-guard"
    version = "2.0.0"
    description = "Guards"

    def on_load(self, config: dict[str, Any]) -> None:
        self.blocked = config.get("blocked", ["main"])
        schema = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
        self.register_workflow_action("http_notify", schema, self._notify)
        self.logger.info("watching %s", self.blocked)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=20)
    def guard(self, event: HookEvent) -> HookResponse | None:
        command = event.data.get("tool_input", {}).get("command", "")
        if any(word in command for word in self.blocked):
            return HookResponse(decision="block", reason="blocked branch", metadata={"plugin": self.name})
        if "push" in command:
            return HookResponse("ask", reason="really push?")
        return HookResponse(decision="allow", context="be careful")

    async def _notify(self, context: Any, url: str, method: str = "POST", **kwargs: Any) -> dict[str, Any]:
        assert event_is_claude(SessionSource.CLAUDE) and isinstance(self.get_action("http_notify"), PluginAction)
        return {"success": True, "url": url, "method": method}

def event_is_claude(source: SessionSource) -> bool:
    return source == "claude"
'''

STOPS = '''
"""Stop in both forms, asynchronous, without an import of events."""
from gobby.hooks import plugins

class Finisher(plugins.HookPlugin):
    name = "finisher"

    @plugins.hook_handler(plugins.HookEventType.STOP, priority=5)
    async def stop(self, event):
        return plugins.HookResponse(decision="block", reason="run the tests first")
'''

REWRITES = '''
"""A plan's plugin that changes the call, with a base class of its own and a kebab-case name."""
from gobby.hooks.events import HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

class Base(HookPlugin):
    def on_load(self, config):
        self.word = config.get("word", "-n")

class Dry(Base):
    name = "dry"

    @hook_handler("pre-tool-use", priority=30)
    def dry(self, event, *more):
        return HookResponse(decision="modify", modify_args={"command": event.data["tool_input"]["command"] + " " + self.word})
'''

SOURCES = {"session-logger": PLAN, "counting": FIRST, "example-guard": LAST, "finisher": STOPS, "dry": REWRITES}


@pytest.mark.req("G-11", "G-12", "G-13", "G-16", "G-21")
async def test_five_plugins_in_five_forms_run_as_they_are(tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = read(enabled(tmp_path, SOURCES, config={"file": str(log)}))
    assert {plugin.name for plugin in file.plugins} == set(SOURCES)
    async with running(file) as group:

        async def answered(name: str, method: str, command: str = "ls", **more: Any) -> Any:
            return await group.run(handler(file, method, name), tool_call(command, **more), 30)

        assert all(state.state == "running" for state in group.states()), group.states()
        denied = await answered("session-logger", "check", "rm -rf /")
        assert (denied.decision, denied.reason) == ("deny", "not that")
        assert (await answered("session-logger", "check")).decision == "abstain"
        failed = tool_call(type="tool:error", native="PostToolUseFailure")
        group.observe(handler(file, "log_it", "session-logger"), failed, VerdictSummary())
        await until_true(lambda: log.exists() and log.read_text() == "s1 claude True\n", "the old observer was called")

        for decision in ("abstain", "deny", "abstain"):
            group.observe(handler(file, "after", "counting"), tool_call(), VerdictSummary(decision=decision))
        await until_true(lambda: group.figures["counting"].calls == 3, "the two-argument observer was called")
        context = {"session_id": "s1", "event_data": {"tag": "t"}}
        found = await group.invoke("counting", "action", "count", {"add": 5}, 30, context=context)
        assert found == {"calls": 7, "session": "s1", "tag": "t"}
        assert await group.invoke("counting", "condition", "many", {}, 30) is False
        assert await group.invoke("counting", "condition", "many", {}, 30, 1) is True

        blocked = await answered("example-guard", "guard", "git checkout main")
        assert (blocked.decision, blocked.reason) == ("deny", "blocked branch")
        assert (await answered("example-guard", "guard", "git push")).decision == "ask"
        assert (await answered("example-guard", "guard")).contexts == ("be careful",)
        found = await group.invoke("example-guard", "action", "http_notify", {"url": "https://example.com"}, 30)
        assert found == {"success": True, "url": "https://example.com", "method": "POST"}
        found = await group.invoke("example-guard", "action", "http_notify", {"url": 5}, 30)
        assert "Schema validation failed: url has an invalid type" in found["error"]
        found = await group.invoke("example-guard", "action", "http_notify", {}, 30)
        assert "Missing required field: url" in found["error"]

        stop = tool_call(type="agent:stop", native="Stop", tool="", native_tool="", input={})
        assert (await group.run(handler(file, "stop", "finisher"), stop, 30)).reason == "run the tests first"
        assert (await answered("dry", "dry", "make")).updated_input == {"command": "make -n"}
