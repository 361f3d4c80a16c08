"""Event names in other spellings; stop in both forms."""
import json
from pathlib import Path

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

OUT = Path.home() / ".gobby" / "seen" / "names.jsonl"


def note(**line):
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("a") as out:
        out.write(json.dumps(line) + "\n")


class Names(HookPlugin):
    name = "names"

    @hook_handler(HookEventType.PRE_TOOL_CALL, priority=10)
    def plan_name(self, event):
        if event.data.get("tool_input", {}).get("command") == "plan-name":
            return HookResponse(decision="deny", reason="PRE_TOOL_CALL")

    @hook_handler("before_tool", priority=10)
    def by_text(self, event):
        if event.data.get("tool_input", {}).get("command") == "by-text":
            return HookResponse(decision="deny", reason="before_tool")

    @hook_handler(HookEventType.POST_TOOL_CALL, priority=55)
    def post_name(self, event, core_response):
        note(handler="post_name", event=event.event_type.value)

    @hook_handler(HookEventType.AFTER_AGENT, priority=60)
    def old_stop(self, event, core_response):
        note(handler="old_stop", event=event.event_type.value, source=event.source.value)

    @hook_handler(HookEventType.STOP, priority=60)
    def new_stop(self, event, core_response):
        note(handler="new_stop", event=event.event_type.value, source=event.source.value)

    @hook_handler(HookEventType.PERMISSION_REQUEST, priority=60)
    def permission(self, event):
        note(handler="permission", event=event.event_type.value)

    @hook_handler(HookEventType.BEFORE_MODEL, priority=60)
    def model(self, event):
        note(handler="model", event=event.event_type.value)

    @hook_handler(HookEventType.BEFORE_AGENT, priority=10)
    def prompt(self, event):
        match event.data.get("prompt", "").split():
            case ["forbidden", *_]:
                return HookResponse(decision="deny", reason="this prompt is forbidden")
            case ["remind", what]:
                return HookResponse(context=f"reminder: {what}")

    @hook_handler(HookEventType.STOP, priority=10)
    def keep_going(self, event):
        if event.data.get("session_id") == "unfinished" and not event.data.get("stop_hook_active"):
            return HookResponse(decision="block", reason="the tests have not run")
