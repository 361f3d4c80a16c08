"""Gobby as an agent: its unified HookEvent as JSON, and a verdict as its HookResponse (G-01)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bus.agents.base import Capability
from bus.agents.degrade import Agent, degrade, person_message
from bus.agents.payloads import mapping, opened, text, unpacked, without
from bus.errors import DecodeError
from bus.events import GATES, STOPS, Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Verdict
from bus.wire.codec import write_json

NAME: Final = "gobby"

_E = EventType
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "session_start": (_E.SESSION_START,),
    "session_end": (_E.SESSION_END,),
    "before_agent": (_E.USER_PROMPT_SUBMIT,),
    "after_agent": (_E.AGENT_STOP, _E.AGENT_END),
    "stop": (_E.AGENT_STOP,),
    "before_tool": (_E.TOOL_PRE_EXECUTE,),
    "after_tool": (_E.TOOL_POST_EXECUTE, _E.TOOL_ERROR),
    "before_tool_selection": (_E.TOOL_SELECT,),
    "post_tool_batch": (_E.TOOL_BATCH,),
    "before_model": (_E.LLM_PRE_REQUEST,),
    "after_model": (_E.LLM_POST_RESPONSE,),
    "pre_compact": (_E.CONTEXT_PRE_COMPACT,),
    "post_compact": (_E.CONTEXT_POST_COMPACT,),
    "subagent_start": (_E.SUBAGENT_START,),
    "subagent_stop": (_E.SUBAGENT_STOP,),
    "permission_request": (_E.PERMISSION_REQUEST,),
    "permission_denied": (_E.PERMISSION_DENIED,),
    "notification": (_E.NOTIFICATION,),
    "interrupt": (_E.USER_INTERRUPT,),
    "stop_failure": (_E.AGENT_ERROR,),
    "user_prompt_expansion": (_E.USER_PROMPT_EXPAND,),
    "task_created": (_E.TASK_CREATED,),
    "task_completed": (_E.TASK_COMPLETED,),
    "config_change": (_E.CONFIG_CHANGE,),
    "file_changed": (_E.FILE_CHANGE,),
    "setup": ("claude:Setup",),
    "teammate_idle": ("claude:TeammateIdle",),
    "cwd_changed": ("claude:CwdChanged",),
    "instructions_loaded": ("claude:InstructionsLoaded",),
    "directory_added": ("claude:DirectoryAdded",),
    "worktree_create": ("claude:WorktreeCreate",),
    "worktree_remove": ("claude:WorktreeRemove",),
    "elicitation": ("claude:Elicitation",),
    "elicitation_result": ("claude:ElicitationResult",),
    "message_display": ("claude:MessageDisplay",),
}
"""The canonical types of Gobby's unified names (G-01). `after_tool` comes after a failed call too."""


ALIASES: Final[Mapping[str, str]] = {
    "pre_tool_use": "before_tool",
    "pre_tool_call": "before_tool",
    "post_tool_use": "after_tool",
    "post_tool_call": "after_tool",
    "user_prompt_submit": "before_agent",
    "pre_compress": "pre_compact",
    "post_tool_use_failure": "after_tool",
    "user_prompt_expand": "user_prompt_expansion",
    "turn_start": "before_agent",
    "turn_end": "stop",
}
"""Claude Code's event names, which Gobby accepts in kebab case, and those of G-21 in snake case."""

TEXT_LIMIT: Final = 9_999
"""UTF-16 units of one text: Gobby passes it to Claude Code, which cuts above 10,000."""

_AGENT: Final = Agent(NAME, "Gobby", TEXT_LIMIT)

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MORE: Final = (
    GATES
    | STOPS
    | {
        EventType.TOOL_POST_EXECUTE.value,
        EventType.TOOL_BATCH.value,
        EventType.TOOL_SELECT.value,
        EventType.LLM_PRE_REQUEST.value,
        EventType.SESSION_START.value,
        EventType.SUBAGENT_START.value,
        EventType.CONTEXT_PRE_COMPACT.value,
        EventType.TASK_CREATED.value,
        EventType.CONFIG_CHANGE.value,
    }
)
_CALLS: Final = frozenset({EventType.TOOL_PRE_EXECUTE.value, EventType.PERMISSION_REQUEST.value})


def event_types(name: str) -> tuple[str, ...]:
    """The event patterns for a Gobby event name in any spelling; empty if there is no such event."""
    return tuple(str(type_) for type_ in EVENTS.get(_unified(name), ()))


def handler_events(event: str) -> tuple[str, ...]:
    """The event patterns of a plugin's handler: Gobby's name of an event in any spelling, or a pattern of Fleethook's types."""
    if ":" in event or "*" in event:
        return tuple(part.strip() for part in event.split(","))
    return event_types(event) or (event,)


def _can(type_: str) -> Capability:
    """If Gobby waits, its response has a field for everything; only a tool call has a changed input."""
    waits = type_ in _MORE
    return Capability(
        type=type_,
        waits=waits,
        block=waits,
        ask=waits,
        context=waits,
        rewrite=type_ in _CALLS,
        rewrite_as="alone",
        timeout=10.0,
        silence='{"decision":"allow"}: nothing against it',
    )


CAPABILITIES: Final[dict[str, Capability]] = {name: _can(str(types[0])) for name, types in EVENTS.items()}
"""Gobby's unified names. What the agent behind Gobby does with a response is not known here."""

_ENVELOPE: Final = frozenset({"event_type", "hook_type", "session_id", "cwd", "machine_id", "data", "input_data"})
_TOOL: Final = frozenset({"tool_name", "tool_input", "tool_output", "tool_response", "tool_use_id", "tool_call_id"})


class _Dialect:
    """Gobby's events and responses; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a HookEvent: event_type, session_id, source, timestamp, data, machine_id, cwd …

        The form `{hook_type, input_data, source}`, which Gobby's own clients post, is read too. Names may have Claude Code's or
        Gobby's spelling. The agent behind Gobby is in `data.agent`.
        """
        fields = opened("Gobby", payload)
        native = _unified(native or text(fields, "event_type", "hook_type"))
        if not native:
            raise DecodeError("payload of Gobby names no event (event_type)")
        inner = mapping(fields.get("data", fields.get("input_data")))
        tool = text(inner, "tool_name")
        arguments = mapping(unpacked(inner.get("tool_input")))
        data = {**without(inner, _TOOL if tool else ()), **without(fields, _ENVELOPE | {"source"})}
        if text(fields, "source"):
            data["agent"] = fields["source"]
        known = CAPABILITIES.get(native)
        kind = known.type if known else native_type(NAME, native)
        if native == "after_tool" and (inner.get("error") or inner.get("is_error") is True):
            kind = EventType.TOOL_ERROR.value
        return Event(
            type=kind,
            source=NAME,
            native=native,
            session=text(fields, "session_id") or text(inner, "session_id"),
            host=host or text(fields, "machine_id"),
            cwd=text(fields, "cwd") or text(inner, "cwd"),
            tool=canonical_tool(NAME, tool, server=text(inner, "mcp_server")) if tool else "",
            native_tool=tool,
            call=text(inner, "tool_use_id", "tool_call_id") if tool else "",
            input=canonical_input(NAME, tool, arguments),
            output=inner.get("tool_output", inner.get("tool_response")) if tool else None,
            data=data,
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """A HookResponse: decision, and reason, context, system_message, modified_input if there are any.

        Gobby's `allow` is no opinion: it objects to nothing. A native allow is also written as `auto_approve`.
        """
        can = CAPABILITIES.get(_unified(native))
        if can is None or not can.waits:
            return HookAnswer()
        case = degrade(_AGENT, native, can, verdict, event, _original(event))
        reply: dict[str, Any] = {"decision": "allow" if case.decision == "abstain" else case.decision}
        if case.reason:
            reply["reason"] = case.reason
        if case.context:
            reply["context"] = case.context
        if case.decision == "allow":
            reply["auto_approve"] = True
        if case.rewrite is not None:
            reply["modified_input"] = case.rewrite
        if case.notes:
            reply["system_message"] = person_message(_AGENT, case, verdict, event)
        return HookAnswer(0, write_json(reply) + b"\n", b"", case.lost)


DIALECT: Final = _Dialect()


def _unified(name: str) -> str:
    """An event's name in Gobby's own spelling: `PreToolUse`, `pre-tool-use` and `before_tool` are the same event."""
    plain = _HUMP.sub("_", name.strip()).replace("-", "_").lower()
    return ALIASES.get(plain, plain)


def _original(event: Event | None) -> dict[str, Any] | None:
    """The arguments in Gobby's own fields."""
    if event is None or event.raw is None:
        return None
    fields = unpacked(mapping(event.raw.get("data", event.raw.get("input_data"))).get("tool_input"))
    return fields if isinstance(fields, dict) else None
