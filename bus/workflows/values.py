"""Workflows as values: steps, transitions, actions and limits on tools, read from fleethook.yaml or from Gobby's files."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

Language = Literal["cel", "python"]
"""The language of `when`: CEL in fleethook.yaml, Python's expressions in Gobby's files."""

RuleDecision = Literal["deny", "ask", "warn", "allow"]

_PLUGIN_CONDITION: Final = re.compile(r"\bplugin_\w+\s*\(|\bplugin:[\w.-]+:")

STEPS_AGE_MS: Final = 30 * 60_000
"""After this time in a step, a workflow of Gobby goes to its step `reflect`, if it has one."""


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action of a workflow."""

    kind: str
    """`context`, `deny`, `set`, `webhook`, …; `bus/workflow_steps/actions.py` has what each does."""
    id: str
    """Its place in its workflow: `plan/on_enter/1`."""
    when: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the file says of it, without `action` and `when`."""
    line: int = 0


class Transition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way from one step to another."""

    to: str
    on: tuple[str, ...] = ()
    """The event patterns at which it may happen; empty: every event."""
    tool: str = ""
    when: str = ""
    actions: tuple[Action, ...] = ()


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule about tool calls."""

    name: str = ""
    tools: tuple[str, ...] = ()
    """The tools that it is about; empty: every tool."""
    mcp_tools: tuple[str, ...] = ()
    """Tools of MCP servers, as `server:tool` or `server:*`."""
    when: str = ""
    command_pattern: str = ""
    """A regular expression: only commands that it is found in."""
    command_not_pattern: str = ""
    """A regular expression: not the commands that it is found in."""
    decision: RuleDecision = "deny"
    message: str = ""


class ExitCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has to be true before a step is done."""

    kind: Literal["user_approval", "variable_set", "expression", "webhook"]
    id: str
    text: str = ""
    """The question of a `user_approval`, the variable of a `variable_set`, the `expression`."""
    timeout: float = 0.0
    """Seconds after which an approval that nobody answered counts as refused; 0: never."""
    webhook: Action | None = None


class FlowStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step."""

    name: str
    description: str = ""
    status: str = ""
    """A text for the person when the step begins."""
    on_enter: tuple[Action, ...] = ()
    on_exit: tuple[Action, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    """The only tools that may run; None: every tool."""
    blocked_tools: tuple[str, ...] = ()
    allowed_mcp_tools: tuple[str, ...] | None = None
    blocked_mcp_tools: tuple[str, ...] = ()
    rules: tuple[ToolRule, ...] = ()
    transitions: tuple[Transition, ...] = ()
    exit_conditions: tuple[ExitCondition, ...] = ()
    on_mcp_success: tuple[Action, ...] = ()
    """What happens after a call of an MCP tool; `server` and `tool` of each say which calls."""
    on_mcp_error: tuple[Action, ...] = ()


class Trigger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Actions at an event, in every step."""

    on: tuple[str, ...]
    tool: str = ""
    when: str = ""
    actions: tuple[Action, ...] = ()


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a session gets the workflow."""

    by: Literal["event", "order"] = "event"
    """`event`: at the first event that fits; `order`: only by `fleethook workflows start`."""
    on: tuple[str, ...] = ()
    when: str = ""


class PrematureStop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens when the agent wants to stop before the workflow is done."""

    decision: Literal["deny", "warn"] = "deny"
    message: str = ""
    when: str = ""


class Observer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Variables that are set by events."""

    on: tuple[str, ...]
    tools: tuple[str, ...] = ()
    mcp_tools: tuple[str, ...] = ()
    values: dict[str, Any] = msgspec.field(default_factory=dict)


class Workflow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow. `steps` are passed one after the other; `triggers` hold in every step, and in a workflow without steps."""

    name: str
    description: str = ""
    version: str = ""
    language: Language = "cel"
    start: Start = Start()
    steps: tuple[FlowStep, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    variables: dict[str, Any] = msgspec.field(default_factory=dict)
    session_variables: dict[str, Any] = msgspec.field(default_factory=dict)
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    """What texts read as `{{ config.x }}`."""
    sources: tuple[str, ...] = ()
    """The agents whose sessions get it; empty: all."""
    rules: tuple[ToolRule, ...] = ()
    """Rules about tool calls in every step."""
    observers: tuple[Observer, ...] = ()
    exit_condition: str = ""
    premature_stop: PrematureStop | None = None
    webhooks: dict[str, Any] = msgspec.field(default_factory=dict)
    """Webhooks that actions name by `webhook_id`."""
    env_pass: tuple[str, ...] = ()
    """Variables of the worker's environment that its commands get."""
    notes_files: bool = False
    """Whether something in it reads which files the session has read or written."""

    def step(self, name: str) -> FlowStep | None:
        """The step with this name."""
        return next((step for step in self.steps if step.name == name), None)

    def actions(self) -> tuple[Action, ...]:
        """Every action that it has."""
        found: list[Action] = []
        for step in self.steps:
            found += (*step.on_enter, *step.on_exit, *step.on_mcp_success, *step.on_mcp_error)
            for transition in step.transitions:
                found += transition.actions
            found += (condition.webhook for condition in step.exit_conditions if condition.webhook is not None)
        for trigger in self.triggers:
            found += trigger.actions
        return tuple(found)


def is_carried(action: Action) -> bool:
    """Whether an action becomes a delivery, which nothing waits for: a webhook or command whose answer nothing reads."""
    values = action.values
    if action.kind == "webhook":
        return not (values.get("can_block") or values.get("capture_response") or values.get("expects"))
    if action.kind == "command":
        return not (values.get("can_block") or values.get("save") or values.get("capture_output"))
    return False


_MOST_KNOWN: Final = 1024
_WAITS: Final[dict[int, tuple[Workflow, bool]]] = {}
"""Whether a workflow waits, by its identity, since it cannot be hashed; it is kept, so that the identity is its own."""


def waits(workflow: Workflow) -> bool:
    """Whether it may ask something outside while an event waits: then one event of a session at a time is handled."""
    known = _WAITS.get(id(workflow))
    if known is not None and known[0] is workflow:
        return known[1]
    found = _PLUGIN_CONDITION.search(repr(workflow)) is not None or any(
        action.kind in {"plugin", "call_llm", "mcp_tool"}
        or (action.kind in {"webhook", "command"} and not is_carried(action))
        for action in workflow.actions()
    )
    if len(_WAITS) >= _MOST_KNOWN:
        _WAITS.clear()
    _WAITS[id(workflow)] = (workflow, found)
    return found
