"""Two plugins in one file that share a module-level store, with a third imported class."""
from gobby.hooks.plugins import HookPlugin, hook_handler
from gobby.hooks.events import HookEventType, HookResponse
STORE = {}


class Recorder(HookPlugin):
    name = "recorder"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=7)
    def record(self, event):
        if event.data.get("tool_name") == "Read":
            STORE.setdefault(event.session_id, set()).add(event.data["tool_input"]["file_path"])


class ReadFirst(HookPlugin):
    name = "read-first"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=8)
    def check(self, event):
        if event.data.get("tool_name") == "Edit" and event.data["tool_input"]["file_path"].endswith(".rf"):
            if event.data["tool_input"]["file_path"] not in STORE.get(event.session_id, ()):
                return HookResponse(decision="deny", reason="read it first")
