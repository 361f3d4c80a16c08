"""The conditions of Gobby's workflows: Python expressions, read as a syntax tree and never run as code.

There are `and`, `or`, `not`, comparisons, `in`, arithmetic, operators of sets, attributes, subscripts, literals, conditional
expressions, calls of the functions that are given and of Python's own that change nothing, `re`, the methods of texts, lists,
mappings and sets that change nothing, comprehensions and f-strings. What one evaluation costs has a bound.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import GeneratorType
from typing import Any, Final

from bus.errors import ConditionError
from bus.workflows.python_syntax import parse
from bus.workflows.python_values import (
    FUNCTIONS,
    MOST_ELEMENTS,
    MOST_SIZE,
    NAMES,
    attribute,
    computed,
    is_in,
    method,
    size_of,
    with_spec,
)

MOST_STEPS: Final = 50_000
"""The most parts of an expression that one evaluation goes through, those in a comprehension each time."""
_CHARGED: Final = 1000
"""So many characters or elements that are searched count as one step."""

_COMPARES: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: is_in,
    ast.NotIn: lambda left, right: not is_in(left, right),
}
_UNARY: Final[Mapping[type, Callable[[Any], Any]]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_LITERALS: Final = {"true": True, "false": False, "null": None, "none": None}
_MISSING: Final = object()


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
            found = _Evaluation(names).value(self._tree)
            return list(found) if isinstance(found, GeneratorType) else found
        except ConditionError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of an operator on values of other types
            raise ConditionError(f"`{self.text}` could not be evaluated: {type(error).__name__}: {error}") from None


@lru_cache(maxsize=4096)
def compile_python(text: str) -> PythonCondition:
    """The expression; raises PatternError for one that cannot be read, or has what is not allowed in it."""
    return PythonCondition(text, parse(text))


class _Evaluation:
    """One evaluation of a tree: its names, those that it binds itself, and how many steps it may still take."""

    __slots__ = ("_bound", "_left", "_locals", "_names")

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._bound: dict[str, Any] = {}
        """What `:=` has bound."""
        self._locals: dict[str, Any] = {}
        """What a comprehension or a lambda binds while it runs."""
        self._left = MOST_STEPS

    def value(self, node: ast.AST) -> Any:
        """The value of a part of the tree."""
        self._charge(1)
        return _PARTS[type(node)](self, node)

    def _charge(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise ConditionError(f"it takes more than {MOST_STEPS} steps")

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def named(self, node: ast.Name) -> Any:
        name = node.id
        if name in self._locals:
            return self._locals[name]
        if name in self._bound:
            return self._bound[name]
        found = self._names.get(name, _MISSING)
        if name in FUNCTIONS and (found is _MISSING or callable(found)):
            return FUNCTIONS[name]
        if found is not _MISSING:
            return found
        if name in NAMES:
            return NAMES[name]
        if name.lower() in _LITERALS:
            return _LITERALS[name.lower()]
        raise ConditionError(f"there is no {name!r}")

    def joined(self, node: ast.BoolOp) -> Any:
        found: Any = None
        for value in node.values:
            found = self.value(value)
            if bool(found) == isinstance(node.op, ast.Or):
                break
        return found

    def compared(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            if isinstance(op, ast.In | ast.NotIn):
                self._charge(size_of(right) // _CHARGED)
            if not _COMPARES[type(op)](left, right):
                return False
            left = right
        return True

    def attribute(self, node: ast.Attribute) -> Any:
        return attribute(self.value(node.value), node.attr)

    def item(self, node: ast.Subscript) -> Any:
        value = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            return value[slice(*(None if part is None else self.value(part) for part in parts))]
        return value[self.value(node.slice)]

    def called(self, node: ast.Call) -> Any:
        function = node.func
        if isinstance(function, ast.Attribute):
            value = self.value(function.value)
            args, named = self._arguments(node)
            # A pattern goes through its text, which is the last argument.
            self._charge((size_of(value) + sum(map(size_of, args))) // _CHARGED)
            return method(value, function.attr, args, named)
        assert isinstance(function, ast.Name)  # noqa: S101 - the syntax allows no other
        called = self.named(function) if self._has(function.id) else None
        if not callable(called):
            raise ConditionError(f"there is no function {function.id!r}")
        args, named = self._arguments(node)
        self._charge(sum(map(size_of, args)) // _CHARGED)
        before = self._locals
        try:
            return called(*args, **named)
        finally:
            self._locals = before  # where `any` did not go through the whole of a generator

    def _has(self, name: str) -> bool:
        return name in self._locals or name in self._bound or name in self._names or name in FUNCTIONS

    def _arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            named |= {keyword.arg: value} if keyword.arg else dict(value)
        return self._elements(node.args), named

    def _elements(self, nodes: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.value(node.value)
                self._charge(len(found))
            else:
                found.append(self.value(node))
        return found

    def unary(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.value(node.operand))

    def binary(self, node: ast.BinOp) -> Any:
        found = computed(type(node.op), self.value(node.left), self.value(node.right))
        self._charge(size_of(found) // _CHARGED)
        return found

    def chosen(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def bound(self, node: ast.NamedExpr) -> Any:
        self._bound[node.target.id] = found = self.value(node.value)
        return found

    def function(self, node: ast.Lambda) -> Callable[..., Any]:
        parameters, outer = [each.arg for each in node.args.args], self._locals

        def call(*args: Any) -> Any:
            if len(args) != len(parameters):
                raise ConditionError(f"a lambda takes {len(parameters)} arguments, not {len(args)}")
            before = self._locals
            self._locals = {**outer, **dict(zip(parameters, args, strict=True))}
            try:
                return self.value(node.body)
            finally:
                self._locals = before

        return call

    def sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Any:
        elements = self._elements(node.elts)
        return (
            elements if isinstance(node, ast.List) else tuple(elements) if isinstance(node, ast.Tuple) else {*elements}
        )

    def mapping(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found |= dict(self.value(value))
                self._charge(len(found))
            else:
                found[self.value(key)] = self.value(value)
        return found

    def generated(self, node: ast.GeneratorExp) -> Iterator[Any]:
        return (self.value(node.elt) for _ in self._loop(node.generators, self._locals))

    def listed(self, node: ast.ListComp) -> list[Any]:
        return [self.value(node.elt) for _ in self._loop(node.generators, self._locals)]

    def gathered(self, node: ast.SetComp) -> set[Any]:
        return {self.value(node.elt) for _ in self._loop(node.generators, self._locals)}

    def mapped(self, node: ast.DictComp) -> dict[Any, Any]:
        return {self.value(node.key): self.value(node.value) for _ in self._loop(node.generators, self._locals)}

    def _loop(self, generators: list[ast.comprehension], outer: dict[str, Any]) -> Iterator[None]:
        """Bind the names of each `for` in turn. Each round binds them anew, as several generators may run in turn."""
        first, *others = generators
        for number, element in enumerate(self.value(first.iter)):
            if number >= MOST_ELEMENTS:
                raise ConditionError(f"a comprehension goes through {MOST_ELEMENTS} elements at most")
            self._locals = inner = {**outer, **_bindings(first.target, element)}
            if not all(self.value(test) for test in first.ifs):
                continue
            if others:
                yield from self._loop(others, inner)
            else:
                yield None
        self._locals = outer

    def text(self, node: ast.JoinedStr) -> str:
        found = "".join(str(self.value(part)) for part in node.values)
        if len(found) > MOST_SIZE:
            raise ConditionError("the value is too large")
        return found

    def inserted(self, node: ast.FormattedValue) -> str:
        spec = "" if node.format_spec is None else str(self.value(node.format_spec))
        return with_spec(self.value(node.value), node.conversion, spec)


def _bindings(target: ast.expr, element: Any) -> dict[str, Any]:
    """The names that a `for` gives to an element: one, or those of a tuple."""
    if isinstance(target, ast.Name):
        return {target.id: element}
    if not isinstance(target, ast.Tuple | ast.List):
        raise ConditionError("a `for` has names")
    elements = list(element)
    if len(elements) != len(target.elts):
        raise ConditionError(f"a `for` has {len(target.elts)} names for {len(elements)} values")
    found: dict[str, Any] = {}
    for name, each in zip(target.elts, elements, strict=True):
        found |= _bindings(name, each)
    return found


_PARTS: Final[Mapping[type, Callable[[_Evaluation, Any], Any]]] = {
    ast.Constant: _Evaluation.constant,
    ast.Name: _Evaluation.named,
    ast.BoolOp: _Evaluation.joined,
    ast.Compare: _Evaluation.compared,
    ast.Attribute: _Evaluation.attribute,
    ast.Subscript: _Evaluation.item,
    ast.Call: _Evaluation.called,
    ast.UnaryOp: _Evaluation.unary,
    ast.BinOp: _Evaluation.binary,
    ast.IfExp: _Evaluation.chosen,
    ast.NamedExpr: _Evaluation.bound,
    ast.Lambda: _Evaluation.function,
    ast.List: _Evaluation.sequence,
    ast.Tuple: _Evaluation.sequence,
    ast.Set: _Evaluation.sequence,
    ast.Dict: _Evaluation.mapping,
    ast.GeneratorExp: _Evaluation.generated,
    ast.ListComp: _Evaluation.listed,
    ast.SetComp: _Evaluation.gathered,
    ast.DictComp: _Evaluation.mapped,
    ast.JoinedStr: _Evaluation.text,
    ast.FormattedValue: _Evaluation.inserted,
}
