"""Windsurf's Cascade: its hook payloads into events, and verdicts into exit codes (documented 2026).

An exit code is all that it reads: 2 before something blocks it, and its stderr goes to the model.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import can as family_can
from bus.agents.degrade import Agent, degrade, person_message, stderr
from bus.agents.payloads import mapping, opened, text, unpacked, without
from bus.errors import DecodeError
from bus.events import Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool, mcp_tool
from bus.verdicts import Verdict

NAME: Final = "windsurf"
LABEL: Final = "Windsurf"

TEXT_LIMIT: Final = 9_999
"""UTF-16 units of a reason; a limit is not documented."""

_AGENT: Final = Agent(NAME, LABEL, TEXT_LIMIT)


def _can(type_: str, *answers: str) -> Capability:
    """As in the Claude family. Its timeout is not documented and cannot be set, and no exit code means an allow."""
    return msgspec.structs.replace(family_can(type_, *answers, timeout=30.0), allow=type_ != EventType.TOOL_PRE_EXECUTE)


def _own(name: str) -> str:
    return native_type(NAME, name)


_PRE: Final = _can(EventType.TOOL_PRE_EXECUTE, "block", "before")
_POST: Final = _can(EventType.TOOL_POST_EXECUTE)

CAPABILITIES: Final[dict[str, Capability]] = {
    "pre_read_code": _PRE,
    "post_read_code": _POST,
    "pre_write_code": _PRE,
    "post_write_code": _POST,
    "pre_run_command": _PRE,
    "post_run_command": _POST,
    "pre_mcp_tool_use": _PRE,
    "post_mcp_tool_use": _POST,
    "pre_user_prompt": _can(EventType.USER_PROMPT_SUBMIT, "block", "before"),
    "post_cascade_response": _can(EventType.AGENT_STOP),
    "post_cascade_response_with_transcript": _can(EventType.AGENT_STOP),
    "post_setup_worktree": _can(_own("post_setup_worktree")),
}
"""Every event of Windsurf, 2026."""

NEVER: Final[frozenset[str]] = frozenset()
"""Every event may be subscribed."""

QUIET: Final = NEVER | {"post_cascade_response_with_transcript"}
"""Off by default: it fires at the same moment as another event."""

_TOOLS: Final = frozenset({"read_code", "write_code", "run_command"})
_MCP: Final = ("mcp_server_name", "mcp_tool_name", "mcp_tool_arguments", "mcp_result")
_TAKEN: Final = frozenset({"agent_action_name", "trajectory_id", "tool_info"})


class _Dialect:
    """Windsurf's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload. Fields without a place in the event are in `data`, and the whole payload is in `raw`.

        The event names the tool: `pre_run_command` and `post_run_command` are calls of `run_command`.
        """
        fields = opened(LABEL, payload)
        native = native or text(fields, "agent_action_name")
        if not native:
            raise DecodeError(f"payload of {LABEL} names no event (agent_action_name)")
        known, info = CAPABILITIES.get(native), mapping(fields.get("tool_info"))
        bare, tool, server = native.removeprefix("pre_").removeprefix("post_"), "", ""
        asked: dict[str, Any] = {}
        rest = info
        if bare in _TOOLS:
            tool, asked, rest = bare, info, {}
        elif native == "pre_user_prompt" and text(info, "user_prompt"):
            rest = {**info, "prompt": info["user_prompt"]}  # the name that it has for every agent
        elif bare == "mcp_tool_use":
            server, tool = text(info, "mcp_server_name"), text(info, "mcp_tool_name")
            asked, rest = mapping(unpacked(info.get("mcp_tool_arguments"))), without(info, _MCP)
        return Event(
            type=known.type if known else _own(native),
            source=NAME,
            native=native,
            session=text(fields, "trajectory_id"),
            host=host,
            cwd=text(info, "cwd"),
            tool=mcp_tool(server, tool) if server and tool else canonical_tool(NAME, tool) if tool else "",
            native_tool=tool,
            input=canonical_input(NAME, tool, asked),
            output=unpacked(info.get("mcp_result")),
            data={**without(fields, _TAKEN), **rest},
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """Exit code 2 and the reason on stderr for a deny; else 0, with the notes for the person on stdout.

        Windsurf shows stdout if the hook is installed with `show_output`, and reads nothing from it.
        """
        can = CAPABILITIES.get(native)
        if can is None or not can.waits:
            return HookAnswer()
        case = degrade(_AGENT, native, can, verdict, event, None)
        if case.decision == "deny":
            return HookAnswer(2, b"", stderr(case.reason), case.lost)
        note = person_message(_AGENT, case, verdict, event)
        return HookAnswer(0, stderr(note) if note else b"", b"", case.lost)


DIALECT: Final = _Dialect()
