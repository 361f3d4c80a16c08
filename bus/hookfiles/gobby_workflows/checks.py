"""What is wrong with a workflow file of Gobby, with its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bus.config.documents import Document, PathParts, dotted
from bus.errors import ConfigError, PatternError
from bus.workflows.expressions import compile_expression, with_functions
from bus.workflows.python_names import unknown_names
from bus.workflows.rules import read_rule
from bus.workflows.templates import check_template
from bus.workflows.values import ToolRule

NO_BLOCK: Final = "; the rule does not block there"
"""The end of a warning about a rule whose condition can never be evaluated."""
_ANSWERS: Final[Mapping[str, str]] = {
    "task_tree_complete": "it is false for every task; test a variable, or `mcp_result_has` of your tracker's tool",
    "task_needs_user_review": "it is always false; test a variable in its place",
    "has_stop_signal": "it is always false; `fleethook stop` stops agents before workflows are asked",
}
_ABOUT_TASKS: Final = re.compile(rf"\b({'|'.join(_ANSWERS)})\s*\(")


def _end(path: PathParts) -> str:
    return NO_BLOCK if "rules" in path or "rule_definitions" in path or "tool_rules" in path else ""


def _without(path: PathParts) -> str:
    """What a workflow does where a condition cannot be read."""
    return "; this transition is never taken" if "transitions" in path else f"; it is always false{_end(path)}"


def _is_python(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class Checks:
    """Checks the parts of one document, and collects their problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.value = document.value
        self.problems: list[ConfigError] = []
        self.parts: list[ConfigError] = []
        """What is wrong with one condition or text; the rest of the workflow is in force, with its other rules."""
        self.warnings: list[str] = list(document.warnings)
        self._conditions: list[tuple[PathParts, str]] = []

    def list(self, path: PathParts, value: Any) -> Sequence[Any]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.report(path, f"{path[-1]} has to be a list")
            return ()
        return value

    def mapping(self, path: PathParts, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.report(path, f"{path[-1]} has to be a mapping (`key: value`)")
            return {}
        return {str(key): item for key, item in value.items()}

    @staticmethod
    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "True" if value else "False"
        return "" if value is None else str(value)

    def condition(self, path: PathParts, text: str) -> None:
        problem = self._check(path, partial(compile_expression, text, "python") if text.strip() else None)
        if problem is None:
            if text.strip():
                self._conditions.append((path, text))
        elif _is_python(text):  # Gobby takes it for false where it cannot evaluate it
            self.warnings.append(f"{problem}; it is always false{_end(path)}")
        else:
            problem.message += _without(path)
            self.parts.append(problem)
        asked = _ABOUT_TASKS.search(text)
        if asked is not None:
            self.warn(path, f"{asked[1]}() asks Gobby's store of tasks, which is not here: {_ANSWERS[asked[1]]}")

    def check_names(self, variables: Collection[str] | None) -> None:
        """Warn of each condition that reads what nothing has; `variables` is what the workflow sets, None if unknown."""
        for path, text in self._conditions:
            end = _end(path)
            for name, never in unknown_names(with_functions(text), variables):
                if never:
                    self.warn(path, f"conditions have no {name}: this one is false where it reads it{end}")
                else:
                    text_ = f"nothing in this file sets {name}: this condition is false where it reads it"
                    self.warn(path, f"{text_}, until another workflow of the session sets it{end}")

    def template(self, path: PathParts, text: str) -> None:
        problem = self._check(path, partial(check_template, text) if text else None)
        if problem is not None:
            problem.message += "; what has this text does not happen, or happens without it"
            self.parts.append(problem)

    def definitions(self, value: Any) -> dict[str, ToolRule]:
        """Rules by name."""
        found = self.mapping(("rule_definitions",), value)
        return {name: self.rule(("rule_definitions", name), rule) for name, rule in found.items()}

    def rules(self, path: PathParts, value: Any) -> tuple[ToolRule, ...]:
        return tuple(self.rule((*path, number), rule) for number, rule in enumerate(self.list(path, value)))

    def rule(self, path: PathParts, raw: Any) -> ToolRule:
        if not isinstance(raw, dict):
            self.report(path, "a rule is a mapping")
            return ToolRule()
        rule = read_rule(raw)
        self.condition((*path, "when"), rule.when)
        self.template((*path, "message" if "message" in raw else "reason"), rule.message)
        return rule

    def _check(self, path: PathParts, check: Callable[[], object] | None) -> ConfigError | None:
        if check is None:
            return None
        try:
            check()
        except ConfigError as error:
            kind = PatternError if isinstance(error, PatternError) else ConfigError
            line, column = self._document.place(path)
            place = {"file": self._document.file, "line": line, "column": column, "path": dotted(path)}
            return kind(error.message, hint=error.hint, **place)  # type: ignore[arg-type]
        return None

    def report(self, path: PathParts, message: str, *, hint: str = "") -> None:
        self.problems.append(self._document.error(path, message, hint=hint))

    def warn(self, path: PathParts, message: str) -> None:
        self.warnings.append(str(self._document.error(path, message)))
