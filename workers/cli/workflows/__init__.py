"""`fleethook workflows`: the workflows in force, the sessions in them, their tests, and what they did (G-16)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, Lazy, LazyGroup, common_options, pass_fleet
from workers.cli.hooks.sets import in_force

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooks import Hook
    from bus.workflow_steps.state import FlowState
    from bus.workflows.values import Action, FlowStep, ToolRule

COMMANDS: Final = {
    "list": Lazy("workers.cli.workflows:list_workflows", "List the workflows, and how many sessions are in them."),
    "show": Lazy("workers.cli.workflows:show", "Show a workflow: its steps, and the sessions in it."),
    "test": Lazy("workers.cli.workflows.test:test", "Run the tests of workflows, or events through one."),
    "trace": Lazy("workers.cli.workflows.trace:trace", "Show what the workflows of a session did."),
    "start": Lazy("workers.cli.workflows.order:start", "Give a session a workflow, or put it into another step."),
    "stop": Lazy("workers.cli.workflows.order:stop", "End a workflow for a session."),
}
_MOST: Final = 2_000
"""Characters of a text that `show` prints."""
_COLUMNS: Final = ("WORKFLOW", "STEPS", "STARTS", "SESSIONS", "LAYER", "FROM")


@click.group(cls=LazyGroup, lazy=COMMANDS)
def workflows() -> None:
    """Workflows: steps that sessions pass, with limits on tools and actions."""


@click.command("list")
@common_options
@pass_fleet
def list_workflows(fleet: Context) -> None:
    """List the workflows in force here, and how many sessions are in each."""
    from workers.cli.formatting import plain
    from workers.cli.hooks.listing import short_origin

    found, states = known_workflows(fleet), read_states(fleet)
    if fleet.json:
        fleet.data([{**_record(hook), "sessions": len(_active(states, hook.id))} for hook in found])
        return
    rows = [
        (
            plain(hook.id),
            plain(_steps(hook)),
            _starts(hook),
            len(_active(states, hook.id)),
            hook.layer,
            short_origin(hook.origin) or "-",
        )
        for hook in found
    ]
    if rows:
        fleet.table(_COLUMNS, rows)
    else:
        fleet.say("no workflow is in force here; `workflows:` in fleethook.yaml has them (docs/workflows.md)")


@click.command()
@click.argument("name")
@common_options
@pass_fleet
def show(fleet: Context, name: str) -> None:
    """Show a workflow: what its steps allow and do, and which sessions are in which step."""
    from workers.cli.formatting import clock, plain
    from workers.workflows.records import state_record

    hook = find_workflow(fleet, name)
    inside = _active(read_states(fleet), hook.id)
    if fleet.json:
        fleet.data({**_record(hook), "sessions": [state_record(hook.id, state) for state in inside]})
        return
    fleet.data("\n".join(_lines(hook)))
    for state in inside:
        fleet.data(
            f"  session {plain(state.session)} of {plain(state.source)}: {plain(state.step) or 'no step'} "
            f"since {clock(state.entered)}, {state.transitions} transition{'' if state.transitions == 1 else 's'}"
        )


def known_workflows(fleet: Context) -> list[Hook]:
    """The workflows in force here, those that are switched off included."""
    from workers.records.hook_list import listed_hooks

    return [hook for hook in listed_hooks(in_force(fleet, needed=False)) if hook.workflow is not None]


def find_workflow(fleet: Context, name: str) -> Hook:
    """The workflow in force with this name; raises NotFound."""
    from bus.config.validation import suggestion
    from bus.errors import NotFound

    found = known_workflows(fleet)
    hook = next((hook for hook in found if hook.id == name), None)
    if hook is None:
        hint = suggestion(name, [each.id for each in found]) or "`fleethook workflows list` lists them"
        raise NotFound(f"no workflow is called {name!r}; {hint}")
    return hook


def same_name(fleet: Context, hook: Hook) -> list[Hook]:
    """The workflow, and those of lower layers with its name, which have another id: all of them count for a session."""
    if hook.workflow is None:
        return [hook]
    name = hook.workflow.name
    others = [each for each in known_workflows(fleet) if each.workflow is not None and each.workflow.name == name]
    return [hook, *(each for each in others if each.id.startswith(f"{hook.id[:48]}-{each.layer}"))]


def read_states(fleet: Context) -> list[tuple[str, FlowState]]:
    """The sessions in workflows; none where the server is away, which `in_force` has said."""
    from bus.errors import Unreachable
    from workers.workflows.records import list_states

    with suppress(Unreachable):
        return fleet.run(lambda connections: list_states(connections, fleet.keys()))
    return []


def _active(states: list[tuple[str, FlowState]], name: str) -> list[FlowState]:
    return [state for workflow, state in states if workflow == name and state.status == "active"]


def _record(hook: Hook) -> dict[str, Any]:
    import msgspec

    from bus.secrets.redaction import redact

    return {
        "name": hook.id,
        "enabled": hook.enabled,
        "layer": hook.layer,
        "version": hook.version,
        "origin": hook.origin,
        "dialect": hook.dialect,
        "on": list(hook.on),
        "description": hook.description,
        "workflow": redact(msgspec.to_builtins(hook.workflow)),
    }


def _steps(hook: Hook) -> str:
    workflow = hook.workflow
    names = [step.name for step in workflow.steps] if workflow is not None else []
    return " -> ".join(names) if names else "triggers only"


def _starts(hook: Hook) -> str:
    workflow = hook.workflow
    if not hook.enabled or workflow is None:
        return "disabled"
    return "by order" if workflow.start.by == "order" else ", ".join(workflow.start.on) or "first event"


def _lines(hook: Hook) -> Iterator[str]:
    from workers.cli.formatting import plain

    workflow = hook.workflow
    if workflow is None:
        return
    yield f"{plain(hook.id)}  {hook.layer}  {plain(hook.origin)}"
    if hook.description:
        yield f"  {plain(hook.description, _MOST)}"
    yield _field("starts", _starts(hook))
    yield _field("sees", ", ".join(hook.on))
    if workflow.variables:
        yield _field("variables", ", ".join(f"{name}={value}" for name, value in workflow.variables.items()))
    yield from _rule_lines(workflow.rules, "  ")
    for step in workflow.steps:
        yield f"  step {plain(step.name)}" + (f": {plain(step.description, _MOST)}" if step.description else "")
        yield from _step_lines(step)
    for trigger in workflow.triggers:
        when = f" when {trigger.when}" if trigger.when else ""
        yield "  " + plain(f"at {', '.join(trigger.on)}{when}: {_actions(trigger.actions)}", _MOST)
    if workflow.exit_condition:
        yield _field("ends when", workflow.exit_condition)


def _step_lines(step: FlowStep) -> Iterator[str]:
    from workers.cli.formatting import plain

    if step.allowed_tools is not None:
        yield _field("allows", ", ".join(step.allowed_tools) or "no tool", "    ")
    if step.blocked_tools:
        yield _field("blocks", ", ".join(step.blocked_tools), "    ")
    yield from _rule_lines(step.rules, "    ")
    if step.on_enter:
        yield _field("on enter", _actions(step.on_enter), "    ")
    if step.on_exit:
        yield _field("on exit", _actions(step.on_exit), "    ")
    for condition in step.exit_conditions:
        yield _field("needs", f"{condition.kind} {condition.text}", "    ")
    for transition in step.transitions:
        on = f" at {', '.join(transition.on)}" if transition.on else ""
        when = f" when {transition.when}" if transition.when else ""
        yield "    " + plain(f"-> {transition.to}{on}{when}", _MOST)


def _rule_lines(rules: tuple[ToolRule, ...], indent: str) -> Iterator[str]:
    for rule in rules:
        about = ", ".join((*rule.tools, *rule.mcp_tools)) or "any tool"
        more = " ".join(filter(None, (about, rule.command_pattern, rule.when)))
        yield _field(rule.decision, more + (f": {rule.message}" if rule.message else ""), indent)


def _field(label: str, text: str, indent: str = "  ") -> str:
    """A line of a name and its text; the texts of one block begin in one column."""
    from workers.cli.formatting import plain

    return f"{indent}{label:<9} {plain(text, _MOST)}".rstrip()


def _actions(actions: tuple[Action, ...]) -> str:
    return ", ".join(action.kind for action in actions)
