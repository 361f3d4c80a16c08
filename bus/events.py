"""What an event is: one canonical value for every agent, and the names of the event types (F-01 and additions)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class EventType(StrEnum):
    """The event types that have a name of their own; any other type passes as `<source>:<native name>`."""

    # F-01
    TOOL_PRE_EXECUTE = "tool:pre_execute"
    TOOL_POST_EXECUTE = "tool:post_execute"
    TOOL_ERROR = "tool:error"
    LLM_PRE_REQUEST = "llm:pre_request"
    LLM_POST_RESPONSE = "llm:post_response"
    LLM_STREAM_START = "llm:stream_start"
    LLM_STREAM_END = "llm:stream_end"
    SESSION_START = "session:start"
    SESSION_END = "session:end"
    SESSION_MESSAGE = "session:message"
    PERMISSION_CHECK = "permission:check"
    PERMISSION_PROMPT = "permission:prompt"
    PERMISSION_GRANTED = "permission:granted"
    PERMISSION_DENIED = "permission:denied"
    USER_PROMPT_SUBMIT = "user:prompt_submit"
    USER_INTERRUPT = "user:interrupt"
    # Additions: what today's agents have beyond F-01.
    AGENT_START = "agent:start"
    AGENT_END = "agent:end"
    AGENT_STOP = "agent:stop"
    AGENT_ERROR = "agent:error"
    TURN_START = "turn:start"
    TURN_END = "turn:end"
    TOOL_BATCH = "tool:batch"
    TOOL_SELECT = "tool:select"
    CONTEXT_PRE_COMPACT = "context:pre_compact"
    CONTEXT_POST_COMPACT = "context:post_compact"
    SUBAGENT_START = "subagent:start"
    SUBAGENT_STOP = "subagent:stop"
    NOTIFICATION = "notification"
    PERMISSION_REQUEST = "permission:request"
    USER_PROMPT_EXPAND = "user:prompt_expand"
    TASK_CREATED = "task:created"
    TASK_COMPLETED = "task:completed"
    MODEL_PRE_SWITCH = "model:pre_switch"
    MODEL_POST_SWITCH = "model:post_switch"
    CONFIG_CHANGE = "config:change"
    FILE_CHANGE = "file:change"
    # What Fleethook itself has to say of its endpoints and hook files.
    ENDPOINT_FAILING = "endpoint:failing"
    ENDPOINT_DISABLED = "endpoint:disabled"
    HOOKS_REJECTED = "hooks:rejected"
    GUARD_CHANGED = "guard:changed"
    # What it has to say of its own streams.
    BUS_REPAIRED = "bus:repaired"


OWN = frozenset(
    {
        EventType.ENDPOINT_FAILING.value,
        EventType.ENDPOINT_DISABLED.value,
        EventType.HOOKS_REJECTED.value,
        EventType.GUARD_CHANGED.value,
        EventType.BUS_REPAIRED.value,
    }
)
"""What Fleethook itself announces; no agent has these."""

PRE_TOOL = frozenset({EventType.TOOL_PRE_EXECUTE.value})
"""Where a fail-closed policy denies a tool call."""

GATES = PRE_TOOL | {
    EventType.USER_PROMPT_SUBMIT.value,
    EventType.USER_PROMPT_EXPAND.value,
    EventType.PERMISSION_REQUEST.value,
    EventType.PERMISSION_CHECK.value,
}
"""Where `--fail-closed` means deny: before a tool, at a prompt and at a permission question.

Source: docs/architecture.md, "Verdicts".
"""

STOPS = frozenset(
    {
        EventType.AGENT_STOP.value,
        EventType.SUBAGENT_STOP.value,
        EventType.TURN_END.value,
        EventType.TASK_COMPLETED.value,
        "claude:TeammateIdle",
    }
)
"""Stop-like events: a block makes the agent go on, so they never fail closed."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened in an agent, in the one form that hooks, rules and webhooks see.

    `input` holds the tool's input under canonical field names (`tools.py`) beside whatever else the agent sent;
    `data` everything that is not about a tool; `raw` the agent's own payload, unknown fields and all.
    """

    type: str
    id: str = ""
    source: str = "generic"
    native: str = ""
    """The agent's own event name."""
    time: int = 0
    """Milliseconds since 1970 by the clock of the server that took the event."""
    session: str = ""
    host: str = ""
    cwd: str = ""
    tool: str = ""
    """Canonical tool name, empty where the event is not about a tool."""
    native_tool: str = ""
    call: str = ""
    """The agent's id of the tool call, where it has one."""
    input: dict[str, Any] = msgspec.field(default_factory=dict)
    output: Any = None
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    parent: str = ""
    """The id of the event whose hook caused this one (`FLEETHOOK_PARENT`), for loop detection (F-12)."""
    raw: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """The fields that a `when:` condition may read as `event.…` (docs/architecture.md, "Hooks and layers")."""
        return {
            "type": self.type,
            "tool": self.tool,
            "input": self.input,
            "session": self.session,
            "host": self.host,
            "source": self.source,
            "cwd": self.cwd,
            "data": self.data,
        }


SOURCES = (
    "claude",
    "codex",
    "gemini",
    "cursor",
    "opencode",
    "qwen",
    "copilot",
    "windsurf",
    "cline",
    "pigo",
    "forge",
    "gobby",
    "ion",
    "generic",
)

_ALIASES = {
    "claude-code": "claude",
    "claude_code": "claude",
    "claudecode": "claude",
    "codex-cli": "codex",
    "openai-codex": "codex",
    "gemini-cli": "gemini",
    "google-gemini": "gemini",
    "cursor-agent": "cursor",
    "open-code": "opencode",
    "qwen-code": "qwen",
    "copilot-cli": "copilot",
    "github-copilot": "copilot",
    "cascade": "windsurf",
}
_SPELLED = frozenset({*SOURCES, "fleethook"})


def source_name(name: str) -> str:
    """The one spelling of an agent's name; an unknown agent keeps its own, lower-cased and trimmed to 32 characters."""
    if name in _SPELLED:
        return name
    plain = name.strip().lower()[:32]
    return _ALIASES.get(plain, plain) or "generic"


def native_type(source: str, native: str) -> str:
    """The event type of a native event that has no canonical one: `<source>:<native name>`."""
    return f"{source_name(source)}:{native.strip()[:64]}"
