"""Cursor: its hook payloads into events, and verdicts into the flat JSON that it reads (documented 2026-08; 3.18 captured).

Every answer is a JSON object, `{}` for no opinion: newer versions take an empty stdout at a gate for a broken hook, and
block. One call of a tool comes as several events: preToolUse takes a changed input, and what follows it can ask.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import can as family_can
from bus.agents.degrade import Agent, CarriedVerdict, degrade, person_message
from bus.agents.payloads import first_root, opened, text, unpacked, without
from bus.errors import DecodeError
from bus.events import Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool, mcp_tool
from bus.verdicts import Verdict
from bus.wire.codec import write_json

NAME: Final = "cursor"
LABEL: Final = "Cursor"

TEXT_LIMIT: Final = 9_999
"""UTF-16 units of one text in an answer; a limit is not documented."""

SILENT: Final = HookAnswer(0, b"{}")
"""No opinion. It is also the answer at events without waiting, and if Fleethook is not installed any more."""

_AGENT: Final = Agent(NAME, LABEL, TEXT_LIMIT)
_SAYS_NOTHING: Final = "exit 0 and {}; an empty stdout may block"


def _can(type_: str, *answers: str, elsewhere: str = "", deny_else: str = "abstain") -> Capability:
    """As in the Claude family, and what only Cursor has."""
    return msgspec.structs.replace(
        family_can(type_, *answers, timeout=60.0),
        rewrite_as="deny",  # it cannot ask with a changed input
        elsewhere=frozenset(elsewhere.split()),
        deny_else=deny_else,
        silence=_SAYS_NOTHING,
    )


def _own(name: str) -> str:
    return native_type(NAME, name)


_PRE: Final = EventType.TOOL_PRE_EXECUTE
_POST: Final = EventType.TOOL_POST_EXECUTE

GRANTS: Final = 600.0
"""The longest timeout that a hook may have, if its entry says so; the default is shorter."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "sessionStart": _can(EventType.SESSION_START, "context"),
    "sessionEnd": _can(EventType.SESSION_END),
    "beforeSubmitPrompt": _can(EventType.USER_PROMPT_SUBMIT, "block", "before"),
    "preToolUse": _can(_PRE, "block", "before", "rewrite"),
    "postToolUse": msgspec.structs.replace(_can(_POST, "context", deny_else="context"), output="mcp"),
    "postToolUseFailure": _can(EventType.TOOL_ERROR),
    "beforeShellExecution": _can(_PRE, "block", "ask", elsewhere="rewrite"),
    "afterShellExecution": _can(_POST),
    "beforeMCPExecution": _can(_PRE, "block", "ask", elsewhere="rewrite"),
    "afterMCPExecution": _can(_POST),
    "beforeReadFile": _can(_PRE, "block", "before", elsewhere="rewrite"),
    "afterFileEdit": _can(EventType.FILE_CHANGE),
    "beforeTabFileRead": _can(_PRE, "block", "before"),
    "afterTabFileEdit": _can(EventType.FILE_CHANGE),
    "subagentStart": _can(EventType.SUBAGENT_START, "block", "before"),
    # Context makes an agent continue that wants to stop, as a block does: both are its next message.
    "subagentStop": _can(EventType.SUBAGENT_STOP, "block", "context"),
    "stop": _can(EventType.AGENT_STOP, "block", "context"),
    "preCompact": _can(EventType.CONTEXT_PRE_COMPACT),
    "afterAgentResponse": _can(EventType.LLM_POST_RESPONSE),
    "afterAgentThought": _can(EventType.LLM_POST_RESPONSE),
    "workspaceOpen": _can(_own("workspaceOpen")),
}
"""Every event of Cursor, September 2026."""

NEVER: Final[frozenset[str]] = frozenset()
"""Every event may be subscribed."""

QUIET: Final = NEVER | {
    "afterShellExecution",
    "afterMCPExecution",  # postToolUse has the same facts, and the id of the call
    "afterAgentThought",  # fires for each thought
    "beforeTabFileRead",
    "afterTabFileEdit",  # fires while a person types
    "workspaceOpen",  # older versions reject a file with a name that they do not know, and then run no hook at all
}
"""Off by default."""

TOGETHER: Final = frozenset({"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"})
"""The events of one call that belong together: the first takes a changed input, the second and third can ask."""

# After preToolUse of these tools, a later event of the same call can ask the person. Other tools have none.
_ASKED_LATER: Final = msgspec.structs.replace(
    CAPABILITIES["preToolUse"], ask_else="abstain", elsewhere=frozenset({"ask"})
)
_STOPPED: Final = _can(EventType.USER_INTERRUPT)

_PERMISSION: Final = frozenset(
    {"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeTabFileRead", "subagentStart"}
)
_TO_AGENT: Final = frozenset(
    {"preToolUse", "beforeShellExecution", "beforeMCPExecution"}
)  # they can have `agent_message`
_NEXT_MESSAGE: Final = frozenset({"stop", "subagentStop"})

# The events that are a tool themselves, and the fields with their input.
_SHELL: Final = frozenset({"beforeShellExecution", "afterShellExecution"})
_MCP: Final = frozenset({"beforeMCPExecution", "afterMCPExecution"})
_FILES: Final = {
    "beforeReadFile": "Read",
    "beforeTabFileRead": "TabRead",
    "afterFileEdit": "Edit",
    "afterTabFileEdit": "TabWrite",
}
_OUTPUTS: Final = {"afterShellExecution": "output", "afterMCPExecution": "result_json", "postToolUse": "tool_output"}
_ENVELOPE: Final = frozenset({"conversation_id", "session_id", "hook_event_name", "cwd"})


class _Dialect:
    """Cursor's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload. Fields without a place in the event are in `data`, and the whole payload is in `raw`.

        A stop after an abort or an error has the type of that. JSON in texts is parsed.
        """
        fields = opened(LABEL, payload)
        native = native or text(fields, "hook_event_name")
        if not native:
            raise DecodeError(f"payload of {LABEL} names no event (hook_event_name)")
        tool, asked, taken = _call(native, fields)
        output = _OUTPUTS.get(native, "")
        server = text(fields, "mcp_server_name", "server_name")
        return Event(
            type=_type(native, fields),
            source=NAME,
            native=native,
            session=text(fields, "conversation_id", "session_id"),
            host=host,
            cwd=text(fields, "cwd") or first_root(fields, "workspace_roots"),
            tool=_canonical(tool, server) if tool else "",
            native_tool=tool,
            call=text(fields, "tool_use_id"),
            input=canonical_input(NAME, tool, asked),
            output=unpacked(fields.get(output)) if output else None,
            data=without(fields, {*_ENVELOPE, "tool_use_id", output, *taken}),
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The answer as one line of ASCII JSON, at least an empty object."""
        can = _capability(native, event)
        if can is None or not can.waits:
            return SILENT
        case = degrade(_AGENT, native, can, verdict, event, _original(event))
        reply, lost = _said(native, case), case.lost
        message = case.reason
        if native in _PERMISSION and case.decision != "abstain":
            reply["permission"] = case.decision
            if native in _TO_AGENT and case.decision != "allow":
                reply["agent_message"] = case.reason
                message = case.reason if case.decision == "ask" else person_message(_AGENT, case, verdict, event)
            if case.rewrite is not None:
                reply["updated_input"] = case.rewrite
        if case.output is not None:
            reply["updated_mcp_tool_output"] = case.output
        if case.decision in ("abstain", "allow"):
            message = person_message(_AGENT, case, verdict, event)
        if message and (native in _PERMISSION or native == "beforeSubmitPrompt"):
            if native != "beforeTabFileRead":
                reply["user_message"] = message
            elif case.decision == "deny":
                lost = (*lost, f"the reason was dropped: {native} takes none")
        return HookAnswer(0, write_json(reply), b"", lost)


DIALECT: Final = _Dialect()


def call_of(event: Event) -> tuple[Any, ...] | None:
    """What identifies a call in each event of TOGETHER; None for other events. Only one of them has the call's id."""
    if event.native not in TOGETHER:
        return None
    fields = event.input
    if event.tool == "bash":
        what = (fields.get("command"), fields.get("cwd") or event.cwd)
    elif event.native_tool.startswith("MCP:"):
        what = (event.native_tool, sorted(fields.items()))
    else:
        what = (event.native_tool, fields.get("path"))
    return (event.session, event.data.get("generation_id"), event.tool == "bash", what)


def _said(native: str, case: CarriedVerdict) -> dict[str, Any]:
    """The fields of the answer besides the permission."""
    if native == "beforeSubmitPrompt":
        return {"continue": case.decision != "deny"}
    if native in _NEXT_MESSAGE:
        reply = [case.reason if case.decision == "deny" else "", case.context]  # an allow is no reason to continue
        following = "\n\n".join(filter(None, reply))
        return {"followup_message": following} if following else {}
    return {"additional_context": case.context} if case.context else {}


def _capability(native: str, event: Event | None) -> Capability | None:
    """The capability of the event. It is smaller for a stop after an abort, and if a later event of the call can ask."""
    can = CAPABILITIES.get(native)
    if event is None or can is None:
        return can
    if native == "stop" and event.type != can.type:
        return msgspec.structs.replace(_STOPPED, type=event.type, waits=True)
    later = event.tool == "bash" or event.native_tool.startswith("MCP:") or event.tool.startswith("mcp__")
    return _ASKED_LATER if native == "preToolUse" and later else can


def _type(native: str, fields: dict[str, Any]) -> str:
    known = CAPABILITIES.get(native)
    if native == "stop" and fields.get("status") in ("aborted", "error"):
        return (EventType.USER_INTERRUPT if fields["status"] == "aborted" else EventType.AGENT_ERROR).value
    if native == "postToolUseFailure" and fields.get("failure_type") == "permission_denied":
        return EventType.PERMISSION_DENIED.value
    return known.type if known else _own(native)


def _call(native: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any], set[str]]:
    """The tool's name, its input, and the fields that they come from."""
    if native in _SHELL:
        return "Shell", {name: fields[name] for name in ("command", "cwd") if name in fields}, {"command"}
    if native in _FILES:
        names = {"file_path", "edits"} & fields.keys()
        return _FILES[native], {name: fields[name] for name in names}, names
    tool, unread = text(fields, "tool_name"), unpacked(fields.get("tool_input"))
    if native in _MCP and tool:
        tool = f"MCP:{tool.removeprefix('MCP:')}"  # the name that preToolUse gives the same call
    taken = {"tool_name"} if tool else set()
    if isinstance(unread, dict):
        return tool, unread, taken | {"tool_input"}
    return tool, {}, taken


def _canonical(tool: str, server: str) -> str:
    if not tool.startswith("MCP:"):
        return canonical_tool(NAME, tool)
    name = tool.removeprefix("MCP:")
    if not server:
        server, _, name = name.rpartition(":")  # `MCP:<server>:<tool>` has been seen too
    return mcp_tool(server, name) if server else tool


def _original(event: Event | None) -> dict[str, Any] | None:
    """The input in Cursor's own fields, if it takes a changed one."""
    fields = unpacked(event.raw.get("tool_input")) if event is not None and event.raw is not None else None
    return fields if isinstance(fields, dict) else None
