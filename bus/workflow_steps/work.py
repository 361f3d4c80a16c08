"""A workflow at work on one event: its state while it changes, and what it has said and asked for so far."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from bus.errors import ConditionError, FleethookError, PatternError
from bus.events import Event
from bus.lazy.conversions import converted
from bus.verdicts import Policy
from bus.workflow_steps.effects import Effects
from bus.workflow_steps.scope import event_names, expression_names
from bus.workflow_steps.state import Announcement, Carried, FlowRecord, FlowState
from bus.workflows.expressions import is_true
from bus.workflows.templates import render, render_all, render_value
from bus.workflows.values import FlowStep, Workflow

log = logging.getLogger("fleethook.workflows")

_SHOWN: Final = 120
_MOST_UNCLEAR: Final = 64


@lru_cache(maxsize=512)
def _warn(workflow: str, error: str) -> None:
    """Log a condition that could not be evaluated, once in a process, since it may be so at every event."""
    log.warning("workflow %r: %s; it counts as false", workflow, error)


def names_of(workflow: Workflow, record: FlowRecord, event: Event, action: str) -> dict[str, Any]:
    """What the texts of a carried action read: the event, and the variables as they were at it."""
    state = converted(record.names.get("state") or {"workflow": workflow.name}, FlowState)
    names = {**event_names(event), **expression_names(workflow, state, record.names.get("shared") or {}, event)}
    return {**names, "from_step": record.before, "to_step": record.after, **record.extras.get(action, {})}


@dataclass(slots=False)
class Work:
    """One event in one workflow."""

    workflow: Workflow
    state: FlowState
    shared: dict[str, Any]
    """The variables that all workflows of the session share."""
    event: Event
    effects: Effects
    now: int
    policy: Policy = "allow"
    """What counts where something that may block could not be asked."""
    decision: Literal["abstain", "deny", "ask"] = "abstain"
    reason: str = ""
    contexts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """What was done, for people."""
    carried: list[Carried] = field(default_factory=list)
    published: list[Announcement] = field(default_factory=list)
    refused: bool = False
    """Whether a question to the outside was answered with a deny: then the step is not left."""
    moved: bool = False
    """Whether a step was left."""
    changed: bool = False
    """Whether the state has changed."""
    shared_changes: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """Further names of the action at work: its own keys, and results of earlier ones."""
    results: dict[str, Any] = field(default_factory=dict)
    """What earlier actions returned; it is among the `variables` too, as in Gobby."""

    @property
    def step(self) -> FlowStep | None:
        """The step that it is in; None for a workflow without steps."""
        return self.workflow.step(self.state.step) if self.state.step else None

    @property
    def ended(self) -> bool:
        """Whether nothing more is done at this event."""
        return self.decision == "deny"

    @cached_property
    def _event_names(self) -> dict[str, Any]:
        return event_names(self.event)

    def names(self) -> dict[str, Any]:
        """What expressions in Python and texts can read."""
        names = expression_names(self.workflow, self.state, self.shared, self.event)
        if self.results:
            names["variables"] = {**names["variables"], **self.results}
        return {**self._event_names, **names, "artifact_exists": self._artifact_exists, **self.extra}

    def _artifact_exists(self, *names: object) -> bool:
        """Whether each is an artifact that was captured under that name, or a file of the event's folder fits it."""
        known = self.state.artifacts
        return all(str(name) in known or self.effects.read_file(str(name)) is not None for name in names)

    def plain_names(self) -> dict[str, Any]:
        """The variables as they are now, for actions that are carried later."""
        state = msgspec.to_builtins(self.state)
        return {"state": state, "shared": dict(self.shared), "extra": dict(self.extra)}

    def cel_names(self) -> dict[str, Any]:
        """What conditions in CEL can read."""
        state = self.state
        return {
            "event": {**self.event.facts(), "output": self.event.output, "native": self.event.native},
            "vars": state.variables,
            "shared": self.shared,
            "config": self.workflow.config,
            "workflow": {
                "name": self.workflow.name,
                "step": state.step,
                "step_actions": state.step_actions,
                "total_actions": state.total_actions,
                "transitions": state.transitions,
                "seconds_in_step": (self.now - state.entered) // 1000 if state.entered else 0,
            },
        }

    async def holds(self, when: str, counts: bool = False) -> bool:
        """Whether a condition is true. Where it cannot be evaluated, it counts as `counts`; in Gobby's files as false."""
        if not when.strip():
            return True
        language = self.workflow.language
        names: Mapping[str, Any] = self.names() if language == "python" else self.cel_names()
        try:
            return await is_true(when, language, names, self.effects.condition)
        except PatternError as error:  # reading the file has said so
            return self._unclear(when, error, blocks=True) if counts and language == "python" else counts
        except FleethookError as error:
            if language == "python":
                return self._unclear(when, error, blocks=counts)
            if counts or not isinstance(error, ConditionError):
                self.notes.append(
                    f"workflow {self.workflow.name!r}: {error}; it counts as {'true' if counts else 'false'}"
                )
            return counts

    def _unclear(self, when: str, error: FleethookError, *, blocks: bool) -> bool:
        """What a condition of Gobby's files counts as that could not be evaluated.

        It is false, as in Gobby, unless it is that of a rule that blocks and the failure policy is deny. The person is told
        of such a rule once in a session; the trace has each time.
        """
        counts = blocks and self.policy == "deny"
        if blocks:
            end = "so the rule blocks" if counts else "so the rule did not block"
            text = f"the rule `{when[:_SHOWN]}` cannot be evaluated: {error}; {end}, since the failure policy is {self.policy}"
            self.done.append(f"rule not evaluated: {when[:_SHOWN]}")
            mark = sha256(when.encode("utf-8", "replace")).hexdigest()[:8]
            if mark not in self.state.unclear:
                self.state.unclear, self.changed = [*self.state.unclear, mark][-_MOST_UNCLEAR:], True
                self.notes.append(f"workflow {self.workflow.name!r}: {text}")
        elif not isinstance(error, ConditionError):
            self.notes.append(f"workflow {self.workflow.name!r}: {error}; it counts as false")
        else:
            _warn(self.workflow.name, str(error))
        return counts

    def text(self, text: object) -> str:
        """A text with its values; raises ConfigError."""
        return render(str(text), self.names()) if text is not None else ""

    def reason_text(self, text: object) -> str:
        """The text of a refusal or a question, as it is written where its template fails: it refuses all the same."""
        try:
            return self.text(text)
        except FleethookError as error:
            self.note(f"workflow {self.workflow.name!r}: {error}")
            return str(text)

    def value(self, value: Any) -> Any:
        """A value for a variable; raises ConfigError."""
        return render_value(value, self.names())

    def rendered(self, value: Any) -> Any:
        """A value with the texts in it; raises ConfigError."""
        return render_all(value, self.names())

    def set(self, name: str, value: Any, *, shared: bool = False) -> None:
        """Set a variable of the workflow, or of the session."""
        if shared or (name in self.workflow.session_variables and name not in self.state.variables):
            self.shared[name] = self.shared_changes[name] = value
        else:
            self.state.variables[name] = value
        self.changed = True

    def get(self, name: str) -> Any:
        """A variable of the workflow, else of the session; None if there is none."""
        return self.state.variables[name] if name in self.state.variables else self.shared.get(name)

    def deny(self, reason: str) -> None:
        """Deny the event."""
        if self.decision != "deny":
            self.decision, self.reason = "deny", reason or f"the workflow {self.workflow.name!r} says deny"

    def ask(self, reason: str) -> None:
        """Let a person decide, unless something stricter was said."""
        if self.decision == "abstain":
            self.decision, self.reason = "ask", reason or f"the workflow {self.workflow.name!r} asks a person"

    def note(self, text: str) -> None:
        """Say something to the person."""
        self.notes.append(text)
