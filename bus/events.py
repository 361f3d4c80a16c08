"""Events: one canonical value for every agent, and the event types with their meanings (F-01 and additions)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta


class EventType(StrEnum):
    """The canonical event types; any other event of an agent has the type `<source>:<native name>`."""

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
    # Events of today's agents that F-01 does not have.
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
    # Announced by Fleethook itself.
    ENDPOINT_FAILING = "endpoint:failing"
    ENDPOINT_DISABLED = "endpoint:disabled"
    HOOKS_REJECTED = "hooks:rejected"
    GUARD_CHANGED = "guard:changed"
    BUS_REPAIRED = "bus:repaired"
    APPROVAL_REQUESTED = "approval:requested"
    APPROVAL_ANSWERED = "approval:answered"
    APPROVAL_ENDED = "approval:ended"
    FLEET_STOPPED = "fleet:stopped"
    FLEET_RESUMED = "fleet:resumed"
    COVERAGE_GAP = "coverage:gap"
    MESSAGE_SENT = "message:sent"
    MESSAGE_DELIVERED = "message:delivered"


OWN = frozenset(
    {
        EventType.ENDPOINT_FAILING.value,
        EventType.ENDPOINT_DISABLED.value,
        EventType.HOOKS_REJECTED.value,
        EventType.GUARD_CHANGED.value,
        EventType.BUS_REPAIRED.value,
        EventType.APPROVAL_REQUESTED.value,
        EventType.APPROVAL_ANSWERED.value,
        EventType.APPROVAL_ENDED.value,
        EventType.FLEET_STOPPED.value,
        EventType.FLEET_RESUMED.value,
        EventType.COVERAGE_GAP.value,
        EventType.MESSAGE_SENT.value,
        EventType.MESSAGE_DELIVERED.value,
    }
)
"""The event types of Fleethook itself; no agent sends them."""

PRE_TOOL = frozenset({EventType.TOOL_PRE_EXECUTE.value})
"""The types at which a failure policy of deny stops a tool call."""

GATES = PRE_TOOL | {
    EventType.USER_PROMPT_SUBMIT.value,
    EventType.USER_PROMPT_EXPAND.value,
    EventType.PERMISSION_REQUEST.value,
    EventType.PERMISSION_CHECK.value,
}
"""The types at which a failure policy of deny or ask applies: before a tool call, a prompt or a permission.

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
"""The types at which a deny makes the agent continue; a failure policy never denies there."""


class Meaning(NamedTuple):
    """One event type in words."""

    sentence: str
    fields: tuple[str, ...] = ()
    """The fields that events of this type have in addition to those of every event."""


_CALL: Final = ("tool", "native_tool", "call", "input")
_QUESTION: Final = (
    "data.question",
    "data.state",
    "data.summary",
    "data.reason",
    "data.rules",
    "data.until",
    "data.default",
)

MEANINGS: Final[dict[EventType, Meaning]] = {
    EventType.TOOL_PRE_EXECUTE: Meaning("A tool is about to run; it can be denied or its input changed.", _CALL),
    EventType.TOOL_POST_EXECUTE: Meaning("A tool has run.", (*_CALL, "output")),
    EventType.TOOL_ERROR: Meaning("A tool has failed.", (*_CALL, "output", "data")),
    EventType.LLM_PRE_REQUEST: Meaning("The agent is about to ask its model.", ("data",)),
    EventType.LLM_POST_RESPONSE: Meaning("The model has answered, or has answered in part.", ("data",)),
    EventType.LLM_STREAM_START: Meaning("The model begins to stream an answer.", ("data",)),
    EventType.LLM_STREAM_END: Meaning("The streamed answer of the model is complete.", ("data",)),
    EventType.SESSION_START: Meaning("A session begins or is resumed.", ("data",)),
    EventType.SESSION_END: Meaning("A session has ended.", ("data",)),
    EventType.SESSION_MESSAGE: Meaning("A message was added to the session.", ("data",)),
    EventType.PERMISSION_CHECK: Meaning("The agent checks its permission for a tool call.", (*_CALL, "data")),
    EventType.PERMISSION_PROMPT: Meaning("The agent is asking a person for a permission.", (*_CALL, "data")),
    EventType.PERMISSION_GRANTED: Meaning("A person has granted a permission.", (*_CALL, "data")),
    EventType.PERMISSION_DENIED: Meaning("A permission was denied.", (*_CALL, "data")),
    EventType.USER_PROMPT_SUBMIT: Meaning("A person has submitted a prompt; it can be denied.", ("data",)),
    EventType.USER_INTERRUPT: Meaning("A person has interrupted the agent.", ("data",)),
    EventType.AGENT_START: Meaning("The agent begins to work on a prompt.", ("data",)),
    EventType.AGENT_END: Meaning("The agent has finished its work on a prompt.", ("data",)),
    EventType.AGENT_STOP: Meaning("The agent is about to stop; a deny makes it continue.", ("data",)),
    EventType.AGENT_ERROR: Meaning("The agent stopped because of an error.", ("data",)),
    EventType.TURN_START: Meaning("A turn begins: one request to the model with its tool calls.", ("data",)),
    EventType.TURN_END: Meaning("A turn has ended.", ("data",)),
    EventType.TOOL_BATCH: Meaning("All tool calls of one answer of the model have run.", ("data",)),
    EventType.TOOL_SELECT: Meaning("The agent is about to choose the tools that it offers to the model.", ("data",)),
    EventType.CONTEXT_PRE_COMPACT: Meaning("The agent is about to compact its context.", ("data",)),
    EventType.CONTEXT_POST_COMPACT: Meaning("The agent has compacted its context.", ("data",)),
    EventType.SUBAGENT_START: Meaning("A subagent begins.", ("data",)),
    EventType.SUBAGENT_STOP: Meaning("A subagent is about to stop; a deny makes it continue.", ("data",)),
    EventType.NOTIFICATION: Meaning("The agent notifies its user.", ("data",)),
    EventType.PERMISSION_REQUEST: Meaning(
        "The agent is about to ask a person for a permission; a hook can answer instead.", (*_CALL, "data")
    ),
    EventType.USER_PROMPT_EXPAND: Meaning(
        "A command of the user, such as a slash command, becomes a prompt.", ("data",)
    ),
    EventType.TASK_CREATED: Meaning("A task was added to the agent's list.", ("data",)),
    EventType.TASK_COMPLETED: Meaning("A task is about to be marked as done; a deny keeps it open.", ("data",)),
    EventType.MODEL_PRE_SWITCH: Meaning("The agent is about to switch to another model.", ("data",)),
    EventType.MODEL_POST_SWITCH: Meaning("The agent has switched to another model.", ("data",)),
    EventType.CONFIG_CHANGE: Meaning("A settings file of the agent has changed.", ("data",)),
    EventType.FILE_CHANGE: Meaning("A file was edited, or a watched file has changed.", ("data",)),
    EventType.ENDPOINT_FAILING: Meaning(
        "All deliveries to an endpoint have failed for 50, 70 or 90 % of the time after which it is disabled.",
        ("data.endpoint", "data.since", "data.failures", "data.percent", "data.last"),
    ),
    EventType.ENDPOINT_DISABLED: Meaning(
        "An endpoint was disabled, because it is gone or kept failing.", ("data.endpoint", "data.reason", "data.by")
    ),
    EventType.HOOKS_REJECTED: Meaning(
        "A hook file has errors, so its new content is not in force.",
        ("data.file", "data.line", "data.column", "data.reason", "data.problems"),
    ),
    EventType.GUARD_CHANGED: Meaning(
        "A change made the guards weaker.",
        ("data.how", "data.where", "data.by", "data.agent", "data.text", "data.losses"),
    ),
    EventType.BUS_REPAIRED: Meaning(
        "A Redis stream had an entry id from the future, so its entries were moved to a new stream.",
        ("data.stream", "data.entries", "data.worker"),
    ),
    EventType.APPROVAL_REQUESTED: Meaning(
        "A call is held, and a question waits for a person's answer.", ("session", "tool", "parent", *_QUESTION)
    ),
    EventType.APPROVAL_ANSWERED: Meaning(
        "A person has approved or denied a held call (`data.state`).",
        ("session", "tool", "parent", *_QUESTION, "data.by", "data.via", "data.comment"),
    ),
    EventType.APPROVAL_ENDED: Meaning(
        "A question ended without a person's answer: `timed_out`, `nobody_could_be_asked` or `overtaken` (`data.state`).",
        ("session", "tool", "parent", *_QUESTION),
    ),
    EventType.FLEET_STOPPED: Meaning(
        "A person has stopped agents: their prompts, tool calls and permission questions are denied.",
        ("data.stop", "data.where", "data.reason", "data.by", "data.via"),
    ),
    EventType.FLEET_RESUMED: Meaning(
        "A person has lifted stops.", ("data.stops", "data.reason", "data.by", "data.via")
    ),
    EventType.COVERAGE_GAP: Meaning(
        "A session's tool calls run without their pre-hook event, so no hook is asked; once for each session and cause.",
        (
            "session",
            "tool",
            "call",
            "parent",
            "data.agent",
            "data.version",
            "data.cause",
            "data.text",
            "data.fix",
            "data.time",
        ),
    ),
    EventType.MESSAGE_SENT: Meaning(
        "A person has sent a message into sessions.",
        ("data.message", "data.text", "data.by", "data.via", "data.where", "data.sessions"),
    ),
    EventType.MESSAGE_DELIVERED: Meaning(
        "The answer to an event (`data.event`) has brought a person's message to a session.",
        ("session", "parent", "data.message", "data.agent", "data.event"),
    ),
}
"""Every canonical type in words, for the reference and for `--help`."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of an agent, in the form that hooks, rules and webhooks get."""

    type: Annotated[
        str,
        Meta(
            description="The event type: a canonical one, or `<source>:<native name>`.", examples=["tool:pre_execute"]
        ),
    ]
    id: Annotated[
        str,
        Meta(description="The event's id, unique in the fleet.", examples=["e01a20522a31b4e022a4d7a4316c8433d"]),
    ] = ""
    source: Annotated[str, Meta(description="The agent, in lower case.", examples=["claude"])] = "generic"
    native: Annotated[str, Meta(description="The agent's own name of the event.", examples=["PreToolUse"])] = ""
    time: Annotated[
        int,
        Meta(
            description="Milliseconds since 1970, by the clock of the Redis server that took the event.",
            examples=[1795382591000],
        ),
    ] = 0
    session: Annotated[str, Meta(description="The agent's session.", examples=["3f1c2a"])] = ""
    host: Annotated[str, Meta(description="The machine that the agent runs on.", examples=["build-7"])] = ""
    cwd: Annotated[str, Meta(description="The agent's directory.", examples=["/home/ana/shop"])] = ""
    tool: Annotated[
        str, Meta(description="The canonical name of the tool; empty where no tool is called.", examples=["bash"])
    ] = ""
    native_tool: Annotated[str, Meta(description="The agent's own name of the tool.", examples=["Bash"])] = ""
    call: Annotated[
        str, Meta(description="The agent's id of the tool call, where it has one.", examples=["toolu_01"])
    ] = ""
    input: Annotated[
        dict[str, Any],
        Meta(
            description="The input of the tool: canonical fields (`command`, `path`, …) beside the agent's own.",
            examples=[{"command": "git status"}],
        ),
    ] = msgspec.field(default_factory=dict)
    output: Annotated[
        Any, Meta(description="The output of the tool, in the agent's own form.", examples=[{"stdout": "clean"}])
    ] = None
    data: Annotated[
        dict[str, Any],
        Meta(
            description="What is not about a tool: `prompt`, and the agent's other fields under the agent's own names.",
            examples=[{"prompt": "fix the tests"}],
        ),
    ] = msgspec.field(default_factory=dict)
    parent: Annotated[
        str,
        Meta(
            description="The id of the event whose hook caused this one (FLEETHOOK_PARENT), to detect loops.",
            examples=["e01a20522a31a4e022a4d7a4316c8433d"],
        ),
    ] = ""
    traceparent: Annotated[
        str,
        Meta(
            description="The W3C trace context of the event; empty if it came without one.",
            examples=["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
        ),
    ] = ""
    tracestate: Annotated[
        str,
        Meta(description="The part of the trace context that tracing systems add.", examples=["vendor=t61rcWkgMzE"]),
    ] = ""
    raw: Annotated[
        dict[str, Any] | None,
        Meta(description="The agent's own payload, with every field.", examples=[{"hook_event_name": "PreToolUse"}]),
    ] = None

    def facts(self) -> dict[str, Any]:
        """The fields that a `when:` condition reads as `event.…` (docs/events.md, "Conditions")."""
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
OWN_SOURCE: Final = "fleethook"
"""The source of events of Fleethook itself."""

_CANONICAL = frozenset({*SOURCES, OWN_SOURCE})


def source_name(name: str) -> str:
    """The canonical name of an agent. An unknown agent's name is lower-cased and cut to 32 characters."""
    if name in _CANONICAL:
        return name
    plain = name.strip().lower()[:32]
    return _ALIASES.get(plain, plain) or "generic"


def native_type(source: str, native: str) -> str:
    """The type of an agent's event that has no canonical type: `<source>:<native name>`."""
    return f"{source_name(source)}:{native.strip()[:64]}"
