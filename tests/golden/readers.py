"""What real agents make of a hook's answer, as it was observed: written from the observation, not from our dialects.

Each reader takes what a hook command printed and how it exited, and says what the agent does then. The tests prove the
readers with rows of the observation before they judge our answers with them.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from bus.shim.answer import HookAnswer

_HALF = re.compile(r"[\ud800-\udfff]")


class Seen(NamedTuple):
    """What an agent does after a hook's answer."""

    blocked: bool = False
    """The tool does not run, its result is replaced, the prompt is not sent, the agent does not stop."""
    allowed: bool = False
    """Nobody is asked."""
    asked: bool = False
    """The person is asked (with nobody there: the tool does not run)."""
    told: str = ""
    """What the model (at a prompt: the person) reads as the reason."""
    context: str = ""
    changed: dict[str, Any] | None = None
    note: str = ""
    failed: bool = False
    """The answer is void, and everything goes on as if there had been no hook."""

    @property
    def word(self) -> str:
        """The outcome in a word or two."""
        words = [
            name
            for name, said in (
                ("void", self.failed),
                ("blocks", self.blocked),
                ("asks", self.asked),
                ("allows", self.allowed and self.changed is None),
                ("changes", self.changed is not None),
                ("context", self.context),
            )
            if said
        ]
        return "+".join(words) or ("note" if self.note else "silent")


VOID = Seen(failed=True)

_UNIVERSAL: dict[str, type] = {"continue": bool, "stopReason": str, "suppressOutput": bool, "systemMessage": str}
_BLOCK: dict[str, type] = {"decision": str, "reason": str}
_CODEX_TOP: dict[str, dict[str, type]] = {
    "PreToolUse": _BLOCK | {"hookSpecificOutput": dict},
    "PermissionRequest": {"hookSpecificOutput": dict},
    "PostToolUse": _BLOCK | {"hookSpecificOutput": dict},
    "UserPromptSubmit": _BLOCK | {"hookSpecificOutput": dict},
    "SessionStart": {"hookSpecificOutput": dict},
    "SubagentStart": {"hookSpecificOutput": dict},
    "Stop": _BLOCK,
    "SubagentStop": _BLOCK,
    "PreCompact": {},
    "PostCompact": {},
}
_CONTEXT: dict[str, type] = {"hookEventName": str, "additionalContext": str}
_CODEX_INNER: dict[str, dict[str, type]] = {
    "PreToolUse": _CONTEXT | {"permissionDecision": str, "permissionDecisionReason": str, "updatedInput": dict},
    "PermissionRequest": {"hookEventName": str, "decision": dict},
    "PostToolUse": _CONTEXT | {"updatedMCPToolOutput": object},
    "UserPromptSubmit": _CONTEXT,
    "SessionStart": _CONTEXT,
    "SubagentStart": _CONTEXT,
}
_CODEX_BY_EXIT = {"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop"}


def codex(native: str, answer: HookAnswer) -> Seen:
    """Codex CLI 0.169.0: strict, and open wherever an answer is not exactly as it must be."""
    code, out, err = answer.exit_code, answer.stdout, answer.stderr
    if code == 2 and native in _CODEX_BY_EXIT and err.strip():
        return Seen(blocked=True, told=err.decode().strip())
    if code != 0:
        return VOID
    if not out.strip():
        return Seen()
    said = _object(out)
    if said is None or _HALF.search(json.dumps(said, ensure_ascii=False)) or native not in _CODEX_TOP:
        return VOID
    inner = said.get("hookSpecificOutput", {})
    if not _only(said, _UNIVERSAL | _CODEX_TOP[native]) or not _only(inner, _CODEX_INNER.get(native, {})):
        return VOID
    if "hookSpecificOutput" in said and inner.get("hookEventName") != native:
        return VOID
    note, context = said.get("systemMessage", ""), inner.get("additionalContext", "")
    stops = said.get("continue") is False
    if native in ("PreToolUse", "PermissionRequest") and (stops or "stopReason" in said or "suppressOutput" in said):
        return VOID
    if native == "PreToolUse":
        return _codex_call(said, inner)._replace(note=note)
    if native == "PermissionRequest":
        asked = inner.get("decision", {})
        if not _only(asked, {"behavior": str, "message": str}):
            return VOID
        told = asked.get("message", "")
        return Seen(asked.get("behavior") == "deny", asked.get("behavior") == "allow", told=told, note=note)
    if native == "PreCompact":
        return Seen(stops, told=said.get("stopReason", ""), note=note)
    blocks, reason = said.get("decision") == "block", said.get("reason", "")
    if "decision" in said and not (blocks and reason.strip()):
        return VOID
    return Seen(blocks, told=reason, context=context, note=note)


def _codex_call(said: dict[str, Any], inner: dict[str, Any]) -> Seen:
    decision, reason = inner.get("permissionDecision"), inner.get("permissionDecisionReason", "")
    context, changed = inner.get("additionalContext", ""), inner.get("updatedInput")
    if said.get("decision") == "block" and decision is None and said.get("reason", "").strip():
        return Seen(True, told=said["reason"], context=context)
    if decision == "deny" and reason.strip() and changed is None:
        return Seen(True, told=reason, context=context)
    if decision == "allow" and changed is not None:
        return Seen(changed=changed, context=context)
    return VOID if decision or reason or changed is not None or "decision" in said else Seen(context=context)


_QWEN_CONTEXT = {
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PreCompact",
}
_QWEN_BLOCK = {"UserPromptSubmit", "UserPromptExpansion", "PostToolBatch", "Stop", "SubagentStop"}
_QWEN_TODO = {"TodoCreated", "TodoCompleted"}


def qwen(native: str, answer: HookAnswer) -> Seen:
    """Qwen Code 0.24.4: lenient about fields, and forgetful of some."""
    code, out, err = answer.exit_code, answer.stdout.strip(), answer.stderr.strip()
    text = err if code == 2 else out or err
    said = _object(text) if text else {}
    if said is None:  # text that is not JSON
        said = {"decision": "deny" if code == 2 else "allow", "reason": text.decode(), "systemMessage": text.decode()}
        said = said if code in (0, 2) else {}
    inner = said.get("hookSpecificOutput", {})
    decision, reason = said.get("decision"), said.get("stopReason") or said.get("reason") or "No reason provided"
    note = said.get("systemMessage", "")
    context = inner.get("additionalContext", "") if native in _QWEN_CONTEXT else ""
    stops, blocks = said.get("continue") is False, decision in ("block", "deny")
    if native == "PreToolUse":
        decision = inner.get("permissionDecision") or {"block": "deny", "approve": "allow"}.get(str(decision), decision)
        told = inner.get("permissionDecisionReason") or reason
        if decision in ("deny", "ask") or stops:
            return Seen(decision != "ask", asked=decision == "ask", told=told, note=note)
        return Seen(allowed=decision == "allow", note=note)
    if native == "PermissionRequest":
        asked = inner.get("decision", {})
        allowed = asked.get("behavior") == "allow"
        changed = asked.get("updatedInput") if allowed else None
        return Seen(bool(asked) and not allowed, allowed, told=asked.get("message", ""), changed=changed, note=note)
    if native == "PostToolUse":  # the stop takes the place of the result, and of the context
        return Seen(True, told=reason, note=note) if stops else Seen(context=context, note=note)
    if native in _QWEN_TODO:
        return Seen(decision == "block", told=reason, note=note)
    if native in _QWEN_BLOCK and (stops or blocks):
        return Seen(True, told=reason, context=context, note=note)
    return Seen(context=context, note=note)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(raw)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _only(said: dict[str, Any], known: dict[str, type]) -> bool:
    return all(name in known and isinstance(value, known[name]) for name, value in said.items())
