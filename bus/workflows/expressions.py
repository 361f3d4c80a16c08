"""The conditions of workflows, in CEL or in Python's form, with the conditions that plugins register.

A condition of a plugin is a function: `plugin_code_guardian_passes_lint()`. It answers in another process. So an expression is
evaluated with the answers that are known, and once more after each answer that it lacked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bus.errors import ConditionError
from bus.matching.condition_cost import size_of
from bus.matching.conditions import FUNCTIONS, Condition, compile_condition
from bus.workflows.python_expressions import PythonCondition, compile_python
from bus.workflows.values import Language

CEL_NAMES: Final = frozenset({"event", "vars", "shared", "workflow", "config"})
"""What a condition in CEL can read."""

PLUGIN_PREFIX: Final = "plugin_"
_NAMED_PLUGIN: Final = re.compile(r"plugin:([A-Za-z0-9_.-]+):([A-Za-z0-9_-]+)(\s*\()?")
_FUNCTION: Final = re.compile(r"\b(plugin_[A-Za-z0-9_]+)\s*\(")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_]")
_STRINGS: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_BRACED: Final = re.compile(_STRINGS.pattern + r"|\$\{\s*([A-Za-z_][\w.]*)\s*\}")
_MOST_ANSWERS: Final = 32
"""The most answers of plugins that one condition may need."""

AskPlugin = Callable[[str, Sequence[Any], Mapping[str, Any]], Awaitable[bool]]
"""The answer of a plugin's condition, by the function's name and its arguments, also those that are named.

Raises FleethookError.
"""


def function_name(plugin: str, condition: str) -> str:
    """The function that stands for a plugin's condition in an expression."""
    return f"{PLUGIN_PREFIX}{_UNFIT.sub('_', plugin)}_{_UNFIT.sub('_', condition)}"


def compile_expression(text: str, language: Language) -> Condition | PythonCondition:
    """A condition; raises PatternError."""
    plain = with_functions(text)
    if language == "python":
        return compile_python(plain)
    return compile_condition(plain, CEL_NAMES, FUNCTIONS | _plugin_functions(plain))


def with_functions(text: str) -> str:
    """The expression with `plugin:name:condition` written as a function, and the name `x` for `${x}`."""

    def function(found: re.Match[str]) -> str:
        return f"{function_name(found[1], found[2])}{found[3] or '()'}"

    if "${" in text:
        text = _BRACED.sub(lambda found: found[1] or found[0], text)
    return _NAMED_PLUGIN.sub(function, text)


def _plugin_functions(text: str) -> frozenset[str]:
    return frozenset(_FUNCTION.findall(_STRINGS.sub("''", text)))


async def is_true(text: str, language: Language, names: Mapping[str, Any], ask: AskPlugin) -> bool:
    """Whether a condition is true; an empty one is. Raises ConditionError where it cannot be evaluated."""
    if not text.strip():
        return True
    condition = compile_expression(text, language)
    functions = _plugin_functions(with_functions(text))
    if isinstance(condition, Condition) and condition.is_costly(size_of(names["event"])):
        raise ConditionError(f"`{text}` was not evaluated: the event is too large for it")
    if not functions:
        return condition(dict(names))
    return await _with_answers(condition, functions, names, ask)


async def _with_answers(
    condition: Condition | PythonCondition, functions: frozenset[str], names: Mapping[str, Any], ask: AskPlugin
) -> bool:
    known: dict[tuple[str, str], bool] = {}
    missing: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def function(name: str) -> Callable[..., bool]:
        def call(*args: Any, **named: Any) -> bool:
            key = (name, repr((args, named)))
            if key not in known:
                missing.append((name, args, named))
                raise ConditionError(f"the answer of {name} is not known yet")
            return known[key]

        return call

    scope = {**names, **{name: function(name) for name in functions}}
    for _ in range(_MOST_ANSWERS):
        missing.clear()
        try:
            found = condition(scope)
        except ConditionError:
            if not missing:
                raise
        else:
            if not missing:  # CEL's `||` ignores the side that failed
                return found
        name, args, named = missing[0]
        known[name, repr((args, named))] = await ask(name, args, named)
    raise ConditionError(f"`{condition.text}` asks plugins too often")
