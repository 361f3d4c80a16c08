"""Events into the form that handlers get, and what handlers return into answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from bus.agents.gobby import EVENTS
from bus.events import Event, EventType
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.plugins.events import HookEvent, HookEventType, HookResponse, SessionSource
from bus.plugins.messages import Answer, VerdictSummary
from bus.plugins.registry import RegisteredHandler, str_of
from bus.tools import input_for, tool_for
from bus.verdicts import Verdict

_NAMES: Final = {str(type_): name for name, types in reversed(list(EVENTS.items())) for type_ in types}
_CALLERS: Final = frozenset({"call_tool", "mcp__gobby__call_tool"})
"""Tools that call another server's tool, named in their input."""
_DICT_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("decision", "context", "system_message", "reason", "modify_args"), ""),
    "inject_context": "context",
    "additionalContext": "context",
    "systemMessage": "system_message",
    "stopReason": "reason",
    "message": "reason",
}
"""The keys of a dict that a handler returns in place of a HookResponse, each with its field."""
_DECISIONS: Final = {
    **dict.fromkeys(("allow", "approve", "continue", "modify"), "abstain"),
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}


def hook_event(event: Event, registered: str) -> HookEvent:
    """The event as a handler gets it; `registered` is the name under which the handler was registered."""
    try:
        kind = HookEventType(registered)
    except ValueError:  # a pattern of Fleethook's types
        kind = HookEventType(_NAMES.get(event.type, "notification"))
    data: dict[str, Any] = {**event.data, "session_id": event.session, "cwd": event.cwd}
    if event.native:
        data.setdefault("hook_event_name", event.native)
    metadata: dict[str, Any] = {"event_id": event.id, "canonical_type": event.type}
    if event.tool:
        tool = event.native_tool if event.source == "claude" else tool_for("claude", event.tool)
        data["tool_name"] = tool
        data["tool_input"] = input_for("claude", tool, event.source, event.native_tool, event.input)
        metadata |= {"original_tool_name": event.native_tool, "normalized_tool_name": tool}
        for name, value in _mcp_call(event).items():
            data.setdefault(name, value)
    if event.output is not None:
        data.setdefault("tool_response", event.output)
        data.setdefault("tool_output", event.output)
    if event.type == EventType.TOOL_ERROR:
        metadata["is_failure"] = True
    return HookEvent(
        event_type=kind,
        session_id=event.session,
        source=SessionSource(event.source),
        timestamp=_moment(event.time),
        data=data,
        machine_id=event.host or None,
        cwd=event.cwd or None,
        project_id=event.data.get("project_id") or None,
        metadata=metadata,
    )


def _moment(milliseconds: int) -> datetime:
    """The time of an event; now where it has one that Python lacks, since a wrong clock must not keep a guard from deciding."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def _mcp_call(event: Event) -> dict[str, str]:
    """`mcp_server` and `mcp_tool` of a call that names them in its input, or in Gemini's `mcp_context`."""
    called: object = event.input if _CALLERS & {event.native_tool, event.tool} else event.data.get("mcp_context")
    if not isinstance(called, dict):
        return {}
    names = {"mcp_server": called.get("server_name"), "mcp_tool": called.get("tool_name")}
    return {name: value for name, value in names.items() if isinstance(value, str) and value}


def core_response(seen: VerdictSummary | None) -> HookResponse | None:
    """The verdict as a handler at 50 or above gets it; None where the event had none."""
    if seen is None:
        return None
    decision = "allow" if seen.decision == "abstain" else seen.decision
    return HookResponse(
        decision="modify" if decision == "allow" and seen.updated_input else decision,  # type: ignore[arg-type]
        context=seen.context or None,
        reason=seen.reason or None,
        modify_args=seen.updated_input,
    )


def answer(call: int, returned: object) -> Answer:
    """The answer for what a handler returned; a value that is no response is a failure."""
    if returned is None:
        return Answer(call)
    returned = _from_dict(returned)
    if not isinstance(returned, HookResponse):
        kind = type(returned).__name__
        return Answer(call, failure=f"returned a {kind}; a handler returns a HookResponse or None")
    word = getattr(returned.decision, "value", returned.decision)
    decision = _DECISIONS.get(str(word).lower())
    if decision is None:
        return Answer(
            call, failure=f"returned the decision {str(word)[:40]!r}; there are allow, deny, ask, block and modify"
        )
    wrong = _wrong_type(returned)
    if wrong:
        return Answer(call, failure=wrong)
    changed = returned.modify_args if decision != "deny" else None
    return Answer(
        call,
        decision,  # type: ignore[arg-type]  # one of the words above
        returned.reason or "",
        returned.context or "",
        returned.system_message or "",
        changed or None,
    )


def _from_dict(returned: object) -> object:
    """The response that a dict means, as Gobby's guide has handlers return one; another value as it is.

    `{"continue": False}` refuses. A dict without a key of a response is no response.
    """
    if not isinstance(returned, dict) or not returned.keys() & {"continue", *_DICT_KEYS}:
        return returned
    fields = {_DICT_KEYS[key] or key: value for key, value in returned.items() if key in _DICT_KEYS}
    if returned.get("continue") is False:
        fields["decision"] = "deny"
    return HookResponse(**fields)


def outcome(hook: Hook, answer: Answer) -> Outcome:
    """The outcome of a handler's hook from an answer that is no failure."""
    reason = answer.reason
    if not reason and answer.decision != "abstain":
        reason = f"plugin {hook.plugin!r} says {answer.decision} and gives no reason"
    return Outcome(
        decision=answer.decision,
        reason=reason,
        contexts=(answer.context,) if answer.context.strip() else (),
        updated_input=answer.updated_input,
        note=answer.message,
    )


def seen_verdict(verdict: Verdict) -> VerdictSummary:
    """What handlers at 50 or above see of a verdict."""
    return VerdictSummary(verdict.decision, verdict.reason, "\n\n".join(verdict.contexts), verdict.updated_input)


def arguments(handler: RegisteredHandler, event: Event, seen: VerdictSummary | None) -> tuple[Any, ...]:
    """What a handler is called with: the event, and the verdict where it takes a second argument."""
    found = hook_event(event, str_of(handler.event_type))
    if not handler.takes_response:
        return (found,)
    return (found, core_response(seen) if handler.observes else None)


def joined(call: int, answers: list[Answer]) -> Answer:
    """One answer for several handlers: the first deny, else the first ask; contexts, messages and changes of all."""
    failed = next((found for found in answers if found.failure), None)
    decided = next((found for found in answers if found.decision == "deny"), None) or next(
        (found for found in answers if found.decision == "ask"), None
    )
    if failed is not None and (decided is None or decided.decision != "deny"):
        return Answer(call, failure=failed.failure)
    changed: dict[str, Any] = {}
    for found in answers:
        changed |= found.updated_input or {}
    return Answer(
        call,
        decided.decision if decided else "abstain",
        decided.reason if decided else "",
        "\n\n".join(found.context for found in answers if found.context),
        "\n".join(found.message for found in answers if found.message),
        changed or None,
    )


def _wrong_type(returned: HookResponse) -> str:
    for name in ("reason", "context", "system_message"):
        value = getattr(returned, name)
        if value is not None and not isinstance(value, str):
            return f"returned a {name} that is a {type(value).__name__}, not a text"
    changed: object = returned.modify_args
    if changed is not None and not isinstance(changed, dict):
        return f"returned modify_args that are a {type(changed).__name__}, not a dict"
    return ""
