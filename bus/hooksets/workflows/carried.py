"""The deliveries of workflows: their events without a verdict, and the webhooks and commands among their actions."""

from __future__ import annotations

from collections.abc import Mapping

from bus.hooks import Hook
from bus.verdicts import Verdict
from bus.workflows.values import Action


def is_left(hook: Hook, verdict: Verdict) -> bool:
    """Whether a workflow has not seen an event that was let through, since no evaluator or host could ask it in time."""
    if hook.workflow is None or verdict.decision == "deny":
        return False
    return not any(part.hook == hook.id and not part.fallback for part in verdict.parts)


def find_action(hook: Hook, name: str) -> Action | None:
    """An action of a workflow by its id."""
    actions = () if hook.workflow is None else hook.workflow.actions()
    return next((action for action in actions if action.id == name), None)


def carried_action(hooks: Mapping[str, Hook], name: str) -> Hook | None:
    """The workflow whose action a delivery carries; its name is `<workflow>/<action>`."""
    workflow, slash, action = name.partition("/")
    hook = hooks.get(workflow) if slash else None
    return hook if hook is not None and find_action(hook, action) is not None else None
