"""docs/workflow-fields.md: every field of `workflows:` in fleethook.yaml."""

from __future__ import annotations

from typing import Final

from bus.config.workflow_actions import ACTION_KINDS, CaptureResponse
from bus.config.workflow_entry import (
    ExitConditionEntry,
    StartEntry,
    StepEntry,
    StopEntry,
    ToolRuleEntry,
    TransitionEntry,
    TriggerEntry,
    WorkflowEntry,
)
from bus.config.workflow_test_entry import WorkflowTestEntry, WorkflowTestEvent
from docs.reference.fields import field_table

_LINKS: Final = {
    "StartEntry": "start",
    "StepEntry": "steps",
    "TransitionEntry": "transitions",
    "ToolRuleEntry": "rules",
    "ExitConditionEntry": "exit_conditions",
    "TriggerEntry": "triggers",
    "StopEntry": "on_premature_stop",
    "CaptureResponse": "capture_response",
    "WebhookAction": "webhook",
    "WorkflowTestEntry": "tests",
    "WorkflowTestEvent": "events",
}
_ACTIONS: Final = "list of [mappings](#actions)"
_TYPES: Final = {"on_enter": _ACTIONS, "on_exit": _ACTIONS, "actions": _ACTIONS}


def workflows_page() -> str:
    """The page of workflows' fields."""
    actions = "\n".join(
        f"## {kind.__struct_config__.tag}\n\n{kind.__doc__}\n\n{field_table(kind, _LINKS)}" for kind in ACTION_KINDS
    )
    names = ", ".join(f"[`{kind.__struct_config__.tag}`](#{kind.__struct_config__.tag})" for kind in ACTION_KINDS)
    return f"""\
# Workflows: every field

The entries of `workflows:` in a `fleethook.yaml`. [Workflows](workflows.md) shows how to use them, and has the files of Gobby.

## workflows

{field_table(WorkflowEntry, _LINKS)}
## start

{field_table(StartEntry, _LINKS)}
## steps

{field_table(StepEntry, _LINKS, _TYPES)}
## transitions

{field_table(TransitionEntry, _LINKS, _TYPES)}
## triggers

{field_table(TriggerEntry, _LINKS, _TYPES)}
## rules

{field_table(ToolRuleEntry, _LINKS)}
## exit_conditions

{field_table(ExitConditionEntry, _LINKS)}
## on_premature_stop

{field_table(StopEntry, _LINKS)}
## actions

An action is a mapping with its `action`: {names}. Each can have `when`.

{actions}
## capture_response

{field_table(CaptureResponse, _LINKS)}
## tests

{field_table(WorkflowTestEntry, _LINKS)}
## events

{field_table(WorkflowTestEvent, _LINKS)}"""
