"""Workflows with their states in memory: for tests, for trying out, and for a bus in the process of a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bus.errors import FleethookError
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Hook
from bus.secrets.redaction import redact_text, redact_url
from bus.workflow_steps.effects import CommandAnswer, Effects, ToolAnswer, WebhookAnswer
from bus.workflow_steps.engine import Advance, advance
from bus.workflow_steps.requests import webhook_request
from bus.workflow_steps.state import FlowState, session_key
from bus.workflow_steps.work import names_of
from bus.workflows.templates import shown_command
from bus.workflows.values import Action, Workflow


class MemoryFlows:
    """The states of workflows by session, in this process alone."""

    def __init__(self, effects: Callable[[Hook, Event], Effects] | None = None) -> None:
        """Without `effects`, what a workflow waits for is named and not done."""
        self._effects = effects
        self.states: dict[tuple[str, str], FlowState] = {}
        """By session and workflow."""
        self.shared: dict[str, dict[str, Any]] = {}
        """By session."""
        self.would: list[str] = []
        """What the last event would have started."""

    async def handle(self, hook: Hook, event: Event) -> Advance | None:
        """What a workflow does at an event; the new state is kept."""
        workflow = hook.workflow
        if workflow is None or not event.session:
            return None
        name = session_key(event)
        shared = self.shared.setdefault(name, {})
        named = NamedEffects(workflow, event)
        effects = named if self._effects is None else self._effects(hook, event)
        policy = hook.on_failure or find_hooks(hook.dialect).policy or "allow"
        state = self.states.get((name, hook.id))
        done = await advance(workflow, state, shared, event, effects, now=_now(event), policy=policy)
        self.would = list(named.would)
        if done is None:
            return None
        if done.state is not None:
            self.states[name, hook.id] = done.state
        shared |= done.shared
        self.would += carried_texts(workflow, event, done)
        return done


class NamedEffects:
    """Does nothing outside, and notes what would be done."""

    def __init__(self, workflow: Workflow, event: Event) -> None:
        self._workflow, self._event = workflow, event
        self.would: list[str] = []

    async def condition(self, function: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Unknown, since no plugin is asked."""
        self.would.append(
            f"would ask {function}({', '.join([*map(repr, args), *(f'{key}={value!r}' for key, value in named.items())])})"
        )
        raise FleethookError(f"{function} was not asked")

    async def plugin(self, action: Action, kwargs: dict[str, Any], context: dict[str, Any]) -> Any:  # noqa: ARG002 - the protocol's
        """Nothing."""
        self.would.append(f"would call the plugin action {action.values.get('plugin')}:{action.values.get('name')}")

    async def webhook(self, action: Action, request: Mapping[str, Any]) -> WebhookAnswer:  # noqa: ARG002 - as above
        """No answer."""
        self.would.append(f"would wait for {request['method']} {redact_url(str(request['url']))}")
        return WebhookAnswer(error="it was not asked")

    async def command(self, action: Action, names: Mapping[str, Any]) -> CommandAnswer:
        """No result."""
        line = shown_command(str(action.values.get("command") or ""), names)
        self.would.append(f"would wait for: {redact_text(line)}")
        return CommandAnswer(error="it was not run")

    async def model(self, prompt: str) -> str:  # noqa: ARG002 - as above
        """No answer."""
        self.would.append("would ask the model")
        return ""

    async def tool(self, server: str, tool: str, arguments: dict[str, Any], seconds: float) -> ToolAnswer:  # noqa: ARG002 - as above
        """No result."""
        self.would.append(f"would call the tool {server}:{tool}")
        return ToolAnswer(error="it was not called")

    def read_file(self, pattern: str) -> tuple[str, str] | None:
        """No file."""
        self.would.append(f"would read {pattern}")
        return None

    def write_file(self, name: str, text: str, *, append: bool) -> None:  # noqa: ARG002 - as above
        """Nothing."""
        self.would.append(f"would write {name}")


def carried_texts(workflow: Workflow, event: Event, done: Advance) -> list[str]:
    """What the deliveries and announcements of a step would be."""
    found = [f"would announce {each.type}" for each in done.published]
    for carried in done.carried:
        action = next(action for action in workflow.actions() if action.id == carried.action)
        try:
            names = names_of(workflow, done.record, event, action.id)
            if carried.kind == "command":
                line = shown_command(str(action.values.get("command") or ""), names)
                found.append(f"would run afterwards: {redact_text(line)}")
            else:
                request = webhook_request(workflow, action, event, names)
                found.append(f"would send afterwards: {request['method']} {redact_url(request['url'])}")
        except FleethookError as error:
            found.append(f"would fail: {error}")
    return found


def _now(event: Event) -> int:
    return event.time or time.time_ns() // 1_000_000
