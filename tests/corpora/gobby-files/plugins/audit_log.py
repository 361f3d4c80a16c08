"""Plan form: one argument, default priority 50."""
import json
from pathlib import Path

from gobby.hooks.events import HookEvent, HookEventType
from gobby.hooks.plugins import HookPlugin, hook_handler

LOG = Path.home() / ".gobby" / "seen" / "audit-log.jsonl"


def write(kind, **more):
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as out:
        out.write(json.dumps({"kind": kind, **more}) + "\n")


class AuditLog(HookPlugin):
    name = "audit-log"

    def on_load(self, config):
        self.tag = config.get("tag", "untagged")
        write("load", tag=self.tag)

    def on_unload(self):
        write("unload")

    @hook_handler(HookEventType.SESSION_START)
    def log_session_start(self, event):
        write("session_start", session=event.session_id, source=event.data.get("source"))

    @hook_handler(HookEventType.BEFORE_TOOL)
    def log_tool(self, event):
        write("before_tool", tool=event.data["tool_name"], command=event.data["tool_input"].get("command"))

    @hook_handler(HookEventType.AFTER_TOOL)
    async def log_after(self, event):
        write("after_tool", output=event.data.get("tool_output"), response=event.data.get("tool_response"))

    @hook_handler(HookEventType.NOTIFICATION)
    def log_notice(self, event: HookEvent) -> None:
        write("notification", message=event.data.get("message"))

    @hook_handler(HookEventType.SESSION_END)
    def log_session_end(self, event):
        write("session_end", reason=event.data.get("reason"))

    @hook_handler(HookEventType.PRE_COMPACT)
    def log_compact(self, event):
        write("pre_compact")

    @hook_handler(HookEventType.SUBAGENT_STOP)
    def log_subagent(self, event):
        write("subagent_stop")
