"""Every event of every program that Gobby's scripts report, as the programs name it, with a small payload of each.

The names are those of Gobby's adapters (public; February 2026).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_CLAUDE: Final = {
    "session-start": "session_start",
    "session-end": "session_end",
    "user-prompt-submit": "before_agent",
    "stop": "stop",
    "pre-tool-use": "before_tool",
    "post-tool-use": "after_tool",
    "post-tool-use-failure": "after_tool",
    "pre-compact": "pre_compact",
    "subagent-start": "subagent_start",
    "subagent-stop": "subagent_stop",
    "permission-request": "permission_request",
    "notification": "notification",
}
_GEMINI: Final = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "BeforeAgent": "before_agent",
    "AfterAgent": "stop",
    "BeforeTool": "before_tool",
    "AfterTool": "after_tool",
    "BeforeToolSelection": "before_tool_selection",
    "BeforeModel": "before_model",
    "AfterModel": "after_model",
    "PreCompress": "pre_compact",
    "Notification": "notification",
}
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "claude": _CLAUDE,
    "claude_sdk": _CLAUDE,
    "claude_sdk_web_chat": _CLAUDE,
    "antigravity": _CLAUDE,
    "gemini": _GEMINI,
    "codex": {
        "thread/started": "session_start",
        "thread/archive": "session_end",
        "turn/started": "before_agent",
        "turn/completed": "stop",
        "item/commandExecution/requestApproval": "before_tool",
        "item/fileChange/requestApproval": "before_tool",
        "item/completed": "after_tool",
        "AgentTurnComplete": "stop",
    },
    "cursor": {
        "sessionStart": "session_start",
        "sessionEnd": "session_end",
        "beforeSubmitPrompt": "before_agent",
        "stop": "stop",
        "preToolUse": "before_tool",
        "beforeShellExecution": "before_tool",
        "beforeMCPExecution": "before_tool",
        "beforeReadFile": "before_tool",
        "beforeTabFileRead": "before_tool",
        "postToolUse": "after_tool",
        "postToolUseFailure": "after_tool",
        "afterShellExecution": "after_tool",
        "afterMCPExecution": "after_tool",
        "afterFileEdit": "file_changed",
        "afterTabFileEdit": "file_changed",
        "preCompact": "pre_compact",
        "subagentStart": "subagent_start",
        "subagentStop": "subagent_stop",
        "afterAgentResponse": "after_model",
        "afterAgentThought": "after_model",
    },
    "windsurf": {
        "session_start": "session_start",
        "session_end": "session_end",
        "pre_cascade_request": "before_agent",
        "post_cascade_response": "stop",
        "pre_read_code": "before_tool",
        "pre_write_code": "before_tool",
        "pre_run_command": "before_tool",
        "pre_mcp_tool_use": "before_tool",
        "post_read_code": "after_tool",
        "post_write_code": "after_tool",
        "post_run_command": "after_tool",
        "post_mcp_tool_use": "after_tool",
        "pre_user_prompt": "before_agent",
    },
    "copilot": {
        "sessionStart": "session_start",
        "sessionEnd": "session_end",
        "userPromptSubmitted": "before_agent",
        "stop": "stop",
        "preToolUse": "before_tool",
        "postToolUse": "after_tool",
        "preCompact": "pre_compact",
        "notification": "notification",
        "errorOccurred": "stop_failure",
    },
}


class Reported(NamedTuple):
    """One event of one program."""

    source: str
    hook_type: str
    event: str
    """Gobby's unified name, by what Fleethook takes the event for."""

    @property
    def is_tool(self) -> bool:
        """Whether the event is a tool call that is about to run."""
        return self.event == "before_tool"

    def fields(self, session: str) -> dict[str, Any]:
        """A payload with the words that this program uses."""
        call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "prompt": "hello", "message": "hi"}
        if self.source == "cursor":
            return {**call, "conversation_id": session, "command": "ls", "file_path": "/tmp/a", "cwd": "/tmp"}
        if self.source == "windsurf":
            info = {"command_line": "ls", "file_path": "/tmp/a", "cwd": "/tmp", "user_prompt": "hello"}
            mcp = {"mcp_server_name": "s", "mcp_tool_name": "t", "mcp_tool_arguments": {}}
            return {"trajectory_id": session, "session_id": session, "tool_info": {**info, **mcp}}
        if self.source == "copilot":
            return {"sessionId": session, "cwd": "/tmp", "toolName": "bash", "toolArgs": json.dumps({"command": "ls"})}
        if self.source == "gemini":
            return {**call, "tool_name": "run_shell_command", "session_id": session, "cwd": "/tmp"}
        if self.source == "codex":
            item = {"type": "commandExecution", "command": ["ls"], "output": "x"}
            return {"threadId": session, "parsedCmd": ["ls"], "changes": {"a": "b"}, "item": item, "last_message": "m"}
        return {**call, "session_id": session, "cwd": "/tmp", "tool_response": "x"}


REPORTED: Final = tuple(
    Reported(source, hook_type, event) for source, events in EVENTS.items() for hook_type, event in events.items()
)
