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
        "call_mcp_tool",
        "mark_session_status",
        "switch_mode",
        "mark_loop_complete",
        "block_tools",
    }
)
"""Actions that keep their name here."""

NOTHING_HERE: Final = frozenset(
    {
        "load_workflow_state",
        "save_workflow_state",
        "generate_handoff",
        "generate_summary",
        "persist_tasks",
        "start_new_session",
    }
)
"""Actions of parts of Gobby that Fleethook does not have."""

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
        if action is None and name in NOTHING_HERE:
            yield number, None, f"the action {name!r} is about a part of Gobby that is not here, and does nothing"
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


def _where(values: Mapping[str, Any]) -> dict[str, Any]:
    """The server and tool that an action is about (`on_mcp_success`)."""
    return {key: values[key] for key in ("server", "tool") if key in values}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
