"""Estimates what a condition may cost, from its text when it is loaded and from the size of each event.

The library has no cost limit and holds the interpreter's lock while it works (common-expression-language 0.10). A loop visits
every element, each use of `event` within a loop copies the event (0.1 us an element, measured), and nested loops multiply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bus.errors import PatternError
from bus.lazy.regex import lazy_regex

MAX_LOOPS_DEEP: Final = 3
MAX_GROWING_LOOPS: Final = 4
"""The most loops in a condition that also concatenates texts or lists: each loop may double the result of the one before."""
_MAX_LITERAL_ROUNDS: Final = 100_000
CHEAP_MICROSECONDS: Final = 3000.0
"""The highest cost that an event loop may compute itself; other callers wait for it."""

_MOST_COUNTED: Final = 100_000
"""The most elements that are counted. Above it, the cost is too high anyway."""

STRING: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_STRINGS: Final = lazy_regex(STRING)
_TOKEN: Final = lazy_regex(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(|[(\[{)\]},]")
_MATCHES: Final = lazy_regex(r"\.\s*matches\s*\(\s*(" + STRING + r")?")
_COUNTED: Final = lazy_regex(r"\{\s*\d{2,}|\{\s*\d*\s*,")


_TEXTS: Final = (str, bytes)
_CONTAINERS: Final = (dict, list, tuple)


class Size(NamedTuple):
    """How large a value is: the elements of all its lists and maps, the longest of these, and the characters of its texts."""

    elements: int
    longest: int
    characters: int


def size_of(value: object) -> Size:
    """The size of an event's facts."""
    elements = longest = characters = 0
    left = [value]
    while left and elements < _MOST_COUNTED:
        value = left.pop()
        parts: Any = (value,)
        if isinstance(value, _CONTAINERS):
            parts = value
            if isinstance(value, dict):
                parts = value.values()
                characters += sum([len(key) for key in value if isinstance(key, str)])
            elements += len(parts)
            longest = max(longest, len(parts))
        for part in parts:
            if isinstance(part, _TEXTS):
                characters += len(part)
            elif isinstance(part, _CONTAINERS):
                left.append(part)
    return Size(elements, longest, characters)


def characters_of(values: Mapping[str, Any]) -> int:
    """The characters of all texts in a tool's input."""
    try:
        return len("".join((*values, *values.values())))  # most inputs have only texts: a tenth of the time (measured)
    except TypeError:
        return size_of(values).characters


class Shape(NamedTuple):
    """The cost factors in a condition's text."""

    depth: int
    """How deep loops are nested."""
    literal: int
    """The number of elements of the longest literal list."""
    matches: bool
    slow_matches: bool
    """Whether it has a regular expression that is computed for each event, or that has a counted repetition."""

    def microseconds(self, size: Size) -> float:
        """What it may cost with an event of this size."""
        rounds = float(max(size.longest, self.literal)) ** self.depth if self.depth else 0.0
        each = 1 + size.elements / 10 + size.characters / 1000
        matching = size.characters * (5.0 if self.slow_matches else 0.05) if self.matches else 0.0
        return size.elements * 6 + size.characters / 250 + rounds * each + matching * max(1.0, rounds)


def shape_of(text: str) -> Shape:
    """The shape of a condition; PatternError if its text shows that it costs too much."""
    plain = _STRINGS.sub("''", text)
    depth = deepest = loops = literal = 0
    commas: list[tuple[bool, int]] = []  # of each open bracket: whether it belongs to a loop, and its commas so far
    for match in _TOKEN.finditer(plain):
        sign = match[0]
        if sign[-1] in "([{":
            loop = len(sign) > 1
            loops += loop
            depth += loop
            deepest = max(deepest, depth)
            commas.append((loop, 0))
        elif sign == "," and commas:
            commas[-1] = (commas[-1][0], commas[-1][1] + 1)
        elif sign != "," and commas:
            loop, count = commas.pop()
            depth -= loop
            literal = max(literal, count + 1 if count and not loop else 0)
    if deepest > MAX_LOOPS_DEEP:
        raise PatternError(
            f"the condition nests {deepest} loops; {MAX_LOOPS_DEEP} is the most",
            hint="all, exists, exists_one, map and filter within one another multiply what they cost",
        )
    if deepest and float(literal) ** deepest > _MAX_LITERAL_ROUNDS:
        raise PatternError(f"the nested loops of the condition run {literal}^{deepest} times; that takes too long")
    if loops > MAX_GROWING_LOOPS and "+" in plain:
        raise PatternError(
            f"the condition has {loops} loops and concatenates; {MAX_GROWING_LOOPS} loops is the most with `+`",
            hint="each loop may double the result of the one before",
        )
    patterns = list(_MATCHES.finditer(text))
    slow = any(found[1] is None or _COUNTED.search(found[1]) for found in patterns)
    return Shape(deepest, literal, bool(patterns), slow)
