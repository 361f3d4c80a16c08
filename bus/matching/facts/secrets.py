"""Finds keys, tokens and passwords in a text: by a known format, or as a value beside a telling name that looks random.

Placeholders (`sk-your-key-here`), examples of manuals (`AKIAIOSFODNN7EXAMPLE`) and references (`${TOKEN}`) are none. What is
found is described without its value, so that no reason carries it on.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from bus.lazy.regex import lazy_regex
from bus.matching.facts.password_places import ANY_PLACE, DATA_SOURCE, PASSWORD_PLACES
from bus.matching.facts.token_formats import OTHER_PRIVATE_KEYS, PRIVATE_KEY, TOKEN_FORMATS, WEBHOOK_URL
from bus.matching.regexes import compile_regex

SecretClass = Literal["known", "random"]
"""`known`: a key or token of a known format. `random`: a value beside a name such as `password` that looks random."""


class Secret(NamedTuple):
    """A secret in a text, without its value."""

    of: SecretClass
    what: str
    """Its kind, or the name beside it."""


_FORMATS: Final = (PRIVATE_KEY, *OTHER_PRIVATE_KEYS, WEBHOOK_URL, *TOKEN_FORMATS)
_ANY_FORMAT: Final = "|".join(sorted(re.escape(needle) for one in _FORMATS for needle in one.needles))

_KEYS: Final = (
    "api access auth account private signing encryption service storage master app jwt hmac session client subscription"
    " webhook deploy server license shared consumer admin secret rsa"
)
_NAMES: Final = (
    *(
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credential",
        "pwd",
        "pass",
        "identified",
        "securestring",
        "_key",
    ),
    *("connectionstring", "connection_string"),
    *(f"{kind}{sign}key" for kind in _KEYS.split() for sign in ("", "_", "-")),
)
"""A name that contains one of these, in any case, says that its value is a secret."""
_ANY_NAME: Final = (
    "passw|passphrase|secret|token|credential|pwd|_pass|\\bpass[\"']{0,2}[ ]?[:=,]|identified by|connection_?string"
    f"|(?:{_KEYS.replace(' ', '|')})[_-]?key|_key[\"' ]{{0,2}}[:=]|{ANY_PLACE}"
)
_ANY: Final = f"(?i){_ANY_FORMAT}|{_ANY_NAME}"
"""A text without a match has no secret. Most texts are looked at only once, for this, and RE2 takes a microsecond."""

_TELLING: Final = lazy_regex(r"[0-9A-Z!^*#~]")
"""A text without one of these has no value that looks random. Half of the command lines have none; to look takes 0.3 µs."""

_VALUE: Final = r"""(?:"(?P<double>[^"\\\n]{12,512})"|'(?P<single>[^'\\\n]{12,512})'
    |\\{0,4}["'`]?(?P<bare>[^\s"'`,;(){}<>\[\]\\]{12,512}))"""
_NAMED: Final = lazy_regex(
    rf"""(?x) (?P<name>[\w.-]{{3,64}}+) \\{{0,4}}["']?\]?
        (?P<sign>[ \t]{{0,4}}(?::[ ]?[&'\w<>\[\]|.]{{1,40}}[ ]=[ ]|=>|:=|=|:(?!:))[ \t]{{0,4}}
        |[ ](?i:is|to|as|by)[ ]|,[ \t]{{0,4}}(?=["'])|\([ ]?(?=["'])|>|[ ]?<<<[ ]?|["',\s]{{1,40}}value["']?[ ]?[:=][ \t]{{0,4}}
        |[ ](?:--body|--value|-b)[ =]|[ ]{{1,2}}) {_VALUE}"""
)
"""A name from the place where it says that it is secret, and its value. After a blank, the value is one of an option."""
_OPTION: Final = lazy_regex(r"(?:(?:(?<=\s)|\A)--?[\w-]{0,32}|\b(?:login|user)\s+\S{1,64}\s+)\Z")
"""What is before a name whose value follows after a blank: the beginning of an option, or a login in `.netrc`."""
_BEFORE: Final = 80
_MOST_NAMES: Final = 2000
"""So many places of one name are looked at in a text; this bounds the time for any text."""

_NO_SECRET_NAME: Final = lazy_regex(
    r"(?i)(?:hash|digest|checksum|_?id|name|ur[li]|path|file|type|field|label|length|count|endpoint|placeholder|policy"
    r"|regex|pattern|alg|algorithm|expires?|expiry|arn|ref|version|izer\w*)$"
)
_PLACEHOLDER: Final = lazy_regex(
    r"(?i)example|sample|dummy|^django-insecure-|placeholder|your[-_]?|changeme|change[-_]me|replace|redacted|insert|todo|xxx|\*\*\*|\.\.\."
    r"|<|\$\{|\$\(|\{\{|%\(|0000|1111|aaaa|IkpvaG4gRG9l"
)
"""The last one is the name in the token that manuals show: John Doe."""
_WEAK: Final = lazy_regex(r"(?i)p[a@4]ss?w[o0]?r?d|qwert|letmein|test|admin|s[e3]cr[e3]t")
"""In a short value, a word of passwords that everybody makes up for a try."""
_ORDERED: Final = 6
"""So many characters in the order of the alphabet or of the digits make a value a made-up one: `abcdef`, `123456`."""
_LEAST_CHANGES: Final = 0.25
"""The least share of neighbours of different classes (small, capital, digit). Words have about 0.1, random values 0.4."""
_LEAST_BITS: Final = 3.0
"""The least Shannon entropy of a character: 16 different hexadecimal digits have 4.0."""
_LEAST_LENGTH: Final = 14
_LEAST_OF_PASSWORDS: Final = 12
"""The least length beside a name such as `password`."""
_LEAST_OF_LOGINS: Final = 8
"""The least length where a program or an address takes a password and nothing else."""
_LEAST_OF_LETTERS: Final = 16
"""The least length of a random value without a digit."""
_NAME_IN_CAPITALS: Final = lazy_regex(r"[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})+(?:[A-Z]?\d{1,2})?")
"""`fetchAccessTokenV2`."""
_MIXED: Final = (lazy_regex(r"[A-Z]{2}"), lazy_regex(r"[A-Z][a-z][A-Z]"))
"""Random letters have both; names in capitals and small letters (`DatabaseHostName`) have at most one of them."""
_MARKS: Final = frozenset("!^*#~")
"""Signs that passwords have, and paths, names and addresses do not."""
_UUID: Final = lazy_regex(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BODY: Final = lazy_regex(r"[A-Za-z0-9+/]{40,}")


def secrets_in(text: str) -> tuple[Secret, ...]:
    """The secrets in a text, at most one of each class."""
    return () if _TELLING.search(text) is None else _secrets_in(text)


@lru_cache(maxsize=16)
def _secrets_in(text: str) -> tuple[Secret, ...]:
    if compile_regex(_ANY).search(text) is None:
        return ()  # as most texts
    known = next(_known(text), None)
    random = next(_random(text), None)
    return tuple(found for found in (known, random) if found is not None)


def looks_random(value: str, least: int = _LEAST_LENGTH) -> bool:
    """Whether a value has at least `least` characters and looks as if a machine had drawn it."""
    if (
        len(value) < least
        or _NAME_IN_CAPITALS.fullmatch(value)
        or _PLACEHOLDER.search(value)
        or (len(value) < _LEAST_LENGTH and _WEAK.search(value))
        or _is_ordered(value)
        or _UUID.fullmatch(value)
    ):
        return False
    classes = [_class(character) for character in value]
    pairs = [(one, other) for one, other in pairwise(classes) if "sign" not in (one, other)]  # a path has many signs
    changes = sum(one != other for one, other in pairs)
    if changes < max(_LEAST_CHANGES * len(pairs), 3) or _bits(value) < _LEAST_BITS:
        return False
    return (
        "digit" in classes
        or "mark" in classes
        or (len(value) >= _LEAST_OF_LETTERS and all(mixed.search(value) for mixed in _MIXED))
    )


def _known(text: str) -> Iterator[Secret]:
    lowered = text.lower()
    for token in _FORMATS:
        if any(needle in lowered for needle in token.needles):
            for match in token.pattern.finditer(text):
                if _is_real(token.kind, match[0]):
                    yield Secret("known", token.kind)


def _is_real(kind: str, value: str) -> bool:
    """Whether a text of a known format is a key and not a placeholder for one."""
    if kind == "private-key" and value.startswith(("-----", "PuTTY")):
        bodies = _BODY.findall(value, value.find("Private-Lines") + 1)
        return any(map(_is_body, bodies))
    if kind == "jwt":
        return value.count(".") >= 2 and all(map(looks_random, value.split(".")[1:3]))
    if kind == "aws-key":
        return not _PLACEHOLDER.search(value) and not _is_ordered(value) and _bits(value[4:]) >= _LEAST_BITS
    parts = re.split(r"[_:.-]", value)
    return looks_random(max(parts, key=len), 10) or looks_random("".join(parts[1:]))


def _is_body(text: str) -> bool:
    """Whether a text in Base64 is a part of a real key. The beginning of many keys has `AAAA` in it."""
    return looks_random(re.sub("A{4,}", "", text))


def _random(text: str) -> Iterator[Secret]:
    lowered = text.lower()
    for name in _NAMES:
        if name not in lowered:
            continue
        end = 0
        for at in _places(lowered, name, _MOST_NAMES):
            match = _NAMED.match(text, at) if at >= end else None  # a name in a value that was judged is no name
            end = max(end, match.end() if match is not None else 0)
            if match is not None and (match["sign"].strip() or _takes_blank(text, at, match)):
                if name == "_key" and (not match["name"].isupper() or match["sign"].strip() not in ("=", ":", ":=")):
                    continue  # `cache_key` and its like have values that look random and are no secrets
                yield from _judged(match, _LEAST_OF_PASSWORDS if name[:4] in ("pass", "pwd") else _LEAST_LENGTH)
    for place in PASSWORD_PLACES:
        if place.beginning not in lowered:
            continue
        for at in _places(lowered, place.beginning, place.most):
            if (match := place.pattern.match(text, at)) is not None:
                yield from _judged(match, _LEAST_OF_LOGINS)
    for at in _places(lowered, "@tcp(", _MOST_NAMES):
        if (match := DATA_SOURCE.search(text, max(0, at - _BEFORE), at + 1)) is not None:
            yield from _judged(match, _LEAST_OF_LOGINS)


def _places(text: str, word: str, most: int) -> Iterator[int]:
    at = text.find(word)
    while at >= 0 and most:
        yield at
        at, most = text.find(word, at + len(word)), most - 1


def _takes_blank(text: str, at: int, match: re.Match[str]) -> bool:
    """Whether a blank separates a name at this place from its value: `--password x`, `PASSWORD 'x'`."""
    return (
        (match["single"] or match["double"]) is not None
        or match["name"].lower() in ("password", "passphrase")
        or match["name"].lower() == "secret_access_key"
        or _OPTION.search(text[max(0, at - _BEFORE) : at]) is not None
    )


def _judged(match: re.Match[str], least: int) -> Iterator[Secret]:
    groups = match.groupdict()
    value = groups.get("double") or groups.get("single") or groups["bare"] or ""
    name = match["name"].strip('-_."')
    if not _NO_SECRET_NAME.search(name) and "://" not in value and looks_random(value, least):
        yield Secret("random", f"the value of {name}" if name else "a password")


def _class(character: str) -> str:
    if character.isdigit():
        return "digit"
    if character.isalpha():
        return "capital" if character.isupper() else "small"
    return "mark" if character in _MARKS else "sign"


def _is_ordered(value: str) -> bool:
    run = 1
    lowered = value.lower()
    for before, after in pairwise(lowered):
        run = run + 1 if after.isalnum() and ord(after) - ord(before) == 1 else 1
        if run >= _ORDERED:
            return True
    return False


def _bits(value: str) -> float:
    """The Shannon entropy of a character of this value."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
