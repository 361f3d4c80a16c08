"""What the operators of `${x…}` make of a known value: `${x%/}`, `${x##*/}`, `${x/a/b}`, `${x:1}`, `${x^^}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from typing import Final

_LONGEST: Final = 1024
"""Characters of a value and of a pattern; longer ones are not worked out."""
OPERATORS: Final = frozenset({"#", "##", "%", "%%", "/", "//", "/#", "/%", ":", "^", "^^", ",", ",,"})


def apply_operator(value: str, operator: str, operands: Sequence[str]) -> str | None:
    """The value with the operator applied; None where that cannot be told."""
    first = operands[0] if operands else ""
    if len(value) > _LONGEST or len(first) > 64 or first.count("*") > 4:
        return None
    if operator in ("^", "^^", ",", ",,"):
        change = str.upper if operator[0] == "^" else str.lower
        return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
    if operator == ":":
        return _part(value, operands)
    if operator in ("%", "%%") and value in ("~", ".") and first.startswith("/"):
        return value if first == "/" else f"{value}/.."  # these stand for a path with a parent
    try:
        regex = re.compile(translate(first).replace(r"\Z", "").replace(r"\z", ""), re.DOTALL)
    except re.error:
        return None
    if operator in ("#", "##"):
        places = range(len(value) + 1) if operator == "#" else range(len(value), -1, -1)
        end = next((place for place in places if regex.fullmatch(value, 0, place)), 0)
        return value[end:]
    if operator in ("%", "%%"):
        places = range(len(value), -1, -1) if operator == "%" else range(len(value) + 1)
        start = next((place for place in places if regex.fullmatch(value, place)), len(value))
        return value[:start]
    if not first:
        return value
    replacement = operands[1] if len(operands) > 1 else ""
    return regex.sub(lambda _: replacement, value, count=0 if operator == "//" else 1)


def _part(value: str, operands: Sequence[str]) -> str | None:
    try:
        numbers = [int(operand.strip()) for operand in operands[:2]]
    except ValueError:
        return None
    start = numbers[0] if numbers else 0
    rest = value[start:]
    return rest if len(numbers) < 2 else rest[: numbers[1]]
