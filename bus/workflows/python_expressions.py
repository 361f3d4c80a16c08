"""The conditions of Gobby's workflows: Python expressions, read as a syntax tree and never run as code.

There are `and`, `or`, `not`, comparisons, `in`, arithmetic, attributes, subscripts, literals, conditional expressions, calls
of the functions that are given, the methods of texts, lists and mappings that change nothing, comprehensions and f-strings.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from bus.errors import ConditionError, PatternError

MAX_LENGTH: Final = 2000
MAX_DEPTH: Final = 40
_MOST_SIZE: Final = 1_000_000
"""The most characters or elements of a value that arithmetic makes."""
_MOST_ELEMENTS: Final = 10_000
"""The most elements that a comprehension goes through."""

_METHODS: Final = frozenset(
    {
        "get", "keys", "values", "items",
        "strip", "lstrip", "rstrip", "startswith", "endswith", "lower", "upper", "split",
        "count", "index", "find", "rfind", "replace", "join", "rsplit", "splitlines", "partition", "rpartition",
        "removeprefix", "removesuffix", "title", "capitalize", "casefold", "isdigit", "isalpha", "isalnum",
    }
)  # fmt: skip

_COMPARES: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Final[Mapping[type, Callable[[Any], Any]]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_OF_TIMES: Final = frozenset({"year", "month", "day", "hour", "minute", "second"})
_LITERALS: Final = {"true": True, "false": False, "null": None, "none": None}
_WORDS: Final = re.compile(r"&&|\|\||!(?!=)")
_COMPREHENSIONS: Final = (ast.ListComp, ast.GeneratorExp, ast.SetComp)
_LEAVES: Final = (ast.Constant, ast.Name)


class NamedFields:
    """A value whose keys are attributes too, as Gobby's objects have them: `event.data.get('x')`, `workflow_state.step`."""

    __slots__ = ("_fields", "_text")

    def __init__(self, fields: Mapping[str, Any], text: str = "") -> None:
        self._fields, self._text = fields, text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, str | NamedFields) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a key, as of a mapping."""
        return self._fields.get(name, default)

    def keys(self) -> Any:
        """The names, as of a mapping."""
        return self._fields.keys()

    def items(self) -> Any:
        """The pairs, as of a mapping."""
        return self._fields.items()

    def values(self) -> Any:
        """The values, as of a mapping."""
        return self._fields.values()


class PythonCondition:
    """A compiled expression; called with the names that it may use, it returns true or false."""

    __slots__ = ("_tree", "text")

    def __init__(self, text: str, tree: ast.expr) -> None:
        self.text, self._tree = text, tree

    def __call__(self, names: Mapping[str, Any]) -> bool:
        """Whether it is true; raises ConditionError where it cannot be evaluated."""
        return bool(self.value(names))

    def value(self, names: Mapping[str, Any]) -> Any:
        """Its value; raises ConditionError."""
        try:
            return _evaluate(self._tree, names)
        except ConditionError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of an operator on values of other types
            raise ConditionError(f"`{self.text}` could not be evaluated: {type(error).__name__}: {error}") from None


@lru_cache(maxsize=4096)
def compile_python(text: str) -> PythonCondition:
    """The expression; raises PatternError for one that cannot be read, or has what is not allowed in it."""
    if len(text) > MAX_LENGTH:
        raise PatternError(f"the condition has {len(text)} characters; {MAX_LENGTH} is the most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = getattr(error, "offset", None)
        where = f" at column {offset}" if offset else ""
        hint = "write `and`, `or` and `not`" if _WORDS.search(text) else ""
        raise PatternError(f"bad condition {text!r}: it is no expression{where}", hint=hint) from None
    _check(tree, text, 0)
    return PythonCondition(text, tree)


def _check(node: ast.AST, text: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise PatternError(f"the condition {text[:60]!r} nests too deep")
    problem = _problem(node)
    if problem:
        raise PatternError(f"bad condition {text!r}: {problem}")
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop):
            _check(child, text, depth + 1)


def _problem(node: ast.AST) -> str:
    """What is wrong with a node itself; empty where it is allowed."""
    if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("_approval"):
        return f"the attribute {node.attr!r} is not allowed"
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute):
            return "" if function.attr in _METHODS else f"there is no method {function.attr!r}"
        return "" if isinstance(function, ast.Name) else "only functions and methods can be called"
    if isinstance(node, ast.BinOp):
        return "" if type(node.op) in _ARITHMETIC else "this operator is not allowed"
    if isinstance(node, ast.UnaryOp):
        return "" if type(node.op) in _UNARY else "this operator is not allowed"
    if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
        return "a format in an f-string is not allowed in a condition"
    if isinstance(node, _COMPREHENSIONS):
        plain = len(node.generators) == 1 and isinstance(node.generators[0].target, ast.Name)
        alone = sum(isinstance(below, _COMPREHENSIONS) for below in ast.walk(node)) == 1
        return "" if plain and alone else "a comprehension has one `for` with one name, and no other one in it"
    allowed = (
        ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.IfExp,
        ast.Slice, ast.keyword, ast.comprehension, ast.JoinedStr, ast.FormattedValue, *_LEAVES,
    )  # fmt: skip
    return "" if isinstance(node, allowed) else f"a {type(node).__name__} is not allowed in a condition"


def names_in(text: str) -> frozenset[str]:
    """The functions that an expression calls."""
    tree = compile_python(text)._tree  # noqa: SLF001 - in this module
    return frozenset(
        node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )


def _evaluate(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _named(node.id, names)
    if isinstance(node, ast.BoolOp):
        return _joined(node, names)
    if isinstance(node, ast.Compare):
        return _compared(node, names)
    if isinstance(node, ast.Attribute):
        return _attribute(_evaluate(node.value, names), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(node, names)
    if isinstance(node, ast.Call):
        return _called(node, names)
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_evaluate(node.operand, names))
    if isinstance(node, ast.BinOp):
        return _computed(node, names)
    if isinstance(node, ast.IfExp):
        return _evaluate(node.body if _evaluate(node.test, names) else node.orelse, names)
    if isinstance(node, _COMPREHENSIONS):
        return _comprehended(node, names)
    if isinstance(node, ast.JoinedStr | ast.FormattedValue):
        return _formatted(node, names)
    if isinstance(node, ast.Dict):
        return {
            _evaluate(key, names): _evaluate(value, names)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    assert isinstance(node, ast.List | ast.Tuple | ast.Set)  # noqa: S101 - `_check` let no other kind pass
    elements = [_evaluate(element, names) for element in node.elts]
    return tuple(elements) if isinstance(node, ast.Tuple) else elements


def _named(name: str, names: Mapping[str, Any]) -> Any:
    if name in names:
        return names[name]
    if name.lower() in _LITERALS:
        return _LITERALS[name.lower()]
    raise ConditionError(f"there is no {name!r}")


def _joined(node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
    found: Any = None
    for value in node.values:
        found = _evaluate(value, names)
        if bool(found) == isinstance(node.op, ast.Or):
            break
    return found


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _evaluate(node.left, names)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(right_node, names)
        if not _COMPARES[type(op)](left, right):
            return False
        left = right
    return True


def _attribute(value: Any, name: str) -> Any:
    """A field of a value; a mapping's key is one too."""
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        raise ConditionError(f"there is no {name!r}")
    if isinstance(value, NamedFields):
        return getattr(value, name)
    if isinstance(value, str) and name in {"value", "name"}:  # event types and sources are enums in Gobby
        return str(value) if name == "value" else str(value).upper()
    if isinstance(value, datetime) and name in _OF_TIMES:
        return getattr(value, name)
    raise ConditionError(f"a {type(value).__name__} has no {name!r}")


def _item(node: ast.Subscript, names: Mapping[str, Any]) -> Any:
    value = _evaluate(node.value, names)
    if isinstance(node.slice, ast.Slice):
        lower, upper, step = (
            None if part is None else _evaluate(part, names)
            for part in (node.slice.lower, node.slice.upper, node.slice.step)
        )
        return value[lower:upper:step]
    return value[_evaluate(node.slice, names)]


def _called(node: ast.Call, names: Mapping[str, Any]) -> Any:
    args = [_evaluate(argument, names) for argument in node.args]
    named = {keyword.arg: _evaluate(keyword.value, names) for keyword in node.keywords if keyword.arg}
    if isinstance(node.func, ast.Attribute):
        value = _evaluate(node.func.value, names)
        if not isinstance(value, str | list | tuple | dict | NamedFields):
            raise ConditionError(f"a {type(value).__name__} has no method {node.func.attr!r}")
        _check_size(value, node.func.attr, args)
        return getattr(value, node.func.attr)(*args, **named)
    assert isinstance(node.func, ast.Name)  # noqa: S101 - `_check`
    function = names.get(node.func.id)
    if not callable(function):
        raise ConditionError(f"there is no function {node.func.id!r}")
    return function(*args, **named)


def _computed(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    left, right = _evaluate(node.left, names), _evaluate(node.right, names)
    if isinstance(node.op, ast.Mult) and not all(isinstance(value, int | float) for value in (left, right)):
        raise ConditionError("only numbers are multiplied")
    if isinstance(node.op, ast.Mod) and isinstance(left, str):
        raise ConditionError("a text is not formatted with %")
    found = _ARITHMETIC[type(node.op)](left, right)
    if isinstance(found, str | list) and len(found) > _MOST_SIZE:
        raise ConditionError("the value is too large")
    return found


def _check_size(value: Any, method: str, args: list[Any]) -> None:
    """Raise ConditionError where a method would make too long a text."""
    size = 0
    if isinstance(value, str) and method == "replace" and len(args) >= 2:
        size = len(value) + value.count(str(args[0])) * len(str(args[1]))
    elif isinstance(value, str) and method == "join" and args:
        parts = [str(part) for part in args[0]]
        size = len(value) * len(parts) + sum(map(len, parts))
    if size > _MOST_SIZE:
        raise ConditionError("the value is too large")


def _comprehended(node: ast.ListComp | ast.GeneratorExp | ast.SetComp, names: Mapping[str, Any]) -> list[Any]:
    (only,) = node.generators
    assert isinstance(only.target, ast.Name)  # noqa: S101 - `_check`
    found: list[Any] = []
    for number, element in enumerate(_evaluate(only.iter, names)):
        if number >= _MOST_ELEMENTS:
            raise ConditionError(f"a comprehension goes through {_MOST_ELEMENTS} elements at most")
        inside = {**names, only.target.id: element}
        if all(_evaluate(test, inside) for test in only.ifs):
            found.append(_evaluate(node.elt, inside))
    return found


def _formatted(node: ast.JoinedStr | ast.FormattedValue, names: Mapping[str, Any]) -> str:
    if isinstance(node, ast.FormattedValue):
        return str(_evaluate(node.value, names))[:_MOST_SIZE]
    return "".join(str(_evaluate(part, names)) for part in node.values)[:_MOST_SIZE]
