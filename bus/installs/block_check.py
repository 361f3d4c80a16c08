"""The decision that each agent takes from an answer before a tool call, as observed. Only a certain block counts.

An exit code other than 0 and 2 is a failure, even if some agents read the output then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from bus.installs.base import AgentReading, CommandRun

_CODEX_TOP: Final = frozenset({"hookSpecificOutput", "systemMessage"})
_CODEX_INNER: Final = frozenset(
    {"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"}
)


def said(ran: CommandRun) -> dict[str, Any]:
    """The JSON object in stdout at exit code 0; empty if stdout is not one JSON object."""
    try:
        found = json.loads(ran.stdout) if ran.code == 0 else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def claude(ran: CommandRun) -> AgentReading:
    """Exit code 2, or the decision in the object that has the event's name."""
    if ran.code == 2:
        return AgentReading("deny", ran.stderr.strip())
    specific = _map(said(ran), "hookSpecificOutput")
    if specific.get("hookEventName") != "PreToolUse":
        return AgentReading()
    return AgentReading(_text(specific, "permissionDecision"), _text(specific, "permissionDecisionReason"))


def codex(ran: CommandRun) -> AgentReading:
    """As Claude Code, but the reason must not be empty, and one unknown key makes the whole answer invalid."""
    if ran.code == 2:
        return AgentReading("deny", ran.stderr.strip()) if ran.stderr.strip() else AgentReading()
    answer = said(ran)
    if set(answer) - _CODEX_TOP or set(_map(answer, "hookSpecificOutput")) - _CODEX_INNER:
        return AgentReading()
    found = claude(ran)
    return found if found.decision == "deny" and found.reason else AgentReading()


def qwen(ran: CommandRun) -> AgentReading:
    """As Claude Code; exit code 2 needs its reason on stderr."""
    if ran.code == 2:
        return AgentReading("deny", ran.stderr.strip()) if ran.stderr.strip() else AgentReading()
    return claude(ran)


def gemini(ran: CommandRun) -> AgentReading:
    """`decision` at the top; exit code 2 with some text."""
    if ran.code == 2:
        text = ran.stderr.strip() or ran.stdout.strip()
        return AgentReading("deny", text) if text else AgentReading()
    return flat("decision", "reason")(ran)


def flat(decision: str, *reasons: str) -> Callable[[CommandRun], AgentReading]:
    """Exit code 2, or the top-level field `decision` names, with its reason in one of the fields `reasons`."""

    def understood(ran: CommandRun) -> AgentReading:
        if ran.code == 2:
            return AgentReading("deny", ran.stderr.strip())
        answer = said(ran)
        word = _text(answer, decision)
        reason = next((_text(answer, name) for name in reasons if _text(answer, name)), "")
        return AgentReading("deny" if word == "block" else word, reason)

    return understood


def by_exit_code(ran: CommandRun) -> AgentReading:
    """Exit code 2 alone, with its reason on stderr."""
    return AgentReading("deny", ran.stderr.strip()) if ran.code == 2 else AgentReading()


def cancelling(ran: CommandRun) -> AgentReading:
    """`cancel` in its JSON; exit codes have no meaning."""
    answer = said(ran)
    return AgentReading("deny", _text(answer, "errorMessage")) if answer.get("cancel") is True else AgentReading()


def denying(ran: CommandRun) -> AgentReading:
    """The error that our plugin throws: for `deny`, or for exit code 2."""
    if ran.code == 2:
        return AgentReading("deny", ran.stderr.strip())
    text = _text(said(ran), "deny")
    return AgentReading("deny", text) if text else AgentReading()


def _map(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
