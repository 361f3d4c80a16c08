from collections import Counter

from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

MAX = 2


class CountingPlugin(HookPlugin):
    name = "counter"
    seen = Counter()

    @hook_handler(HookEventType.BEFORE_TOOL, priority=12)
    def count(self, event):
        command = event.data.get("tool_input", {}).get("command", "")
        if command.startswith("count"):
            self.seen[event.session_id, command] += 1
            if self.seen[event.session_id, command] > MAX:
                return HookResponse(decision="deny", reason=f"counter: {command} {self.seen[event.session_id, command]} times")
