"""What is wrong with a workflow file of Gobby, with its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bus.config.documents import Document, PathParts, dotted
from bus.errors import ConfigError, PatternError
from bus.workflows.expressions import compile_expression
from bus.workflows.templates import check_template


class Checks:
    """Checks the parts of one document, and collects their problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[ConfigError] = []
        self.warnings: list[str] = list(document.warnings)

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
        self._check(path, partial(compile_expression, text, "python") if text.strip() else None)

    def template(self, path: PathParts, text: str) -> None:
        self._check(path, partial(check_template, text) if text else None)

    def _check(self, path: PathParts, check: Callable[[], object] | None) -> None:
        if check is None:
            return
        try:
            check()
        except ConfigError as error:
            kind = PatternError if isinstance(error, PatternError) else ConfigError
            line, column = self._document.place(path)
            place = {"file": self._document.file, "line": line, "column": column, "path": dotted(path)}
            self.problems.append(kind(error.message, hint=error.hint, **place))  # type: ignore[arg-type]

    def report(self, path: PathParts, message: str, *, hint: str = "") -> None:
        self.problems.append(self._document.error(path, message, hint=hint))

    def warn(self, path: PathParts, message: str) -> None:
        self.warnings.append(str(self._document.error(path, message)))
