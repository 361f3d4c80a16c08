"""Reads the actions of Gobby's workflows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bus.workflows.values import Action

KNOWN: Final = frozenset(
    {
        "inject_context",
        "capture_artifact",
        "read_artifact",
        "write_todos",
        "mark_todo_complete",
        "call_llm",
        "mark_session_status",
        "switch_mode",
        "mark_loop_complete",
        "generate_handoff",
        "generate_summary",
        "block_tools",
        "track_schema_lookup",
    }
)
"""Actions that keep their name here."""

ALREADY_SO: Final = frozenset({"load_workflow_state", "save_workflow_state"})
"""Actions that nothing is left to do for: the state is always kept."""

UNSUPPORTED: Final[Mapping[str, str]] = {
    "persist_tasks": "it needs Gobby's store of tasks; `call_mcp_tool` can write them to a tracker with an MCP server",
    "start_new_session": "Fleethook starts no agents; a `shell` action can start one",
    "switch_model": "Fleethook does not choose an agent's model",
    **dict.fromkeys(
        (
            *("require_active_task", "require_task_complete", "require_task_review_or_close_before_stop"),
            *("require_commit_before_stop", "validate_session_task_scope", "capture_baseline_dirty_files"),
            *("task_sync_import", "task_sync_export", "get_workflow_tasks", "update_workflow_task"),
        ),
        "it needs Gobby's store of tasks; test a variable in a `block_tools` or `block_stop`",
    ),
    **dict.fromkeys(
        (
            *("memory_save", "memory_recall_relevant", "memory_sync_import", "memory_sync_export", "memory_inject"),
            *("memory_extract_from_session", "memory_inject_project_context", "memory_extraction_gate"),
            *("memory_review_gate", "reset_memory_injection_tracking"),
        ),
        "it needs Gobby's memory; `call_mcp_tool` can ask a memory server",
    ),
    **dict.fromkeys(
        ("find_parent_session", "restore_context", "restore_from_handoff", "synthesize_title"),
        "it needs Gobby's list of sessions; `inject_context` tells a session what `generate_handoff` kept of it",
    ),
    **dict.fromkeys(
        ("track_discovery_step", "track_servers_listed"),
        "it needs Gobby's own MCP server; `mcp_called(server, tool)` says which tools ran",
    ),
    **dict.fromkeys(
        (
            *("start_progress_tracking", "stop_progress_tracking", "record_progress", "get_progress_summary"),
            *("detect_task_loop", "detect_stuck", "record_task_selection"),
        ),
        "it needs Gobby's autonomous runs; a rule with `session.repeats` finds loops",
    ),
    **dict.fromkeys(
        ("check_stop_signal", "request_stop", "clear_stop_signal"),
        "`fleethook stop` stops agents before workflows are asked",
    ),
    "run_pipeline": "Fleethook has no pipelines; a `shell` action can run a program",
}
"""Actions of parts of Gobby that Fleethook does not have, with what to do."""

_OUTPUT: Final = re.compile(r"\b(stdout|stderr|exit_code)\b")
_COMMANDS: Final = frozenset({"shell", "run", "bash", "command"})
_NO_VALUES: Final = frozenset({"action", "when"})


def read_actions(entries: Sequence[Any], place: str) -> Iterator[tuple[int, Action | None, str]]:
    """The actions of a list: for each its number, the action if it does something, and a warning."""
    for number, raw in enumerate(entries):
        entry = {"action": raw} if isinstance(raw, str) else raw
        if not isinstance(entry, dict) or not isinstance(entry.get("action"), str):
            yield number, None, "an action is a mapping with `action`"
            continue
        name = str(entry["action"]).strip()
        action = read_action(entry, f"{place}/{number + 1}")
        if action is not None and action.kind == "command" and _is_read(entries[number + 1 :]):
            action.values.setdefault("capture_output", True)
        if name in ALREADY_SO:
            yield number, None, ""
        elif name in UNSUPPORTED:
            yield number, None, f"the action {name!r} does nothing here: {UNSUPPORTED[name]}"
        elif action is None:
            yield number, None, f"there is no action {name[:64]!r}; it does nothing"
        else:
            yield number, action, ""


def read_action(entry: Mapping[str, Any], place: str) -> Action | None:
    """One action; None for one that does nothing here."""
    name, when = str(entry["action"]).strip(), entry.get("when")
    values = {str(key): value for key, value in entry.items() if key not in _NO_VALUES}
    kind = name
    if name == "inject_message":
        kind, values = "context", {**values, "text": _text(values.get("content"))}
    elif name == "set_variable":
        kind, values = "set", {"values": {_variable(values): values.get("value")}, **_where(values)}
    elif name == "increment_variable":
        kind, values = "increment", {"name": _variable(values), "by": values.get("amount", 1)}
    elif name in {"enter_step", "enter_phase"}:
        kind, values = "enter", {"step": _text(values.get("step") or values.get("phase"))}
    elif name in _COMMANDS:
        kind = "command"
        if values.get("background"):
            values.pop("capture_output", None)
    elif name in {"deny", "block"}:
        kind, values = "deny", {"reason": _text(values.get("reason") or values.get("message"))}
    elif name == "block_stop":
        kind = "deny"
        values = {"reason": _text(values.get("message") or values.get("reason")) or "the work is not finished"}
    elif name == "end_workflow":
        kind, values = "end", {}
    elif name == "extract_handoff_context":
        kind = "generate_handoff"
    elif name == "call_mcp_tool":
        kind, values = "mcp_tool", _tool_call(values)
    elif name.startswith("plugin:"):
        _, plugin, action = (*name.split(":", 2), "")[:3]
        kind, values = "plugin", {"plugin": plugin, "name": action, "with": values}
    elif name not in KNOWN | {"webhook"}:
        return None
    return Action(kind=kind, id=place, when="" if when is None else str(when), values=values)


def _is_read(later: Sequence[Any]) -> bool:
    """Whether a later action reads what a command printed."""
    return any(_OUTPUT.search(str(entry)) for entry in later)


def _variable(values: Mapping[str, Any]) -> str:
    return _text(values.get("name") or values.get("variable"))


def _tool_call(values: Mapping[str, Any]) -> dict[str, Any]:
    """The call of an MCP tool; Gobby's files have it with and without `_name`."""
    found = {
        "server": _text(values.get("server_name") or values.get("server")),
        "tool": _text(values.get("tool_name") or values.get("tool")),
        "with": values.get("arguments", values.get("args")),
        "save": _text(values.get("as") or values.get("output_as")),
        **{key: values.get(key) for key in ("timeout", "can_block")},
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _where(values: Mapping[str, Any]) -> dict[str, Any]:
    """The server and tool that an action is about (`on_mcp_success`)."""
    return {key: values[key] for key in ("server", "tool") if key in values}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
