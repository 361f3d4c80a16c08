from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class NeedsCounter(HookPlugin):
    name = "needs-counter"
    requires = ["counter"]

    @hook_handler(HookEventType.BEFORE_TOOL, priority=14)
    def ask(self, event):
        if event.data.get("tool_input", {}).get("command") == "needs":
            return HookResponse(decision="deny", reason=f"needs {self.plugin('counter').name}")
