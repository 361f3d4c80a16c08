from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class Raising(HookPlugin):
    name = "raising"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=2)
    def boom(self, event):
        if event.data.get("tool_input", {}).get("command") == "boom":
            return 1 / 0

    @hook_handler(HookEventType.BEFORE_TOOL, priority=3)
    def goes_on(self, event):
        if event.data.get("tool_input", {}).get("command") == "boom":
            return HookResponse(decision="deny", reason="the next handler runs")

    def on_unload(self):
        raise RuntimeError("on_unload raises")
