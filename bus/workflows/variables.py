"""Which variables a workflow sets, as far as its file shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bus.workflows.values import Action, ExitCondition, Workflow

_KEPT_AS: Final = ("as", "save", "save_as", "output_as", "variable", "store_as")
_CAPTURED: Final = ("status_var", "body_var", "headers_var")
_OF_COMMANDS: Final = frozenset({"stdout", "stderr", "exit_code"})
_OF_GOBBY: Final = frozenset(
    {"_premature_stop_count", "premature_stop_max_attempts", "stop_reason", "handoff", "summary"}
)
_RESULTS: Final = frozenset({"plugin", "mcp_tool"})
"""Actions whose result later actions read under names that only it knows."""


def variables_of(workflow: Workflow) -> frozenset[str] | None:
    """The names that its conditions may read as variables; None where an action gives names that only running it shows."""
    actions = workflow.actions()
    if any(action.kind in _RESULTS for action in actions):
        return None
    found = {*workflow.variables, *workflow.session_variables, *_OF_GOBBY}
    for action in actions:
        found |= {*_set_by(action)}
    for observer in workflow.observers:
        found |= {*map(str, observer.values)}
    for step in workflow.steps:
        for condition in step.exit_conditions:
            found |= {*_left_by(condition)}
    return frozenset(found)


def _set_by(action: Action) -> Iterator[str]:
    values = action.values
    if action.kind == "set" and isinstance(values.get("values"), dict):
        yield from map(str, values["values"])
    elif action.kind == "increment":
        yield str(values.get("name", ""))
    elif action.kind == "command":
        yield from _OF_COMMANDS
    yield from _texts(values, _KEPT_AS)
    capture = values.get("capture_response")
    if isinstance(capture, dict):
        yield from _texts(capture, _CAPTURED)
    yield from (key for key in map(str, values) if key.isidentifier())  # an action's own keys are names of its `when`


def _left_by(condition: ExitCondition) -> Iterator[str]:
    if condition.kind == "user_approval":
        yield from (f"_approval_{condition.id}_granted", f"_approval_{condition.id}_rejected")
    if condition.webhook is not None:
        yield from _texts(condition.webhook.values, ("store_as",))


def _texts(values: dict[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        if isinstance(values.get(key), str):
            yield values[key]
