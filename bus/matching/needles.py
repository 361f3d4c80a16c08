"""Finds words and short texts that every match of a regular expression contains: a search for them is 100 times faster."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from bus.lazy.conversions import from_json
from bus.lazy.regex import lazy_regex

_PARSER: Final = import_module("re._parser")
"""Python's own parser of regular expressions; there is no public one."""
_ONLY_RE2: Final = lazy_regex(r"\[:\^?\w+:\]|\\[QpPC]")
"""Syntax that RE2 reads differently from Python."""

TABLE: Final = Path(__file__).with_name("needles.json")
"""The needles of the guard packs' expressions: to work them out at each start takes 0.2 s of CPU.
`make docs` writes it, and a test compares it with the expressions. Those that it lacks are worked out."""

EDGE: Final = "\0"
"""In a literal, this character means: not a letter or digit, the edge of a word, or an end of the text."""
_WORD_BYTES: Final = bytes(
    ord(chr(byte).lower()) if byte < 128 and (chr(byte).isalnum() or byte == ord("_")) else ord(" ")
    for byte in range(256)
)
"""For each byte its lower case if it belongs to a word, else a blank."""
_WHOLE_WORDS: Final = lazy_regex(r"(?<=[^a-z0-9_])[a-z0-9_]+(?=[^a-z0-9_])")
_COMMON: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_ -./='\"")
"""Characters that are in most lines, and so exclude few."""
_MOST_NEEDLES: Final = 320
_MOST_TEXTS: Final = 64
"""The most alternative texts of one part of an expression that are listed."""
_MOST_CHARACTERS: Final = 4
_EDGES: Final = frozenset({"AT_BEGINNING", "AT_BEGINNING_STRING", "AT_BOUNDARY", "AT_END", "AT_END_STRING"})
_AN_EDGE: Final = frozenset([EDGE])
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


class _Part(NamedTuple):
    """One operation of a parsed expression."""

    name: str
    operand: Any
    """For an operation on other parts, these: a list for each alternative, of a repetition with its bounds before."""
    texts: frozenset[str] | None
    """Every text, lower-cased, that the part can match; None if there are many, or they are not known."""


Parts: TypeAlias = "Sequence[_Part]"


class Needle(NamedTuple):
    """A word, a text or both, to be searched in a lower-cased ASCII text."""

    word: str
    """A whole word, with none of `a-z0-9_` on either side; empty if only the text counts."""
    text: str
    """A text that has to be there too; empty if only the word counts."""
    also: frozenset[Needle] = frozenset()
    """At least one of these needles has to be there too; empty if no further ones are known."""


Needles: TypeAlias = frozenset[Needle]
"""At least one of these needles has to be there; an empty set asks for nothing."""

NOTHING: Final[Needles] = frozenset()


class NeedleSearch:
    """Looks for several needles at once; one hit is enough."""

    __slots__ = ("_by_word", "_texts", "_words", "texts", "words")

    def __init__(self, needles: Needles) -> None:
        self._by_word: dict[bytes, tuple[tuple[str, NeedleSearch | None], ...]] = {}
        for word, text, also in needles:
            if word:
                more = (text, needle_search(also) if also else None)
                key = word.encode()
                self._by_word[key] = (*self._by_word.get(key, ()), more)
        self._texts = tuple((text, needle_search(also) if also else None) for word, text, also in needles if not word)
        self._words = frozenset(self._by_word)
        self.words = self._words
        """Every text with one of the needles has one of these words or contains one of `texts`. `texts` is kept short."""
        self.texts: frozenset[str] = frozenset()
        for other in {other for _, other in self._texts}:
            texts = frozenset(text for text, search in self._texts if search is other)
            if other is not None and 2 * len(other.texts) < len(texts):  # words are found faster than texts
                self.words |= other.words
                self.texts |= other.texts
            else:
                self.texts |= texts

    def is_met(self, text: str, words: frozenset[bytes]) -> bool:
        """Whether one of the needles is in `text`. The text is lower-cased, and `words` are its words (`words_of`)."""
        if not self._words.isdisjoint(words):
            for word in self._words.intersection(words):
                for more, also in self._by_word[word]:
                    if more in text and (also is None or also.is_met(text, words)):
                        return True
        for more, also in self._texts:  # noqa: SIM110  (a generator takes three times as long, and this runs most)
            if more in text and (also is None or also.is_met(text, words)):
                return True
        return False


@lru_cache(maxsize=4096)
def needle_search(needles: Needles) -> NeedleSearch:
    """The cached search for these needles."""
    return NeedleSearch(needles)


def words_of(text: str) -> frozenset[bytes]:
    """The words of an ASCII text, lower-cased. As bytes, since splitting bytes takes a third of the time."""
    return frozenset(text.encode().translate(_WORD_BYTES).split())


def needles_of(patterns: Iterable[str], known: frozenset[str] = frozenset()) -> Needles:
    """Needles that are in every lower-cased ASCII text in which one of `patterns` (RE2) is found.

    Words in `known` are left out, because every searched text contains them.
    """
    return any_of([_needles(pattern, known) for pattern in patterns])


def needles_in_literals(literals: Iterable[str], known: frozenset[str] = frozenset()) -> Needles:
    """Needles that are in every text that contains one of these lower-cased literals. A literal may have an `EDGE`."""
    return _clause(frozenset(literals), known)


def best_of(each: Iterable[Needles]) -> Needles:
    """The rarest of several sets that all have to be met, joined with the next rarest."""
    ranked = sorted((needles for needles in dict.fromkeys(each) if needles), key=worth, reverse=True)
    if not ranked:
        return NOTHING
    also = ranked[1] if len(ranked) > 1 else NOTHING
    return frozenset(needle if needle.also else needle._replace(also=also) for needle in ranked[0])


def any_of(each: Sequence[Needles]) -> Needles:
    """The union of these sets: a text that meets one of them meets the union. Empty if one of them is empty."""
    found = NOTHING.union(*each)
    return found if each and all(each) and len(found) <= _MOST_NEEDLES else NOTHING


@lru_cache(maxsize=4096)
def _needles(pattern: str, known: frozenset[str]) -> Needles:
    entry = tabled().get(table_key(pattern, known))
    return computed_needles(pattern, known) if entry is None else _unpacked(msgspec.json.decode(entry))


def computed_needles(pattern: str, known: frozenset[str]) -> Needles:
    """The needles of one expression, worked out from the expression itself."""
    if _ONLY_RE2.search(pattern):
        return NOTHING
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns about syntax whose meaning may change in later versions
            parsed = _PARSER.parse(pattern)
    except (re.error, Warning, OverflowError, RecursionError):
        return NOTHING
    return _required(_parts(parsed), known, edge_before=False, edge_after=False)


def _parts(parsed: Iterable[tuple[Any, Any]]) -> list[_Part]:
    """The operations of a parsed sequence with the texts of each, worked out once: each is looked at several times."""
    return [_part(operation.name, operand) for operation, operand in parsed]


def _part(name: str, operand: Any) -> _Part:
    if name == "LITERAL":
        return _Part(name, operand, frozenset([chr(operand).lower()]) if 0 < operand < 128 else None)
    if name == "AT":
        return _Part(name, operand.name, _AN_EDGE if operand.name in _EDGES else None)
    if name == "IN":
        members = [(kind.name, sign) for kind, sign in operand]
        if len(members) <= _MOST_CHARACTERS and all(kind == "LITERAL" and 0 < sign < 128 for kind, sign in members):
            return _Part(name, members, frozenset(chr(sign).lower() for _, sign in members))
        return _Part(name, members, _AN_EDGE if _are_no_word_signs(members) else None)
    if name == "SUBPATTERN":
        inside = _parts(operand[-1])
        return _Part(name, [inside], _texts_of_all(inside))
    if name == "BRANCH":
        ways = [_parts(way) for way in operand[1]]
        each = [_texts_of_all(way) for way in ways]
        known = [texts for texts in each if texts is not None]
        return _Part(name, ways, frozenset[str]().union(*known) if len(known) == len(each) else None)
    if name in _REPEATS:
        inside = _parts(operand[2])
        once = _texts_of_all(inside) if tuple(operand[:2]) == (0, 1) else None
        return _Part(name, (*operand[:2], inside), None if once is None else once | {""})
    return _Part(name, operand, None)


def _required(items: Parts, known: frozenset[str], *, edge_before: bool, edge_after: bool) -> Needles:
    """The rarest needles of a sequence's parts; all parts are required."""
    found: list[Needles] = []
    literals = frozenset([EDGE if edge_before else ""])
    for place, item in enumerate(items):
        texts = item.texts
        if texts is not None and len(texts) * len(literals) <= _MOST_TEXTS:
            literals = frozenset(map("".join, product(literals, texts)))
            continue
        edge = EDGE if _begins_with_edge(items[place:], end=edge_after) else ""
        found.append(_clause(frozenset(f"{literal}{edge}" for literal in literals), known))
        before = _ends_with_edge(items[:place], begin=edge_before)
        if texts is None:
            after = _begins_with_edge(items[place + 1 :], end=edge_after)
            found.append(_inside(item, known, edge_before=before, edge_after=after))
            literals = frozenset([EDGE if _ends_with_edge(items[: place + 1], begin=edge_before) else ""])
        else:
            literals = frozenset(f"{EDGE if before else ''}{text}" for text in texts)
    edge = EDGE if edge_after else ""
    found.append(_clause(frozenset(f"{literal}{edge}" for literal in literals), known))
    return best_of(found)


def _inside(item: _Part, known: frozenset[str], *, edge_before: bool, edge_after: bool) -> Needles:
    """The needles of a part that contains other parts."""
    name, operand, _ = item
    if name in ("SUBPATTERN", "BRANCH"):
        return any_of([_required(way, known, edge_before=edge_before, edge_after=edge_after) for way in operand])
    if name in _REPEATS and operand[0] > 0:
        return _required(operand[2], known, edge_before=False, edge_after=False)
    return NOTHING


def _texts_of_all(items: Parts) -> frozenset[str] | None:
    """Every text that a sequence can match, as `_Part.texts`."""
    each = [item.texts for item in items]
    known = [texts for texts in each if texts is not None]
    if len(known) < len(each) or reduce(lambda count, texts: count * len(texts), known, 1) > _MOST_TEXTS:
        return None
    return frozenset(map("".join, product(*known)))


def _begins_with_edge(items: Parts, *, end: bool) -> bool:
    """Whether every match of these parts begins with a word's edge; `end` is whether an edge follows them."""
    if not items:
        return end
    (name, operand, _), rest = items[0], items[1:]
    if name in _REPEATS:
        once = _begins_with_edge(operand[2], end=False)
        return once and (operand[0] > 0 or _begins_with_edge(rest, end=end))
    if name in ("SUBPATTERN", "BRANCH"):
        then = _begins_with_edge(rest, end=end)
        return all(_begins_with_edge(way, end=then) for way in operand)
    return _is_edge(name, operand)


def _ends_with_edge(items: Parts, *, begin: bool) -> bool:
    """Whether every match of these parts ends with a word's edge; `begin` is whether an edge precedes them."""
    if not items:
        return begin
    rest, (name, operand, _) = items[:-1], items[-1]
    if name in _REPEATS:
        once = _ends_with_edge(operand[2], begin=False)
        return once and (operand[0] > 0 or _ends_with_edge(rest, begin=begin))
    if name in ("SUBPATTERN", "BRANCH"):
        before = _ends_with_edge(rest, begin=begin)
        return all(_ends_with_edge(way, begin=before) for way in operand)
    return _is_edge(name, operand)


def _is_edge(name: str, operand: Any) -> bool:
    if name == "LITERAL":
        return not _is_word_sign(operand)
    if name == "AT":
        return operand in _EDGES
    return name == "IN" and _are_no_word_signs(operand)


def _are_no_word_signs(members: Iterable[tuple[str, Any]]) -> bool:
    return all(
        (kind == "LITERAL" and not _is_word_sign(sign))
        or (kind == "CATEGORY" and sign.name in ("CATEGORY_SPACE", "CATEGORY_NOT_WORD"))
        for kind, sign in members
    )


def _is_word_sign(number: int) -> bool:
    return number >= 128 or chr(number).isalnum() or number == ord("_")


def _clause(literals: frozenset[str], known: frozenset[str]) -> Needles:
    """A needle for each literal; empty if one literal has none."""
    found = [_needle(literal, known) for literal in literals]
    sure = frozenset(needle for needle in found if needle is not None)
    return sure if all(needle is not None for needle in found) and len(sure) <= _MOST_NEEDLES else NOTHING


def _needle(literal: str, known: frozenset[str]) -> Needle | None:
    words = [word for word in _WHOLE_WORDS.findall(literal) if word not in known]
    text = max(literal.split(EDGE), key=len)
    plain = text.strip()
    useful = plain not in known and (len(text) > 1 or not _COMMON.issuperset(text))
    if words:
        word = max(words, key=len)
        return Needle(word, plain if useful and plain != word else "")
    return Needle("", text) if useful else None


def table_key(pattern: str, known: frozenset[str]) -> str:
    """Where the table has the needles of an expression that are found without the words in `known`."""
    asked = "\0".join([pattern, *sorted(known)])
    return hashlib.blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def packed(needles: Needles) -> list[Any]:
    """An entry of the table: groups of pairs of a word and a text, each with the further needles that they share."""
    groups: dict[Needles, list[tuple[str, str]]] = {}
    for needle in needles:
        groups.setdefault(needle.also, []).append((needle.word, needle.text))
    return sorted(([sorted(pairs), packed(also)] for also, pairs in groups.items()), key=msgspec.json.encode)


def _unpacked(groups: list[Any]) -> Needles:
    found: list[Needle] = []
    for pairs, more in groups:
        also = _unpacked(more)
        found += [Needle(word, text, also) for word, text in pairs]
    return frozenset(found)


@lru_cache(maxsize=1)
def tabled() -> dict[str, msgspec.Raw]:
    """The entries of the table; each is read when it is needed. Without a table that can be read, all are worked out."""
    try:
        return from_json(TABLE.read_bytes(), dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return {}


def worth(needles: Needles) -> tuple[int, int]:
    """How rare these needles are: longer ones are rarer, and a whole word is rarer than a text of the same length."""
    return min(
        (max(len(needle.text), len(needle.word) + 3 * bool(needle.word)) for needle in needles), default=0
    ), -len(needles)
