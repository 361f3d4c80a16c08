"""Handlers at and above 50 in each signature."""
import json
from pathlib import Path

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

OUT = Path.home() / ".gobby" / "seen" / "observers.jsonl"


class Observers(HookPlugin):
    name = "observers"

    def seen(self, handler, event, response="not given"):
        OUT.parent.mkdir(parents=True, exist_ok=True)
        line = {"handler": handler, "event": event.event_type.value, "command": event.data.get("tool_input", {}).get("command")}
        if isinstance(response, HookResponse):
            line.update(decision=response.decision, reason=response.reason)
        else:
            line["response"] = response
        with OUT.open("a") as out:
            out.write(json.dumps(line) + "\n")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=50)
    def at_fifty(self, event: HookEvent, core_response: HookResponse | None) -> None:
        self.seen("at_fifty", event, core_response)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=60)
    async def awaited(self, event, core_response=None):
        self.seen("awaited", event, core_response)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=100)
    def star(self, *args):
        self.seen("star", *args)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=500)
    def late_deny(self, event, core_response, **kwargs):
        self.seen("late_deny", event, core_response)
        return HookResponse(decision="deny", reason="too late to deny")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=75)
    def one(self, event):
        self.seen("one", event)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=49)
    def pre_with_default(self, event, core_response=None):
        if event.data.get("tool_input", {}).get("command") == "observed-deny":
            return HookResponse(decision="deny", reason="observers denied")

    @hook_handler(HookEventType.BEFORE_TOOL, priority=48)
    def pre_star(self, *args, **kwargs):
        assert len(args) in (1, 2), args
        if args[0].data.get("tool_input", {}).get("command") == "star-deny":
            return HookResponse(decision="deny", reason="star denied")

    @hook_handler(HookEventType.AFTER_TOOL, priority=90)
    def raises(self, event, core_response):
        self.seen("raises", event, core_response)
        raise RuntimeError("an observer that raises")

    @hook_handler(HookEventType.AFTER_TOOL, priority=91)
    def after_raise(self, event, core_response):
        self.seen("after_raise", event, core_response)
