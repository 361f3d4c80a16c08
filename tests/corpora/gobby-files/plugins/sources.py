"""Looks at metadata of each agent."""
import json
from pathlib import Path

from gobby.hooks.events import HookEventType, HookResponse, SessionSource
from gobby.hooks.plugins import HookPlugin, hook_handler

OUT = Path.home() / ".gobby" / "seen" / "sources.jsonl"
DENY = {SessionSource.GEMINI: "gemini-no", SessionSource.CODEX: "codex-no", SessionSource.CURSOR: "cursor-no", SessionSource.WINDSURF: "windsurf-no", SessionSource.COPILOT: "copilot-no"}


class Sources(HookPlugin):
    name = "sources"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=1)
    def by_source(self, event):
        word = DENY.get(event.source)
        if word and word in json.dumps(event.data):
            return HookResponse(decision="deny", reason=f"{event.source.value}: {event.data.get('tool_name')}: {event.metadata.get('original_tool_name')}")

    @hook_handler(HookEventType.AFTER_TOOL, priority=51)
    def failures(self, event, core_response):
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("a") as out:
            out.write(json.dumps({"source": event.source, "tool": event.data.get("tool_name"), "failure": bool(event.metadata.get("is_failure")), "mcp": [event.data.get("mcp_server"), event.data.get("mcp_tool")], "output": event.data.get("tool_output")}) + "\n")
