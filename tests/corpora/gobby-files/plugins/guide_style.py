"""As Gobby's own guide writes a plugin: `GobbyPlugin`, dicts for answers, and its table of events."""

from gobby.hooks.events import EVENT_TYPE_CLI_SUPPORT, HookEventType
from gobby.hooks.plugins import GobbyPlugin, hook_handler


class GuideStyle(GobbyPlugin):
    name = "guide-style"
    version = "1.0.0"

    @hook_handler(HookEventType.SESSION_START)
    def on_session_start(self, event):
        print(f"Session started: {event.data.get('session_id')}")
        return {"continue": True}

    @hook_handler(HookEventType.BEFORE_TOOL, priority=10)
    def on_before_tool(self, event):
        command = event.data.get("tool_input", {}).get("command", "")
        native = EVENT_TYPE_CLI_SUPPORT[event.event_type]["claude"]
        if command == "guide-no":
            return {"continue": False, "reason": f"the guide says no at {native}"}
        if command == "guide-block":
            return {"decision": "block", "message": "the guide blocks"}
        if command == "guide-modify":
            return {"decision": "modify", "modify_args": {"command": "echo guided"}}
        return {"continue": True}

    @hook_handler(HookEventType.BEFORE_AGENT, priority=20)
    def on_prompt(self, event):
        if event.data.get("prompt") == "guide me":
            return {"continue": True, "inject_context": "guided", "systemMessage": "to the person"}
