"""Codex CLI: its hook payloads into events, and verdicts into the JSON that it reads (checked with 0.169.0).

Its answers are Claude Code's, read strictly: a field that it does not know, a reason that is empty or half a surrogate
pair makes the whole answer void, and the tool runs.
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
"""Bytes of UTF-8: Codex puts more than 2,500 tokens, each counted as four bytes, into a file and shows its ends."""

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
SHORT: Final = True
"""It trusts a hook by its content, its timeout included: a longer one would have to be trusted anew."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "SessionStart": can(EventType.SESSION_START, "context", "halt"),
    "UserPromptSubmit": can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context", "halt"),
    # It has an allow only as the envelope of a changed input, after which its own approval rules still decide.
    "PreToolUse": msgspec.structs.replace(
        can(EventType.TOOL_PRE_EXECUTE, "block", "before", "rewrite", "context"), allow=False, rewrite_as="alone"
    ),
    "PermissionRequest": can(EventType.PERMISSION_REQUEST, "block", "asks"),
    "PostToolUse": can(EventType.TOOL_POST_EXECUTE, "block", "context", "output as block", "halt"),
    # It can only end the turn here, and the compaction with it.
    "PreCompact": can(EventType.CONTEXT_PRE_COMPACT, "block", "before"),
    "PostCompact": can(EventType.CONTEXT_POST_COMPACT),
    "SubagentStart": can(EventType.SUBAGENT_START, "context", "halt"),
    "SubagentStop": can(EventType.SUBAGENT_STOP, "block", "halt"),
    "Stop": can(EventType.AGENT_STOP, "block", "halt"),
    "Interrupt": can(EventType.USER_INTERRUPT, timeout=1.0),
    "SessionEnd": can(EventType.SESSION_END, timeout=1.0),
}
"""Every event of Codex CLI, November 2026; it has none for a failed tool call (PostToolUse comes then too)."""


def _form(native: str, case: CarriedVerdict) -> dict[str, Any]:
    """The part of the answer that carries the decision; no key more than that event's own reader knows."""
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


DIALECT: Final = Family(_AGENT, CAPABILITIES, _form)
