"""A match statement over the whole event; decisions as the enum-like texts of the later form."""

from typing import NotRequired, TypedDict

from gobby.hooks.events import HookEvent, HookEventType, HookResponse, SessionSource
from gobby.hooks.plugins import HookPlugin, hook_handler


class ToolData(TypedDict):
    tool_name: str
    tool_input: NotRequired[dict]


class Matched(HookPlugin):
    name = "matched"

    @hook_handler(HookEventType.BEFORE_TOOL, priority=49)
    def check(self, event: HookEvent) -> HookResponse | None:
        data: ToolData = event.data
        match event, data:
            case HookEvent(source=SessionSource.GEMINI), {"tool_input": {"command": "matched-gemini"}}:
                return HookResponse("deny", None, None, "not in gemini")
            case _, {"tool_name": "Write" | "Edit", "tool_input": {"file_path": str(path)}} if path.endswith(".matched"):
                return HookResponse("deny", reason=f"matched {path!r}")
            case _, {"tool_name": "Bash", "tool_input": {"command": str(command), **rest}} if command == "matched-ask":
                return HookResponse("ask", reason=f"matched asks {sorted(rest)}")
            case _:
                return None

    @hook_handler(HookEventType.PERMISSION_REQUEST, priority=10)
    def permit(self, event: HookEvent) -> HookResponse | None:
        return HookResponse("deny", reason="never") if "matched-permit" in str(event.data) else None
