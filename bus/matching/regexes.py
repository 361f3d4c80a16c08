"""Compiles regular expressions from files so that they take linear time and print nothing when they are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Protocol

from bus.errors import PatternError
from bus.lazy.regex import lazy_regex

MAX_PATTERN = 2000
"""The most characters of a pattern. Longer ones are generated, and belong into a hook's program."""


_SIGNS: Final = lazy_regex(r"(?s)\\.|\[\^?\]?(?:\\.|[^]\\[])*\]|[()\[\\]")
"""What decides where groups and classes end: escaped signs, whole classes, brackets, and what stays open."""
_OPEN: Final = frozenset({"[", "\\", r"\Q"})
"""A class or an escape that does not end, and RE2's mark that makes all that follows plain text."""
_PAIR: Final = lazy_regex("[\ud800-\udbff][\udc00-\udfff]")
_HALF: Final = lazy_regex("[\ud800-\udfff]")
_NOWHERE: Final = (-1, -1)
"""The position that RE2 gives for a group without a match."""


class Regex(Protocol):
    """The methods that we use of a compiled expression of either library; `search` gives a match or None."""

    def search(self, text: str, /) -> object: ...
    def fullmatch(self, text: str, /) -> object: ...


@lru_cache(maxsize=1)
def _options() -> object:
    import re2  # loaded at the first pattern: `import bus` stays cheap

    options = re2.Options()
    options.log_errors = False  # RE2 would print every bad pattern to stderr, and the agent reads our stderr
    options.max_mem = 8 << 20
    options.never_capture = True  # only whether it is found counts here, and capturing groups would double the cost
    return options


@lru_cache(maxsize=4096)
def compile_regex(pattern: str, *, allow_backtracking: bool = False, own: bool = False) -> Regex:
    """Compile `pattern` with RE2; PatternError says what is wrong with it.

    `allow_backtracking` hands what RE2 refuses (look-around, back-references) to Python's `re`, whose time is
    not bounded: only for patterns of other agents' files that must keep their meaning.
    A pattern of Fleethook's `own` code may be longer than one of a user.
    Lone surrogates in the text that is searched count as U+FFFD (RE2 works on UTF-8).
    """
    if len(pattern) > MAX_PATTERN and not own:
        raise PatternError(f"the pattern has {len(pattern)} characters; {MAX_PATTERN} is the most")
    import re2  # see _options

    try:
        return _Linear(re2.compile(pattern, _options()))
    except (re2.error, UnicodeEncodeError) as error:
        if allow_backtracking:
            return _backtracking(pattern)
        raise PatternError(f"bad regular expression {pattern!r}: {_message(error)}", hint=_hint(pattern)) from None


@lru_cache(maxsize=512)
def compile_groups(pattern: str) -> Any:
    """RE2's own expression, whose matches have groups; PatternError says what is wrong with the pattern."""
    compile_regex(pattern)  # raises PatternError with our message
    import re2

    options = re2.Options()
    options.log_errors, options.max_mem = False, 8 << 20
    return re2.compile(pattern, options)


def find_group(pattern: str, text: str, group: int) -> str:
    """The text of a group at the first place that the pattern fits, or of the whole place; empty if there is none."""
    found = compile_groups(pattern).search(text)
    if found is None:
        return ""
    return str(found.group(group if 0 <= group <= found.re.groups else 0) or "")


def compile_alternatives(patterns: Iterable[str]) -> tuple[Regex, ...]:
    """As few expressions as possible that together find the matches of all `patterns`; PatternError for a wrong one.

    A text is encoded and scanned once for each expression, so ten patterns in one expression cost little more than one pattern.
    Most patterns are compiled only with others: to compile those of the guard packs alone too takes 3 MB (measured).
    """
    compiled: list[Regex] = []
    together: list[str] = []
    for pattern in (*patterns, None):
        if pattern is not None:
            if len(pattern) > MAX_PATTERN or not _is_closed(pattern):
                compile_regex(pattern)
            if (
                sum(map(len, together)) + len(pattern) + 5 * len(together) + 5 <= MAX_PATTERN
            ):  # with the text that joins them
                together.append(pattern)
                continue
        if together:
            compiled.extend(_joined(together))
        together = [] if pattern is None else [pattern]
    return tuple(compiled)


class LiteralSearch:
    """Finds which of many ASCII texts are in a text, in one pass: for 300 of them a tenth of the time of a search for each."""

    __slots__ = ("_literals", "_set")

    def __init__(self, literals: Iterable[str]) -> None:
        self._literals = tuple(literals)
        self._set: Any = None

    def find(self, text: str) -> frozenset[str]:
        """Those that are in the text."""
        if self._set is None:
            self._set = self._compiled()
        places = self._set.Match(text.encode("utf-8", "surrogatepass"))
        return frozenset(self._literals[place] for place in places) if places else frozenset()

    def _compiled(self) -> Any:
        import re2  # see _options

        options = re2.Options()
        # ASCII is the same bytes in UTF-8, and no byte of another character is ASCII. A search for all members of a set only
        # empties its cache where the memory does not suffice; it finds them all the same.
        options.encoding, options.literal = re2.Options.Encoding.LATIN1, True
        options.log_errors, options.max_mem = False, 8 << 20
        made = re2.Set.SearchSet(options)
        for literal in self._literals:
            made.Add(literal)
        made.Compile()
        return made


def is_found(regexes: Iterable[Regex], text: str) -> bool:
    """Whether one of the expressions is found in a text."""
    for regex in regexes:  # noqa: SIM110  (a generator for `any` takes three times as long, and this runs most)
        if regex.search(text) is not None:
            return True
    return False


def _is_closed(pattern: str) -> bool:
    """Whether every group and class of a pattern ends in it, so that in `(?:…)` it is as right or wrong as alone."""
    depth = 0
    for sign in _SIGNS.findall(pattern):
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
            if depth < 0:
                return False
        elif sign in _OPEN:
            return False
    return depth == 0


def _joined(patterns: list[str]) -> list[Regex]:
    if len(patterns) == 1:
        return [compile_regex(patterns[0])]
    try:
        return [compile_regex("|".join(f"(?:{pattern})" for pattern in patterns))]
    except PatternError:  # one of them is wrong, or together they need more memory than one expression may have
        return [compile_regex(pattern) for pattern in patterns]


def _backtracking(pattern: str) -> Regex:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise PatternError(f"bad regular expression {pattern!r}: {error}") from None


def _message(error: Exception) -> str:
    message = error.args[0] if error.args else error
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)


def _hint(pattern: str) -> str:
    if any(mark in pattern for mark in ("(?=", "(?!", "(?<=", "(?<!")):
        return "look-ahead and look-behind are not possible here; write two rules, or match the text that is there"
    return ""


class _Linear:
    """RE2's object with the same two methods; it refuses lone surrogates, which JSON may carry.

    It calls the object inside the library's wrapper: the wrapper's iterator over all matches takes as long as the search
    itself. Texts are passed as bytes, since no caller needs positions in characters.
    """

    __slots__ = ("_anywhere", "_match", "_whole")

    def __init__(self, compiled: Any) -> None:
        wrapped = compiled._regexp  # noqa: SLF001  (a test in test_globs.py holds what is used of it)
        self._match = wrapped.Match
        self._anywhere, self._whole = wrapped.Anchor.UNANCHORED, wrapped.Anchor.ANCHOR_BOTH

    def search(self, text: str, /) -> object:
        encoded = _encoded(text)
        place = self._match(self._anywhere, encoded, 0, len(encoded))[0]
        return None if place == _NOWHERE else place

    def fullmatch(self, text: str, /) -> object:
        encoded = _encoded(text)
        place = self._match(self._whole, encoded, 0, len(encoded))[0]
        return None if place == _NOWHERE else place


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return whole_characters(text).encode()


def whole_characters(text: str) -> str:
    """The text with surrogate pairs as the characters that they mean, and U+FFFD for each single half.

    The codec does the same by "surrogatepass" and "replace". It calls a handler for each half, which takes eight times as long.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return _HALF.sub("\ufffd", _PAIR.sub(_one_character, text))
    return text


def _one_character(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
