from gobby.hooks.events import HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler


class BasePlugin(HookPlugin):
    word = ""

    def on_load(self, config):
        self.config = dict(config)

    @hook_handler(HookEventType.BEFORE_TOOL, priority=17)
    def check(self, event):
        if self.word and self.word in str(event.data.get("tool_input")):
            return HookResponse(decision="deny", reason=f"{self.name} by its base")
