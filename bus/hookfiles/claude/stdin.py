"""The stdin of hooks of Claude Code's format: Claude Code's own payload, or another agent's event in the same form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bus.agents.claude import NAME as CLAUDE
from bus.events import Event
from bus.hookfiles.claude.matching import TOOL_EVENTS, field
from bus.lazy.regex import lazy_regex
from bus.tools import canonical_input, input_for, lost_fields, native_input
from bus.wire.codec import write_json

_EXTRA_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "SessionStart": ("source",),
    "Setup": ("trigger",),
    "UserPromptSubmit": ("permission_mode", "prompt"),
    "UserPromptExpansion": ("permission_mode", "prompt"),
    "Notification": ("message", "notification_type"),
    "Stop": ("permission_mode", "stop_hook_active", "last_assistant_message"),
    "StopFailure": ("error", "last_assistant_message"),
    "SubagentStart": ("agent_id", "agent_type"),
    "SubagentStop": ("permission_mode", "stop_hook_active", "agent_id", "agent_type", "last_assistant_message"),
    "PreCompact": ("trigger", "custom_instructions"),
    "PostCompact": ("trigger",),
    "SessionEnd": ("reason",),
    "PreToolUse": ("permission_mode",),
    "PostToolUse": ("permission_mode", "duration_ms"),
    "PostToolUseFailure": ("permission_mode", "duration_ms", "error", "is_interrupt"),
    "PermissionRequest": ("permission_mode",),
    "PermissionDenied": ("permission_mode", "reason"),
}
"""Further fields of each event. Claude Code leaves out a field without a value, except those in `_NULLABLE`."""

_NULLABLE: Final = frozenset({"custom_instructions"})
_HUNK: Final = lazy_regex(r"^\*\*\* (Add|Update) File: (.+?)[ \t]*$")
_MADE_FROM_PATCH: Final = frozenset({"old", "new", "content"})


class Rewrite(NamedTuple):
    """The changes in an `updatedInput`: those for the verdict, and those that the agent's call has no field for."""

    changed: dict[str, Any]
    """Canonical fields (for Claude Code's own event, its fields); empty if nothing changed."""
    unwritable: dict[str, Any]
    """Changed fields, in Claude Code's names, that the agent's call has no field for."""
    kept: tuple[str, ...]
    """Fields that the answer left out: Claude Code would remove them, and the bus keeps them."""


def payload(name: str, event: Event, tool: str, *, ion: bool = False) -> dict[str, Any]:
    """The payload of the event `name`, with `tool` as the tool's name; `ion` adds ion's own names.

    Claude Code's own payload is unchanged, except for an input that another hook changed. The payload for another agent's
    event has a field `fleethook` with the native names and the agent's own payload.
    """
    raw_payload = (
        event.raw if event.source == CLAUDE and event.raw is not None and "hook_event_name" in event.raw else None
    )
    result = _original_payload(raw_payload, event) if raw_payload is not None else _translated(name, event, tool)
    if ion:
        output = result.get("tool_response")
        result = {"event": name, **({} if output is None else {"tool_output": _text(output) or output}), **result}
    return result


def encode(payload: Mapping[str, Any]) -> bytes:
    """A payload as one line, as Claude Code writes it; raises TypeError or ValueError for values that JSON does not have."""
    return write_json(dict(payload)) + b"\n"


_OF_PATCH: Final = frozenset({"patch", "path", "paths"})
"""Fields that Fleethook derives from a patch in a shell command."""


def tool_input(event: Event, tool: str) -> dict[str, Any]:
    """The input of the tool call in the fields that Claude Code has for `tool`."""
    if event.source == CLAUDE:
        original = _original(event)
        if original is not None:
            return native_input(CLAUDE, event.native_tool, event.input, original)
    made = input_for(CLAUDE, tool, event.source, event.native_tool or event.tool, event.input)
    patch = event.input.get("patch")
    if isinstance(patch, str) and tool == "Bash":  # a shell command with a patch is shown only as a command
        return {name: value for name, value in made.items() if name not in _OF_PATCH}
    if isinstance(patch, str):
        made = {**native_input(CLAUDE, tool, _from_patch(patch), {}), **made}
    return made


def read_rewrite(event: Event, tool: str, updated: Mapping[str, Any]) -> Rewrite:
    """The changes that an answer's `updatedInput` for `tool` makes to the input that the hook got."""
    shown = tool_input(event, tool)
    changed = {key: value for key, value in updated.items() if key not in shown or shown[key] != value}
    kept = tuple(key for key in shown if key not in updated)
    if event.source == CLAUDE or not changed:
        return Rewrite(changed, {}, kept)
    canonical = input_for("generic", tool, CLAUDE, tool, canonical_input(CLAUDE, tool, changed))
    native = event.native_tool or event.tool
    original = input_for(event.source, native, event.source, native, event.input)
    lost = set(lost_fields(event.source, native, canonical, original))
    if "patch" in event.input:
        lost |= _MADE_FROM_PATCH & set(canonical)
    if not lost:
        return Rewrite(canonical, {}, kept)
    return Rewrite({}, native_input(CLAUDE, tool, {key: canonical[key] for key in sorted(lost)}, {}), kept)


def _original_payload(raw_payload: dict[str, Any], event: Event) -> dict[str, Any]:
    if (
        "tool_response" in raw_payload and raw_payload["tool_response"] != event.output
    ):  # a hook before this one changed it
        raw_payload = {**raw_payload, "tool_response": event.output}
    original = _original(event)
    if original is None or not event.native_tool:
        return raw_payload
    now = native_input(CLAUDE, event.native_tool, event.input, original)
    return raw_payload if now == original else {**raw_payload, "tool_input": now}


def _translated(name: str, event: Event, tool: str) -> dict[str, Any]:
    """A payload in Claude Code's form, built from the event; without `fleethook` if the event is Claude Code's own."""
    result: dict[str, Any] = {"session_id": event.session, "cwd": event.cwd, "hook_event_name": name}
    more: dict[str, Any] = {}
    if event.source != CLAUDE:
        result["transcript_path"] = _text_or(field(event, "transcript_path"), "")
        known = ((key, field(event, key)) for key in _EXTRA_FIELDS.get(name, ()))
        result |= {key: value for key, value in known if value is not None or key in _NULLABLE}
        native = {"source": event.source, "event": event.native, "tool": event.native_tool, "raw": event.raw}
        more = {"fleethook": native}
    if name in TOOL_EVENTS:
        result |= {"tool_name": tool, "tool_input": tool_input(event, tool)}
        if event.call:
            result["tool_use_id"] = event.call
        if name.startswith("PostToolUse") and event.output is not None:
            result["tool_response"] = _response(tool, event.output) if more else event.output
    return {**event.data, **result, **more}


def _response(tool: str, output: object) -> object:
    """A tool's result in the form of Claude Code's tools, if that form is known."""
    if tool != "Bash" or (isinstance(output, dict) and "stdout" in output):
        return output
    text = _text(output)
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False} if text else output


def _text(output: object) -> str:
    """The text of a tool's output, in any agent's form; empty if there is none."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return "\n".join(filter(None, (_text(item) for item in output)))
    if isinstance(output, dict):
        keys = ("stdout", "llmContent", "output", "text", "textResultForLlm", "content", "result")
        return next((text for key in keys if (text := _text(output.get(key)))), "")
    return ""


def _from_patch(patch: str) -> dict[str, Any]:
    """The first file of a patch as an edit (`old`, `new`) or a whole new file (`content`)."""
    kind, old, new = "", [], []
    for line in patch.splitlines():
        if line.startswith("*** "):
            start = _HUNK.match(line)
            if kind:
                if line.startswith(("*** Move to: ", "*** End of File")):
                    continue
                break
            kind = start[1] if start else ""
        elif kind and not line.startswith("@@"):
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
    if kind == "Add":
        return {"content": "\n".join(new) + "\n"}
    return {"old": "\n".join(old), "new": "\n".join(new)} if kind else {}


def _original(event: Event) -> dict[str, Any] | None:
    tool_input_sent = event.raw.get("tool_input") if event.raw is not None else None
    return tool_input_sent if isinstance(tool_input_sent, dict) else None


def _text_or(value: object, default: str) -> str:
    return value if isinstance(value, str) else default
