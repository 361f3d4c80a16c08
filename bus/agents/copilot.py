"""Copilot CLI: its hook payloads into events, and verdicts into the flat JSON that it reads (documented 2026-08).

How an event's name is spelt in its settings chooses the payload: `preToolUse` has camelCase fields and no name of the
event, `PreToolUse` snake_case fields and Claude Code's tool names. The answers are the same.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import can as family_can
from bus.agents.degrade import Agent, CarriedVerdict, degrade, person_message
from bus.agents.event_facts import output_text
from bus.agents.payloads import mapping, opened, text, unpacked, without
from bus.errors import DecodeError
from bus.events import Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Verdict
from bus.wire.codec import write_json

NAME: Final = "copilot"
LABEL: Final = "Copilot CLI"

TEXT_LIMIT: Final = 9_999
"""Bytes of UTF-8: Copilot CLI keeps 10 KB of the context that all hooks of an event give. A limit for reasons is not
documented."""

_AGENT: Final = Agent(NAME, LABEL, TEXT_LIMIT, unit="utf-8")


def _can(type_: str, *answers: str, deny_else: str = "abstain", closed: bool = False) -> Capability:
    """As in the Claude family, with a timeout of 30 s."""
    return msgspec.structs.replace(family_can(type_, *answers, timeout=30.0, closed=closed), deny_else=deny_else)


# It fails closed if a hook before a tool crashes, and open if the hook is too slow.
_PRE_TOOL: Final = _can(EventType.TOOL_PRE_EXECUTE, "block", "ask", "rewrite", closed=True)
_PERMISSION: Final = _can(EventType.PERMISSION_REQUEST, "block", "asks", "interrupt")
_POST_TOOL: Final = msgspec.structs.replace(
    _can(EventType.TOOL_POST_EXECUTE, "context", deny_else="context"), output="field"
)
_FAILURE: Final = _can(EventType.TOOL_ERROR, "context", deny_else="context")
_PROMPT: Final = _can(EventType.USER_PROMPT_SUBMIT)  # it ignores what a hook of a settings file answers here

GRANTS: Final = 600.0
"""The longest timeout that a hook may have, if its entry says so; the default is shorter."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "sessionStart": _can(EventType.SESSION_START, "context"),
    "sessionEnd": _can(EventType.SESSION_END),
    "userPromptSubmitted": _PROMPT,
    "userPromptTransformed": _can(EventType.LLM_PRE_REQUEST, "context"),
    "preToolUse": _PRE_TOOL,
    "postToolUse": _POST_TOOL,
    "postToolUseFailure": _FAILURE,
    "permissionRequest": _PERMISSION,
    "agentStop": _can(EventType.AGENT_STOP, "block"),
    "subagentStart": _can(EventType.SUBAGENT_START, "context"),
    "subagentStop": _can(EventType.SUBAGENT_STOP, "block"),
    "errorOccurred": _can(EventType.AGENT_ERROR),
    "preCompact": _can(EventType.CONTEXT_PRE_COMPACT),
    # Context would wake an idle agent, which no hook wants of a notification.
    "notification": _can(EventType.NOTIFICATION),
    "SessionStart": _can(EventType.SESSION_START, "context"),
    "SessionEnd": _can(EventType.SESSION_END),
    "UserPromptSubmit": _PROMPT,
    "PreToolUse": _PRE_TOOL,
    "PostToolUse": _POST_TOOL,
    "PostToolUseFailure": _FAILURE,
    "PermissionRequest": _PERMISSION,
    "Stop": _can(EventType.AGENT_STOP, "block"),
    "SubagentStop": _can(EventType.SUBAGENT_STOP, "block"),
    "ErrorOccurred": _can(EventType.AGENT_ERROR),
    "PreCompact": _can(EventType.CONTEXT_PRE_COMPACT),
}
"""Every event of Copilot CLI, August 2026, in both spellings."""

NEVER: Final[frozenset[str]] = frozenset()
"""Every event may be subscribed."""

QUIET: Final = NEVER | {name for name in CAPABILITIES if name[0].isupper()} | {"userPromptTransformed"}
"""Off by default: the second spelling of each event, which would fire in addition to the first, and the second event of a
prompt."""

_RESULTS: Final = {
    "failure": EventType.TOOL_ERROR,
    "error": EventType.TOOL_ERROR,
    "denied": EventType.PERMISSION_DENIED,
}
_SESSION: Final = ("sessionId", "session_id")
_TOOL: Final = ("toolName", "tool_name")
_INPUT: Final = ("toolArgs", "tool_input", "toolInput")
_RESULT: Final = ("toolResult", "tool_result", "tool_response")


class _Dialect:
    """Copilot CLI's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload. Fields without a place in the event are in `data`, and the whole payload is in `raw`.

        A camelCase payload does not name its event, so the name that the hook command was installed for counts. A tool's
        arguments may be an object or a JSON text of one; any other text (a patch) is in the field `input`.
        """
        fields = opened(LABEL, payload)
        native = native or text(fields, "hook_event_name")
        if not native:
            raise DecodeError(f"payload of {LABEL} names no event, and its hook command names none either")
        known, tool = CAPABILITIES.get(native), text(fields, *_TOOL)
        result = next((name for name in _RESULT if name in fields), "")
        asked = _asked(fields) if tool else None
        taken = {*_SESSION, "cwd", "hook_event_name", result}
        taken |= {*_TOOL} if tool else set()
        taken |= {*_INPUT} if asked is not None else set()
        return Event(
            type=_type(native, known, fields.get(result)),
            source=NAME,
            native=native,
            session=text(fields, *_SESSION),
            host=host,
            cwd=text(fields, "cwd"),
            tool=canonical_tool(NAME, tool) if tool else "",
            native_tool=tool,
            input=canonical_input(NAME, tool, asked) if asked is not None else {},
            output=fields.get(result) if result else None,
            data=without(fields, taken),
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The answer as one line of ASCII JSON; empty if there is nothing to write.

        Newer versions show a note to the person as progress, older ones ignore it. A note is only written alone: beside a
        decision it would be a second object, and Copilot CLI would ignore both.
        """
        can = CAPABILITIES.get(native)
        if can is None or not can.waits:
            return HookAnswer()
        prompt = event.data.get("transformedPrompt") if event is not None else None
        if native == "userPromptTransformed" and not isinstance(prompt, str):
            can = msgspec.structs.replace(can, context=False)
        case = degrade(_AGENT, native, can, verdict, event, _original(event))
        reply = _decision(can, case)
        if case.context:
            changes = native == "userPromptTransformed"
            reply["modifiedTransformedPrompt" if changes else "additionalContext"] = (
                f"{prompt}\n\n{case.context}" if changes else case.context
            )
        if case.output is not None and event is not None:
            kind = text(mapping(event.output), "resultType") or "success"
            reply["modifiedResult"] = {"resultType": kind, "textResultForLlm": output_text(event, case.output)}
        if not reply and case.notes:
            reply = {"type": "progress", "message": person_message(_AGENT, case, verdict, event)}
        return HookAnswer(0, write_json(reply) if reply else b"", b"", case.lost)


DIALECT: Final = _Dialect()


def _decision(can: Capability, case: CarriedVerdict) -> dict[str, Any]:
    """The fields of the answer that carry the decision, in the form of the event's type."""
    if can.type == EventType.TOOL_PRE_EXECUTE and case.decision != "abstain":
        reply: dict[str, Any] = {"permissionDecision": case.decision, "permissionDecisionReason": case.reason}
        return reply if case.rewrite is None else {**reply, "modifiedArgs": case.rewrite}
    if can.type == EventType.PERMISSION_REQUEST and case.decision == "allow":
        return {"behavior": "allow"}
    if can.type == EventType.PERMISSION_REQUEST and case.decision == "deny":
        return {"behavior": "deny", "message": case.reason, **({"interrupt": True} if case.interrupt else {})}
    return {"decision": "block", "reason": case.reason} if case.decision == "deny" else {}


def _type(native: str, known: Capability | None, result: object) -> str:
    """The event's type. Older versions have one event for calls that succeeded and calls that failed."""
    if known is None:
        return native_type(NAME, native)
    ended = text(mapping(result), "resultType", "result_type")
    return _RESULTS[ended].value if known is _POST_TOOL and ended in _RESULTS else known.type


def _asked(fields: dict[str, Any]) -> dict[str, Any] | None:
    """The tool's arguments as an object; None if it has none."""
    sent = next((fields[name] for name in _INPUT if fields.get(name) is not None), None)
    read = unpacked(sent)
    if isinstance(read, dict):
        return read
    return {"input": sent} if isinstance(sent, str) and sent else None


def _original(event: Event | None) -> dict[str, Any] | None:
    """The input in Copilot's own fields, if it takes an object back."""
    fields = event.raw if event is not None and event.raw is not None else {}
    sent = next((unpacked(fields[name]) for name in _INPUT if fields.get(name) is not None), None)
    return sent if isinstance(sent, dict) else None
