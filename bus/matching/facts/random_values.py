"""Decides whether a value looks as if a machine had drawn it: a key, a token, a generated password."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Final

from bus.lazy.regex import lazy_regex

_PLACEHOLDER: Final = lazy_regex(
    r"(?i)example|sample|dummy|^django-insecure-|placeholder|your[-_]?|changeme|change[-_]me|replace|redacted|insert|todo|xxx|\*\*\*|\.\.\."
    r"|<|\$\{|\$\(|\{\{|%\(|0000|1111|aaaa|IkpvaG4gRG9l"
)
"""The last alternative is the name in the token that manuals show: John Doe."""
_WEAK: Final = lazy_regex(r"(?i)p[a@4]ss?w[o0]?r?d|qwert|letmein|test|admin|s[e3]cr[e3]t")
"""In a short value, a word of passwords that everybody makes up for a try."""
_ORDERED: Final = 6
"""So many characters in the order of the alphabet or of the digits make a value a made-up one: `abcdef`, `123456`."""
_LEAST_CHANGES: Final = 0.25
"""The least share of neighbours of different classes (small, capital, digit). Words have about 0.1, random values 0.4."""
LEAST_BITS: Final = 3.0
"""The least Shannon entropy of a character: 16 different hexadecimal digits have 4.0."""
LEAST_LENGTH: Final = 14
_LEAST_OF_LETTERS: Final = 10
"""The least length of a random value without a digit."""
_LEAST_OF_ONE_CASE: Final = 16
"""A random value whose letters nearly all have one case is at least this long."""
_NAME_IN_CAPITALS: Final = lazy_regex(r"[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})+(?:[A-Z]?\d{1,2})?")
"""`fetchAccessTokenV2`."""
_SHORT: Final = 15
"""In a value of at most so many letters, `_MIXED` alone does not tell."""
_MIXED: Final = (lazy_regex(r"[A-Z]{2}"), lazy_regex(r"[A-Z][a-z][A-Z]"))
"""Random letters have both; names in capitals and small letters (`DatabaseHostName`) have at most one of them."""
_MARKS: Final = frozenset("!^*#~")
"""Signs that passwords have, and paths, names and addresses do not."""
UUID: Final = lazy_regex(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LETTERS: Final = (
    "16761361605877060878544451856583337628447517757111628054832860775393165863104075469441922644741675632240"
    "64785542312668353887254630724578329127438427667120506353945670165764177463102292359322802554841657620050"
    "65766660102769751677050405804392016253228525939350406346955381063655248662603083469321803734840266631170"
    "96359311803563880364611040737786826154357413785511304567355141577967086675632183458435703733861867613160"
    "42353201320815133664925200836694518054657405775430506364844771454467347973425083549427801543750776523162"
    "67656550600778470878110201933193328012546404332333218345853781352773287423440064758634711651680559332552"
    "6565754473167768258844514472439321800544730464400044"
)
"""How usual each pair of small letters is in words and names, from 0 to 9: `aa`, `ab` … `zz`.

Counted over the words of Python's library, of this project, and of the names of packages."""
_A: Final = ord("a")
_LEAST_USUAL: Final = 5.6
"""Pairs of letters that are less usual than this on average are no words. Random letters have 4.3, words 6.9."""
_LEAST_USUAL_OF_ONE_CASE: Final = 4.9
"""As `_LEAST_USUAL`, for letters of nearly one case, which have no other sign that they are random."""


def looks_random(value: str, least: int = LEAST_LENGTH) -> bool:
    """Whether a value has at least `least` characters and looks as if a machine had drawn it."""
    if (
        len(value) < least
        or _NAME_IN_CAPITALS.fullmatch(value)
        or _PLACEHOLDER.search(value)
        or (len(value) < LEAST_LENGTH and _WEAK.search(value))
        or is_ordered(value)
        or UUID.fullmatch(value)
    ):
        return False
    if value.isalnum() and len(value) >= _LEAST_OF_ONE_CASE and usual_letters(value) < _LEAST_USUAL_OF_ONE_CASE:
        return True
    classes = [_class(character) for character in value]
    pairs = [(one, other) for one, other in pairwise(classes) if "sign" not in (one, other)]  # a path has many signs
    changes = sum(one != other for one, other in pairs)
    if changes < max(_LEAST_CHANGES * len(pairs), 3) or bits(value) < LEAST_BITS:
        return False
    if "digit" in classes or "mark" in classes:
        return True
    return len(value) >= _LEAST_OF_LETTERS and (
        usual_letters(value) < _LEAST_USUAL or (len(value) > _SHORT and all(mixed.search(value) for mixed in _MIXED))
    )


def usual_letters(value: str) -> float:
    """How usual the pairs of letters in a value are, on average.

    It is about 4.3 if they are random, 6.9 in words, and 9 without letters.
    """
    known = [
        int(_LETTERS[26 * (ord(one) - _A) + ord(other) - _A])
        for one, other in pairwise(value.lower())
        if "a" <= one <= "z" and "a" <= other <= "z"
    ]
    return sum(known) / len(known) if known else 9.0


def is_placeholder(value: str) -> bool:
    """Whether a value stands for one that a person puts in."""
    return _PLACEHOLDER.search(value) is not None


def _class(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.isalpha():
        return "capital" if character.isupper() else "small"
    return "mark" if character in _MARKS else "sign"


def is_ordered(value: str) -> bool:
    """Whether a part of a value counts up, as `abcdef` and `123456` do."""
    run = 1
    lowered = value.lower()
    for before, after in pairwise(lowered):
        run = run + 1 if after.isalnum() and ord(after) - ord(before) == 1 else 1
        if run >= _ORDERED:
            return True
    return False


def bits(value: str) -> float:
    """The Shannon entropy of a character of this value."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
