"""Events and answers in Gobby's form, which handlers of plugins get and return (G-01, G-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

from bus.agents.gobby import ALIASES

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class HookEventType(str, Enum):  # noqa: UP042 - plugins compare and print its members as Gobby's, which are `str, Enum`
    """The unified names of events. `HookEventType("PreToolUse")` finds a member by any spelling."""

    SESSION_START = "session_start"
    SESSION_END = "session_end"
    BEFORE_AGENT = "before_agent"
    AFTER_AGENT = "after_agent"
    STOP = "stop"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    BEFORE_TOOL_SELECTION = "before_tool_selection"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    PRE_COMPACT = "pre_compact"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_STOP = "subagent_stop"
    PERMISSION_REQUEST = "permission_request"
    NOTIFICATION = "notification"
    POST_TOOL_BATCH = "post_tool_batch"
    POST_COMPACT = "post_compact"
    PERMISSION_DENIED = "permission_denied"
    INTERRUPT = "interrupt"
    STOP_FAILURE = "stop_failure"
    USER_PROMPT_EXPANSION = "user_prompt_expansion"
    TASK_CREATED = "task_created"
    TASK_COMPLETED = "task_completed"
    CONFIG_CHANGE = "config_change"
    FILE_CHANGED = "file_changed"
    # Other names for the same events (G-21).
    PRE_TOOL_CALL = BEFORE_TOOL
    POST_TOOL_CALL = AFTER_TOOL
    PRE_TOOL_USE = BEFORE_TOOL  # noqa: PIE796 - an alias
    POST_TOOL_USE = AFTER_TOOL  # noqa: PIE796 - an alias
    USER_PROMPT_SUBMIT = BEFORE_AGENT

    @classmethod
    def _missing_(cls, value: object) -> HookEventType | None:
        if not isinstance(value, str):
            return None
        plain = _HUMP.sub("_", value.strip()).replace("-", "_").lower()
        plain = ALIASES.get(plain, plain)
        return next((member for member in cls if member.value == plain), None)


EVENT_TYPE_CLI_SUPPORT: Final[Mapping[HookEventType, Mapping[str, str | None]]] = {
    HookEventType(name): {"claude": claude, "gemini": gemini, "codex": codex}
    for name, claude, gemini, codex in (
        ("session_start", "SessionStart", "SessionStart", "thread/started"),
        ("session_end", "SessionEnd", "SessionEnd", "thread/archive"),
        ("before_agent", "UserPromptSubmit", "BeforeAgent", "turn/started"),
        ("after_agent", "Stop", "AfterAgent", "turn/completed"),
        ("stop", "Stop", None, None),
        ("before_tool", "PreToolUse", "BeforeTool", "requestApproval"),
        ("after_tool", "PostToolUse", "AfterTool", "item/completed"),
        ("before_tool_selection", None, "BeforeToolSelection", None),
        ("before_model", None, "BeforeModel", None),
        ("after_model", None, "AfterModel", None),
        ("pre_compact", "PreCompact", "PreCompress", None),
        ("subagent_start", "SubagentStart", None, None),
        ("subagent_stop", "SubagentStop", None, None),
        ("permission_request", "PermissionRequest", None, None),
        ("notification", "Notification", "Notification", None),
    )
}
"""The name of each event in three agents, None where one has none: Gobby's table, which plugins import."""


class SessionSource(str, Enum):  # noqa: UP042 - as above
    """The agents. Another agent's name becomes a member of its own."""

    CLAUDE = "claude"
    GEMINI = "gemini"
    CODEX = "codex"
    CLAUDE_SDK = "claude_sdk"
    CLAUDE_SDK_WEB_CHAT = "claude_sdk_web_chat"
    ANTIGRAVITY = "antigravity"
    CURSOR = "cursor"
    WINDSURF = "windsurf"
    COPILOT = "copilot"

    @classmethod
    def _missing_(cls, value: object) -> SessionSource | None:
        if not isinstance(value, str) or not value:
            return None
        member = str.__new__(cls, value)
        member._name_, member._value_ = value.upper().replace("-", "_"), value
        return member


@dataclass
class HookEvent:
    """One event of an agent."""

    event_type: HookEventType
    session_id: str
    """The agent's own id of the session."""
    source: SessionSource
    timestamp: datetime
    data: dict[str, Any]
    """The agent's payload: `session_id`, `cwd`, `tool_name`, `tool_input`, `tool_output`, `prompt`, …; tools have Claude
    Code's names."""
    machine_id: str | None = None
    cwd: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    workflow_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """`is_failure` after a failed tool, `original_tool_name`, `normalized_tool_name`, `event_id`, `canonical_type`."""


@dataclass
class HookResponse:
    """What a handler answers. `allow` means that it does not object."""

    decision: Literal["allow", "deny", "ask", "block", "modify"] = "allow"
    """`block` is `deny`; `modify` changes the tool's input to `modify_args`."""
    context: str | None = None
    """A text for the model."""
    system_message: str | None = None
    """A text for the person."""
    reason: str | None = None
    modify_args: dict[str, Any] | None = None
    trigger_action: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
