"""Reads `workflows:` of fleethook.yaml: each workflow becomes a hook that sees the events of its transitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from bus.config.documents import Document, PathParts, Plain, dotted
from bus.config.hook_file_value import bad_headers
from bus.config.validation import convert, nearest
from bus.config.workflow_entry import (
    ExitConditionEntry,
    StepEntry,
    ToolRuleEntry,
    TransitionEntry,
    TriggerEntry,
    WorkflowEntry,
)
from bus.errors import ConfigError, PatternError, TargetRefused
from bus.hooks import Hook, Layer
from bus.http.address_policy import parse_target
from bus.matching.patterns import check_pattern, check_tool
from bus.matching.regexes import compile_regex
from bus.verdicts import Policy
from bus.workflows.expressions import compile_expression
from bus.workflows.patterns import event_patterns
from bus.workflows.templates import check_template
from bus.workflows.values import (
    Action,
    ExitCondition,
    FlowStep,
    PrematureStop,
    Start,
    ToolRule,
    Transition,
    Trigger,
    Workflow,
    waits,
)

_QUICK_SECONDS: Final = 10.0
"""How long a workflow may take that waits for nothing outside: it only reads and writes its state."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")


def read_workflows(
    document: Document,
    entries: Sequence[Plain],
    layer: Layer,
    on_failure: Policy | None,
    ids: Mapping[str, int],
) -> tuple[list[Hook], list[ConfigError]]:
    """The workflows as hooks, and the problems. A workflow with a problem is left out, and the others are in force.

    `ids` are the ids of the file's hooks and endpoints: the name of a workflow is one too.
    """
    hooks: list[Hook] = []
    problems: list[ConfigError] = []
    taken = dict(ids)
    for number, raw in enumerate(entries):
        path: PathParts = ("workflows", number)
        entry, wrong = convert(document, path, raw, WorkflowEntry)
        reader = _Reader(document, path)
        reader.problems.extend(wrong)
        if entry is not None:
            line = document.place((*path, "name"))[0]
            if entry.name in taken:
                text = f'the name "{entry.name}" is taken (line {taken[entry.name]})'
                reader.report(("name",), text, hint="names of workflows and ids of hooks are unique in a file")
            taken.setdefault(entry.name, line)
            workflow = reader.workflow(entry)
            if not reader.problems:
                hooks.append(_hook(document, path, entry, workflow, layer, on_failure, number))
        problems += reader.problems
    return hooks, problems


def _hook(
    document: Document,
    path: PathParts,
    entry: WorkflowEntry,
    workflow: Workflow,
    layer: Layer,
    on_failure: Policy | None,
    number: int,
) -> Hook:
    return Hook(
        id=entry.name,
        on=event_patterns(workflow),
        workflow=workflow,
        description=entry.description,
        priority=entry.priority,
        timeout=entry.timeout if waits(workflow) else min(entry.timeout, _QUICK_SECONDS),
        on_failure=entry.on_failure or on_failure,
        observe=entry.observe,
        enabled=entry.enabled,
        layer=layer,
        position=number,
        origin=f"{document.file}:{document.place(path)[0]}",
    )


class _Reader:
    """Reads one workflow; `problems` has what is wrong with it."""

    def __init__(self, document: Document, path: PathParts) -> None:
        self._document, self._path = document, path
        self.problems: list[ConfigError] = []
        self._lines: dict[str, int] = {}

    def workflow(self, entry: WorkflowEntry) -> Workflow:
        names = [step.name for step in entry.steps]
        if not (entry.steps or entry.triggers or entry.rules or entry.on_premature_stop):
            self.report((), "a workflow has steps, triggers or rules; it has none")
        for number, name in enumerate(names):
            if name in names[:number]:
                self.report(("steps", number, "name"), f"the step {name!r} is there twice")
        start = Start()
        if entry.start is not None:
            start = Start(by=entry.start.by, on=self.patterns(("start", "on"), entry.start.on), when=entry.start.when)
            self.condition(("start", "when"), entry.start.when)
        stop = entry.on_premature_stop
        if stop is not None:
            self.condition(("on_premature_stop", "when"), stop.when)
            self.template(("on_premature_stop", "message"), stop.message)
        self.condition(("exit_condition",), entry.exit_condition)
        return Workflow(
            name=entry.name,
            description=entry.description,
            start=start,
            steps=tuple(self.step(("steps", number), step, names) for number, step in enumerate(entry.steps)),
            triggers=tuple(self.trigger(("triggers", n), trigger, n) for n, trigger in enumerate(entry.triggers)),
            variables=entry.variables,
            session_variables=entry.session_variables,
            config=entry.config,
            sources=tuple(entry.sources),
            rules=self.rules(("rules",), entry.rules),
            exit_condition=entry.exit_condition,
            premature_stop=None
            if stop is None
            else PrematureStop(decision=stop.decision, message=stop.message, when=stop.when),
            env_pass=tuple(entry.env_pass),
        )

    def step(self, path: PathParts, entry: StepEntry, names: Sequence[str]) -> FlowStep:
        place = slug(entry.name)
        self.template((*path, "status"), entry.status)
        return FlowStep(
            name=entry.name,
            description=entry.description,
            status=entry.status,
            on_enter=self.actions((*path, "on_enter"), entry.on_enter, f"{place}/on_enter"),
            on_exit=self.actions((*path, "on_exit"), entry.on_exit, f"{place}/on_exit"),
            allowed_tools=None if entry.allowed_tools == "all" else tuple(entry.allowed_tools),
            blocked_tools=tuple(entry.blocked_tools),
            allowed_mcp_tools=None if entry.allowed_mcp_tools == "all" else tuple(entry.allowed_mcp_tools),
            blocked_mcp_tools=tuple(entry.blocked_mcp_tools),
            rules=self.rules((*path, "rules"), entry.rules),
            transitions=tuple(
                self.transition(
                    (*path, "transitions", n), transition, names, f"{place}/to_{slug(transition.to)}_{n + 1}"
                )
                for n, transition in enumerate(entry.transitions)
            ),
            exit_conditions=tuple(
                self.exit_condition((*path, "exit_conditions", n), condition, f"{place}/exit_{n + 1}")
                for n, condition in enumerate(entry.exit_conditions)
            ),
        )

    def transition(self, path: PathParts, entry: TransitionEntry, names: Sequence[str], place: str) -> Transition:
        if entry.to not in names:
            near = nearest(entry.to, names)
            hint = f'did you mean "{near}"?' if near else "steps: " + ", ".join(names)
            self.report((*path, "to"), f"there is no step {entry.to!r}", hint=hint)
        self.condition((*path, "when"), entry.when)
        self.check((*path, "tool"), partial(check_tool, entry.tool) if entry.tool else None)
        return Transition(
            to=entry.to,
            on=self.patterns((*path, "on"), entry.on),
            tool=entry.tool,
            when=entry.when,
            actions=self.actions((*path, "actions"), entry.actions, place),
        )

    def trigger(self, path: PathParts, entry: TriggerEntry, number: int) -> Trigger:
        self.condition((*path, "when"), entry.when)
        self.check((*path, "tool"), partial(check_tool, entry.tool) if entry.tool else None)
        return Trigger(
            on=self.patterns((*path, "on"), entry.on),
            tool=entry.tool,
            when=entry.when,
            actions=self.actions((*path, "actions"), entry.actions, f"trigger_{number + 1}"),
        )

    def exit_condition(self, path: PathParts, entry: ExitConditionEntry, place: str) -> ExitCondition:
        given = [name for name in ("approval", "variable", "expression", "webhook") if getattr(entry, name)]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            self.report(
                path, f"an exit condition has one of approval, variable, expression and webhook; it has {found}"
            )
        name = entry.id or slug(place).replace("-", "_")
        if entry.webhook is not None:
            values = {"webhook": self.action((*path, "webhook"), entry.webhook, place, expects=True)}
            return ExitCondition(kind="webhook", id=name, webhook=values["webhook"])
        if entry.expression:
            self.condition((*path, "expression"), entry.expression)
            return ExitCondition(kind="expression", id=name, text=entry.expression)
        if entry.variable:
            return ExitCondition(kind="variable_set", id=name, text=entry.variable)
        self.template((*path, "approval"), entry.approval)
        return ExitCondition(kind="user_approval", id=name, text=entry.approval, timeout=entry.timeout)

    def rules(self, path: PathParts, entries: Sequence[ToolRuleEntry]) -> tuple[ToolRule, ...]:
        found = []
        for number, entry in enumerate(entries):
            below = (*path, number)
            self.condition((*below, "when"), entry.when)
            self.template((*below, "message"), entry.message)
            for field in ("command_pattern", "command_not_pattern"):
                text = getattr(entry, field)
                self.check((*below, field), partial(compile_regex, text) if text else None)
            found.append(
                ToolRule(
                    tools=tuple(entry.tools),
                    when=entry.when,
                    command_pattern=entry.command_pattern,
                    command_not_pattern=entry.command_not_pattern,
                    decision=entry.decision,
                    message=entry.message,
                )
            )
        return tuple(found)

    def actions(self, path: PathParts, entries: Sequence[Any], place: str) -> tuple[Action, ...]:
        return tuple(
            self.action((*path, number), entry, f"{place}/{number + 1}") for number, entry in enumerate(entries)
        )

    def action(self, path: PathParts, entry: msgspec.Struct, place: str, *, expects: bool = False) -> Action:
        values: dict[str, Any] = msgspec.to_builtins(entry)
        kind, when = str(values.pop("action")), str(values.pop("when", ""))
        self.condition((*path, "when"), when)
        for below, text in texts(values):
            self.template((*path, *below), text)
        url = values.get("url")
        if kind == "webhook" and isinstance(url, str) and "{" not in url:
            self.check((*path, "url"), partial(parse_target, url))
        for name, value in (values.get("headers") or {}).items():
            for message in bad_headers({name: value}):
                self.report((*path, "headers", name), message)
        if kind == "publish" and "{" not in values["type"]:
            self.check((*path, "type"), partial(check_pattern, values["type"]))
        if expects:
            values["expects"] = True
        kept = {key: value for key, value in values.items() if value not in (None, "", {}, False)}
        return Action(kind=kind, id=place, when=when, values=kept, line=self._document.place(self._whole(path))[0])

    def patterns(self, path: PathParts, on: str | list[str]) -> tuple[str, ...]:
        found = tuple(part.strip() for text in ([on] if isinstance(on, str) else on) for part in text.split(","))
        for text in found:
            self.check(path, partial(check_pattern, text))
        return found

    def condition(self, path: PathParts, text: str) -> None:
        self.check(path, partial(compile_expression, text, "cel") if text else None)

    def template(self, path: PathParts, text: str) -> None:
        self.check(path, partial(check_template, text) if text else None)

    def check(self, path: PathParts, check: Callable[[], object] | None) -> None:
        """Report what a check raises, at this place of the workflow."""
        if check is None:
            return
        try:
            check()
        except TargetRefused as error:
            self.report(path, error.reason)
        except ConfigError as error:
            kind = PatternError if isinstance(error, PatternError) else ConfigError
            whole = self._whole(path)
            line, column = self._document.place(whole)
            self.problems.append(
                kind(
                    error.message,
                    file=self._document.file,
                    line=line,
                    column=column,
                    path=dotted(whole),
                    hint=error.hint,
                )
            )

    def report(self, path: PathParts, message: str, *, hint: str = "") -> None:
        self.problems.append(self._document.error(self._whole(path), message, hint=hint))

    def _whole(self, path: Iterable[str | int]) -> PathParts:
        return (*self._path, *path)


def slug(name: str) -> str:
    """A name with only letters, digits, `_` and `-`."""
    return _UNFIT.sub("-", name).strip("-") or "step"


def texts(value: Any, path: PathParts = ()) -> Iterator[tuple[PathParts, str]]:
    """Every text in a value, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from texts(item, (*path, number))
