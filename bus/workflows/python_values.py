"""What values can do in conditions of Gobby's workflows: their fields, methods and operators, and functions, with bounds."""

from __future__ import annotations

import ast
import operator
import re
import string
from collections.abc import Callable, Collection, ItemsView, Iterable, KeysView, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from bus.errors import ConditionError
from bus.workflows.python_regexes import RE, RegexMatch, RegexModule, RegexPattern

MOST_SIZE: Final = 1_000_000
"""The most characters or elements of a value that an operator or method makes."""
MOST_ELEMENTS: Final = 10_000
"""The most elements that one comprehension or `range` goes through."""
_MOST_BITS: Final = 8192
"""The most bits of a whole number."""
_MOST_PADDED: Final = re.compile(r"[0-9]{5,}|[*{}]")
"""A format that could make a long text, or takes its width from a value."""
_FIELD: Final = re.compile(r"[A-Za-z0-9_]*")
_PERCENT: Final = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|[0-9]*)(?:\.(\*|[0-9]+))?")


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


_SETS: Final = frozenset(
    {"issubset", "issuperset", "isdisjoint", "union", "intersection", "difference", "symmetric_difference", "copy"}
)
_MAPPINGS: Final = frozenset({"get", "keys", "values", "items"})
_METHODS: Final[tuple[tuple[type, frozenset[str]], ...]] = (
    (
        str,
        frozenset(
            {
                "strip", "lstrip", "rstrip", "startswith", "endswith", "lower", "upper", "split", "rsplit", "splitlines",
                "count", "index", "rindex", "find", "rfind", "replace", "join", "partition", "rpartition",
                "removeprefix", "removesuffix", "title", "capitalize", "casefold", "swapcase",
                "isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "isnumeric", "isdecimal", "istitle",
                "isidentifier", "isascii", "isprintable", "center", "ljust", "rjust", "zfill", "format",
            }
        ),
    ),
    (dict, _MAPPINGS | {"copy"}),
    (NamedFields, _MAPPINGS),
    (list, frozenset({"count", "index", "copy"})),
    (tuple, frozenset({"count", "index"})),
    (set, _SETS),
    (frozenset, _SETS),
    (datetime, frozenset({"isoformat", "timestamp", "weekday", "isoweekday"})),
    (timedelta, frozenset({"total_seconds"})),
    (RegexMatch, frozenset({"group", "groups", "groupdict", "start", "end", "span"})),
    (RegexPattern, frozenset({"search", "match", "fullmatch", "findall", "finditer", "split", "sub"})),
    (
        RegexModule,
        frozenset({"search", "match", "fullmatch", "findall", "finditer", "split", "sub", "compile", "escape"}),
    ),
)  # fmt: skip
METHODS: Final = frozenset(name for _, names in _METHODS for name in names)
"""Every method that a value of some type has."""
_PADDING: Final = frozenset({"center", "ljust", "rjust", "zfill"})
_TIMES: Final = frozenset({"year", "month", "day", "hour", "minute", "second"})
_VIEWS: Final[tuple[type, ...]] = (KeysView, ItemsView)


def method(value: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """The result of a method of a value; raises ConditionError for one that it does not have, or a too large result."""
    allowed = next((names for kind, names in _METHODS if isinstance(value, kind)), frozenset[str]())
    if name not in allowed:
        raise ConditionError(f"a {type(value).__name__} has no method {name!r}")
    if isinstance(value, str):
        if name == "join" and args:
            args = [list(args[0]), *args[1:]]
        elif name == "format":
            return _formatted(value, args, named)
        _check_text(value, name, args)
    return getattr(value, name)(*args, **named)


def _check_text(value: str, name: str, args: list[Any]) -> None:
    size = 0
    if name == "replace" and len(args) >= 2:
        size = len(value) + value.count(str(args[0])) * len(str(args[1]))
    elif name == "join" and args:
        parts = [str(part) for part in args[0]]
        size = len(value) * len(parts) + sum(map(len, parts))
    elif name in _PADDING and args:
        size = int(args[0])
    if size > MOST_SIZE:
        raise ConditionError("the value is too large")


def _formatted(text: str, args: list[Any], named: dict[str, Any]) -> str:
    """`text.format(…)`, whose fields may not reach into values."""
    for _, field, spec, _ in string.Formatter().parse(text):
        if field is not None and not _FIELD.fullmatch(field):
            raise ConditionError(f"a text is formatted with names and numbers alone, not with {field!r}")
        check_spec(spec or "")
    size = len(text) + sum(len(str(each)) for each in (*args, *named.values())) * (text.count("{") + 1)
    if size > MOST_SIZE:
        raise ConditionError("the value is too large")
    return text.format(*map(_plain, args), **{name: _plain(value) for name, value in named.items()})


def check_spec(spec: str) -> None:
    """Raise ConditionError for a format that could make a long text."""
    if _MOST_PADDED.search(spec):
        raise ConditionError(f"the format {spec[:40]!r} is not allowed in a condition")


def with_spec(value: Any, conversion: int, spec: str) -> str:
    """A value in an f-string."""
    check_spec(spec)
    value = _plain(value)
    text = ascii(value) if conversion == ord("a") else repr(value) if conversion == ord("r") else value
    text = str(value) if conversion == ord("s") else text
    return format(text, spec)[:MOST_SIZE]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | list | dict | tuple | set | None) else str(value)


def attribute(value: Any, name: str) -> Any:
    """A field of a value; a mapping's key is one too. Raises ConditionError where there is none."""
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        raise ConditionError(f"there is no {name!r}")
    if isinstance(value, NamedFields):
        return getattr(value, name)
    if isinstance(value, str) and name in {"value", "name"}:  # event types and sources are enums in Gobby
        return str(value) if name == "value" else str(value).upper()
    if isinstance(value, datetime) and name in _TIMES:
        return getattr(value, name)
    if isinstance(value, timedelta) and name in {"days", "seconds"}:
        return getattr(value, name)
    if isinstance(value, type) and name == "__name__":
        return value.__name__
    if isinstance(value, RegexModule) and name in value.FLAGS:
        return value.FLAGS[name]
    raise ConditionError(f"a {type(value).__name__} has no {name!r}")


def is_in(left: Any, right: Any) -> bool:
    """`left in right`. In a set too values count that are equal: a stop is `stop` and `after_agent`."""
    if isinstance(right, set | frozenset) and isinstance(left, str):
        return any(left == each for each in right)
    return left in right


ARITHMETIC: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMBINED: Final = (int, set, frozenset, dict, type, *_VIEWS)
"""The types whose values `&`, `|` and `^` combine."""


def computed(op: type, left: Any, right: Any) -> Any:
    """The result of an operator; raises ConditionError for one that would be too large."""
    if op is ast.Mult:
        _check_product(left, right)
    elif op is ast.Mod and isinstance(left, str):
        return _percent(left, right)
    elif op is ast.Pow:
        bits = left.bit_length() * abs(right) if isinstance(left, int) and isinstance(right, int) else 0
        if bits > _MOST_BITS:
            raise ConditionError("the number is too large")
    elif op is ast.LShift and (not isinstance(right, int) or right > _MOST_BITS):
        raise ConditionError("the number is too large")
    elif op in {ast.BitAnd, ast.BitOr, ast.BitXor} and not isinstance(left, _COMBINED):
        raise ConditionError(f"a {type(left).__name__} has no such operator; write `and` or `or`")
    found = ARITHMETIC[op](left, right)
    if isinstance(found, int) and found.bit_length() > _MOST_BITS:
        raise ConditionError("the number is too large")
    if isinstance(found, str | list | tuple | set | dict) and len(found) > MOST_SIZE:
        raise ConditionError("the value is too large")
    return found


def _check_product(left: Any, right: Any) -> None:
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int) and len(value) * times > MOST_ELEMENTS:
            raise ConditionError("the value is too large")


def _percent(text: str, values: Any) -> str:
    """`text % values`, without widths that make long texts."""
    if any(len(part) > 4 or part == "*" for found in _PERCENT.findall(text) for part in found):
        raise ConditionError("a width in a text with % is not allowed in a condition")
    args = tuple(map(_plain, values)) if isinstance(values, tuple) else _plain(values)
    return (text % args)[:MOST_SIZE]


def _range(*args: int) -> range:
    found = range(*args)
    if len(found) > MOST_ELEMENTS:
        raise ConditionError(f"a range has {MOST_ELEMENTS} elements at most")
    return found


def _round(value: float, digits: int | None = None) -> Any:
    if digits is not None and abs(digits) > 100:
        raise ConditionError("a number is rounded to 100 digits at most")
    return round(value, digits)


def _getattr(value: Any, name: Any, *default: Any) -> Any:
    if not isinstance(name, str) or name.startswith("_"):
        raise ConditionError(f"the attribute {name!r} is not allowed")
    try:
        return attribute(value, name)
    except (ConditionError, AttributeError):
        if default:
            return default[0]
        raise


def _hasattr(value: Any, name: str) -> bool:
    missing = object()
    return _getattr(value, name, missing) is not missing


def _type(value: Any) -> type:
    return type(value)


def _pow(base: Any, exponent: Any) -> Any:
    return computed(ast.Pow, base, exponent)


def _sorted(values: Iterable[Any], *, key: Any = None, reverse: bool = False) -> list[Any]:
    return sorted(values, key=key, reverse=reverse)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        function.__name__: function
        for function in (
            *(len, bool, str, int, float, list, dict, set, frozenset, tuple),
            *(any, all, min, max, sum, abs, zip, enumerate, reversed, map, filter, divmod, chr, ord),
            isinstance,
        )
    },
    "range": _range,
    "round": _round,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "type": _type,
    "pow": _pow,
    "sorted": _sorted,
}
"""The functions of Python that a condition can call."""

NAMES: Final[Mapping[str, Any]] = {"re": RE}
"""The modules of Python that a condition can read."""


def size_of(value: Any) -> int:
    """How many characters or elements a value has; 0 for one that has none."""
    return len(value) if isinstance(value, Collection) else 0
