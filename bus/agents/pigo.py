"""pigo as an agent: its events with their PIGO_* fields, and a verdict as an exit code with its output (P-04 to P-10).

A payload is a JSON object, or the environment of one of pigo's hooks as `NAME=value` ended by NULs: pigo's hooks get
nothing on stdin, so `SENDS` in front of the hook command makes one.
"""

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
from bus.wire.codec import MAX_BODY

NAME: Final = "pigo"

TEXT_LIMIT: Final = 10_000
"""UTF-16 units of a reason; pigo cuts a tool's output at this length (P-07)."""

SENDS: Final = """awk 'BEGIN{for(n in ENVIRON)if(n~/^PIGO_/)printf"%s=%s%c",n,ENVIRON[n],0}'"""
"""A shell command that writes a hook's PIGO_* variables, and nothing else of the environment, in the form that `read` takes."""

_AGENT: Final = Agent(NAME, "pigo", TEXT_LIMIT)

CAPABILITIES: Final[dict[str, Capability]] = {
    "agent_start": Capability(type=EventType.AGENT_START.value, timeout=10.0),
    "turn_start": Capability(type=EventType.TURN_START.value, timeout=10.0),
    "tool_start": Capability(
        type=EventType.TOOL_PRE_EXECUTE.value,
        waits=True,
        block=True,
        allow=False,
        ask_else="deny",
        rewrite_else="deny",
        timeout=10.0,
        failure="closed",
        silence="exit 0",
    ),
    "tool_end": Capability(type=EventType.TOOL_POST_EXECUTE.value, timeout=10.0),
    "turn_end": Capability(type=EventType.TURN_END.value, timeout=10.0),
    "agent_end": Capability(type=EventType.AGENT_END.value, timeout=10.0),
}
"""Only `tool_start` can block (P-04). Every exit code but 0 blocks, and a timeout too (P-10, P-12)."""

_TOOL: Final = frozenset({"tool_name", "tool_args", "tool_input", "tool_output", "tool_error"})
_ENVELOPE: Final = frozenset({"event", "work_dir", "session_id"})


class _Dialect:
    """pigo's events and exit codes; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload, whose fields are pigo's variables with or without `PIGO_`, in either case.

        `tool_args` is an object or its JSON text. If a bash call has only `tool_input`, that is its command.
        """
        fields = _variables(payload) if payload.startswith(b"PIGO_") else opened("pigo", payload)
        plain = {name.lower().removeprefix("pigo_"): value for name, value in fields.items()}
        native = native or text(plain, "event")
        if not native:
            raise DecodeError("payload of pigo names no event (PIGO_EVENT)")
        tool = text(plain, "tool_name")
        arguments = mapping(unpacked(plain.get("tool_args")))
        if not arguments and tool == "bash" and text(plain, "tool_input"):
            arguments = {"command": plain["tool_input"]}
        known = CAPABILITIES.get(native)
        kind = known.type if known else native_type(NAME, native)
        if native == "tool_end" and plain.get("tool_error") in ("true", True):
            kind = EventType.TOOL_ERROR.value
        return Event(
            type=kind,
            source=NAME,
            native=native,
            session=text(plain, "session_id"),
            host=host,
            cwd=text(plain, "work_dir"),
            tool=canonical_tool(NAME, tool) if tool else "",
            native_tool=tool,
            input=canonical_input(NAME, tool, arguments),
            output=plain.get("tool_output") if tool else None,
            data=without(plain, _ENVELOPE | (_TOOL if tool else frozenset())),
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """Exit code 2 with the reason as output if the tool is cancelled, else exit code 0 and nothing.

        A verdict that cancels nothing has no output: pigo reads only the output of a hook that blocks.
        """
        can = CAPABILITIES.get(native)
        if can is None or not can.waits:
            return HookAnswer()
        original = event.input if event is not None else None
        case = degrade(_AGENT, native, can, verdict, event, original)
        return (
            HookAnswer(2, b"", stderr(case.reason), case.lost)
            if case.decision == "deny"
            else HookAnswer(lost=case.lost)
        )


DIALECT: Final = _Dialect()


def _variables(payload: bytes) -> dict[str, Any]:
    """`NAME=value` pairs ended by NULs."""
    if len(payload) > MAX_BODY:
        raise DecodeError(f"payload of {len(payload)} bytes; at most {MAX_BODY} are accepted")
    pairs = (pair.partition("=") for pair in payload.decode("utf-8", "replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals and name.startswith("PIGO_")}
