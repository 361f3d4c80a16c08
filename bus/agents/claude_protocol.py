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
from bus.wire.codec import read_payload, write_json

Form = Callable[[str, CarriedVerdict], dict[str, Any]]
"""Makes the fields of an answer that carry the decision, for a native event. Context and notes are added to them."""

_ENVELOPE: Final = frozenset({"session_id", "cwd", "hook_event_name"})


@dataclass(frozen=True, slots=True)
class Family:
    """One agent of the family: its name and limits, the capabilities of its events, and its form of decisions."""

    agent: Agent
    capabilities: dict[str, Capability]
    form: Form
    by_exit_code: frozenset[str] = frozenset()
    """Events where a deny is exit code 2 with its reason on stderr, because JSON would mean something else."""
    wordless: frozenset[str] = frozenset()
    """Events where the person sees no reason of a deny, so it is in the message to the person."""
    alone: frozenset[str] = frozenset()
    """Events where nothing but the deny is read, so its reason includes the context."""
    call_fields: tuple[str, ...] = ("tool_use_id",)
    """The fields that may have the id of a tool call; the first one that is there counts."""

    retype: Callable[[str, Mapping[str, Any]], str] | None = None
    """Finds the type of a payload whose event name is misleading; empty if the name is right."""

    @property
    def name(self) -> str:
        """The agent's source name."""
        return self.agent.name

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload. Fields without a place in the event are in `data`, and the whole payload is in `raw`.

        The event that the hook command was installed for counts more than the payload's own name. Raises DecodeError.
        """
        fields = read_payload(payload)
        if not isinstance(fields, dict):
            raise DecodeError(f"payload of {self.agent.label} is not a JSON object but a {type(fields).__name__}")
        return self.opened(native, fields, host=host)

    def opened(self, native: str, fields: dict[str, Any], *, host: str = "") -> Event:
        """The event in a payload that is parsed already."""
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
        """The answer as one line of ASCII JSON; empty if there is nothing to write, or the event is not known."""
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
        if native in self.wordless and case.decision == "deny" and verdict.reason and not verdict.fallback:
            case.notes.append(clean(verdict.reason))
        if case.notes:
            reply["systemMessage"] = person_message(self.agent, case, verdict, event)
        return HookAnswer(0, write_json(reply) if reply else b"", b"", case.lost)


def can(
    type_: str, *answers: str, timeout: float = 600.0, unit: Literal["s", "ms"] = "s", closed: bool = False
) -> Capability:
    """The capability of an event, from a few words.

    The agents wait for every hook, but Fleethook asks the bus only if an answer would change something.

    `block`, `ask`, `rewrite`, `context`, `output` (or `output as block`), `halt`, `grant` and `interrupt` are the possible
    answers. An ask that the agent cannot show becomes a deny if the action has not happened yet (`before`), and is dropped
    elsewhere; with `asks`, the agent asks the person if it gets no answer.
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
    """The fields of a decision at PermissionRequest; empty if the person is to be asked."""
    if case.decision == "allow":
        changed: dict[str, Any] = {} if case.rewrite is None else {"updatedInput": case.rewrite}
        granted = {"updatedPermissions": list(case.permissions)} if case.permissions else {}
        return {"hookSpecificOutput": {"decision": {"behavior": "allow", **changed, **granted}}}
    if case.decision == "deny":
        ends = {"interrupt": True} if case.interrupt else {}
        return {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": case.reason, **ends}}}
    return {}


def pre_tool(case: CarriedVerdict) -> dict[str, Any]:
    """The fields of a decision at PreToolUse, with the changed input if there is one."""
    if case.decision == "abstain":
        return {}
    specific: dict[str, Any] = {"permissionDecision": case.decision, "permissionDecisionReason": case.reason}
    if case.rewrite is not None:
        specific["updatedInput"] = case.rewrite
    return {"hookSpecificOutput": specific}


def block(case: CarriedVerdict) -> dict[str, Any]:
    """The fields of a deny at every other event."""
    return {"decision": "block", "reason": case.reason} if case.decision == "deny" else {}


def _original(event: Event | None) -> dict[str, Any] | None:
    """The input as the agent sent it."""
    fields = event.raw.get("tool_input") if event is not None and event.raw is not None else None
    return fields if isinstance(fields, dict) else None


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
