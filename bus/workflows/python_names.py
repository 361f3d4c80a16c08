"""What the conditions of Gobby's workflows can read, and which names in one nothing has.

A name that nothing has makes a condition false for ever, as in Gobby. So it is reported when the file is read.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from bus.errors import PatternError
from bus.workflows.python_values import FUNCTIONS as PYTHON_FUNCTIONS
from bus.workflows.python_values import NAMES as PYTHON_NAMES

FUNCTIONS: Final = frozenset(
    {
        *PYTHON_FUNCTIONS,
        "user_says", "command_contains", "command_in", "artifact_exists", "has_handoff", "has_previous_session",
        "is_plan_file", "mcp_called", "mcp_failed", "mcp_result_is_null", "mcp_result_has",
        "task_tree_complete", "task_needs_user_review", "has_stop_signal",
        "is_discovery_tool", "is_tool_unlocked",
    }
)  # fmt: skip
"""The functions that a condition can call, beside the conditions of plugins."""

NAMES: Final = frozenset(
    {
        "event", "event_type", "event_data", "tool_name", "tool", "tool_args", "tool_input", "tool_output", "tool_result",
        "file", "command", "prompt", "session_id", "cwd", "source", "timestamp", "project",
        "variables", "vars", "shared", "state", "workflow_state", "workflow", "context", "session", "config",
        "artifacts", "observations", "step", "phase", "step_action_count", "phase_action_count", "total_action_count",
        "handoff", "summary", "has_handoff", "has_previous_session", "from_step", "to_step", *PYTHON_NAMES,
    }
)  # fmt: skip
"""The other names that are always there."""

EVENT_FIELDS: Final = frozenset(
    {
        "event_type", "type", "id", "session_id", "session", "source", "timestamp", "time", "data", "machine_id", "host",
        "cwd", "user_id", "project_id", "task_id", "workflow_id", "metadata", "tool", "tool_name", "input", "output",
        "prompt",
    }
)  # fmt: skip
SESSION_FIELDS: Final = frozenset(
    {"id", "session_id", "source", "cwd", "machine_id", "status", "files_read", "files_written"}
)
_FIELDS: Final[Mapping[str, frozenset[str]]] = {"event": EVENT_FIELDS, "session": SESSION_FIELDS}
_OF_MAPPINGS: Final = frozenset({"get", "keys", "values", "items"})
_WORDS: Final = frozenset({"true", "false", "null", "none"})
_PLUGIN: Final = "plugin_"
_BUILTINS: Final = frozenset(dir(builtins))


def unknown_names(text: str, variables: Collection[str] | None) -> Iterator[tuple[str, bool]]:
    """The names in a condition that nothing has, and for each whether a condition that reads it can never be evaluated.

    `variables` are those that the workflow sets; None where they cannot be known. A name beside them may be a variable
    that another workflow of the session sets.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PatternError(f"bad condition {text!r}") from error
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    seen: set[str] = set()
    for node in ast.walk(tree):
        found = _unknown(node, bound, called, variables)
        if found is not None and found[0] not in seen:
            seen.add(found[0])
            yield found


def _unknown(
    node: ast.AST, bound: Collection[str], called: Collection[str], variables: Collection[str] | None
) -> tuple[str, bool] | None:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        fields = _FIELDS.get(node.value.id)
        known = fields is None or node.value.id in bound or node.attr in fields | _OF_MAPPINGS
        if known or (node.value.id == "session" and (variables is None or node.attr in variables)):
            return None
        return f"{node.value.id}.{node.attr}", node.value.id == "event"
    if not isinstance(node, ast.Name) or node.id in bound:
        return None
    name = node.id
    if name in called:
        is_there = name in FUNCTIONS or name.startswith(_PLUGIN)
        return None if is_there else (f"{name}()", True)
    if name in NAMES | FUNCTIONS or name.lower() in _WORDS or variables is None or name in variables:
        return None
    return name, name in _BUILTINS
