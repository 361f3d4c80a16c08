"""Which hooks fit an event: event patterns (F-04), tool matchers, and an index whose cost grows with matches only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from bus.errors import PatternError
from bus.events import SOURCES, Event, EventType
from bus.regexes import Regex, compile_regex
from bus.tools import tool_names

_TYPES: Final = frozenset(kind.value for kind in EventType)
_NAMES: Final = re.compile(r"[A-Za-z0-9_ ,|-]*")
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.*?\[\]!:-]+")


class Pattern(NamedTuple):
    """One event pattern: the type part, and the tool part of `tool:pre_execute:bash` (empty: any tool)."""

    type: str
    tool: str

    @property
    def exact(self) -> bool:
        """Whether the type part names one type and is no glob."""
        return not any(sign in self.type for sign in "*?[")


@lru_cache(4096)
def parse_pattern(text: str) -> tuple[Pattern, ...]:
    """The patterns in `tool:pre_execute`, `tool:*`, `tool:*:write`, `a,b` or `*`; raises PatternError (F-04, F-18)."""
    patterns = tuple(_parse_one(part.strip()) for part in text.split(","))
    if not patterns:
        raise PatternError("the event pattern is empty")
    return patterns


def _parse_one(text: str) -> Pattern:
    if not text or not _PATTERN.fullmatch(text):
        raise PatternError(f"event pattern {text!r} is not a pattern", hint="write e.g. tool:pre_execute, tool:* or *")
    if text == "*":
        return Pattern("*", "")
    parts = text.split(":")
    if any(not part for part in parts):
        raise PatternError(f"event pattern {text!r} has an empty part")
    kind, tool = ":".join(parts[:2]), ":".join(parts[2:])
    pattern = Pattern(kind, "" if tool == "*" else tool)
    known = kind in _TYPES or (len(parts) > 1 and parts[0] in SOURCES)
    if not known and pattern.exact:
        near = difflib.get_close_matches(kind, _TYPES, 1)
        raise PatternError(
            f"no event type is called {kind!r}",
            hint=f"did you mean {near[0]!r}?" if near else "an agent's own event is written <agent>:<its name>",
        )
    if not pattern.exact and not known and not any(_glob(kind)(one) for one in _TYPES) and parts[0] not in SOURCES:
        raise PatternError(f"event pattern {text!r} fits no event type", hint="write e.g. tool:* or *")
    return pattern


def check_pattern(text: str) -> None:
    """Raise PatternError where `text` is not an event pattern."""
    parse_pattern(text)


def check_tool(text: str) -> None:
    """Raise PatternError where `text` is not a tool matcher."""
    parse_tool(text)


class ToolMatcher(NamedTuple):
    """A compiled tool matcher: exact names (case-folded), or one regular expression, or neither for every tool."""

    names: frozenset[str]
    regex: Regex | None

    @property
    def matches_all(self) -> bool:
        """Whether every tool fits, and an event without one."""
        return self.regex is None and not self.names

    def __call__(self, names: Iterable[str]) -> bool:
        """Whether any of a tool's names fits."""
        if self.regex is not None:
            return any(self.regex.search(name) for name in names)
        return self.matches_all or any(name.casefold() in self.names for name in names)


@lru_cache(4096)
def parse_tool(text: str) -> ToolMatcher:
    """The matcher in `bash`, `bash|write` or a regular expression; empty and `*` match all; raises PatternError."""
    if text in {"", "*"}:
        return ToolMatcher(frozenset(), None)
    if _NAMES.fullmatch(text):
        names = frozenset(name.strip().casefold() for name in re.split(r"[|,]", text) if name.strip())
        if not names:
            raise PatternError(f"tool matcher {text!r} names no tool")
        return ToolMatcher(names, None)
    return ToolMatcher(frozenset(), compile_regex(text, allow_backtracking=True))


@lru_cache(1024)
def _glob(text: str) -> Callable[[str], object]:
    return re.compile(translate(text)).match


class Matchable(Protocol):
    """What the index holds: hooks and endpoints."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def tool(self) -> str:
        """Its tool matcher."""
        ...


_M = TypeVar("_M", bound=Matchable)


class _Bucket(Generic[_M]):
    """The entries of one event type: by exact tool name, by regular expression, and for any tool."""

    __slots__ = ("any_tool", "by_name", "by_regex")

    def __init__(self) -> None:
        self.any_tool: list[tuple[int, _M]] = []
        self.by_name: dict[str, list[tuple[int, _M]]] = {}
        self.by_regex: list[tuple[list[ToolMatcher], int, _M]] = []

    def add(self, place: int, entry: _M, tool: str) -> None:
        asked = [matcher for matcher in (parse_tool(tool), parse_tool(entry.tool)) if not matcher.matches_all]
        if not asked:
            self.any_tool.append((place, entry))
        elif all(matcher.regex is None for matcher in asked):
            for name in frozenset.intersection(*(matcher.names for matcher in asked)):
                self.by_name.setdefault(name, []).append((place, entry))
        else:
            self.by_regex.append((asked, place, entry))

    def find(self, names: Sequence[str], found: dict[int, _M]) -> None:
        found.update(self.any_tool)
        for name in names:
            found.update(self.by_name.get(name.casefold(), ()))
        for matchers, place, entry in self.by_regex:
            if place not in found and all(matcher(names) for matcher in matchers):
                found[place] = entry


class Index(Generic[_M]):
    """Finds the entries whose patterns and tool matcher fit an event, in the order in which they were given.

    A look-up costs what matches (F-05): exact types and tools are dictionary look-ups, and what globs and regular
    expressions say about a (type, tool) is remembered, so 10,000 other hooks cost nothing.
    """

    _REMEMBER: Final = 4096

    def __init__(self, entries: Sequence[tuple[_M, Sequence[str]]]) -> None:
        self._exact: dict[str, _Bucket[_M]] = {}
        self._globs: list[tuple[Pattern, int, _M]] = []
        self._resolved: dict[str, tuple[_Bucket[_M], ...]] = {}
        self._found: dict[tuple[str, str, str, str, str], tuple[_M, ...]] = {}
        for place, (entry, patterns) in enumerate(entries):
            for text in patterns:
                for pattern in parse_pattern(text):
                    if pattern.exact:
                        self._exact.setdefault(pattern.type, _Bucket()).add(place, entry, pattern.tool)
                    else:
                        self._globs.append((pattern, place, entry))

    def find(self, event: Event) -> tuple[_M, ...]:
        """The entries that fit `event`; their `when:` is not looked at here."""
        key = (event.type, event.source, event.native, event.tool, event.native_tool)
        known = self._found.get(key)
        if known is None:
            known = self._search(event)
            if len(self._found) >= self._REMEMBER:  # agents choose tool names; nobody chooses our memory
                self._found.clear()
            self._found[key] = known
        return known

    def _search(self, event: Event) -> tuple[_M, ...]:
        names = tool_names(event.tool, event.native_tool)
        found: dict[int, _M] = {}
        for kind in dict.fromkeys((event.type, f"{event.source}:{event.native}")):
            for bucket in self._buckets(kind):
                bucket.find(names, found)
        return tuple(found[place] for place in sorted(found))

    def _buckets(self, kind: str) -> tuple[_Bucket[_M], ...]:
        known = self._resolved.get(kind)
        if known is None:
            globbed: _Bucket[_M] = _Bucket()
            for pattern, place, entry in self._globs:
                if pattern.type == "*" or _glob(pattern.type)(kind):
                    globbed.add(place, entry, pattern.tool)
            exact = self._exact.get(kind)
            known = (globbed,) if exact is None else (exact, globbed)
            if len(self._resolved) >= self._REMEMBER:
                self._resolved.clear()
            self._resolved[kind] = known
        return known
