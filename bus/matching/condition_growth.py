"""Estimates how much larger than its event a condition's values may become, from the text of the condition.

`[x].map(a, a + a).map(a, a + a)` doubles its value at each step, so a short text may fill the memory. The estimate adds up
what `+`, lists and maps hold, and follows the variables of loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bus.lazy.regex import lazy_regex

LOOPS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_TOKEN: Final = lazy_regex(
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


class Growth(NamedTuple):
    """By how much the values of a condition may be larger than the event that they are made of."""

    values: float
    """Any value."""
    lists: float
    """Any list that a loop visits."""
    uses: tuple[tuple[int, bool], ...]
    """Of each use of a variable: within how many loops it is, and whether it is the variable of a loop."""
    collected: tuple[tuple[int, int], ...]
    """Of each `map` and `filter`: within how many loops it is, and the uses of other variables than a loop's in it."""


def tokens_of(text: str) -> list[str]:
    """The names, numbers, signs and strings of a condition, without comments; each string is `''`."""
    return [
        "''" if match["string"] is not None else match[0]
        for match in _TOKEN.finditer(text)
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
    """Reads the tokens once from the left; `place` is the next one."""

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
