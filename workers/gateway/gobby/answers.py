"""Writes a verdict in the format in which Gobby's daemon answers the scripts of each program.

The formats are those of Gobby's adapters (public; its releases of January and February 2026). A script passes the JSON on to
its program, or exits with 2 at a refusal. Gobby's format has no field for some answers, such as an ask or a changed input:
they are added in the program's own protocol. A fallback has no decision, so that a failure never looks like an allow.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from bus.agents import find
from bus.agents.base import Capability
from bus.agents.degrade import Agent, CarriedVerdict, degrade, person_message
from bus.agents.gobby import TEXT_LIMIT
from bus.errors import DecodeError
from bus.events import Event, EventType
from bus.verdicts import Verdict
from bus.wire.codec import read_json
from workers.gateway.gobby.events import APPROVALS, TURN_COMPLETE, GobbyCall, thread_id
from workers.gateway.gobby.names import plain

Answer = dict[str, Any]

_LABELS: Final = {"claude": "Claude Code", "gemini": "Gemini CLI", "codex": "Codex", "copilot": "Copilot CLI"}
_ASKED: Final = frozenset({EventType.TOOL_PRE_EXECUTE.value, EventType.PERMISSION_REQUEST.value})
"""The event types at which an approval would suppress the program's own question to the person."""
_MODEL_FIELDS: Final = {"BeforeModel": "llm_request", "BeforeToolSelection": "toolConfig"}
_CURSOR_PERMISSIONS: Final = frozenset({"beforeShellExecution", "beforeReadFile", "beforeMCPExecution"})
_CURSOR_STOPS: Final = frozenset({"stop", "subagentStop"})
_COPILOT_NAMES: Final = {
    "preToolUse": "PreToolUse",
    "userPromptSubmitted": "UserPromptSubmitted",
    "postToolUse": "PostToolUse",
    "sessionStart": "SessionStart",
}


class _Case(NamedTuple):
    """One verdict, reduced to what its event can carry."""

    call: GobbyCall
    carried: CarriedVerdict
    own: Answer
    """The answer in the program's own protocol; empty if it is refused."""
    message: str
    """For the person; empty if there is nothing to say."""
    refused: bool
    silent: bool
    """Whether no decision may be written: after a failure, or to keep the program's own question."""


def answer(call: GobbyCall, event: Event | None, verdict: Verdict, *, approves: bool = True) -> Answer:
    """The body of the answer; with `approves`, a call that no hook objects to is approved, as in Gobby."""
    case = _case(call, event, verdict, approves=approves)
    reply = _FORMS[call.agent](case)
    changed = _MODEL_FIELDS.get(call.native) if call.agent == "gemini" and not case.refused else None
    if changed and verdict.updated_input:
        reply |= {"decision": "modify"}
        reply["hookSpecificOutput"] = {**reply.get("hookSpecificOutput", {}), changed: verdict.updated_input}
    return reply


def skipped(call: GobbyCall) -> str:
    """Why this call is not an event; empty if it is one. Only some calls of Codex are skipped."""
    if call.agent != "codex":
        return ""
    if call.can is None:
        return f"{call.hook_type[:80]} is not an event of Codex that is handled"
    return "" if plain(call.hook_type) != TURN_COMPLETE or thread_id(call.fields) else "no thread id"


def _case(call: GobbyCall, event: Event | None, verdict: Verdict, *, approves: bool) -> _Case:
    reduced = msgspec.structs.replace(verdict, updated_input=None) if call.native in _MODEL_FIELDS else verdict
    known = call.can or Capability(type=event.type if event is not None else EventType.NOTIFICATION.value)
    limited = call.agent == "claude" and call.can is not None
    can = msgspec.structs.replace(known, waits=True, block=True, context=known.context or not limited)
    agent = Agent(call.agent, _LABELS.get(call.agent, call.agent.capitalize()), TEXT_LIMIT)
    carried = degrade(agent, call.native, can, reduced, event, _original(event))
    refused = carried.decision == "deny"
    return _Case(
        call,
        carried,
        {} if refused or call.can is None else _own(call, event, reduced),
        person_message(agent, carried, reduced, event),
        refused,
        bool(verdict.fallback) or (known.type in _ASKED and not approves and carried.decision != "allow"),
    )


def _own(call: GobbyCall, event: Event | None, verdict: Verdict) -> Answer:
    """The answer of the program's own dialect, without what is only a note for the person."""
    rendered = find(call.agent).render(call.native, verdict, event)
    if rendered.exit_code or not rendered.stdout.startswith(b"{"):
        return {}
    try:
        fields = read_json(rendered.stdout)
    except DecodeError:
        return {}
    return {} if not isinstance(fields, dict) or fields.get("type") == "progress" else fields


def _claude(case: _Case) -> Answer:
    if case.refused:
        return _with(case, {"continue": False, "decision": "block", "stopReason": case.carried.reason}, context=True)
    reply = {"continue": True, **case.own}
    if not reply["continue"]:
        reply["decision"] = "block"
    elif not case.silent and case.carried.decision != "ask":
        reply["decision"] = "approve"
    return _with(case, reply)


def _gemini(case: _Case) -> Answer:
    if case.refused:
        return _with(case, {"decision": "deny", "reason": case.carried.reason}, context=True)
    return _with(case, {**({} if case.silent else {"decision": "allow"}), **case.own}, context=True)


def _codex(case: _Case) -> Answer:
    if plain(case.call.hook_type) == TURN_COMPLETE:
        decision = {} if case.silent else {"decision": "deny" if case.refused else "allow"}
        return {"status": "processed", **decision}
    reply: Answer = {"context": case.carried.context} if case.carried.context else {}
    if case.refused:
        return {"decision": "decline", **reply}
    if not case.silent:
        return {"decision": "accept", **reply}
    if plain(case.call.hook_type) in APPROVALS and case.message:
        reply["message"] = case.message
    return reply


def _cursor(case: _Case) -> Answer:
    native, carried = case.call.native, case.carried
    if native in _CURSOR_STOPS:
        following = "\n\n".join(filter(None, (carried.reason if case.refused else "", carried.context)))
        return {"followup_message": following} if following else {}
    reply = dict(case.own)
    if case.refused and native in _CURSOR_PERMISSIONS:
        reply = {"permission": "deny", "user_message": carried.reason}
        reply["agent_message"] = carried.context or carried.reason
    elif native in _CURSOR_PERMISSIONS:
        if not case.silent:
            reply.setdefault("permission", "allow")
    elif native == "sessionStart":
        reply["continue"] = not case.refused
        if case.refused:
            reply["user_message"] = carried.reason
        if carried.context:
            reply["additional_context"] = carried.context
    elif case.refused:
        prompt = {"continue": False} if native == "beforeSubmitPrompt" else {}
        reply = {"decision": "deny", "reason": carried.reason, **prompt}
    elif not case.silent and carried.decision != "ask":
        reply["decision"] = "allow"
    if carried.context and native != "sessionStart":
        reply.setdefault("agent_message", carried.context)
    if case.message and not case.refused:  # of a refusal, the script shows the reason
        reply["user_message"] = case.message
    return reply


def _windsurf(case: _Case) -> Answer:
    reply: Answer = {} if case.silent and not case.refused else {"decision": "deny" if case.refused else "allow"}
    if case.refused:
        reply["reason"] = case.carried.reason
    if case.carried.context:
        reply["context"] = case.carried.context
    return _with(case, reply)


def _copilot(case: _Case) -> Answer:
    reply = dict(case.own)
    reply.pop("additionalContext", "")
    if case.refused:
        # Gobby's script of February 2026 tells the person what `reason` has.
        reason = case.carried.reason
        reply = {"permissionDecision": "deny", "permissionDecisionReason": reason, "reason": reason}
    elif not case.silent:
        reply.setdefault("permissionDecision", "allow")
    name = _COPILOT_NAMES.get(case.call.native, case.call.native)
    if case.carried.context:
        reply["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": case.carried.context}
    return _with(case, reply)


def _with(case: _Case, reply: Answer, *, context: bool = False) -> Answer:
    """The answer with the message to the person, and with the context for the model where it has no field of its own."""
    if case.message:
        reply.setdefault("systemMessage", case.message)
    if context and case.carried.context:
        specific = {"hookEventName": case.call.native, "additionalContext": case.carried.context}
        reply["hookSpecificOutput"] = {**specific, **reply.get("hookSpecificOutput", {})}
    return reply


_FORMS: Final = {
    "claude": _claude,
    "gemini": _gemini,
    "codex": _codex,
    "cursor": _cursor,
    "windsurf": _windsurf,
    "copilot": _copilot,
}


def _original(event: Event | None) -> dict[str, Any] | None:
    """The tool's input as the program sent it."""
    fields = event.raw if event is not None and event.raw is not None else {}
    sent = next((fields[name] for name in ("tool_input", "toolArgs", "arguments") if name in fields), None)
    return sent if isinstance(sent, dict) else None
