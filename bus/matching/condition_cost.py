"""What a condition may cost: seen in its text when it is loaded, and in the size of each event.

The library has no cost limit and holds the interpreter's lock while it works (common-expression-language 0.10): a loop looks
at every element, each look at `event` within a loop copies it (0.1 us an element, measured), and loops in loops multiply.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from bus.errors import PatternError

MAX_LOOPS_DEEP: Final = 3
MAX_GROWING_LOOPS: Final = 4
"""Loops in a condition that also adds texts or lists: each loop may double what the one before it made."""
_MAX_LITERAL_ROUNDS: Final = 100_000
CHEAP_MICROSECONDS: Final = 3000.0
"""What a loop that others wait for may work out itself."""

_MOST_COUNTED: Final = 100_000
"""Elements that are counted; more make no difference."""

STRING: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_STRINGS: Final = re.compile(STRING)
_TOKEN: Final = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(|[(\[{)\]},]")
_MATCHES: Final = re.compile(r"\.\s*matches\s*\(\s*(" + STRING + r")?")
_COUNTED: Final = re.compile(r"\{\s*\d{2,}|\{\s*\d*\s*,")


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
        one = left.pop()
        if isinstance(one, str | bytes):
            characters += len(one)
            continue
        if isinstance(one, dict):
            characters += sum(len(key) for key in one if isinstance(key, str))
            parts: Any = one.values()
        elif isinstance(one, list | tuple):
            parts = one
        else:
            continue
        elements += len(parts)
        longest = max(longest, len(parts))
        left.extend(parts)
    return Size(elements, longest, characters)


class Shape(NamedTuple):
    """What a condition's text tells of its cost."""

    depth: int
    """How deep loops nest."""
    literal: int
    """The elements of the longest list that it spells out."""
    matches: bool
    slow_matches: bool
    """A regular expression that is worked out for each event, or counts."""

    def microseconds(self, size: Size) -> float:
        """What it may cost with an event of this size."""
        rounds = float(max(size.longest, self.literal)) ** self.depth if self.depth else 0.0
        each = 1 + size.elements / 10 + size.characters / 1000
        matching = size.characters * (5.0 if self.slow_matches else 0.05) if self.matches else 0.0
        return size.elements * 6 + size.characters / 250 + rounds * each + matching * max(1.0, rounds)


def shape_of(text: str) -> Shape:
    """The shape of a condition; PatternError for one that can be seen to cost too much."""
    plain = _STRINGS.sub("''", text)
    depth = deepest = loops = literal = 0
    commas: list[tuple[bool, int]] = []  # of each open bracket: whether it is a loop's, and its commas so far
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
        raise PatternError(f"the condition goes {literal} to the power of {deepest} times through the lists in it")
    if loops > MAX_GROWING_LOOPS and "+" in plain:
        raise PatternError(
            f"the condition adds in {loops} loops; {MAX_GROWING_LOOPS} is the most where something is added",
            hint="each loop may double what the one before it made",
        )
    patterns = list(_MATCHES.finditer(text))
    slow = any(found[1] is None or _COUNTED.search(found[1]) for found in patterns)
    return Shape(deepest, literal, bool(patterns), slow)
