"""The events that a workflow has to see, so that all others cost nothing."""

from __future__ import annotations

import re
from typing import Final

from bus.events import EventType
from bus.workflows.values import Workflow

_COUNTERS: Final = re.compile(r"\b(step_actions|total_actions|(step|phase|total)_action_count)\b")
_MCP: Final = re.compile(r"\bmcp_(called|failed|result)")
_TOOL: Final = (EventType.TOOL_PRE_EXECUTE.value,)
_AFTER: Final = (EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value)
_PROMPT: Final = (EventType.USER_PROMPT_SUBMIT.value,)
_STOP: Final = (EventType.AGENT_STOP.value,)

GOBBY_EVENTS: Final = (
    EventType.SESSION_START.value,
    EventType.SESSION_END.value,
    *_PROMPT,
    *_TOOL,
    *_AFTER,
    *_STOP,
    EventType.AGENT_END.value,
    EventType.CONTEXT_PRE_COMPACT.value,
    EventType.SUBAGENT_START.value,
    EventType.SUBAGENT_STOP.value,
    EventType.NOTIFICATION.value,
    EventType.PERMISSION_REQUEST.value,
)
"""The events at which Gobby looks at the transitions of a step."""


def event_patterns(workflow: Workflow) -> tuple[str, ...]:
    """The patterns of the events at which the workflow may do something."""
    found = [*workflow.start.on]
    every: tuple[str, ...] = ("*",) if workflow.language == "cel" else GOBBY_EVENTS
    for trigger in workflow.triggers:
        found += trigger.on
    for observer in workflow.observers:
        found += observer.on
    for step in workflow.steps:
        for transition in step.transitions:
            found += transition.on or every
        limits = (step.allowed_tools, step.allowed_mcp_tools) != (None, None)
        if limits or step.blocked_tools or step.blocked_mcp_tools or step.rules:
            found += _TOOL
        if any(condition.kind == "user_approval" for condition in step.exit_conditions):
            found += (*_PROMPT, *_TOOL)
        if step.on_mcp_success or step.on_mcp_error:
            found += _AFTER
    if workflow.rules:
        found += _TOOL
    if workflow.exit_condition or workflow.premature_stop is not None:
        found += _STOP
    if workflow.steps and workflow.steps[0].on_enter:
        found += (EventType.SESSION_START.value, *_PROMPT)
    texts = repr(workflow)
    if workflow.notes_files or _COUNTERS.search(texts) or _MCP.search(texts):
        found += _AFTER
    unique = tuple(dict.fromkeys(found))
    return ("*",) if "*" in unique else unique
