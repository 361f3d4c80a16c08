"""What a workflow file of Gobby asks for that has no effect here, beside actions that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from bus.config.documents import PathParts
from bus.workflows.values import Action, Workflow

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "on_error": "has no effect, as in Gobby; actions that fail are in `fleethook workflows trace`",
}
"""Keys of a workflow that do nothing, with why."""

_OTHERS: Final = frozenset(
    {"previous_session_summary", "handoff", "artifacts", "workflow_state", "compact_handoff", "summary"}
)
_GOBBYS: Final[Mapping[str, str]] = {
    "skills": "Gobby's skills are not here",
    "task_context": "Gobby's tasks are not here",
    "memories": "Gobby's memory is not here; `call_mcp_tool` can ask a memory server",
    "observations": "Fleethook keeps no observations",
}


def unmet(
    actions: Sequence[tuple[PathParts, Action]], workflow: Workflow, variables: Collection[str] | None
) -> Iterator[tuple[PathParts, str]]:
    """What actions ask for and do not get, each with its place. `variables` are those the workflow sets; None if unknown."""
    for path, action in actions:
        if action.kind == "inject_context":
            yield from ((path, text) for text in _sources(action, variables))
        elif action.kind == "webhook":
            yield from ((path, text) for text in _webhook(action, workflow))


def _sources(action: Action, variables: Collection[str] | None) -> Iterator[str]:
    written = action.values.get("source")
    for source in written if isinstance(written, list) else [written]:
        name = str(source or "")
        if not name or name in _OTHERS or (name in variables if variables is not None else name not in _GOBBYS):
            continue
        why = _GOBBYS.get(name, "nothing in this file sets a variable of that name")
        required = "; with `require` it refuses each time" if action.values.get("require") else ""
        yield f"the source {name[:64]!r} of inject_context is always empty: {why}{required}"


def _webhook(action: Action, workflow: Workflow) -> Iterator[str]:
    name = action.values.get("webhook_id")
    if name and str(name) not in workflow.webhooks:
        yield f"no webhook has the id {str(name)[:64]!r}: the action fails; add it to `webhooks:` at the top of the file"
    for key in ("on_success", "on_failure"):
        if action.values.get(key):
            yield f"{key} of a webhook has no effect, as in Gobby; test the variable of `capture_response` in a `when`"
