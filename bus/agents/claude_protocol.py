"""The Claude family: what agents that speak Claude Code's hook protocol share; each states its own table and forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from bus.agents.base import Capability
from bus.agents.degrade import Agent, CarriedVerdict, clean, degrade, person_message, stderr
from bus.errors import DecodeError
from bus.events import Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Verdict
from bus.wire.codec import read_json, write_json

Form = Callable[[str, CarriedVerdict], dict[str, Any]]
"""The part of an answer that carries the decision, by native event; context and notes are put beside it."""

_ENVELOPE: Final = frozenset({"session_id", "cwd", "hook_event_name"})


@dataclass(frozen=True, slots=True)
class Family:
    """One agent of the family: its name and limits, what its events carry, and the form of its decisions."""

    agent: Agent
    capabilities: dict[str, Capability]
    form: Form
    by_exit_code: frozenset[str] = frozenset()
    """Where a deny is exit code 2 with its reason on stderr: JSON there would say something else."""
    wordless: frozenset[str] = frozenset()
    """Where the form of a deny has no place for a reason, so the person is told instead."""
    alone: frozenset[str] = frozenset()
    """Where nothing beside a deny is read, so its reason carries the context too."""
    call_fields: tuple[str, ...] = ("tool_use_id",)
    """Where the id of a tool call stands; the first that is there counts."""

    retype: Callable[[str, Mapping[str, Any]], str] | None = None
    """The type of a payload that is not what its event's name says; empty where it is."""

    @property
    def name(self) -> str:
        """The agent's source name."""
        return self.agent.name

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload; what has no field of its own stands in `data`, and all of it in `raw`.

        The event that the hook command was installed for outranks the payload's own word; raises DecodeError.
        """
        fields = read_json(payload)
        if not isinstance(fields, dict):
            raise DecodeError(f"payload of {self.agent.label} is not a JSON object but a {type(fields).__name__}")
        return self.opened(native, fields, host=host)

    def opened(self, native: str, fields: dict[str, Any], *, host: str = "") -> Event:
        """The same of a payload that is an object already."""
        native = native or _text(fields, "hook_event_name")
        if not native:
            raise DecodeError(f"payload of {self.agent.label} names no event (hook_event_name)")
        known = self.capabilities.get(native)
        tool, asked = _text(fields, "tool_name"), fields.get("tool_input")
        taken = set(_ENVELOPE)
        taken |= {"tool_name"} if tool else set()
        taken |= {"tool_input"} if isinstance(asked, dict) else set()
        taken |= {"tool_use_id", "tool_response"} if tool else set()
        return Event(
            type=(self.retype and self.retype(native, fields))
            or (known.type if known else native_type(self.name, native)),
            source=self.name,
            native=native,
            session=_text(fields, "session_id"),
            host=host,
            cwd=_text(fields, "cwd"),
            tool=canonical_tool(self.name, tool) if tool else "",
            native_tool=tool,
            call=next(filter(None, (_text(fields, field) for field in self.call_fields)), "") if tool else "",
            input=canonical_input(self.name, tool, asked) if isinstance(asked, dict) else {},
            output=fields.get("tool_response") if tool else None,
            data={name: value for name, value in fields.items() if name not in taken},
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The answer as one line of ASCII JSON; empty where nothing is to be said, or the event is not known."""
        can = self.capabilities.get(native)
        if can is None or not can.waits:
            return HookAnswer()
        case = degrade(self.agent, native, can, verdict, event, _original(event))
        if native in self.alone | self.by_exit_code and case.decision == "deny" and case.context:
            case = case._replace(reason=f"{case.reason}\n\n{case.context}", context="")
        if native in self.by_exit_code and case.decision == "deny" and not case.halt:
            return HookAnswer(2, b"", stderr(case.reason), case.lost)
        reply = self.form(native, case)
        specific = reply.pop("hookSpecificOutput", {})
        if case.context:
            specific["additionalContext"] = case.context
        if case.output is not None and event is not None:
            mcp = event.tool.startswith("mcp__")
            specific["updatedMCPToolOutput" if mcp else "updatedToolOutput"] = case.output
        if case.halt:
            reply |= {"continue": False, "stopReason": case.halt}
        if specific:
            reply["hookSpecificOutput"] = {"hookEventName": native, **specific}
        if native in self.wordless and case.decision == "deny" and verdict.reason:
            case.notes.append(clean(verdict.reason))
        if case.notes:
            reply["systemMessage"] = person_message(self.agent, case, verdict, event)
        return HookAnswer(0, write_json(reply) if reply else b"", b"", case.lost)


def can(
    type_: str, *answers: str, timeout: float = 600.0, unit: Literal["s", "ms"] = "s", closed: bool = False
) -> Capability:
    """What an event carries, in a few words; the agents wait for every hook, but the bus is asked only where some
    answer would change something.

    `block`, `ask`, `rewrite`, `context`, `output` (or `output as block`), `halt`, `grant` and `interrupt` are what can be
    said. An ask that cannot be asked denies what has not happened yet (`before`), and is dropped elsewhere; `asks` marks
    where no answer means that the person is asked.
    """
    call = type_ in (EventType.TOOL_PRE_EXECUTE, EventType.PERMISSION_REQUEST)
    return Capability(
        type=str(type_),
        waits=bool(answers),
        block="block" in answers,
        ask="ask" in answers,
        ask_else="deny" if "before" in answers else "abstain",
        asks_anyway="asks" in answers,
        rewrite="rewrite" in answers,
        output="field" if "output" in answers else "block" if "output as block" in answers else "",
        halts="halt" in answers,
        grants="grant" in answers,
        interrupts="interrupt" in answers,
        rewrite_as="deny" if "asks" in answers else "ask",
        rewrite_else="deny" if call else "drop",
        context="context" in answers,
        timeout=timeout,
        unit=unit,
        failure="closed" if closed else "open",
    )


def permission(case: CarriedVerdict) -> dict[str, Any]:
    """PermissionRequest's own form of a decision; nothing where the person is to be asked."""
    if case.decision == "allow":
        changed: dict[str, Any] = {} if case.rewrite is None else {"updatedInput": case.rewrite}
        granted = {"updatedPermissions": list(case.permissions)} if case.permissions else {}
        return {"hookSpecificOutput": {"decision": {"behavior": "allow", **changed, **granted}}}
    if case.decision == "deny":
        ends = {"interrupt": True} if case.interrupt else {}
        return {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": case.reason, **ends}}}
    return {}


def pre_tool(case: CarriedVerdict) -> dict[str, Any]:
    """PreToolUse's own form of a decision, with the changed input where there is one."""
    if case.decision == "abstain":
        return {}
    specific: dict[str, Any] = {"permissionDecision": case.decision, "permissionDecisionReason": case.reason}
    if case.rewrite is not None:
        specific["updatedInput"] = case.rewrite
    return {"hookSpecificOutput": specific}


def block(case: CarriedVerdict) -> dict[str, Any]:
    """The form of a deny at every other event."""
    return {"decision": "block", "reason": case.reason} if case.decision == "deny" else {}


def _original(event: Event | None) -> dict[str, Any] | None:
    """The input as the agent sent it."""
    fields = event.raw.get("tool_input") if event is not None and event.raw is not None else None
    return fields if isinstance(fields, dict) else None


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
