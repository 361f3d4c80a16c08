"""Reads the bodies that Gobby's scripts post, `{hook_type, input_data, source}`, as canonical events of their agents."""

from __future__ import annotations

import shlex
from typing import Any, Final, NamedTuple

import msgspec

from bus.agents import find
from bus.agents.base import Capability
from bus.agents.gobby import EVENTS
from bus.agents.payloads import mapping, text
from bus.errors import DecodeError, FleethookError
from bus.events import Event
from bus.ids import event_id
from bus.wire.codec import read_json, write_json
from workers.gateway.gobby.codex_changes import PATCH_TOOL, patch_of
from workers.gateway.gobby.names import SOURCES, UNKNOWN, agent_of, native_name, plain, unified

APPROVALS: Final = frozenset({"item/command_execution/request_approval", "item/file_change/request_approval"})
"""Questions of Codex's app server, which are accepted or not."""

TURN_COMPLETE: Final = "agent_turn_complete"
"""The event of Codex's notify script."""

_GEMINI_TOOLS: Final = {
    **dict.fromkeys(("RunShellCommand", "ShellTool"), "run_shell_command"),
    **dict.fromkeys(("ReadFile", "ReadFileTool"), "read_file"),
    **dict.fromkeys(("WriteFile", "WriteFileTool"), "write_file"),
    **dict.fromkeys(("Edit", "EditFile", "EditTool", "edit_file"), "replace"),
    **dict.fromkeys(("GrepTool", "SearchText"), "grep_search"),
    "GlobTool": "glob",
    "delegate_to_agent": "invoke_agent",
}
"""Gemini's tools by the names that Gobby knows beside the present ones."""
_ENVELOPE: Final = frozenset({"hook_type", "input_data", "source"})
_ITEM_COMPLETED: Final = "item/completed"
_TOOL_ITEMS: Final = frozenset({"commandExecution", "fileChange", "mcpToolCall"})
_THREAD: Final = ("session_id", "thread_id", "threadId", "conversation_id", "conversationId")


class BadCall(FleethookError):
    """A body that is no hook call; the text is Gobby's own message, or longer."""

    def __init__(self, text: str, call: GobbyCall | None = None) -> None:
        """`call` is what is known of it: all but its fields."""
        super().__init__(text)
        self.call = call


class GobbyCall(NamedTuple):
    """One hook call."""

    source: str
    """Gobby's name of the program."""
    agent: str
    """The agent whose dialect reads and answers it."""
    hook_type: str
    """In the program's own spelling."""
    native: str
    """The agent's own name of the event."""
    can: Capability | None
    """The event's capabilities; None for an event that the agent does not have."""
    fields: dict[str, Any]
    """Its `input_data`."""


def read_call(body: bytes) -> GobbyCall:
    """The call in a request's body; raises BadCall."""
    try:
        found = read_json(body)
    except DecodeError as error:
        raise BadCall(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadCall("the body is not a JSON object")
    hook_type, source = found.get("hook_type"), found.get("source")
    if not hook_type or not isinstance(hook_type, str):
        raise BadCall("hook_type required")
    if not source or not isinstance(source, str):
        raise BadCall("source required")
    agent = agent_of(source, hook_type)
    if not agent:
        raise BadCall(f"Unsupported source: {source[:80]}. Supported: {', '.join(SOURCES)}")
    fields = found.get("input_data")
    if fields is None:  # Gemini's script also sends the fields beside the envelope
        fields = {name: value for name, value in found.items() if name not in _ENVELOPE}
    unread = not isinstance(fields, dict)
    if unread:
        fields = {}
    native, known = native_name(agent, hook_type)
    if plain(hook_type) == _ITEM_COMPLETED and _item(fields).get("type") not in _TOOL_ITEMS:
        native, known = hook_type, False
    can = find(agent).capabilities[native] if known else None
    call = GobbyCall(source, agent, hook_type, native, can, fields)
    if unread:
        raise BadCall("input_data is not a JSON object", call)
    return call


def read_event(call: GobbyCall, host: str) -> Event:
    """The event of a call, with a new id; raises BadCall for a payload that its agent would not send."""
    fields = (
        _of_codex(call) if call.agent == "codex" else _of_gemini(call.fields) if call.agent == "gemini" else call.fields
    )
    try:
        event = _read(call, fields)
    except DecodeError as error:
        raise BadCall(f"input_data of {call.hook_type[:80]}: {error}", call) from error
    data = event.data
    if call.source != event.source:
        data = {**data, "gobby_source": call.source}
    return msgspec.structs.replace(event, id=event_id(), host=host, data=data)


def _read(call: GobbyCall, fields: dict[str, Any]) -> Event:
    if call.can is not None:
        return find(call.agent).read(call.native, write_json(fields))
    name = unified(call.hook_type)
    envelope = {"session_id": text(fields, *_THREAD, "sessionId"), "cwd": text(fields, "cwd"), "data": fields}
    event = find("gobby").read(name if name in EVENTS else UNKNOWN, write_json(envelope))
    return msgspec.structs.replace(event, source=call.agent, native=call.hook_type[:128], raw=fields)


def _of_codex(call: GobbyCall) -> dict[str, Any]:
    """The fields of Codex's app server and of its notify script under the names of Codex's own hooks."""
    fields, name = dict(call.fields), plain(call.hook_type)
    fields["session_id"] = thread_id(fields)
    if name == TURN_COMPLETE:
        fields.setdefault("last_assistant_message", fields.get("last_message"))
    if name == _ITEM_COMPLETED:
        item = _item(fields)
        names = {"commandExecution": "Bash", "fileChange": PATCH_TOOL}
        fields.setdefault("tool_name", names.get(item.get("type", ""), "MCP"))
        changed = {"patch": patch_of(item["changes"])} if "changes" in item else item
        fields.setdefault("tool_input", {"command": _line(item["command"])} if "command" in item else changed)
        fields.setdefault("tool_response", item)
    if name in APPROVALS and not fields.get("tool_name"):
        is_edit = "file_change" in name
        command = fields.get("parsedCmd") or fields.get("command") or ""
        fields["tool_name"] = PATCH_TOOL if is_edit else "Bash"
        changes = fields.get("changes")
        fields["tool_input"] = (
            {"changes": changes, "patch": patch_of(changes)} if is_edit else {"command": _line(command)}
        )
    return fields


def _of_gemini(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of Gemini CLI under its present names; its older versions, and Gobby, have others."""
    name = text(fields, "tool_name", "function_name")
    if not name:
        return fields
    given = next((mapping(fields[key]) for key in ("tool_input", "parameters", "args") if fields.get(key)), {})
    return {**fields, "tool_name": _GEMINI_TOOLS.get(name, name), "tool_input": given}


def thread_id(fields: dict[str, Any]) -> str:
    """The thread of a Codex event, under any of the names that its versions have used; empty if it has none."""
    return (
        text(fields, *_THREAD)
        or text(mapping(fields.get("thread")), "id")
        or text(mapping(fields.get("session")), "id")
    )


def _item(fields: dict[str, Any]) -> dict[str, Any]:
    return mapping(fields.get("item")) or fields


def _line(command: object) -> str:
    """A command line: a text as it is, words as a shell would read them, or Codex's list of parsed commands."""
    if not isinstance(command, list):
        return str(command)
    parsed = [text(word, "cmd", "command") for word in command if isinstance(word, dict)]
    return "\n".join(parsed) if parsed else shlex.join(str(word) for word in command)
