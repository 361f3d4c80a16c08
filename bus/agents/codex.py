"""Codex CLI: its hook payloads into events, and verdicts into the JSON that it reads (checked with 0.169.0).

Its answers have Claude Code's format, and Codex reads them strictly. It ignores the whole answer, and runs the tool, if the
answer has a field that it does not know, an empty reason, or a lone surrogate.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import Family, block, can, permission
from bus.agents.degrade import Agent, CarriedVerdict
from bus.events import EventType

NAME: Final = "codex"

TEXT_LIMIT: Final = 9_999
"""Bytes of UTF-8. Codex counts four bytes as a token. Of a text of more than 2,500 tokens it shows the begin and the end."""

_AGENT: Final = Agent(NAME, "Codex CLI", TEXT_LIMIT, unit="utf-8", strict=True)

REMARKS: Final = (
    (
        "Codex carries out `apply_patch <<'EOF'` in a shell command itself, as an edit: its files are the event's `paths`,"
        " and hooks on `edit` and `write` see the call."
    ),
    (
        "What is typed into a shell or REPL that is already open (`write_stdin` after `exec_command` with a terminal)"
        " fires no hook, so the guard pack asks before such a prompt is opened."
    ),
    (
        "Codex waits 27 s at most for a hook, whatever the hook declares: its hook command is given 30 s, and a longer"
        " limit would be new content that has to be trusted anew."
    ),
)
"""For the page of agents."""
KEEPS_TIMEOUT: Final = True
"""Codex trusts a hook by its content. A new timeout would be new content, and the person would have to trust it again."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "SessionStart": can(EventType.SESSION_START, "context", "halt"),
    "UserPromptSubmit": can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context", "halt"),
    # Codex reads an allow only together with a changed input. After it, Codex's own approval rules still decide.
    "PreToolUse": msgspec.structs.replace(
        can(EventType.TOOL_PRE_EXECUTE, "block", "before", "rewrite", "context"), allow=False, rewrite_as="alone"
    ),
    "PermissionRequest": can(EventType.PERMISSION_REQUEST, "block", "asks"),
    "PostToolUse": can(EventType.TOOL_POST_EXECUTE, "block", "context", "output as block", "halt"),
    # A deny can only end the turn here. That prevents the compaction too.
    "PreCompact": can(EventType.CONTEXT_PRE_COMPACT, "block", "before"),
    "PostCompact": can(EventType.CONTEXT_POST_COMPACT),
    "SubagentStart": can(EventType.SUBAGENT_START, "context", "halt"),
    "SubagentStop": can(EventType.SUBAGENT_STOP, "block", "halt"),
    "Stop": can(EventType.AGENT_STOP, "block", "halt"),
    "Interrupt": can(EventType.USER_INTERRUPT, timeout=1.0),
    "SessionEnd": can(EventType.SESSION_END, timeout=1.0),
}
"""Every event of Codex CLI, November 2026. There is no event of its own for a failed tool call: PostToolUse comes then."""


def _decision_fields(native: str, case: CarriedVerdict) -> dict[str, Any]:
    """The fields of the answer that carry the decision: only those that Codex reads at this event."""
    if native == "PreToolUse":
        specific: dict[str, Any] = {}
        if case.decision == "deny":
            specific = {"permissionDecision": "deny", "permissionDecisionReason": case.reason}
        elif case.rewrite is not None:
            specific = {"permissionDecision": "allow", "updatedInput": case.rewrite}
        return {"hookSpecificOutput": specific} if specific else {}
    if native == "PermissionRequest":
        return permission(case)
    if native == "PreCompact":
        return {"continue": False, "stopReason": case.reason} if case.decision == "deny" else {}
    return block(case)


DIALECT: Final = Family(_AGENT, CAPABILITIES, _decision_fields)
