"""Which forms of Python a condition of Gobby's workflows may have, and what is wrong with one that it may not have."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from typing import Final

from bus.errors import PatternError
from bus.workflows.python_regexes import check_pattern
from bus.workflows.python_values import ARITHMETIC, METHODS

MAX_LENGTH: Final = 2000
MAX_DEPTH: Final = 40
_MOST_NESTED: Final = 3
"""The most `for` of comprehensions in each other."""

COMPREHENSIONS: Final = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_LEAVES: Final = (ast.Constant, ast.Name)
_ALLOWED: Final = (
    ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.IfExp,
    ast.Slice, ast.keyword, ast.comprehension, ast.JoinedStr, ast.FormattedValue, ast.Starred, ast.NamedExpr,
    ast.arguments, ast.arg, ast.BinOp, ast.UnaryOp, *COMPREHENSIONS, *_LEAVES,
)  # fmt: skip
_IGNORED: Final = ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop
_MODULES: Final = frozenset(
    {"os", "sys", "json", "time", "math", "datetime", "fnmatch", "Path", "pathlib", "subprocess"}
)
_HINTS: Final = {
    ast.Lambda: "a lambda can only be an argument of a function, as in `sorted(x, key=lambda each: each.n)`",
    ast.Await: "conditions do not wait; a plugin's condition may: `plugin:NAME:CONDITION`",
}
_FILTERS: Final = {
    "length": "len(x)", "count": "len(x)", "lower": "x.lower()", "upper": "x.upper()", "trim": "x.strip()",
    "int": "int(x)", "float": "float(x)", "string": "str(x)", "list": "list(x)", "first": "x[0]", "last": "x[-1]",
    "sort": "sorted(x)", "sum": "sum(x)", "default": "x or y",
}  # fmt: skip
_WORDS: Final = re.compile(r"&&|\|\||!(?!=)")


def parse(text: str) -> ast.expr:
    """The tree of an expression; raises PatternError for one that cannot be read, or has what is not allowed in it."""
    if len(text) > MAX_LENGTH:
        raise PatternError(
            f"the condition has {len(text)} characters; {MAX_LENGTH} is the most", hint="register it in a plugin"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = getattr(error, "offset", None)
        where = f" at column {offset}" if offset else ""
        hint = "write `and`, `or` and `not`" if _WORDS.search(text) else ""
        raise PatternError(f"bad condition {text!r}: it is no expression{where}", hint=hint) from None
    _check(tree, text, 0)
    return tree


def _check(node: ast.AST, text: str, depth: int, loops: int = 0, *, is_argument: bool = False) -> None:
    if depth > MAX_DEPTH:
        raise PatternError(f"the condition {text[:60]!r} nests too deep")
    for problem, hint in _problems(node, is_argument):
        column = getattr(node, "col_offset", 0) + 1
        raise PatternError(f"bad condition {text!r}: {problem} (column {column})", hint=hint)
    loops += len(node.generators) if isinstance(node, COMPREHENSIONS) else 0
    if loops > _MOST_NESTED:
        raise PatternError(f"bad condition {text!r}: it has {loops} `for` in each other; {_MOST_NESTED} is the most")
    arguments = [id(each) for each in node.args] if isinstance(node, ast.Call) else []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _IGNORED):
            argument = id(child) in arguments or isinstance(node, ast.keyword)
            _check(child, text, depth + 1, loops, is_argument=argument)


def _problems(node: ast.AST, is_argument: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with a node itself, and what to write instead; nothing where it is allowed."""
    if isinstance(node, ast.Attribute):
        if node.attr.startswith("_") and not node.attr.startswith("_approval") and node.attr != "__name__":
            yield f"the attribute {node.attr!r} is not allowed", ""
    elif isinstance(node, ast.Call):
        yield from _problems_of_call(node)
    elif isinstance(node, ast.BinOp):
        filtered = _first_name(node.right) if isinstance(node.op, ast.BitOr) else ""
        if filtered in _FILTERS:
            yield f"`| {filtered}` is a filter of templates", f"write {_FILTERS[filtered]}"
        elif type(node.op) not in ARITHMETIC:
            yield "this operator is not allowed", ""
    elif isinstance(node, ast.Lambda):
        plain = node.args.defaults or node.args.kwonlyargs or node.args.vararg or node.args.kwarg
        if not is_argument or plain:
            yield "a lambda is not allowed here", _HINTS[ast.Lambda]
    elif isinstance(node, ast.comprehension) and node.is_async:
        yield "an `async for` is not allowed", ""
    elif not isinstance(node, _ALLOWED):
        yield f"a {type(node).__name__} is not allowed in a condition", _HINTS.get(type(node), "")


def _problems_of_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    function = node.func
    if not isinstance(function, ast.Name | ast.Attribute):
        yield "only functions and methods can be called", ""
    elif isinstance(function, ast.Attribute):
        root = _root(function.value)
        if function.attr not in METHODS:
            hint = "a plugin can register such a condition (`register_condition`)"
            hint = hint if root in _MODULES else _near(function.attr)
            yield f"there is no method {function.attr!r}", hint
        elif root == "re" and function.attr != "escape" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                try:
                    check_pattern(first.value)
                except PatternError as error:
                    yield error.message, error.hint


def _root(node: ast.expr) -> str:
    """The name with which `a.b.c` begins; empty where it begins otherwise."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _first_name(node: ast.expr) -> str:
    """The name with which `name - 1` begins; empty where it begins otherwise."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return node.id if isinstance(node, ast.Name) else ""


def _near(name: str) -> str:
    found = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.75)
    return f"did you mean {found[0]!r}?" if found else ""
