import re

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

DANGEROUS = [re.compile(r"\brm\s+-rf\s+/srv"), re.compile(r"mkfs")]


class BlockRm(HookPlugin):
    name = "block-rm"
    version = "2.1.0"
    description = "No rm -rf of /srv"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=5)
    def block(self, event: HookEvent) -> HookResponse | None:
        if event.data.get("tool_name") != "Bash":
            return None
        command = event.data.get("tool_input", {}).get("command", "")
        for pattern in DANGEROUS:
            if pattern.search(command):
                self.logger.warning("blocked %s", command)
                return HookResponse(decision="deny", reason=f"block-rm: {pattern.pattern}", metadata={"plugin": self.name})
        return None
