"""Cline: its hook payloads into events, and verdicts into the JSON that it reads (cline/cline of 2026-08).

Its editor extension and its command line have hooks of the same file names and other payloads: the extension's is
named by the file (`PreToolUse`), the command line's by `hookName` (`tool_call`), which can also change a call's input.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import can as family_can
from bus.agents.degrade import Agent, degrade
from bus.agents.payloads import first_root, mapping, opened, text, unpacked, without
from bus.errors import DecodeError
from bus.events import Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.tools import canonical_input, canonical_tool, mcp_tool
from bus.verdicts import Verdict
from bus.wire.codec import write_json

NAME: Final = "cline"
LABEL: Final = "Cline"

TEXT_LIMIT: Final = 49_999
"""Bytes of UTF-8: Cline cuts context above 50 KB. A limit for reasons is not documented."""

SILENT: Final = HookAnswer(0, b'{"cancel":false}')
"""No opinion; Cline's documents require an object with `cancel`."""

_AGENT: Final = Agent(NAME, LABEL, TEXT_LIMIT, unit="utf-8")


def _can(type_: str, *answers: str, deny_else: str = "abstain", timeout: float = 30.0) -> Capability:
    """As in the Claude family, but Cline reads no answer as an allow."""
    return msgspec.structs.replace(
        family_can(type_, *answers, timeout=timeout),
        allow=type_ != EventType.TOOL_PRE_EXECUTE,
        rewrite_as="deny",
        deny_else=deny_else,
        silence='exit 0 and {"cancel":false}',
    )


def _own(name: str) -> str:
    return native_type(NAME, name)


_POST: Final = EventType.TOOL_POST_EXECUTE

CAPABILITIES: Final[dict[str, Capability]] = {
    "TaskStart": _can(EventType.SESSION_START, "block", "before", "context"),
    "TaskResume": _can(EventType.SESSION_START, "block", "before", "context"),
    "TaskCancel": _can(EventType.USER_INTERRUPT),
    "TaskComplete": _can(EventType.AGENT_STOP),
    "TaskError": _can(EventType.AGENT_ERROR),
    "SessionShutdown": _can(EventType.SESSION_END),
    "UserPromptSubmit": _can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context"),
    "PreToolUse": _can(EventType.TOOL_PRE_EXECUTE, "block", "before", "context"),
    # A cancel would end the whole task because of a call that is over.
    "PostToolUse": _can(_POST, "context", deny_else="context"),
    "PreCompact": _can(EventType.CONTEXT_PRE_COMPACT),
    "Notification": _can(EventType.NOTIFICATION),
    # The command line's own event names; it waits for the first two.
    "tool_call": _can(EventType.TOOL_PRE_EXECUTE, "block", "before", "rewrite", "context", timeout=120.0),
    "tool_result": _can(_POST, "context", deny_else="context", timeout=120.0),
    "agent_start": _can(EventType.SESSION_START),
    "agent_resume": _can(EventType.SESSION_START),
    "agent_abort": _can(EventType.USER_INTERRUPT),
    "agent_end": _can(EventType.AGENT_STOP),
    "agent_error": _can(EventType.AGENT_ERROR),
    "prompt_submit": _can(EventType.USER_PROMPT_SUBMIT),
    "session_shutdown": _can(EventType.SESSION_END),
}
"""Every event of Cline, August 2026: the extension's, which are file names, and the command line's."""

_COMMAND_LINE: Final = frozenset(name for name in CAPABILITIES if name[0].islower())

NEVER: Final = _COMMAND_LINE
"""Never subscribed by these names, because no hook file has such a name."""

QUIET: Final = NEVER
"""Off by default."""

# The fields with the event's own part. The command line also sends the extension's field, with all values as texts.
_PARTS: Final = (
    "tool_call",
    "tool_result",
    "preToolUse",
    "postToolUse",
    "userPromptSubmit",
    "taskStart",
    "taskResume",
    "taskCancel",
    "taskComplete",
    "preCompact",
    "notification",
)
_BARE: Final = {
    "run_commands": "commands",
    "read_files": "files",
    "search_codebase": "queries",
    "fetch_web_content": "requests",
    "apply_patch": "input",
}
"""The field for an input that is a text or a list and no object."""

_CALL: Final = frozenset({"id", "name", "toolName", "input", "parameters", "output", "result"})
_ENVELOPE: Final = frozenset({"hookName", "taskId"})


class _Dialect:
    """Cline's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload. Its own part is divided into `input`, `output` and `data`; the whole payload is in `raw`."""
        fields = opened(LABEL, payload)
        native = native or text(fields, "hookName") or next((_named(part) for part in _PARTS if part in fields), "")
        if not native:
            raise DecodeError(f"payload of {LABEL} names no event (hookName)")
        own = next((part for part in _PARTS if isinstance(fields.get(part), dict)), "")
        part = mapping(fields.get(own))
        tool, asked = _call(part)
        calls = bool(tool)
        output = part.get("output", part.get("result")) if calls else None
        return Event(
            type=_type(native, fields, part),
            source=NAME,
            native=native,
            session=text(mapping(fields.get("sessionContext")), "rootSessionId") or text(fields, "taskId"),
            host=host,
            cwd=first_root(fields, "workspaceRoots"),
            tool=_canonical(tool, part) if calls else "",
            native_tool=tool,
            call=text(part, "id") if calls else "",
            input=canonical_input(NAME, tool, asked),
            output=output,
            data={**without(fields, {*_ENVELOPE, *_PARTS}), **without(part, _CALL if calls else ())},
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The answer as one line of ASCII JSON; it always has `cancel`."""
        name = _variant(native, event.raw if event is not None else None)
        can = CAPABILITIES.get(name)
        if can is None or not can.waits:
            return SILENT
        case = degrade(_AGENT, native, can, verdict, event, _original(event))
        reply: dict[str, Any] = {"cancel": case.decision == "deny"}
        if case.decision == "deny":
            reply["errorMessage"] = case.reason
        if case.rewrite is not None:
            reply["overrideInput"] = case.rewrite
        if case.context:
            reply["context" if name in _COMMAND_LINE else "contextModification"] = case.context
        return HookAnswer(0, write_json(reply), b"", case.lost)


DIALECT: Final = _Dialect()


def _named(part: str) -> str:
    """The event that has this part."""
    return part if part in CAPABILITIES else part[0].upper() + part[1:]


def _variant(native: str, fields: dict[str, Any] | None) -> str:
    """The event's name in the table: the command line's name if the payload is from the command line."""
    name = text(fields or {}, "hookName")
    return name if name in _COMMAND_LINE else native


def _type(native: str, fields: dict[str, Any], part: dict[str, Any]) -> str:
    known = CAPABILITIES.get(_variant(native, fields))
    if known is None:
        return native_type(NAME, native)
    failed = part.get("success") is False or bool(part.get("error"))
    return EventType.TOOL_ERROR.value if known.type == _POST and failed else known.type


def _call(part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool's name and its input as an object."""
    tool = text(part, "name", "toolName")
    sent = part.get("input", part.get("parameters"))
    if tool == "use_mcp_tool" and isinstance(sent, dict):
        return tool, mapping(unpacked(sent.get("arguments")))
    if isinstance(sent, dict) or sent is None:
        return tool, mapping(sent)
    return tool, {_BARE.get(tool, "input"): sent}


def _canonical(tool: str, part: dict[str, Any]) -> str:
    sent = mapping(part.get("input", part.get("parameters")))
    server, name = text(sent, "server_name"), text(sent, "tool_name")
    if tool == "use_mcp_tool" and server and name:
        return mcp_tool(server, name)
    return canonical_tool(NAME, tool)


def _original(event: Event | None) -> dict[str, Any] | None:
    """The input in Cline's own fields, if Cline takes a changed one."""
    part = mapping((event.raw or {}).get("tool_call")) if event is not None else {}
    sent = part.get("input")
    return sent if isinstance(sent, dict) and part.get("name") != "use_mcp_tool" else None
