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
MAX_GROWTH: Final = 256
"""How many times as large as its event a value of a condition may be."""
_MAX_LITERAL_ROUNDS: Final = 100_000
CHEAP_MICROSECONDS: Final = 3000.0
"""The highest cost that an event loop may compute itself; other callers wait for it."""

_MOST_COUNTED: Final = 100_000
"""The most elements that are counted. Above it, the cost is too high anyway."""

STRING: Final = r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_TOKEN: Final = lazy_regex(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(|[(\[{)\]},]")
_MATCHES: Final = lazy_regex(r"\.\s*matches\s*\((?:\s*(" + STRING + r")\s*\))?")
_COUNTED: Final = lazy_regex(r"\{\s*\d{2,}|\{\s*\d*\s*,")
_COUNT: Final = lazy_regex(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}")
_COMPUTED_PATTERN: Final = 5000.0
"""The microseconds that are counted for compiling a pattern that only the event tells."""

LOOPS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_PART: Final = lazy_regex(
    r"""(?s)\s+|//[^\n]*|(?P<string>[bB]?(?:[rR](?:'''.*?'''|\"\"\".*?\"\"\"|'[^']*'|"[^"]*")"""
    r"""|'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<sign>.)"""
)
_SMALL: Final = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "size", "has", "int", "uint", "double", "type"}
)
"""Functions with a small result, whatever they are given."""
_NO_VALUES: Final = frozenset({"true", "false", "null", "in"})
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_LITERAL: Final = 0.02
"""The size of a text or number in the condition itself, which is short."""
_ENDLESS: Final = 1e30
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


class Growth(NamedTuple):
    """How many times as large as the event the values of a condition may be."""

    values: float
    """Any value."""
    lists: float
    """Any list that a loop visits."""
    uses: tuple[tuple[int, bool], ...]
    """For each use of a variable: the number of loops around it, and whether it is the variable of a loop."""
    collected: tuple[tuple[int, int], ...]
    """For each `map` and `filter`: the number of loops around it, and of the uses in it of variables that are not a loop's."""


class Shape(NamedTuple):
    """The cost factors in a condition's text."""

    depth: int
    """How deep loops are nested."""
    literal: int
    """The number of elements of the longest literal list."""
    matches: int
    """The number of its matches of a regular expression."""
    slow_matches: bool
    """Whether it has a regular expression that is computed for each event, or that has a counted repetition."""
    patterns: float
    """The microseconds that compiling its regular expressions takes, which the library does at each match."""
    growth: Growth

    def microseconds(self, size: Size) -> float:
        """What it may cost with an event of this size."""
        longest = max(size.longest, self.literal, 1) * self.growth.lists
        rounds = longest**self.depth if self.depth else 0.0
        copy = (size.elements / 10 + size.characters / 1000) * self.growth.values
        uses = rounds
        for depth, of_loop in self.growth.uses:  # all elements of a list together are as large as the list
            uses += longest**depth + copy * longest ** (depth - 1 if of_loop else depth)
        for depth, used in self.growth.collected:  # the library copies the list at each element that it adds
            uses += longest ** (depth + 2) / 20 * (1 + used * size.elements * self.growth.values)
        matching = (
            self.patterns + size.characters * (5.0 if self.slow_matches else 0.05) * self.growth.values * self.matches
        )
        return size.elements * 6 + size.characters / 250 + uses + matching * max(1.0, rounds)


def shape_of(text: str) -> Shape:
    """The shape of a condition; PatternError if its text shows that it costs too much."""
    tokens = tokens_of(text)
    plain = " ".join(tokens)
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
    growth = growth_of(tokens)
    if deepest and growth.values > MAX_GROWTH:
        raise PatternError(
            f"a value of the condition may become {growth.values:.0f} times as large as the event; {MAX_GROWTH} is the most",
            hint="each loop multiplies it by the uses of the loop's variable in it",
        )
    patterns = list(_MATCHES.finditer(text))
    slow = any(found[1] is None or _COUNTED.search(found[1]) for found in patterns)
    compiling = sum(_COMPUTED_PATTERN if found[1] is None else _compiling(found[1]) for found in patterns)
    return Shape(deepest, literal, len(patterns), slow, compiling, growth)


def _compiling(pattern: str) -> float:
    """The microseconds that compiling a pattern takes: counts within one another multiply it, 0.3 for each (measured)."""
    counted = 1.0
    for low, high in _COUNT.findall(pattern):
        counted = min(counted * max(1, int((high or low)[:6])), 1e9)
    return counted * 0.3


def tokens_of(text: str) -> list[str]:
    """The names, numbers, signs and strings of a condition, without comments; each string is `''`."""
    return [
        "''" if match["string"] is not None else match[0]
        for match in _PART.finditer(text)
        if match.lastgroup is not None
    ]


def growth_of(tokens: list[str]) -> Growth:
    """The growth of a condition with these tokens; a text that is no CEL gives some growth, and never an error."""
    reader = _Reader(tokens)
    while reader.place < len(tokens):  # more than once only where brackets do not fit
        reader.sum({}, 0)
        reader.place += 1
    return Growth(reader.most, reader.longest, tuple(reader.uses), tuple(reader.collected))


class _Reader:
    """Reads the tokens of a condition once, from left to right. `place` is the index of the next one."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.place = tokens, 0
        self.most = self.longest = 1.0
        self.uses: list[tuple[int, bool]] = []
        self.collected: list[tuple[int, int]] = []

    def sum(self, loops: Mapping[str, float], depth: int) -> float:
        """The size of everything up to the bracket that closes, which is the next part then."""
        size = 0.0
        while (part := self.peek()) and part not in ")]}":
            size += self.value(loops, depth)
        self.most = min(max(self.most, size), _ENDLESS)
        return min(size, _ENDLESS)

    def value(self, loops: Mapping[str, float], depth: int) -> float:
        """The size of one operand with its fields, calls and loops; none for an operator."""
        part = self.take()
        size = 0.0
        if part in _CLOSING:
            size = self.inside(loops, depth)
        elif part[0].isalpha() or part[0] == "_":
            if self.peek() == "(":
                self.take()
                size = self.inside(loops, depth) * (part not in _SMALL)
            elif part not in _NO_VALUES:
                self.uses.append((depth, part in loops))
                size = loops.get(part, 1.0)
        elif part == "''" or part[0].isdigit():
            size = _LITERAL
        else:
            return 0.0
        while (sign := self.peek()) and sign in ".[?":
            if sign == "?" and self.peek(1) != ".":  # `a ? b : c`
                break
            self.take()
            if sign == "[":
                self.inside(loops, depth)
            elif sign == ".":
                size = self.field(size, loops, depth)
        return size

    def field(self, size: float, loops: Mapping[str, float], depth: int) -> float:
        """The size of `.name` or `.name(…)` of a value."""
        name = self.take().strip("?`")
        if self.peek() != "(":
            return size
        self.take()
        if name not in LOOPS:
            return (size + self.inside(loops, depth)) * (name not in _SMALL)
        self.longest = max(self.longest, size)
        variable, before = self.take(), len(self.uses)
        body = self.inside({**loops, variable: max(1.0, size)}, depth + 1)
        if name in ("map", "filter"):
            self.collected.append((depth, sum(not of_loop for _, of_loop in self.uses[before:])))
        return body if name == "map" else size if name == "filter" else 0.0

    def inside(self, loops: Mapping[str, float], depth: int) -> float:
        """The size of what is in brackets; the closing one is read."""
        size = self.sum(loops, depth)
        self.take()
        return size

    def peek(self, further: int = 0) -> str:
        place = self.place + further
        return self.tokens[place] if place < len(self.tokens) else ""

    def take(self) -> str:
        part = self.peek()
        self.place += 1
        return part or " "
