"""Finds the hooks that fit an event: event patterns (F-04), tool matchers, and an index whose cost grows with matches only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from bus.errors import PatternError
from bus.events import SOURCES, Event, EventType, source_name
from bus.lazy.regex import lazy_regex
from bus.matching.regexes import Regex, compile_regex
from bus.tool_inference import infer
from bus.tool_names import CANONICAL
from bus.tools import tool_names

_TYPES: Final = frozenset(kind.value for kind in EventType)
_FAMILIES: Final = frozenset(kind.partition(":")[0] for kind in _TYPES)
_AGENT: Final = lazy_regex(r"[a-z0-9][a-z0-9_.-]{0,31}")
_NAMES: Final = lazy_regex(r"[A-Za-z0-9_ ,|-]*")
_PATTERN: Final = lazy_regex(r"[A-Za-z0-9_.*?\[\]!:-]+")

_SET: Final = lazy_regex(r"\[(?:![^\[\]]+|[^\[\]!][^\[\]]*)\]")
"""A set of characters in a glob."""


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
    """The patterns in `tool:pre_execute`, `tool:*`, `tool:*:write`, `a,b` or `*`; raises PatternError (F-04, F-18).

    Types of agents without a dialect (`acme:deploy`) are accepted, unless they look like a typing mistake.
    """
    return tuple(_parse_one(part.strip()) for part in text.split(","))


def _parse_one(text: str) -> Pattern:
    if not text or not _PATTERN.fullmatch(text):
        raise PatternError(f"event pattern {text!r} is not a pattern", hint="write e.g. tool:pre_execute, tool:* or *")
    if any(sign in _SET.sub("", text) for sign in "[]"):
        hint = "a set is written [a-z]; without brackets the name is taken as it is"
        raise PatternError(f"event pattern {text!r} has a bracket that is not closed", hint=hint)
    if text == "*":
        return Pattern("*", "")
    parts = text.split(":")
    if any(not part for part in parts):
        raise PatternError(f"event pattern {text!r} has an empty part")
    kind, tool = ":".join(parts[:2]), ":".join(parts[2:])
    if len(parts) > 1 and source_name(parts[0]) in SOURCES:
        return Pattern(f"{source_name(parts[0])}:{parts[1]}", _any_as_empty(tool))
    pattern = Pattern(kind, _any_as_empty(tool))
    if kind in _TYPES or (len(parts) > 1 and _is_other_agent(parts[0]) and not _near(kind)):
        return pattern
    if pattern.exact:
        near = _near(kind, 0.6)
        raise PatternError(
            f"no event type is called {kind!r}",
            hint=f"did you mean {near!r}?" if near else "an agent's own event is written <agent>:<its name>",
        )
    if not any(_glob(kind)(type_) for type_ in _TYPES):
        raise PatternError(f"event pattern {text!r} fits no event type", hint="write e.g. tool:* or *")
    return pattern


def _any_as_empty(tool: str) -> str:
    return "" if tool == "*" else tool


def _near(kind: str, least: float = 0.75) -> str:
    return next(iter(difflib.get_close_matches(kind, _TYPES, 1, least)), "")


def _is_other_agent(name: str) -> bool:
    """Whether an event type may begin with the unknown name `name`: it does not look like a mistyped known one."""
    return _AGENT.fullmatch(name) is not None and not difflib.get_close_matches(name, {*_FAMILIES, *SOURCES}, 1, 0.8)


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
        """Whether it fits every tool, and events without a tool."""
        return self.regex is None and not self.names

    def __call__(self, names: Iterable[str]) -> bool:
        """Whether any of a tool's names fits."""
        if self.regex is not None:
            return any(self.regex.search(name) for name in names)
        return self.matches_all or any(name.casefold() in self.names for name in names)


@lru_cache(4096)
def parse_tool(text: str) -> ToolMatcher:
    """The matcher for `bash`, `bash|write` or a regular expression; empty and `*` match all; raises PatternError."""
    if text in {"", "*"}:
        return ToolMatcher(frozenset(), None)
    if _NAMES.fullmatch(text):
        names = frozenset(name.strip().casefold() for name in re.split(r"[|,]", text) if name.strip())
        if not names:
            raise PatternError(f"tool matcher {text!r} names no tool")
        return ToolMatcher(names, None)
    return ToolMatcher(frozenset(), compile_regex(text, allow_backtracking=True))


@lru_cache(4096)
def _tool_part(text: str) -> ToolMatcher:
    """The tool part of a pattern: one name, or a glob as in the rest of the pattern (`tool:*:mcp__*`)."""
    if not any(sign in text for sign in "*?["):
        return ToolMatcher(frozenset({text.casefold()} if text else ()), None)
    return ToolMatcher(frozenset(), re.compile(rf"\A{translate(text)}", re.IGNORECASE))


@lru_cache(1024)
def _glob(text: str) -> Callable[[str], object]:
    return re.compile(translate(text)).match


class Matchable(Protocol):
    """An entry of the index: a hook or an endpoint."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def tool(self) -> str:
        """Its tool matcher."""
        ...


_M = TypeVar("_M", bound=Matchable)


class _Place(NamedTuple, Generic[_M]):
    """One entry under one of its patterns: its position in the order, and further matchers that its tool has to fit."""

    place: int
    entry: _M
    others: tuple[ToolMatcher, ...]


class _Bucket(Generic[_M]):
    """The entries of one event type: by exact tool name, by regular expression, and for any tool."""

    __slots__ = ("_any_tool", "_by_name", "_by_regex")

    def __init__(self) -> None:
        self._any_tool: list[_Place[_M]] = []
        self._by_name: dict[str, list[_Place[_M]]] = {}
        self._by_regex: list[_Place[_M]] = []

    def add(self, place: int, entry: _M, tool: str) -> None:
        """Add `entry` for an event type; `tool` is the tool part of its pattern."""
        asked = [matcher for matcher in (_tool_part(tool), parse_tool(entry.tool)) if not matcher.matches_all]
        named = next((matcher for matcher in asked if matcher.regex is None), None)
        if named is not None:
            others = tuple(matcher for matcher in asked if matcher is not named)
            for name in named.names:
                self._by_name.setdefault(name, []).append(_Place(place, entry, others))
        else:
            (self._by_regex if asked else self._any_tool).append(_Place(place, entry, tuple(asked)))

    def find(self, names: Sequence[str], found: dict[int, _M]) -> None:
        """Add to `found` the entries that fit a tool of these names."""
        for place in self._any_tool:
            found[place.place] = place.entry
        for name in names:
            self._fitting(self._by_name.get(name.casefold(), ()), names, found)
        self._fitting(self._by_regex, names, found)

    @staticmethod
    def _fitting(places: Iterable[_Place[_M]], names: Sequence[str], found: dict[int, _M]) -> None:
        for place in places:
            if place.place not in found and all(matcher(names) for matcher in place.others):
                found[place.place] = place.entry


_LAST_NAMES: Final[list[tuple[Event, tuple[str, ...]]]] = []
"""The last event, and the further tool names of its call."""


def _further_names(event: Event) -> tuple[str, ...]:
    """The inferred tool names of an event's call; inferred once (100 microseconds), though several indexes need them."""
    if event.tool in CANONICAL:
        return infer(event.tool, event.input).tools  # at once: such a tool does nothing else, or applies a patch
    for known, names in _LAST_NAMES:
        if known is event:
            return names
    names = infer(event.tool, event.input).tools
    _LAST_NAMES[:] = [(event, names)]
    return names


class Index(Generic[_M]):
    """Finds the entries whose patterns and tool matcher fit an event, in the order in which they were given.

    The cost of a look-up grows with the matches only (F-05): exact types and tools are dictionary look-ups, and the matches
    of globs and regular expressions for a (type, tool) are remembered. So 10,000 other hooks cost nothing.
    """

    _REMEMBER: Final = 4096

    def __init__(self, entries: Iterable[tuple[_M, Sequence[str]]] = ()) -> None:
        self._exact: dict[str, _Bucket[_M]] = {}
        self._globs: list[tuple[Pattern, int, _M]] = []
        self._resolved: dict[str, tuple[_Bucket[_M], ...]] = {}
        self._found: dict[tuple[str, str, str, str, str, tuple[str, ...]], tuple[_M, ...]] = {}
        self._together: dict[tuple[int, ...], tuple[_M, ...]] = {}
        """Entries that were found together, by their positions. Hundreds of tools have the same ones, and share one tuple."""
        self._places = 0
        for entry, patterns in entries:
            self.add(entry, patterns)

    def add(self, entry: _M, patterns: Sequence[str]) -> None:
        """Add one entry after all others; raises PatternError, and then nothing is changed."""
        parsed = [pattern for text in patterns for pattern in parse_pattern(text)]
        parse_tool(entry.tool)
        place, self._places = self._places, self._places + 1
        for pattern in parsed:
            if pattern.exact:
                self._exact.setdefault(pattern.type, _Bucket()).add(place, entry, pattern.tool)
            else:
                self._globs.append((pattern, place, entry))
        self._resolved.clear()
        self._found.clear()

    def find(self, event: Event) -> tuple[_M, ...]:
        """The entries that fit `event`; their `when:` is not checked here."""
        further = _further_names(event)
        key = (event.type, event.source, event.native, event.tool, event.native_tool, further)
        known = self._found.get(key)
        if known is None:
            known = self._search(event, further)
            if len(self._found) >= self._REMEMBER:  # a limit, because agents may choose any number of tool names
                self._found.clear()
            self._found[key] = known
        return known

    def _search(self, event: Event, further: tuple[str, ...]) -> tuple[_M, ...]:
        names = tuple(dict.fromkeys((*tool_names(event.tool, event.native_tool), *further)))
        found: dict[int, _M] = {}
        for kind in dict.fromkeys((event.type, f"{event.source}:{event.native}")):
            for bucket in self._buckets(kind):
                bucket.find(names, found)
        places = tuple(sorted(found))
        known = self._together.get(places)
        if known is None:
            if len(self._together) >= self._REMEMBER:
                self._together.clear()
            known = self._together[places] = tuple(found[place] for place in places)
        return known

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
