"""Claude Code: its hook payloads into events, and verdicts into the JSON that it reads (checked with 2.1.330)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import Family, block, can, permission, pre_tool
from bus.agents.degrade import Agent, CarriedVerdict
from bus.events import EventType, native_type
from bus.shim.answer import HookAnswer
from bus.verdicts import Policy, failed

NAME: Final = "claude"

TEXT_LIMIT: Final = 9_999
"""UTF-16 units of one string in an answer: Claude Code cuts above 10,000 characters, as JavaScript counts them."""

_AGENT: Final = Agent(NAME, "Claude Code", TEXT_LIMIT)


def _own(name: str) -> str:
    return native_type(NAME, name)


_TABLE: Final[dict[str, Capability]] = {
    "SessionStart": can(EventType.SESSION_START, "context"),
    "Setup": can(_own("Setup"), "context"),
    "InstructionsLoaded": can(_own("InstructionsLoaded")),
    "UserPromptSubmit": can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context", timeout=30.0),
    "UserPromptExpansion": can(EventType.USER_PROMPT_EXPAND, "block", "before", "context"),
    "PreToolUse": can(EventType.TOOL_PRE_EXECUTE, "block", "ask", "rewrite", "context"),
    "PermissionRequest": can(EventType.PERMISSION_REQUEST, "block", "asks", "rewrite", "grant", "interrupt"),
    "PermissionDenied": can(EventType.PERMISSION_DENIED),
    "PostToolUse": can(EventType.TOOL_POST_EXECUTE, "block", "context", "output"),
    "PostToolUseFailure": can(EventType.TOOL_ERROR, "block", "context"),
    "PostToolBatch": can(EventType.TOOL_BATCH, "block"),
    "Notification": can(EventType.NOTIFICATION),
    "MessageDisplay": can(EventType.LLM_POST_RESPONSE, timeout=10.0),
    "SubagentStart": can(EventType.SUBAGENT_START, "context"),
    "SubagentStop": can(EventType.SUBAGENT_STOP, "block", "context"),
    "TaskCreated": can(EventType.TASK_CREATED, "block", "before"),
    "TaskCompleted": can(EventType.TASK_COMPLETED, "block"),
    # Context makes an agent continue that wants to stop, as a block does; hooks that give context there want that.
    "Stop": can(EventType.AGENT_STOP, "block", "context"),
    "StopFailure": can(EventType.AGENT_ERROR),
    "TeammateIdle": can(_own("TeammateIdle"), "block"),
    "ConfigChange": can(EventType.CONFIG_CHANGE, "block", "before"),
    "CwdChanged": can(_own("CwdChanged")),
    "DirectoryAdded": can(_own("DirectoryAdded")),
    "FileChanged": can(EventType.FILE_CHANGE),
    "WorktreeCreate": can(_own("WorktreeCreate"), closed=True),
    "WorktreeRemove": can(_own("WorktreeRemove")),
    "PreCompact": can(EventType.CONTEXT_PRE_COMPACT, "block", "before"),
    "PostCompact": can(EventType.CONTEXT_POST_COMPACT),
    "PreModelSwitch": can(EventType.MODEL_PRE_SWITCH, "block", "ask", timeout=30.0, closed=True),
    "PostModelSwitch": can(EventType.MODEL_POST_SWITCH, "context", timeout=30.0),
    "Elicitation": can(_own("Elicitation"), "block", "asks"),
    "ElicitationResult": can(_own("ElicitationResult"), "block"),
    "SessionEnd": can(EventType.SESSION_END, timeout=1.5),
}

CAPABILITIES: Final[dict[str, Capability]] = {
    # `continue: false` counts wherever Claude Code waits for an answer.
    native: msgspec.structs.replace(can, halts=can.waits)
    for native, can in _TABLE.items()
}
"""Every event of Claude Code, November 2026. What each event honours is from its hooks reference and from our tests."""

NEVER: Final = frozenset({"WorktreeCreate"})
"""Never subscribed: a hook of this event has to create the worktree itself, or Claude Code fails to create it."""

QUIET: Final = NEVER | {"MessageDisplay", "FileChanged"}
"""Off by default: MessageDisplay fires for each chunk of text, FileChanged only for files that its matcher names."""

_BY_EXIT_CODE: Final = frozenset({"TaskCompleted", "TeammateIdle"})  # their JSON can stop the agent, not the event
_BY_ACTION: Final = frozenset({"Elicitation", "ElicitationResult"})  # their answer has no place for a reason


def _decision_fields(native: str, case: CarriedVerdict) -> dict[str, Any]:
    """The fields of the answer that carry the decision. Families of events have different ones."""
    decision, reason = case.decision, case.reason
    if native == "PreToolUse":
        return pre_tool(case)
    if native == "PermissionRequest":
        return permission(case)
    if native == "PreModelSwitch" and decision in ("allow", "ask"):
        return {"hookSpecificOutput": {"permissionDecision": decision, "permissionDecisionReason": reason}}
    if native in _BY_ACTION and decision == "deny":
        return {"hookSpecificOutput": {"action": "decline"}}
    return block(case)


DIALECT: Final = Family(_AGENT, CAPABILITIES, _decision_fields, by_exit_code=_BY_EXIT_CODE, wordless=_BY_ACTION)


def fallback(native: str, policy: Policy, why: str) -> HookAnswer:
    """What the hook command prints if no hook answered; `deny` and `ask` apply only before an action, never at a stop."""
    return DIALECT.render(native, failed(policy, why))
