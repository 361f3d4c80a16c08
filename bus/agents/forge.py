"""Forge as an agent: its HookEvent as JSON, and a verdict as a hook's ending: exit code, stderr, changed input (F-01, F-10)."""

from __future__ import annotations

from typing import Any, Final

from bus.agents.base import Capability
from bus.agents.degrade import Agent, degrade, stderr
from bus.agents.payloads import mapping, opened, text, unpacked, without
from bus.errors import DecodeError
from bus.events import Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Verdict
from bus.wire.codec import write_json

NAME: Final = "forge"

TEXT_LIMIT: Final = 20_000
"""UTF-16 units of a reason; Forge itself names no limit."""

_AGENT: Final = Agent(NAME, "Forge", TEXT_LIMIT)

_T = EventType
_OWN: Final = (
    _T.TOOL_PRE_EXECUTE,
    _T.TOOL_POST_EXECUTE,
    _T.TOOL_ERROR,
    _T.LLM_PRE_REQUEST,
    _T.LLM_POST_RESPONSE,
    _T.LLM_STREAM_START,
    _T.LLM_STREAM_END,
    _T.SESSION_START,
    _T.SESSION_END,
    _T.SESSION_MESSAGE,
    _T.PERMISSION_CHECK,
    _T.PERMISSION_PROMPT,
    _T.PERMISSION_GRANTED,
    _T.PERMISSION_DENIED,
    _T.USER_PROMPT_SUBMIT,
    _T.USER_INTERRUPT,
)
_BEFORE: Final = frozenset(
    {
        _T.TOOL_PRE_EXECUTE,
        _T.LLM_PRE_REQUEST,
        _T.PERMISSION_CHECK,
        _T.PERMISSION_PROMPT,
        _T.USER_PROMPT_SUBMIT,
    }
)


def _can(type_: EventType) -> Capability:
    """A pre-event can be denied, and a tool's input can be changed. Forge has no ask and no context."""
    tool = type_ == EventType.TOOL_PRE_EXECUTE
    return Capability(
        type=type_.value,
        waits=type_ in _BEFORE,
        block=type_ in _BEFORE,
        allow=False,
        ask_else="deny" if type_ in _BEFORE else "abstain",
        rewrite=tool,
        rewrite_as="alone",
        timeout=10.0,
        silence="exit 0 and an empty stdout",
    )


CAPABILITIES: Final[dict[str, Capability]] = {type_.value: _can(type_) for type_ in _OWN}
"""F-01's event types, which are the canonical ones."""

_FIELDS: Final = frozenset({"type", "data", "tool_name", "session_id"})
_IN_DATA: Final = frozenset({"tool_args", "arguments", "tool_result", "result"})


class _Dialect:
    """Forge's events and the ways in which a hook ends; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in `HookEvent.to_json()`: type, timestamp, data, tool_name, session_id (F-02).

        A tool's arguments are in `data.tool_args`, and its result is in `data.tool_result`, the names of F-07.
        """
        fields = opened("Forge", payload)
        native = native or text(fields, "type")
        if not native:
            raise DecodeError("payload of Forge names no event (type)")
        data, tool = mapping(fields.get("data")), text(fields, "tool_name")
        arguments = mapping(unpacked(data.get("tool_args", data.get("arguments"))))
        known = CAPABILITIES.get(native)
        kept: dict[str, Any] = without(data, _IN_DATA if tool else ())
        if native == EventType.USER_PROMPT_SUBMIT and isinstance(data.get("user_input"), str):
            kept.setdefault("prompt", data["user_input"])
        return Event(
            type=known.type if known else native_type(NAME, native),
            source=NAME,
            native=native,
            session=text(fields, "session_id"),
            host=host,
            cwd=text(fields, "working_dir", "cwd") or text(data, "working_dir", "cwd"),
            tool=canonical_tool(NAME, tool) if tool else "",
            native_tool=tool,
            call=text(data, "call_id", "tool_call_id") if tool else "",
            input=canonical_input(NAME, tool, arguments),
            output=data.get("tool_result", data.get("result")) if tool else None,
            data={**kept, **without(fields, _FIELDS)},
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """Exit code 2 with the reason on stderr for a deny.

        Else exit code 0; a changed input is `{"tool_args": …}` on stdout.
        """
        can = CAPABILITIES.get(native)
        if can is None or not can.waits:
            return HookAnswer()
        case = degrade(_AGENT, native, can, verdict, event, _original(event))
        if case.decision == "deny":
            return HookAnswer(2, b"", stderr(case.reason), case.lost)
        reply = write_json({"tool_args": case.rewrite}) if case.rewrite is not None else b""
        return HookAnswer(0, reply, b"", case.lost)


DIALECT: Final = _Dialect()


def _original(event: Event | None) -> dict[str, Any] | None:
    """The arguments in Forge's own fields."""
    if event is None or event.raw is None:
        return None
    data = mapping(event.raw.get("data"))
    fields = unpacked(data.get("tool_args", data.get("arguments")))
    return fields if isinstance(fields, dict) else None
