"""`re` as conditions of Gobby's workflows have it: Python's functions over RE2, so that no pattern takes long.

RE2 has no look-around and no back-references: a pattern with one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bus.errors import ConditionError
from bus.matching.regexes import compile_groups, compile_regex

_LETTERS: Final[Mapping[int, str]] = {int(re.IGNORECASE): "i", int(re.MULTILINE): "m", int(re.DOTALL): "s"}
_MOST_FOUND: Final = 10_000
"""The most places in a text that `findall`, `sub` and `split` go through."""
_MOST_SIZE: Final = 1_000_000


class RegexMatch:
    """A place where a pattern fits."""

    __slots__ = ("_found",)

    def __init__(self, found: Any) -> None:
        self._found = found

    def group(self, *groups: int | str) -> Any:
        """The text of a group, or of several."""
        return self._found.group(*groups)

    def groups(self, default: Any = None) -> tuple[Any, ...]:
        """The texts of all groups."""
        return tuple(self._found.groups(default))

    def groupdict(self, default: Any = None) -> dict[str, Any]:
        """The texts of the groups with a name."""
        return dict(self._found.groupdict(default))

    def start(self, group: int = 0) -> int:
        """Where it begins."""
        return int(self._found.start(group))

    def end(self, group: int = 0) -> int:
        """Where it ends."""
        return int(self._found.end(group))

    def span(self, group: int = 0) -> tuple[int, int]:
        """Where it begins and ends."""
        return self.start(group), self.end(group)

    def __getitem__(self, group: int | str) -> Any:
        return self._found.group(group)


class RegexPattern:
    """A compiled pattern."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def search(self, text: str) -> RegexMatch | None:
        """The first place where it fits."""
        return _match(self._compiled.search(text))

    def match(self, text: str) -> RegexMatch | None:
        """Whether a text begins with it."""
        return _match(self._compiled.match(text))

    def fullmatch(self, text: str) -> RegexMatch | None:
        """Whether it is the whole text."""
        return _match(self._compiled.fullmatch(text))

    def findall(self, text: str) -> list[Any]:
        """The texts where it fits, or their groups."""
        found = [place.groups() or place.group() for place in self._places(text)]
        return [each[0] if isinstance(each, tuple) and len(each) == 1 else each for each in found]

    def finditer(self, text: str) -> list[RegexMatch]:
        """The places where it fits."""
        return [RegexMatch(place) for place in self._places(text)]

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """The parts of a text between the places where it fits."""
        parts, at = [], 0
        for number, place in enumerate(self._places(text)):
            if maxsplit and number >= maxsplit:
                break
            parts += [text[at : place.start()], *place.groups()]
            at = place.end()
        return [*parts, text[at:]]

    def sub(self, replacement: str, text: str, count: int = 0) -> str:
        """The text with each place where it fits replaced by a text, in which `\\1` is a group."""
        parts, at, size = [], 0, len(text)
        for number, place in enumerate(self._places(text)):
            if count and number >= count:
                break
            new = _with_groups(replacement, place)
            size += len(new)
            if size > _MOST_SIZE:
                raise ConditionError("the value is too large")
            parts += [text[at : place.start()], new]
            at = place.end()
        return "".join([*parts, text[at:]])

    def _places(self, text: str) -> list[Any]:
        found = []
        for number, place in enumerate(self._compiled.finditer(text)):
            if number >= _MOST_FOUND:
                raise ConditionError(f"a pattern is found {_MOST_FOUND} times at most")
            found.append(place)
        return found


_GROUP: Final = re.compile(r"\\(?:g<([0-9]{1,2})>|([0-9]))")


def _with_groups(replacement: str, place: Any) -> str:
    return _GROUP.sub(lambda each: str(place.group(int(each[1] or each[2])) or ""), replacement)


def _match(found: Any) -> RegexMatch | None:
    return None if found is None else RegexMatch(found)


class RegexModule:
    """The functions and flags of Python's `re`."""

    __slots__ = ()

    FLAGS: Final[Mapping[str, int]] = {
        name: int(getattr(re, name)) for name in ("IGNORECASE", "I", "MULTILINE", "M", "DOTALL", "S")
    }

    def compile(self, pattern: str | RegexPattern, flags: int = 0) -> RegexPattern:
        """A compiled pattern; raises PatternError for one that RE2 cannot take."""
        return pattern if isinstance(pattern, RegexPattern) else _compiled(str(pattern), flags)

    def search(self, pattern: str | RegexPattern, text: str, flags: int = 0) -> RegexMatch | None:
        """As `re.search`."""
        return self.compile(pattern, flags).search(text)

    def match(self, pattern: str | RegexPattern, text: str, flags: int = 0) -> RegexMatch | None:
        """As `re.match`."""
        return self.compile(pattern, flags).match(text)

    def fullmatch(self, pattern: str | RegexPattern, text: str, flags: int = 0) -> RegexMatch | None:
        """As `re.fullmatch`."""
        return self.compile(pattern, flags).fullmatch(text)

    def findall(self, pattern: str | RegexPattern, text: str, flags: int = 0) -> list[Any]:
        """As `re.findall`."""
        return self.compile(pattern, flags).findall(text)

    def finditer(self, pattern: str | RegexPattern, text: str, flags: int = 0) -> list[RegexMatch]:
        """As `re.finditer`."""
        return self.compile(pattern, flags).finditer(text)

    def split(self, pattern: str | RegexPattern, text: str, maxsplit: int = 0, flags: int = 0) -> list[str]:
        """As `re.split`."""
        return self.compile(pattern, flags).split(text, maxsplit)

    def sub(self, pattern: str | RegexPattern, replacement: str, text: str, count: int = 0, flags: int = 0) -> str:
        """As `re.sub`, with a text as replacement."""
        return self.compile(pattern, flags).sub(replacement, text, count)

    def escape(self, text: str) -> str:
        """As `re.escape`."""
        return re.escape(text)


def check_pattern(pattern: str) -> None:
    """Raise PatternError for a pattern that RE2 cannot take."""
    compile_regex(pattern)


def _compiled(pattern: str, flags: int) -> RegexPattern:
    letters = "".join(letter for flag, letter in _LETTERS.items() if flags & flag)
    return RegexPattern(compile_groups(f"(?{letters}){pattern}" if letters else pattern))


RE: Final = RegexModule()
