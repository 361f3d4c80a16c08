"""Which short texts an expression cannot be found without: looking for them costs a fraction of the expression."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

_PARSER: Final = import_module("re._parser")
"""Python's own parser of expressions: there is no public one."""
_ONLY_RE2: Final = re.compile(r"\[:\^?\w+:\]|\\[QpPC]")
"""What RE2 reads in another way than Python."""
_SHORTEST: Final = 2
_MOST: Final = 320

Needles: TypeAlias = frozenset[str]
"""Lower-cased texts of which one has to be there; empty where nothing is known."""

NOTHING: Final[Needles] = frozenset()


def needles_of(patterns: Iterable[str], known: Needles = NOTHING) -> Needles:
    """Of which texts a lower-cased ASCII text holds one at least wherever any of `patterns` (RE2) is found in it.

    Words that are `known` to be in the text are no use.
    """
    each = [_needles(pattern, known) for pattern in patterns]
    found = NOTHING.union(*each)
    return found if each and all(each) and len(found) <= _MOST else NOTHING


@lru_cache(maxsize=4096)
def _needles(pattern: str, known: Needles) -> Needles:
    if _ONLY_RE2.search(pattern):
        return NOTHING
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of what it may read otherwise one day
            parsed = _PARSER.parse(pattern)
    except (re.error, Warning, OverflowError, RecursionError):
        return NOTHING
    return _required(parsed, known)


def _required(sequence: Iterable[Any], known: Needles) -> Needles:
    """The best of what each part of a sequence requires: the longest, and of equal ones the fewest."""
    found: list[Needles] = []
    literal = ""
    for name, value in ((str(operation), value) for operation, value in sequence):
        if name == "LITERAL":
            literal += chr(value)
            continue
        found.append(_literal(literal, known))
        literal = ""
        found.append(_part(name, value, known))
    found.append(_literal(literal, known))
    return max(found, key=_worth)


def _literal(text: str, known: Needles) -> Needles:
    lowered = text.lower()
    useful = len(text) >= _SHORTEST and text.isascii() and lowered.strip() not in known
    return frozenset([lowered]) if useful else NOTHING


def _part(name: str, value: Sequence[Any], known: Needles) -> Needles:
    if name == "SUBPATTERN":
        return _required(value[-1], known)
    if name == "BRANCH":
        each = [_required(one, known) for one in value[1]]
        return NOTHING.union(*each) if all(each) else NOTHING
    if name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0:
        return _required(value[2], known)
    return NOTHING


def _worth(needles: Needles) -> tuple[int, int]:
    return min(map(len, needles), default=0), -len(needles)
