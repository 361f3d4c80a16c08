"""Qwen Code: its hook payloads into events, and verdicts into the JSON that it reads (checked with 0.24.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import Family, block, permission, pre_tool
from bus.agents.claude_protocol import can as family_can
from bus.agents.degrade import Agent, CarriedVerdict
from bus.events import EventType, native_type

NAME: Final = "qwen"

TEXT_LIMIT: Final = 9_999
"""UTF-16 units: Qwen Code cuts one kind of context above 10,000, and passes on reasons of twice that length."""

COMPACT_LIMIT: Final = 3_999
"""UTF-16 units of PreCompact's context, which it cuts above 4,000 without a notice."""

_AGENT: Final = Agent(NAME, "Qwen Code", TEXT_LIMIT)


def can(type_: str, *answers: str, timeout: float = 60.0) -> Capability:
    """As in the Claude family. Its command hooks have 60 s, and its settings write milliseconds."""
    return family_can(type_, *answers, timeout=timeout, unit="ms")


def _own(name: str) -> str:
    return native_type(NAME, name)


GRANTS: Final = 600.0
"""The longest timeout that a hook may have, if its entry says so; the default is shorter."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "SessionStart": can(EventType.SESSION_START, "context"),
    "InstructionsLoaded": can(_own("InstructionsLoaded")),
    "UserPromptSubmit": can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context"),
    "UserPromptExpansion": can(EventType.USER_PROMPT_EXPAND, "block", "before", "context"),
    # Its documents name updatedInput and additionalContext here, but it ignores both (observed).
    "PreToolUse": can(EventType.TOOL_PRE_EXECUTE, "block", "ask"),
    "PermissionRequest": can(EventType.PERMISSION_REQUEST, "block", "asks", "rewrite", "grant", "interrupt"),
    "PermissionDenied": can(EventType.PERMISSION_DENIED),
    "PostToolUse": can(EventType.TOOL_POST_EXECUTE, "block", "context", "output as block"),
    "PostToolUseFailure": can(EventType.TOOL_ERROR, "context"),
    "PostToolBatch": can(EventType.TOOL_BATCH, "block", "context", timeout=15.0),
    "Notification": can(EventType.NOTIFICATION),
    "MessageDisplay": can(EventType.LLM_POST_RESPONSE),
    "SubagentStart": can(EventType.SUBAGENT_START),  # it ignores the context
    "SubagentStop": can(EventType.SUBAGENT_STOP, "block"),
    "TodoCreated": can(EventType.TASK_CREATED, "block", "before"),
    "TodoCompleted": can(EventType.TASK_COMPLETED, "block"),
    "Stop": can(EventType.AGENT_STOP, "block"),
    "StopFailure": can(EventType.AGENT_ERROR),
    "PreCompact": msgspec.structs.replace(can(EventType.CONTEXT_PRE_COMPACT, "context"), context_limit=COMPACT_LIMIT),
    "PostCompact": can(EventType.CONTEXT_POST_COMPACT),
    "SessionEnd": can(EventType.SESSION_END),
    "SessionDelete": can(_own("SessionDelete")),
}
"""Every event of Qwen Code, November 2026, with the answers that it was seen to honour."""

QUIET: Final = frozenset({"MessageDisplay"})
"""Off by default: it fires again and again while an answer streams."""


def _decision_fields(native: str, case: CarriedVerdict) -> dict[str, Any]:
    """The fields of the answer that carry the decision, in the form that this event reads."""
    if native == "PreToolUse":
        return pre_tool(case)
    if native == "PermissionRequest":
        return permission(case)
    if native == "PostToolUse":  # it reads no `decision` here; this field puts the reason in the place of the result
        return {"continue": False, "stopReason": case.reason} if case.decision == "deny" else {}
    return block(case)


def _type(native: str, fields: Mapping[str, Any]) -> str:
    """The type of an event whose name is misleading; empty if the name is right.

    Qwen Code fires UserPromptSubmit again after each round of tools, with an empty prompt (observed). That is a turn and no
    prompt.
    """
    round_only = native == "UserPromptSubmit" and not fields.get("prompt") and not fields.get("submitted_prompt")
    return EventType.TURN_START.value if round_only else ""


DIALECT: Final = Family(
    _AGENT,
    CAPABILITIES,
    _decision_fields,
    alone=frozenset({"PostToolUse"}),
    call_fields=("tool_use_id", "tool_call_id"),
    retype=_type,
)
