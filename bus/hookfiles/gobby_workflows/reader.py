"""Reads one workflow file of Gobby."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.agents.gobby import ALIASES, EVENTS
from bus.config.documents import Document, PathParts, Source, load, stamp
from bus.errors import ConfigError
from bus.events import source_name
from bus.hookfiles.gobby_workflows.actions import read_actions
from bus.hookfiles.gobby_workflows.checks import Checks
from bus.hookfiles.gobby_workflows.inheritance import merged, named_file, rule_file, rule_folders
from bus.hookfiles.gobby_workflows.single_rules import as_workflow, is_rules
from bus.hookfiles.gobby_workflows.unmet import WITHOUT_EFFECT, unmet
from bus.workflows.rules import texts_of
from bus.workflows.values import (
    Action,
    ExitCondition,
    FlowStep,
    Observer,
    PrematureStop,
    Start,
    ToolRule,
    Transition,
    Trigger,
    Workflow,
)
from bus.workflows.variables import variables_of

_PRIORITY: Final = 100
_MOST_PARENTS: Final = 16
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ARTIFACT_KEYS: Final = ("pattern", "artifact", "name", "path", "file")
_COUNT_KEYS: Final = ("count", "min", "min_count", "value", "actions")
_FILES: Final = re.compile(r"\bfiles_(read|written)\b")
_OTHER_TRIGGERS: Final = {"prompt_submit": "before_agent", "tool_call": "before_tool", "tool_result": "after_tool"}


class WorkflowReader(Checks):
    """Reads one file; `problems` has what is wrong with it."""

    def __init__(self, document: Document, file: Path, *, by_order: bool) -> None:
        super().__init__(document)
        self._file, self._by_order = file, by_order
        self.sources: list[Source] = []
        self.priority, self.enabled = _PRIORITY, True
        self._rules: dict[str, ToolRule] = {}
        self.written: list[tuple[PathParts, Action]] = []
        """Every action, with its place."""

    def read(self) -> Workflow | None:
        value = self._document.value
        if is_rules(value):
            assert isinstance(value, dict)  # noqa: S101 - as `is_rules` says
            value, unsupported = as_workflow(value, self._file.stem)
            for rule, text in unsupported:
                self.warn(("rules", rule), f"the rule {rule[:64]!r}: {text}")
        if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"].strip():
            self.report((), "a workflow is a mapping with `name`, and `steps` or `triggers`")
            return None
        whole = self._extended(value, [str(self._file)])
        settings = self.mapping(("settings",), whole.get("settings"))
        priority = whole.get("priority", settings.get("priority", _PRIORITY))
        self.priority = priority if isinstance(priority, int) and not isinstance(priority, bool) else _PRIORITY
        self.enabled = whole.get("enabled") is not False
        for number, name in enumerate(self.list(("imports",), whole.get("imports"))):
            self._rules |= self.imported(("imports", number), name)
        self._rules |= self.definitions(whole.get("rule_definitions"))
        key = "steps" if "steps" in whole else "phases"
        entries = self.list((key,), whole.get(key))
        names = [str(entry.get("name")) for entry in entries if isinstance(entry, dict)]
        steps = [step for n, entry in enumerate(entries) if (step := self.step((key, n), entry, names)) is not None]
        triggers = self.triggers(self.mapping(("triggers",), whole.get("triggers")))
        others = whole.get("tool_rules") or whole.get("observers")
        if not steps and not triggers and not others and not self.problems:
            self.report((), "a workflow has steps (or phases), or triggers; it has none")
        lifecycle = whole.get("type") == "lifecycle" or not steps
        exit_condition = self.text(whole.get("exit_condition"))
        self.condition(("exit_condition",), exit_condition)
        found = Workflow(
            name=str(whole["name"]).strip(),
            description=self.text(whole.get("description")),
            version=self.text(whole.get("version")),
            language="python",
            start=Start(by="order" if self._by_order and not lifecycle else "event"),
            steps=() if whole.get("type") == "lifecycle" else tuple(steps),
            triggers=triggers,
            variables=self.mapping(("variables",), whole.get("variables")),
            session_variables=self.mapping(("session_variables",), whole.get("session_variables")),
            config={**settings, **self.mapping(("config",), whole.get("config"))},
            sources=tuple(source_name(name) for name in texts_of(whole.get("sources"))),
            rules=self.rules(("tool_rules",), whole.get("tool_rules")),
            observers=tuple(self.observers(whole.get("observers"))),
            exit_condition=exit_condition,
            premature_stop=self.premature_stop(whole.get("on_premature_stop")),
            webhooks=self.mapping(("webhooks",), whole.get("webhooks")),
        )
        variables = variables_of(found)
        self.check_names(variables)
        for name, text in WITHOUT_EFFECT.items():
            if name in whole:
                self.warn((name,), f"{name} {text}")
        self.warnings += [str(self._document.error(path, text)) for path, text in unmet(self.written, found, variables)]
        return msgspec.structs.replace(found, notes_files=_FILES.search(repr(found)) is not None)

    def _extended(self, value: Mapping[str, Any], seen: list[str]) -> dict[str, Any]:
        """The workflow with what it inherits by `extends`."""
        parent = value.get("extends")
        if not isinstance(parent, str) or not parent:
            return dict(value)
        path = self._parent(parent)
        if path is None:
            self.report(
                ("extends",), f"there is no workflow {parent[:64]!r} to extend", hint=f"looked in {self._file.parent}"
            )
            return dict(value)
        if str(path) in seen or len(seen) > _MOST_PARENTS:
            self.report(("extends",), "workflows extend each other in a circle: " + " -> ".join([*seen, str(path)]))
            return dict(value)
        self.sources.append(Source(str(path), stamp(path)))
        try:
            above = load(path).value
        except ConfigError as error:
            self.report(("extends",), f"{parent}: {error}")
            return dict(value)
        base = self._extended(above, [*seen, str(path)]) if isinstance(above, dict) else {}
        return merged(base, value)

    def _parent(self, name: str) -> Path | None:
        """The file of a workflow: beside this one, in the folder above, or in the user's folder of Gobby."""
        user = Path(os.path.expanduser("~")) / ".gobby" / "workflows"
        for folder in (self._file.parent, self._file.parent.parent, user, user / "lifecycle"):
            path = folder / f"{name}.yaml"
            if path.is_file():
                return path
        return named_file(name, (self._file.parent, self._file.parent.parent, user, user / "lifecycle"), self._file)

    def step(self, path: PathParts, entry: Any, names: Sequence[str]) -> FlowStep | None:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"].strip():
            self.report(path, "a step is a mapping with a `name`")
            return None
        name = entry["name"]
        if names.count(name) > 1 and names.index(name) != path[1]:
            self.report((*path, "name"), f"the step {name!r} is there twice")
        place = _UNFIT.sub("-", name).strip("-") or "step"
        checked = self.named_rules((*path, "check_rules"), entry.get("check_rules"))
        status = self.text(entry.get("status_message"))
        self.template((*path, "status_message"), status)
        return FlowStep(
            name=name,
            description=self.text(entry.get("description")),
            status=status,
            on_enter=self.actions((*path, "on_enter"), entry.get("on_enter"), f"{place}/on_enter"),
            on_exit=self.actions((*path, "on_exit"), entry.get("on_exit"), f"{place}/on_exit"),
            allowed_tools=self.allowed((*path, "allowed_tools"), entry.get("allowed_tools", "all")),
            blocked_tools=texts_of(entry.get("blocked_tools")),
            allowed_mcp_tools=self.allowed((*path, "allowed_mcp_tools"), entry.get("allowed_mcp_tools", "all")),
            blocked_mcp_tools=texts_of(entry.get("blocked_mcp_tools")),
            rules=(*self.rules((*path, "rules"), entry.get("rules")), *checked),
            transitions=self.transitions((*path, "transitions"), entry.get("transitions"), names, place),
            exit_conditions=self.exit_conditions(path, entry, place),
            on_mcp_success=self.actions(
                (*path, "on_mcp_success"), entry.get("on_mcp_success"), f"{place}/on_mcp_success"
            ),
            on_mcp_error=self.actions((*path, "on_mcp_error"), entry.get("on_mcp_error"), f"{place}/on_mcp_error"),
        )

    def imported(self, path: PathParts, name: Any) -> dict[str, ToolRule]:
        """The rules of an imported file; what is wrong in it is reported with its place there."""
        found = rule_file(self._file, str(name))
        if found is None:
            hint = f"put the file {str(name)[:64]}.yaml with `rule_definitions:` into {rule_folders(self._file)[0]}"
            self.report(path, f"there is no file of rules {str(name)[:64]!r} to import", hint=hint)
            return {}
        self.sources.append(Source(str(found), stamp(found)))
        try:
            file = Checks(load(found))
        except ConfigError as error:
            self.report(path, f"{name}: {error}")
            return {}
        value = file.mapping((), file.value)
        rules = file.definitions(value.get("rule_definitions"))
        file.check_names(None)
        self.problems += file.problems
        self.parts += file.parts
        self.warnings += file.warnings
        return rules

    def named_rules(self, path: PathParts, names: Any) -> list[ToolRule]:
        """The rules that a step names."""
        for name in texts_of(names):
            if name not in self._rules:
                self.report(
                    path, f"there is no rule {name[:64]!r}", hint="rules: " + (", ".join(self._rules) or "none")
                )
        return [self._rules[name] for name in texts_of(names) if name in self._rules]

    def allowed(self, path: PathParts, value: Any) -> tuple[str, ...] | None:
        if value in (None, "all", ["all"]):
            return None
        if not isinstance(value, str | list):
            self.report(path, f"{path[-1]} is `all` or a list of tools")
        return texts_of(value)

    def transitions(self, path: PathParts, value: Any, names: Sequence[str], place: str) -> tuple[Transition, ...]:
        found = []
        for number, entry in enumerate(self.list(path, value)):
            at = (*path, number)
            to = entry.get("to") if isinstance(entry, dict) else None
            if not isinstance(to, str):
                self.report(at, "a transition is a mapping with `to`")
                continue
            if to not in names:
                self.warn((*at, "to"), f"there is no step {to!r}, so this transition is never taken")
                continue
            when = self.text(entry.get("when"))
            self.condition((*at, "when"), when)
            actions = self.actions(
                (*at, "on_transition"), entry.get("on_transition"), f"{place}/to_{_UNFIT.sub('-', to)}_{number + 1}"
            )
            found.append(Transition(to=to, when=when, actions=actions))
        return tuple(found)

    def exit_conditions(self, path: PathParts, entry: Mapping[str, Any], place: str) -> tuple[ExitCondition, ...]:
        raw = entry.get("exit_conditions")
        entries = [raw] if isinstance(raw, dict | str) else self.list((*path, "exit_conditions"), raw)
        if isinstance(entry.get("exit_when"), str):
            entries = [*entries, entry["exit_when"]]
        found = []
        for number, condition in enumerate(entries):
            made = self.exit_condition((*path, "exit_conditions", number), condition, f"{place}/exit_{number + 1}")
            if made is not None:
                found.append(made)
        return tuple(found)

    def exit_condition(self, path: PathParts, raw: Any, place: str) -> ExitCondition | None:
        name = _UNFIT.sub("_", place.replace("/", "_"))
        if isinstance(raw, str):
            raw = {"type": "expression", "expression": raw}
        if not isinstance(raw, dict):
            self.report(path, "an exit condition is a mapping with `type`, or an expression")
            return None
        if "approval" in raw and "type" not in raw:
            inner = raw["approval"]
            raw = {**(inner if isinstance(inner, dict) else {"prompt": inner}), "type": "user_approval"}
        if "webhook" in raw and "type" not in raw:
            raw = {**(raw["webhook"] if isinstance(raw["webhook"], dict) else {}), "type": "webhook"}
        kind, name = raw.get("type"), self.text(raw.get("id")) or name
        if kind == "user_approval":
            text = self.text(raw.get("prompt"))
            self.template(path, text)
            timeout = raw.get("timeout")
            seconds = float(timeout) if isinstance(timeout, int | float) and timeout > 0 else 0.0
            return ExitCondition(kind="user_approval", id=name, text=text, timeout=seconds)
        if kind == "variable_set":
            return ExitCondition(kind="variable_set", id=name, text=self.text(raw.get("variable")))
        if kind == "expression":
            text = self.text(raw.get("expression"))
            self.condition(path, text)
            return ExitCondition(kind="expression", id=name, text=text)
        if kind == "webhook":
            values = {str(key): value for key, value in raw.items() if key not in {"type", "id"}} | {"expects": True}
            return ExitCondition(kind="webhook", id=name, webhook=Action(kind="webhook", id=place, values=values))
        if kind == "artifact_exists":
            label = next((self.text(raw[key]) for key in _ARTIFACT_KEYS if raw.get(key)), "")
            return ExitCondition(kind="expression", id=name, text=f"artifact_exists({label!r})")
        if kind == "action_count":
            least = next((raw[key] for key in _COUNT_KEYS if isinstance(raw.get(key), int)), 1)
            return ExitCondition(kind="expression", id=name, text=f"step_action_count >= {least}")
        self.warn(path, f"there is no exit condition {kind!r}; it is ignored")
        return None

    def triggers(self, value: Mapping[str, Any]) -> tuple[Trigger, ...]:
        found = []
        for key, raw in value.items():
            name = str(key).removeprefix("on_")
            if name in _OTHER_TRIGGERS and f"on_{_OTHER_TRIGGERS[name]}" in value:
                continue  # the canonical name counts
            name = _OTHER_TRIGGERS.get(name, name)
            types = tuple(str(type_) for type_ in EVENTS.get(ALIASES.get(name, name), ()))
            if not types:
                self.warn(("triggers", key), f"Gobby has no event {name[:64]!r}; this trigger is ignored")
                continue
            place = f"on_{name}"
            found.append(Trigger(on=types, actions=self.actions(("triggers", key), raw, place)))
        return tuple(found)

    def observers(self, value: Any) -> list[Observer]:
        found = []
        for number, entry in enumerate(self.list(("observers",), value)):
            path: PathParts = ("observers", number)
            name = str(entry.get("on") or "").removeprefix("on_") if isinstance(entry, dict) else ""
            types = tuple(str(type_) for type_ in EVENTS.get(ALIASES.get(name, name), ()))
            if not types or not isinstance(entry.get("set"), dict):
                self.warn(path, "an observer has `on` (an event) and `set` (variables); this one is ignored")
                continue
            match = entry.get("match") if isinstance(entry.get("match"), dict) else {}
            server, tool = match.get("mcp_server"), match.get("mcp_tool")
            mcp = (f"{server or '*'}:{tool or '*'}",) if server or tool else ()
            tools = texts_of(match.get("tools", match.get("tool")))
            found.append(Observer(on=types, tools=tools, mcp_tools=mcp, values=dict(entry["set"])))
        return found

    def premature_stop(self, raw: Any) -> PrematureStop | None:
        if raw is None:
            return None
        entry = {"message": raw} if isinstance(raw, str) else self.mapping(("on_premature_stop",), raw)
        when = self.text(entry.get("condition"))
        self.condition(("on_premature_stop", "condition"), when)
        message = self.text(entry.get("message"))
        self.template(("on_premature_stop", "message"), message)
        decision = "warn" if str(entry.get("action")) in {"warn", "allow", "inject_context"} else "deny"
        return PrematureStop(decision=decision, message=message, when=when)  # type: ignore[arg-type]  # one of two words

    def actions(self, path: PathParts, value: Any, place: str) -> tuple[Action, ...]:
        found = []
        for number, action, warning in read_actions(self.list(path, value), place):
            if warning:
                self.warn((*path, number), warning)
            if action is None:
                continue
            self.condition((*path, number, "when"), action.when)
            for rule_number, rule in enumerate(
                action.values.get("rules") or () if action.kind == "block_tools" else ()
            ):
                self.rule((*path, number, "rules", rule_number), rule)
            for text in _templates(action):
                self.template((*path, number), text)
            self.written.append(((*path, number), action))
            line = self._document.place((*path, number))[0]
            found.append(msgspec.structs.replace(action, line=line))
        return tuple(found)


def _templates(action: Action) -> list[str]:
    """The texts of an action that are templates."""
    left: list[Any] = [value for key, value in action.values.items() if key != "rules"]
    found: list[str] = []
    while left:
        value = left.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return found
